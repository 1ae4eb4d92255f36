"""Files and data frames as Arrow tables, with columns of any type: what a mixed table is read from."""

from __future__ import annotations

import codecs
import datetime
import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import IO, Any

import numpy as np

from horoball.tables.cell_values import GAP_WORDS, about_odd, decimal_of, is_text_type, text_numbers
from horoball.tables.delimited import Dialect, find_dialect, parse_text
from horoball.tables.encoding import level_text, may_be_dates, odd_dates, parse_dates, with_odd_dates
from horoball.tables.formats import table_reader
from horoball.tables.limits import Budget, check_feather, check_held, spend_shared
from horoball.tables.numbers import refuse_beyond
from horoball.tables.parquet_files import check_single, is_number_type, shown_type
from horoball.tables.profile import Profile
from horoball.tables.row_groups import read_whole
from horoball.tables.schema import ReadOptions, choose, some_names, with_index
from horoball.tables.spreadsheets import check_lines, column_of, read_sheet
from horoball.tables.table import ArrayTable

ReadFrame = Callable[[IO[bytes], str, Sequence[str], Sequence[str]], Any]


def _read_feather(file: IO[bytes], path: str, aside: Sequence[str], gaps: Sequence[str]) -> Any:
    import pyarrow as pa
    import pyarrow.feather as feather

    data = file.read()
    check_feather(data)
    return feather.read_table(pa.BufferReader(data))


def _read_json(file: IO[bytes], path: str, aside: Sequence[str], gaps: Sequence[str]) -> Any:
    import pyarrow as pa
    import pyarrow.json as json

    check_lines(file, path)
    file.seek(0)
    try:
        return json.read_json(file, read_options=json.ReadOptions(block_size=1 << 26))
    except pa.ArrowInvalid as error:
        cells = _json_cells(file, gaps) if " changed from " in str(error) else None
        if cells is None:
            raise
        return cells


def _json_cells(file: IO[bytes], gaps: Sequence[str]) -> Any:
    """Lines whose cells are of several types, such as "NA" among numbers; None if some are lists or records."""
    import json

    import pyarrow as pa

    file.seek(0)
    lines = [json.loads(line) for line in file if line.strip()]
    columns: dict[str, list[Any]] = {name: [None] * len(lines) for line in lines for name in line}
    for number, line in enumerate(lines):
        for name, cell in line.items():
            columns[name][number] = cell
    if any(isinstance(cell, list | dict) for cells in columns.values() for cell in cells):
        return None
    return pa.table({name: column_of(cells, (*GAP_WORDS, *gaps)) for name, cells in columns.items()})


def _read_parquet(file: IO[bytes], path: str, aside: Sequence[str], gaps: Sequence[str]) -> Any:
    return read_whole(file, size=_stored(path))


_FRAMES: dict[str, ReadFrame] = {
    ".csv": parse_text,
    ".tsv": parse_text,
    ".xlsx": read_sheet,
    ".feather": _read_feather,
    ".arrow": _read_feather,
    ".jsonl": _read_json,
    ".parquet": _read_parquet,
}
_SAMPLE = 1 << 16  # bytes that tell how a text file is written
_PART = 1 << 20  # bytes that are decompressed at once
_PACKED = (".csv.gz", ".tsv.gz", ".zip")
FRAME_ENDINGS = (*_FRAMES, *_PACKED)


def ending_of(path: str) -> str | None:
    """The ending of a file that holds a table with columns of any type; None for others."""
    name = PurePath(path).name.lower()
    return max((ending for ending in FRAME_ENDINGS if name.endswith(ending)), key=len, default=None)


def gives_arrow(source: Any) -> bool:
    """Whether a source is, or gives, Arrow data: an Arrow table or reader, a DuckDB relation, a polars data frame."""
    return any(hasattr(source, name) for name in ("__arrow_c_stream__", "to_arrow_table", "to_arrow"))


