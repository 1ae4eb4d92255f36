"""Vectors as embedding models and vector databases give them, a list of numbers in each row of a table, or an array.

And the texts that go with them: a column of a file, which no model sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from horoball.tables.frames import ending_of, frame_of, gives_arrow, labels_of
from horoball.tables.limits import Budget
from horoball.tables.listing import is_there, parquet_files
from horoball.tables.numpy_files import MappedVectors
from horoball.tables.parquet import MAX_BYTES_IN_MEMORY, ParquetTable, is_parquet
from horoball.tables.parquet_files import shown_type
from horoball.tables.row_groups import ParquetFiles, RowReader, Stretch
from horoball.tables.schema import ReadOptions, choose, some_names, with_index
from horoball.tables.table import ArrayTable, Table
from horoball.tables.uniform import read_numbers


def read_vectors(source: Any, column: str | None = None, options: ReadOptions = ReadOptions()) -> Table:  # noqa: B008
    """A table of vectors, all of one length, as float32; other columns are left aside.

    Args:
        source: A .parquet, .feather or .jsonl file, a folder of .parquet files, an Arrow table or a data frame with a
            column of lists; or an array, or a .npy file, with one vector per row.
        column: Name of the column of lists; the only one of that type if not given.
        options: Which columns are the label and the names of the rows, and whether rows stay in their .parquet or .npy
            files; "auto" streams more than 256 MiB.
    """
    if isinstance(source, Table):
        return source
    path = str(source) if isinstance(source, str | Path) else None
    label, ids, streamed = options.label, options.ids, options.streamed
    if path is not None and is_parquet(path):
        if not is_there(path):
            raise FileNotFoundError(f"There is no file {path}.")
        table = VectorTable(path, column, options)
        large = table.decoded_bytes() > MAX_BYTES_IN_MEMORY if streamed == "auto" else streamed
        held: Table = table if large else table.in_memory()
        held.reading = table.reading
        return _told(held)
    if path is None and not gives_arrow(source) and not hasattr(source, "columns"):
        return _told(read_numbers(source))
    if path is not None and path.lower().endswith((".npy", ".npz")):
        if column is not None:
            raise ValueError(f"{path} holds one array, and no column {column!r}. Leave --column out.")
        if path.lower().endswith(".npy") and Path(path).is_file() and label is None and ids is None and streamed:
            mapped = MappedVectors(path)
            if streamed is True or mapped.decoded_bytes() > MAX_BYTES_IN_MEMORY:
                return _told(mapped)
        return _told(read_numbers(path, options))
    where = path or f"The {type(source).__name__}"
    frame = frame_of(source, [each for each in (label, ids) if each is not None])
    name = _list_column(frame.schema, column, where)
    chosen = choose(list(frame.column_names), options._replace(columns=[name]), where)
    values = frame.column(name).combine_chunks()
    made = ArrayTable(_rows(values, _length(values, where, name), where, name, 0))
    made.labels = None if chosen.label is None else labels_of(frame.column(chosen.label))
    if chosen.ids is not None:
        made.names, made.name_column = frame.column(chosen.ids).to_pylist(), chosen.name_column
    made.reading = {"vectors": name}
    return _told(made)


def _told(table: Table) -> Table:
    table.kind = "vectors"
    return table


class VectorTable(ParquetTable):
    """Parquet files with a column of vectors, which are read as they are used."""

    def __init__(self, path: str, column: str | None = None, options: ReadOptions = ReadOptions()) -> None:  # noqa: B008
        files = parquet_files(path)
        schema = ParquetFiles(files).open(0).schema_arrow
        self._column = _list_column(schema, column, path)
        found = with_index(options._replace(columns=[self._column]), list(schema.names), path)
        chosen = choose(list(schema.names), found, path)
        super().__init__(files, chosen.label, chosen.ids, [self._column])
        first = next(self._files.open(0).iter_batches(1, columns=[self._column]), None)
        if first is None or not first.num_rows:
            raise ValueError(f"{path} has no rows.")
        self.name_column = chosen.name_column
        self.columns = [f"x{i}" for i in range(_length(first.column(0), path, self._column))]
        self.reading = {"vectors": self._column}

    def _features(self, schema: Any, aside: Sequence[str], path: str, columns: Sequence[str] | None) -> list[str]:
        return [_list_column(schema, self._column, path)]

    def _reader(self) -> _VectorReader:
        return _VectorReader(self._files, [self._column], self.features)


class _VectorReader(RowReader):
    """Stretches of row groups as vectors."""

    def _rows(self, frame: Any, stretch: Stretch, first: int) -> np.ndarray:
        column = frame.column(0)
        column = column.combine_chunks() if hasattr(column, "combine_chunks") else column
        where = f"{self._files.paths[stretch.file]}, row group {stretch.group},"
        return _rows(column, self._width, where, self._columns[0], first)


def _list_column(schema: Any, column: str | None, where: str) -> str:
    """The column that holds vectors."""
    import pyarrow as pa

    def holds(kind: Any) -> bool:
        lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
        return any(is_(kind) for is_ in lists) and (
            pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)
        )

    lists = [field.name for field in schema if holds(field.type)]
    if column is None:
        if len(lists) == 1:
            return lists[0]
        found = f"{len(lists)}: {some_names(lists)}" if lists else "none"
        raise ValueError(f"{where} has to have one column of lists of numbers, found {found}. Name it with --column.")
    if column not in schema.names:
        raise ValueError(f"{where} has no column {column!r}. Its columns are: {some_names(list(schema.names))}.")
    if column not in lists:
        kind = shown_type(schema.field(column).type)
        raise ValueError(f"Column {column[:40]!r} of {where} holds {kind}, not lists of numbers. Name another column.")
    return column


def _length(values: Any, where: str, name: str) -> int:
    """How long the vectors are: as the first one."""
    first = values[0].as_py() if len(values) else None
    if not first:
        raise ValueError(f"{where} has no vector in row 0 of column {name[:40]!r}. Drop rows without one.")
    return len(first)


def _rows(values: Any, size: int, where: str, name: str, first: int) -> np.ndarray:
    """Lists as rows of float32; a missing one, one of another length or one that is not finite is refused."""
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.list_value_length(values), -1).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(lengths != size)
    if len(wrong):
        found = "no vector" if lengths[wrong[0]] < 0 else f"a vector of {lengths[wrong[0]]} numbers"
        raise ValueError(
            f"{where} has {found} in row {first + wrong[0]}, column {name[:40]!r}, where row 0 has {size}. Drop such "
            "rows, or keep vectors of one model."
        )
    with np.errstate(over="ignore", invalid="ignore"):  # what is beyond float32 becomes infinite, and is refused
        rows = values.flatten().to_numpy(zero_copy_only=False).astype(np.float32).reshape(-1, size)
    broken = np.flatnonzero(~np.isfinite(rows).all(1))
    if len(broken):
        raise ValueError(
            f"{where} has a missing or infinite number in row {first + broken[0]}, column {name[:40]!r}. Drop it."
        )
    return rows


def read_texts(source: str | Path, column: str) -> list[str]:
    r"""A column of a table file as texts; a missing one is empty."""
    path = str(source)
    if is_parquet(path):
        files = ParquetFiles(parquet_files(path))
        parts: list[Any] = []
        budget = Budget(sum(map(files.size, range(len(files.paths)))))
        for number in range(len(files.paths)):
            file = files.open(number)
            _check(column, list(file.schema_arrow.names), path)
            for group in range(file.metadata.num_row_groups):
                parts += files.column(number, group, column, budget).to_pylist()
    elif ending_of(path) is None:
        raise ValueError(f"{path} has no columns with names, so no texts {column!r}. Use a .parquet or .csv file.")
    else:
        frame = frame_of(path, [column])
        _check(column, list(frame.column_names), path)
        parts = frame.column(column).to_pylist()
    return ["" if part is None else str(part) for part in parts]


def _check(column: str, names: list[str], path: str) -> None:
    if column not in names:
        raise ValueError(f"{path} has no column {column!r}. Its columns are: {some_names(names)}.")
