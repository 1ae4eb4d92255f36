"""Tables in text files: .csv and .tsv, read into memory."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from horoball.data.array_table import ArrayTable
from horoball.data.chosen_columns import Asked, choose, with_index
from horoball.data.column_names import some_names
from horoball.data.rounding import tell_rounded

__all__ = ["read_delimited"]


def read_delimited(path: str, delimiter: str, asked: Asked) -> ArrayTable:
    r"""A table of numbers from lines of text, the first of them names of columns.

    Args:
        path: Path or URL.
        delimiter: What stands between columns.
        asked: Which columns are meant.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.csv"
        >>> _ = path.write_text("a,b,kind\n1,2,x\n3,4,y\n")
        >>> table = read_delimited(str(path), ",", Asked(label="kind"))
        >>> table.columns, table.labels.tolist()
        (['a', 'b'], ['x', 'y'])
    """
    import fsspec
    import pyarrow as pa
    import pyarrow.csv

    try:
        with fsspec.open(path, "rb") as file:
            frame = pa.csv.read_csv(
                file,
                parse_options=pa.csv.ParseOptions(delimiter=delimiter),
                read_options=pa.csv.ReadOptions(block_size=1 << 24),
            )
    except pa.ArrowInvalid as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"{path} is not a table: {first} Expected one header line and one row a line.") from None
    _expect_names(frame.column_names, path)
    asked = with_index(asked, frame.column_names, path)
    columns, label, ids, name_column = choose(frame.column_names, asked, path)
    if frame.num_rows == 0:
        raise ValueError(f"{path} has no rows.")
    x = np.empty((frame.num_rows, len(columns)), np.float32)
    for position, name in enumerate(columns):
        column = frame.column(name)
        if column.null_count == frame.num_rows:
            raise ValueError(f"Column {name[:40]!r} of {path} is empty. Drop the column.")
        if column.null_count:
            row = column.is_null().to_pylist().index(True) + 2
            raise ValueError(f"{path} has a missing value in column {name[:40]!r}, line {row}. Fill or drop such rows.")
        if not any(test(column.type) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)):
            raise ValueError(_about_text(path, name[:40], column))
        values = column.to_numpy()
        tell_rounded(values[:, None], [name])
        x[:, position] = values
    table = ArrayTable(x, columns, None if label is None else np.asarray(frame.column(label).to_pylist()))
    if ids is not None:
        table.names, table.name_column = frame.column(ids).to_pylist(), name_column
    return table


def _expect_names(names: list[str], path: str) -> None:
    """Refuse a file without a header, which would lose its first row; wavelengths and years are names, in order."""
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        return
    if any(a >= b for a, b in pairwise(numbers)) and any(a <= b for a, b in pairwise(numbers)):
        raise ValueError(
            f"{path} has no header: its first line holds numbers, {some_names(names)}. Put a line with the names of "
            "the columns first."
        )


def _about_text(path: str, name: str, column: Any) -> str:
    for line, value in enumerate(column.to_pylist(), start=2):
        try:
            float(value)
        except (TypeError, ValueError):
            shown = repr(str(value)[:40])
            return (
                f"{path} has the text {shown} in column {name!r}, line {line}, where numbers are expected. When "
                "fitting, name it as the label (--label) or as the rows' names (--id), or drop the column."
            )
    return (
        f"Column {name!r} of {path} holds {column.type}, not numbers. When fitting, name it as the label (--label) or "
        "as the rows' names (--id), or drop it."
    )