def frame_of(source: Any, aside: Sequence[str] = (), gaps: Sequence[str] = ()) -> Any:
    """The Arrow table of a file, a data frame, or anything that gives Arrow data, such as a DuckDB relation.

    Args:
        source: A path or URL; a pandas or polars data frame; an Arrow table; a NumPy array.
        aside: Columns of text files that stay text, whatever they hold.
        gaps: Words that stand for a missing value, beside `GAP_WORDS`.
    """
    import pyarrow as pa

    if isinstance(source, str | PurePath):
        frame = _frame_of_file(str(source), aside, gaps)
        _check_shared(frame, str(source))
        # Buffers of a Feather file are used as they lie, so that a damaged offset would end the process; and text of
        # JSON lines need not be UTF-8.
        frame.validate(full=True)
        return with_dates(frame, gaps)
    if isinstance(source, pa.Table):
        return with_dates(source, gaps)
    if isinstance(source, np.ndarray):
        return pa.table([pa.array(column) for column in source.T], names=[f"x{i}" for i in range(source.shape[1])])
    try:
        if type(source).__module__.startswith("pandas."):
            if not hasattr(source, "columns"):
                raise TypeError(f"A {type(source).__name__} is one column. Give a data frame: series.to_frame().")
            named = _named_categories(source.rename(columns=str), aside)
            return with_dates(_of_pandas(named, gaps), gaps)
        if hasattr(source, "__arrow_c_stream__"):
            return with_dates(pa.table(source), gaps)
        if hasattr(source, "to_arrow_table"):  # DuckDB
            return with_dates(source.to_arrow_table(), gaps)
        return with_dates(pa.table(source.to_arrow()), gaps)
    except (pa.ArrowException, AttributeError) as error:
        first = next(iter(str(error).splitlines()), "")[:200]
        raise ValueError(
            f"The {type(source).__name__} cannot be read as columns: {first.rstrip(' .')}. A column holds values of "
            "several kinds; make them of one."
        ) from None


def _named_categories(frame: Any, aside: Sequence[str]) -> Any:
    """A data frame of pandas whose categories are texts: those of numbers and intervals were made so on purpose."""
    named = frame
    for place, (column, kind) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
        categories = getattr(kind, "categories", None)
        if categories is None or column in aside or all(isinstance(each, str) for each in categories):
            continue
        named = frame.copy(deep=False) if named is frame else named
        texts = [level_text(each.item() if isinstance(each, np.generic) else each) for each in categories]
        named.isetitem(place, frame.iloc[:, place].cat.rename_categories(texts))
    return named


def index_of(source: Any) -> Any:
    """Labels of the rows of a pandas data frame, unless they are their numbers; None for anything else."""
    if not type(source).__module__.startswith("pandas."):
        return None
    index = source.index
    numbered = type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
    return None if numbered else index


