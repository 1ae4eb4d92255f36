"""A table in Parquet files, streamed row group by row group: memory does not grow with the number of rows.

A row group larger than a block is cut into blocks, and decoded bit by bit: writers make groups of a million rows unless
told otherwise. A block has fewer rows if they are wide. See `streamed` for how blocks become batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from horoball.data.column_names import some_names
from horoball.data.row_groups import ParquetFiles, RowReader, Stretch
from horoball.data.streamed import StreamedTable

__all__ = ["ParquetTable"]

_BLOCK = 1 << 16  # rows shuffled together
_BLOCK_VALUES = 1 << 24  # numbers of a block: 64 MiB


class ParquetTable(StreamedTable):
    """One or more Parquet files of numbers, on any file system that fsspec knows.

    Args:
        paths: Paths or URLs of the files.
        label: Name of a column to keep aside.
        ids: Name of a column that holds the rows' names, of text or of numbers.
        columns: Names of the features, in their order; all that are left without it.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, pathlib
        >>> from horoball.data import Order
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.parquet"
        >>> pq.write_table(pa.table({"a": np.arange(10.0), "b": np.ones(10)}), path, row_group_size=4)
        >>> table = ParquetTable([str(path)])
        >>> table.rows, sorted(float(x) for batch in table.batches(Order(4)) for x in batch.x[:, 0])[-1]
        (10, 9.0)
    """

    def __init__(
        self,
        paths: Sequence[str],
        label: str | None = None,
        ids: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        if not paths:
            raise ValueError("Expected at least one Parquet file, got none.")
        self._files = ParquetFiles(paths)
        self._units: list[Stretch] = []
        names: list[str] = []
        for number, path in enumerate(paths):
            file = self._files.open(number)
            aside = [name for name in (label, ids) if name is not None]
            features = _number_columns(file.schema_arrow, aside, path, columns)
            if number == 0:
                names, self.columns = list(file.schema_arrow.names), features
            elif file.schema_arrow.names != names:
                raise ValueError(f"{path} has other columns than {paths[0]}. All files need the same columns.")
            groups = range(file.metadata.num_row_groups)
            units = [Stretch(number, g, file.metadata.row_group(g).num_rows, first=0, whole=True) for g in groups]
            if any(unit.rows < 0 for unit in units):
                raise ValueError(f"{path} is damaged: a row group has less than no rows. Use another copy.")
            self._units += [unit for unit in units if unit.rows]
        self.label, self.ids = label, ids
        self.name_column = ids or "row"

    def _block_rows(self) -> int:
        return max(1, min(_BLOCK, _BLOCK_VALUES // self.features))

    def _reader(self) -> RowReader:
        return RowReader(self._files, self.columns)

    def read_labels(self) -> np.ndarray | None:
        """The label column, if one was named.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, pathlib
            >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.parquet"
            >>> pq.write_table(pa.table({"a": [1.0, 2.0], "kind": ["x", "y"]}), path)
            >>> list(ParquetTable([str(path)], label="kind").read_labels())
            ['x', 'y']
        """
        return None if self.label is None else self._aside(self.label).to_numpy()

    def read_names(self) -> Any:
        """The column of names, if one was given."""
        return None if self.ids is None else self._aside(self.ids)

    def _aside(self, name: str) -> Any:
        """A column that is no feature, an Arrow array."""
        import pyarrow as pa

        parts = []
        for unit in self._units:
            with self._files.reading(unit.file, unit.group):
                column = self._files.open(unit.file).read_row_group(unit.group, columns=[name]).column(0)
            parts += column.slice(unit.first, unit.rows).chunks
        return pa.chunked_array(parts)


def _number_columns(schema: Any, aside: Sequence[str], path: str, wanted: Sequence[str] | None) -> list[str]:
    import pyarrow as pa

    for name in (*aside, *(wanted or ())):
        if name not in schema.names:
            raise ValueError(f"{path} has no column {name!r}. Its columns are: {some_names(schema.names)}.")
    repeated = {name for name in schema.names if schema.names.count(name) > 1}
    if repeated:
        raise ValueError(f"{path} has columns of the same name: {some_names(sorted(repeated))}. Rename them.")
    columns = []
    left = (name for name in schema.names if name not in aside)
    for field in map(schema.field, left if wanted is None else wanted):
        kind = field.type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise ValueError(
                f"Column {field.name[:40]!r} of {path} holds {kind}, not numbers. When fitting, name it as the label "
                "(--label) or as the rows' names (--id), or drop it."
            )
        columns.append(field.name)
    if not columns:
        raise ValueError(f"{path} has no column of numbers. Expected at least one, beside a label.")
    return columns
