"""Columns whose values are in the names of folders, such as `year=2026`, beside those that a Parquet file holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from horoball.tables.listing import PartFile


def with_values(table: Any, path: str) -> Any:
    """A table or a batch of rows of a file, with the columns that the path holds."""
    for name, value in values_of(path).items():
        if name in table.schema.names:
            raise ValueError(f"{path} has a column {name[:40]!r}, and its folder is named by one too. Rename it.")
        table = table.append_column(name, _repeated(value, table.num_rows))
    return table


def partitioned(file: Any, path: str) -> Any:
    """A Parquet file as pyarrow opens it, with the columns that its path holds."""
    return PartitionedFile(file, path) if isinstance(path, PartFile) and path.values else file


def values_of(path: str) -> Mapping[str, int | str | None]:
    """The columns that a path holds, with their values."""
    return path.values if isinstance(path, PartFile) else {}


class PartitionedFile:
    """An open Parquet file with columns of one value each."""

    def __init__(self, file: Any, path: PartFile) -> None:
        self._file, self._path = file, path
        self.metadata, self.schema = file.metadata, file.schema
        self.schema_arrow = with_values(file.schema_arrow.empty_table(), path).schema

    def read_row_group(self, group: int, columns: Sequence[str] | None = None, **options: Any) -> Any:
        """A row group, an Arrow table."""
        found = self._file.read_row_group(group, columns=self._stored(columns), **options)
        return self._chosen(found, columns)

    def iter_batches(self, rows: int, *, columns: Sequence[str] | None = None, **options: Any) -> Iterator[Any]:
        """Rows, batch by batch."""
        for batch in self._file.iter_batches(rows, columns=self._stored(columns), **options):
            yield self._chosen(batch, columns)

    def _stored(self, columns: Sequence[str] | None) -> list[str] | None:
        if columns is None:
            return None
        # Of a file of which nothing else is wanted, one column tells how many rows there are.
        return [name for name in columns if name not in self._path.values] or list(self._file.schema_arrow.names[:1])

    def _chosen(self, rows: Any, columns: Sequence[str] | None) -> Any:
        whole = with_values(rows, self._path)
        return whole if columns is None else whole.select(list(columns))


def _repeated(value: int | str | None, rows: int) -> Any:
    import pyarrow as pa

    scalar: Mapping[type, Any] = {int: pa.int64(), str: pa.string()}
    return pa.repeat(pa.scalar(value, scalar.get(type(value), pa.null())), rows)