def columns_of_frame(source: Any) -> list[str] | None:
    """Names of the columns of a data frame; None where they are numbers, and for anything else."""
    names = list(getattr(source, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def _of_pandas(frame: Any, gaps: Sequence[str]) -> Any:
    """A data frame; columns of objects that are of several types are read as cells of a spreadsheet are."""
    import pyarrow as pa

    if not frame.columns.is_unique:  # who reads it says which names are meant
        return _of_pandas(frame.set_axis(range(frame.shape[1]), axis=1), gaps).rename_columns(list(frame.columns))
    try:
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        simple = (str, int, float, bool, datetime.date, np.number, np.bool_, type(None))
        mixed = {}
        for place in range(frame.shape[1]):
            values = frame.iloc[:, place]
            cells = values.tolist() if values.dtype == object else []
            if cells and all(isinstance(cell, simple) for cell in cells):
                mixed[place] = column_of([_plain(cell) for cell in cells], (*GAP_WORDS, *gaps))
        rest = [place for place in range(frame.shape[1]) if place not in mixed]
        read = pa.Table.from_pandas(frame.iloc[:, rest], preserve_index=False).replace_schema_metadata()
        columns = dict(zip(rest, read.columns, strict=True)) | mixed
        return pa.table([columns[place] for place in range(frame.shape[1])], names=[str(n) for n in frame.columns])


def _plain(cell: Any) -> Any:
    """A cell as Python has it; NaN is a gap."""
    cell = cell.item() if isinstance(cell, np.generic) else cell
    return None if isinstance(cell, float) and cell != cell else cell


def frame_as_written(path: str) -> Any:
    """The Arrow table of a file as it stands there: every cell of a text file is its text."""
    frame = _frame_of_file(path, (), ())
    if dialect_of(path) is not None:
        frame = _frame_of_file(path, frame.column_names, ())
    _check_shared(frame, path)
    frame.validate(full=True)
    return frame


def dialect_of(path: str) -> Dialect | None:
    """How a text file writes its table; None for files of other formats."""
    import fsspec

    ending = ending_of(path)
    if ending not in (".csv", ".tsv", *_PACKED):
        return None
    with fsspec.open(path, "rb") as file:
        if ending == ".zip":
            with zipfile.ZipFile(file) as archive:
                held = [member for member in archive.infolist() if not _is_hidden(member.filename)]
                member = next(member for member in held if ending_of(member.filename) in _FRAMES)
                if ending_of(member.filename) not in (".csv", ".tsv"):
                    return None
                with archive.open(member) as inner:
                    return _dialect_in(inner, member.filename)
        if ending in _PACKED:
            import gzip

            with gzip.open(file, "rb") as unpacked:
                return _dialect_in(unpacked, path)
        return _dialect_in(file, path)


def _dialect_in(file: IO[bytes], path: str) -> Dialect:
    text = file.read(_SAMPLE)
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = text[: len(text) // 2 * 2].decode("utf-16", "ignore").encode()
    first, _, rest = text.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n").replace(b"\r\n", b"\n").partition(b"\n")
    return find_dialect(first, rest, path)


def _check_shared(frame: Any, path: str) -> None:
    """Refuse a table whose rows share texts that would be huge if each had its own."""
    spend_shared((chunk for column in frame.itercolumns() for chunk in column.chunks), Budget(_stored(path)))


def _stored(path: str) -> int:
    """Bytes of a file, compressed as it may be."""
    import fsspec

    with fsspec.open(path, "rb") as file:
        return int(file.seek(0, 2))


def _frame_of_file(path: str, aside: Sequence[str], gaps: Sequence[str]) -> Any:
    import fsspec

    ending = ending_of(path)
    with fsspec.open(path, "rb") as file:
        if ending == ".zip":
            return _frame_in_zip(file, path, aside, gaps)
        if ending in _PACKED:
            import gzip

            with gzip.open(file, "rb") as inner:
                # Kept whole: a text file is read twice, first its names and then its rows.
                return _FRAMES[ending.removesuffix(".gz")](_unpacked(inner, _stored(path)), path, aside, gaps)
        return _FRAMES[str(ending)](file, path, aside, gaps)


def _frame_in_zip(file: IO[bytes], path: str, aside: Sequence[str], gaps: Sequence[str]) -> Any:
    with zipfile.ZipFile(file) as archive:
        held = [member for member in archive.infolist() if not member.is_dir() and not _is_hidden(member.filename)]
        tables = [member for member in held if ending_of(member.filename) in _FRAMES]
        if len(tables) != 1:
            names = some_names([member.filename for member in tables or held])
            raise ValueError(f"{path} holds {len(tables)} tables, expected one: {names}. Unpack it and choose one.")
        member = tables[0]
        check_held(member.file_size, file.seek(0, 2), f"{member.filename[:40]} in {path}")
        with archive.open(member) as inner:
            content = _unpacked(inner, _stored(path))
    return _FRAMES[str(ending_of(member.filename))](content, path, aside, gaps)


def _unpacked(file: IO[bytes], size: int) -> io.BytesIO:
    """What a compressed file holds, counted as it is read."""
    out, budget = io.BytesIO(), Budget(size)
    while part := file.read(_PART):
        budget.spend(len(part))
        out.write(part)
    out.seek(0)
    return out


def _is_hidden(name: str) -> bool:
    """What systems add to archives, such as __MACOSX/._rows.csv."""
    return any(part.startswith((".", "__MACOSX")) for part in PurePath(name).parts)


def with_dates(frame: Any, gaps: Sequence[str] = ()) -> Any:
    """The same Arrow table with text that holds dates made dates, and durations made seconds.

    The table is made once, at the end: to set a column, or to ask a table for its schema, takes as long as it has
    columns.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    words = pa.array((*GAP_WORDS, *gaps))
    fields, columns = list(frame.schema), list(frame.columns)
    changed = False
    for number, field in enumerate(fields):
        column = columns[number]
        if pa.types.is_duration(field.type):
            seconds = column.cast(pa.duration("ms"), safe=False).cast(pa.int64()).cast(pa.float64())
            column = pa.chunked_array([seconds.to_numpy() / 1000])
        if pa.types.is_string_view(field.type):  # of polars
            column = column.cast(pa.string())
        if is_text_type(column.type) and may_be_dates(column, words):
            texts = pc.if_else(pc.is_in(column, words.cast(column.type)), None, column)
            dates = parse_dates(texts, field.name)
            column = column if dates is None else dates
            odd = odd_dates(texts) if dates is None else []
            if odd:
                changed, fields[number] = True, with_odd_dates(field, odd)
        if column is not columns[number]:
            changed = True
            columns[number], fields[number] = column, pa.field(field.name, column.type, metadata=field.metadata)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields)) if changed else frame


@table_reader(".csv.gz", ".tsv.gz", ".zip", ".xlsx", ".feather", ".arrow", ".jsonl")
def read_frame_file(path: str, options: ReadOptions) -> ArrayTable:
    """A table of numbers from a file whose columns may be of any type; others are refused by name."""
    frame = frame_of(path, [name for name in (options.label, options.ids) if name is not None], options.na)
    return numbers_of(frame, options, path)


def numbers_of(frame: Any, options: ReadOptions, where: str) -> ArrayTable:
    """A table of numbers from an Arrow table; columns that hold others, or have gaps, are refused by name."""
    import pyarrow as pa

    names, schema = list(frame.column_names), frame.schema  # to ask a table for it takes as long as it has columns
    columns, label, ids, name_column = choose(names, with_index(options, names, where), where)
    check_single((schema.field(name) for name in (label, ids) if name is not None), where)
    arrays = []
    for name in columns:
        column = frame.column(name)
        if is_text_type(column.type):
            numbers = _text_numbers(column, schema.field(name), options, where)
            column = column if numbers is None else numbers
        if not (is_number_type(column.type) or pa.types.is_boolean(column.type)):
            raise ValueError(
                f"Column {name[:40]!r} of {where} holds {shown_type(column.type)}, not numbers. Fit it as a "
                "mixed table."
            )
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy())[0])
            raise ValueError(f"{where} has a missing value in row {row}, column {name[:40]!r}. Fill or drop such rows.")
        arrays.append(column.cast(pa.float64(), safe=False).to_numpy())
    x = np.stack(arrays, 1) if arrays else np.empty((frame.num_rows, 0))
    refuse_beyond(x, columns, where)
    table = ArrayTable(x, columns, None if label is None else labels_of(frame.column(label)))
    if ids is not None:
        table.names, table.name_column = frame.column(ids), name_column
    return table


def _text_numbers(column: Any, field: Any, options: ReadOptions, where: str) -> Any:
    """Numbers of a column of text; None if too few of its cells are."""
    import pyarrow as pa

    name, decimal = field.name, decimal_of(field)
    profile = Profile(name, column.type, options.na, decimal)
    for chunk in column.chunks:
        profile.add(chunk)
    if profile.numbers is None:
        return None
    if profile.odd:
        raise ValueError(about_odd({name: profile.odd}, where))
    x = text_numbers(column, name, gaps=options.na, decimal=decimal)
    return pa.chunked_array([pa.array(x, from_pandas=True)])


def labels_of(column: Any) -> np.ndarray:
    """Labels of an Arrow column: texts as `written_labels` has them, others as they are."""
    import pyarrow as pa

    from horoball.tables.formats import written_labels

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type):
        return written_labels(column)
    exact = column.null_count and not pa.types.is_floating(column.type)
    return np.array(column.to_pylist(), object) if exact else np.asarray(column.to_numpy())
