"""Files and data frames as Arrow tables, with columns of any type: what a mixed table is read from.

Without text columns and gaps the same formats give tables of numbers, as those of `read`.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import IO, Any

import numpy as np

from horoball.data.columns.dates import parse_dates
from horoball.data.files.limits import check_held
from horoball.data.files.spreadsheets import read_sheet
from horoball.data.readers.delimited import parse_text
from horoball.data.readers.registry import table_reader
from horoball.data.tables.array_table import ArrayTable
from horoball.data.tables.column_names import some_names
from horoball.data.tables.column_roles import ReadOptions, choose, with_index

__all__ = ["FRAME_ENDINGS", "ending_of", "frame_of", "gives_arrow", "labels_of", "numbers_of", "read_frame_file"]

ReadFrame = Callable[[IO[bytes], str, Sequence[str]], Any]


def _read_feather(file: IO[bytes], path: str, aside: Sequence[str]) -> Any:
    import pyarrow.feather as feather

    return feather.read_table(file)


def _read_json(file: IO[bytes], path: str, aside: Sequence[str]) -> Any:
    import pyarrow.json as json

    # A file, or a block, that begins with null ends the process, in Arrow 26.
    starts = (line.lstrip(b"\xef\xbb\xbf \t\r\n")[:4] for line in file)
    number = next((number for number, start in enumerate(starts, 1) if start == b"null"), None)
    if number is not None:
        raise ValueError(f"{path} is not a readable table: line {number} is null, expected an object in braces.")
    file.seek(0)
    return json.read_json(file, read_options=json.ReadOptions(block_size=1 << 26))


def _read_parquet(file: IO[bytes], path: str, aside: Sequence[str]) -> Any:
    import pyarrow.parquet as pq

    return pq.read_table(file)


_FRAMES: dict[str, ReadFrame] = {
    ".csv": parse_text,
    ".tsv": parse_text,
    ".xlsx": read_sheet,
    ".feather": _read_feather,
    ".arrow": _read_feather,
    ".jsonl": _read_json,
    ".parquet": _read_parquet,
}
_PACKED = (".csv.gz", ".tsv.gz", ".zip")
FRAME_ENDINGS = (*_FRAMES, *_PACKED)


def ending_of(path: str) -> str | None:
    """The ending of a file that holds a table with columns of any type; None for others.

    Example:
        >>> ending_of("rows.csv.gz"), ending_of("rows.npy")
        ('.csv.gz', None)
    """
    name = PurePath(path).name.lower()
    return max((ending for ending in FRAME_ENDINGS if name.endswith(ending)), key=len, default=None)


def gives_arrow(source: Any) -> bool:
    """Whether a source is, or gives, Arrow data: an Arrow table or reader, a DuckDB relation, a polars data frame.

    Example:
        >>> import pyarrow as pa
        >>> gives_arrow(pa.table({"a": [1]})), gives_arrow([[1.0]])
        (True, False)
    """
    return any(hasattr(source, name) for name in ("__arrow_c_stream__", "to_arrow_table", "to_arrow"))


def frame_of(source: Any, aside: Sequence[str] = ()) -> Any:
    """The Arrow table of a file, a data frame, or anything that gives Arrow data, such as a DuckDB relation.

    Args:
        source: A path or URL; a pandas or polars data frame; an Arrow table; a NumPy array.
        aside: Columns of text files that stay text, whatever they hold.

    Example:
        >>> frame_of(np.array([[1.0, 2.0]])).column_names
        ['x0', 'x1']
    """
    import pyarrow as pa

    if isinstance(source, str | PurePath):
        frame = _frame_of_file(str(source), aside)
        # Buffers of a Feather file are used as they lie, so that a damaged offset would end the process; and text of
        # JSON lines need not be UTF-8.
        frame.validate(full=True)
        return _dated(frame)
    if isinstance(source, pa.Table):
        return _dated(source)
    if isinstance(source, np.ndarray):
        return pa.table([pa.array(column) for column in source.T], names=[f"x{i}" for i in range(source.shape[1])])
    try:
        if type(source).__module__.startswith("pandas."):
            named = source.rename(columns=str)
            return _dated(pa.Table.from_pandas(named, preserve_index=False).replace_schema_metadata())
        if hasattr(source, "__arrow_c_stream__"):
            return _dated(pa.table(source))
        if hasattr(source, "to_arrow_table"):  # DuckDB
            return _dated(source.to_arrow_table())
        return _dated(pa.table(source.to_arrow()))
    except (pa.ArrowException, AttributeError) as error:
        first = next(iter(str(error).splitlines()), "")[:200]
        raise ValueError(
            f"The {type(source).__name__} cannot be read as columns: {first.rstrip(' .')}. A column holds values of "
            "several kinds; make them of one."
        ) from None


def _frame_of_file(path: str, aside: Sequence[str]) -> Any:
    import fsspec

    ending = ending_of(path)
    with fsspec.open(path, "rb") as file:
        if ending == ".zip":
            return _frame_in_zip(file, path, aside)
        if ending in _PACKED:
            import gzip

            with gzip.open(file, "rb") as inner:
                # Kept whole: a text file is read twice, first its names and then its rows.
                return _FRAMES[ending.removesuffix(".gz")](io.BytesIO(inner.read()), path, aside)
        return _FRAMES[str(ending)](file, path, aside)


def _frame_in_zip(file: IO[bytes], path: str, aside: Sequence[str]) -> Any:
    with zipfile.ZipFile(file) as archive:
        held = [member for member in archive.infolist() if not member.is_dir() and not _is_hidden(member.filename)]
        tables = [member for member in held if ending_of(member.filename) in _FRAMES]
        if len(tables) != 1:
            names = some_names([member.filename for member in tables or held])
            raise ValueError(f"{path} holds {len(tables)} tables, expected one: {names}. Unpack it and choose one.")
        member = tables[0]
        check_held(member.file_size, file.seek(0, 2), f"{member.filename[:40]} in {path}")
        content = io.BytesIO(archive.read(member))
    return _FRAMES[str(ending_of(member.filename))](content, path, aside)


def _is_hidden(name: str) -> bool:
    """What systems add to archives, such as __MACOSX/._rows.csv."""
    return any(part.startswith((".", "__MACOSX")) for part in PurePath(name).parts)


def _dated(frame: Any) -> Any:
    """The same with text that holds dates made dates, and durations made seconds."""
    import pyarrow as pa

    for number, field in enumerate(frame.schema):
        if pa.types.is_duration(field.type):
            seconds = frame.column(number).cast(pa.duration("ms"), safe=False).cast(pa.int64()).cast(pa.float64())
            frame = frame.set_column(number, field.name, pa.chunked_array([seconds.to_numpy() / 1000]))
        if pa.types.is_string_view(field.type):  # of polars
            frame = frame.set_column(number, field.name, frame.column(number).cast(pa.string()))
        if pa.types.is_string(frame.schema.types[number]) or pa.types.is_large_string(field.type):
            dates = parse_dates(frame.column(number))
            if dates is not None:
                frame = frame.set_column(number, field.name, dates)
    return frame


@table_reader(".csv.gz", ".tsv.gz", ".zip", ".xlsx", ".feather", ".arrow", ".jsonl")
def read_frame_file(path: str, options: ReadOptions) -> ArrayTable:
    """A table of numbers from a file whose columns may be of any type; others are refused by name.

    Args:
        path: Path or URL.
        options: Which columns are meant.

    Example:
        >>> import gzip, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.csv.gz"
        >>> _ = path.write_bytes(gzip.compress(b"a,b,kind" + bytes([10]) + b"1,2,x" + bytes([10])))
        >>> read_frame_file(str(path), ReadOptions(label="kind")).columns
        ['a', 'b']
    """
    frame = frame_of(path, [name for name in (options.label, options.ids) if name is not None])
    return numbers_of(frame, options, path)


def numbers_of(frame: Any, options: ReadOptions, where: str) -> ArrayTable:
    """A table of numbers from an Arrow table; columns that hold others, or have gaps, are refused by name.

    Args:
        frame: The Arrow table.
        options: Which columns are meant.
        where: What holds them, for messages.

    Example:
        >>> import pyarrow as pa
        >>> numbers_of(pa.table({"a": [1, 2], "b": [0.5, 1.0]}), ReadOptions(columns=["b", "a"]), "The table").columns
        ['b', 'a']
    """
    import pyarrow as pa

    names = list(frame.column_names)
    columns, label, ids, name_column = choose(names, with_index(options, names, where), where)
    arrays = []
    for name in columns:
        column = frame.column(name)
        if not any(test(column.type) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)):
            raise ValueError(
                f"Column {name[:40]!r} of {where} holds {column.type}, not numbers. Fit it as a mixed table."
            )
        if column.null_count:
            raise ValueError(f"{where} has a missing value in column {name[:40]!r}. Fill or drop such rows.")
        arrays.append(column.cast(pa.float64(), safe=False).to_numpy())
    x = np.stack(arrays, 1) if arrays else np.empty((frame.num_rows, 0))
    table = ArrayTable(x, columns, None if label is None else labels_of(frame.column(label)))
    if ids is not None:
        table.names, table.name_column = frame.column(ids), name_column
    return table


def labels_of(column: Any) -> np.ndarray:
    """Labels of an Arrow column: texts as `written_labels` has them, others as they are.

    Example:
        >>> import pyarrow as pa
        >>> labels_of(pa.chunked_array([["1", "2"]])).tolist()
        [1, 2]
    """
    import pyarrow as pa

    from horoball.data.readers.written_labels import written_labels

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type):
        return written_labels(column)
    exact = column.null_count and not pa.types.is_floating(column.type)
    return np.array(column.to_pylist(), object) if exact else np.asarray(column.to_numpy())
