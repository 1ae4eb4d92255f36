"""The texts that go with rows: a column of a file, which no model sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from horoball.data.files.limits import Budget
from horoball.data.files.parquet_folders import parquet_files
from horoball.data.readers.frames import ending_of, frame_of
from horoball.data.readers.mixed_parquet import is_parquet
from horoball.data.tables.column_names import some_names
from horoball.data.tables.row_groups import ParquetFiles

__all__ = ["read_texts"]


def read_texts(source: str | Path, column: str) -> list[str]:
    r"""A column of a table file as texts; a missing one is empty.

    Args:
        source: A file with named columns, or a folder of .parquet files.
        column: The column's name.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.csv"
        >>> _ = path.write_text("id,title\n1,red apple\n2,fast car\n")
        >>> read_texts(path, "title")
        ['red apple', 'fast car']
    """
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
