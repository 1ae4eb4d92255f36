"""Tables in text files: .csv and .tsv, read into memory."""

from __future__ import annotations

import codecs
import csv
import io
import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import IO, Any, NamedTuple

import numpy as np

from horoball.tables.cell_values import GAP_WORDS, is_text_type, text_numbers, with_decimal
from horoball.tables.formats import table_reader, written_labels
from horoball.tables.numbers import refuse_beyond, tell_rounded
from horoball.tables.schema import ReadOptions, choose, some_names, with_index
from horoball.tables.table import ArrayTable

_DELIMITERS = (",", ";", "\t", "|")
_COMMA = re.compile(rb'^"?-?\d+,\d+"?$')
_POINT = re.compile(rb'^"?-?\d+\.\d+"?$')
_LINES = 200  # that are looked at


class Dialect(NamedTuple):
    """How a file writes a table."""

    delimiter: str
    decimal: str


def find_dialect(header: bytes, sample: bytes, path: str) -> Dialect:
    """The dialect of a file, from its first line and some of those that follow.

    The delimiter is the one that occurs most often in the header outside of quotes; commas in .csv and tabs in .tsv
    files where none occurs more often than these. Commas are decimal where more cells are numbers with a comma than
    with a point, and columns are not separated by commas.
    """
    bare = re.sub(rb'"[^"]*"', b"", header)
    usual = "\t" if re.search(r"\.tsv\b|\.tab\b", path.lower()) else ","
    delimiter = max(_DELIMITERS, key=lambda each: (bare.count(each.encode()), each == usual))
    if delimiter == ",":
        return Dialect(delimiter, ".")
    cells = [cell.strip() for line in sample.splitlines()[:_LINES] for cell in line.split(delimiter.encode())]
    commas, points = (sum(bool(mark.match(cell)) for cell in cells) for mark in (_COMMA, _POINT))
    return Dialect(delimiter, "," if commas > points else ".")


_BLOCK = 1 << 24  # bytes that pyarrow parses at once; a line has to fit in
_MOST_COLUMNS = 1 << 20  # pyarrow takes about a kilobyte for each, whatever it holds
_SAMPLE = 1 << 16  # bytes after the names that are looked at to find out how a file is written
_WIDE = 4096  # columns from which on pyarrow's threads cost more than they save
_log = logging.getLogger("horoball")


@table_reader(".csv", ".tsv")
def read_delimited(path: str, options: ReadOptions) -> ArrayTable:
    r"""A table of numbers from lines of text, the first of them names of columns.

    The column of row names is kept as text, exactly as it is written; labels are too unless they are all numbers.
    """
    import fsspec
    import pyarrow as pa
    import pyarrow.csv

    try:
        with fsspec.open(path, "rb") as opened:
            file = _utf8(opened, path)
            first, line = _first_line(file), file.readline()
            dialect = _dialect(first, line + file.read(_SAMPLE), path)
            names = _names(first, dialect.delimiter)
            columns, label, ids, name_column = choose(names, with_index(options, names, path), path)
            aside = dict.fromkeys((name for name in (label, ids) if name is not None), pa.string())
            block = min(max(_BLOCK, 4 * len(first), 4 * len(line)), 2**31 - 1)
            frame = _parsed(file, dialect, block, columns, aside, options.na)
            _check_text(frame, file, dialect.delimiter, path)
    except pa.ArrowInvalid as error:
        raise _no_table(path, error) from None
    if frame.num_rows == 0:
        raise ValueError(f"{path} has no rows.")
    x = _numbers(frame, columns, path, dialect.decimal)
    _check_names(names, columns, x, path)
    position = {name: i for i, name in enumerate(frame.column_names)}
    table = ArrayTable(x, columns, None if label is None else written_labels(frame.column(position[label])))
    if ids is not None:
        table.names, table.name_column = frame.column(position[ids]).to_pylist(), name_column
    return table


def parse_text(file: IO[bytes], path: str, aside: Sequence[str] = (), gaps: Sequence[str] = ()) -> Any:
    r"""An Arrow table of lines of text, the first of them names of columns; each column has the type of its cells."""
    import pyarrow as pa
    import pyarrow.csv

    file = _utf8(file, path)
    first, line = _first_line(file), file.readline()
    if not first.strip():
        raise ValueError(f"{path} is not a table: Empty file. Expected one header line and one row a line.")
    dialect = _dialect(first, line + file.read(_SAMPLE), path)
    names = _names(first, dialect.delimiter)
    written = dict.fromkeys((name for name in aside if name in names), pa.string())
    typed = pa.csv.ConvertOptions(
        column_types=written, null_values=(*GAP_WORDS, *gaps), strings_can_be_null=True, decimal_point=dialect.decimal
    )

    def parse(block: int, convert: Any = typed) -> Any:
        file.seek(0)
        return pa.csv.read_csv(
            file,
            parse_options=pa.csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True),
            read_options=pa.csv.ReadOptions(block_size=block, use_threads=len(names) < _WIDE),
            convert_options=convert,
        )

    try:
        block = min(max(_BLOCK, 4 * len(first), 4 * len(line)), 2**31 - 1)
        try:
            frame = parse(block)
        except pa.ArrowInvalid:  # the type of a column was taken from the first block: now from all of it
            block = min(2**31 - 1, max(_BLOCK, file.seek(0, 2) + 1))
            frame = parse(block)
        if written:  # markers of missing values are ids and labels like others
            kept = parse(block, pa.csv.ConvertOptions(include_columns=list(written), column_types=written))
            for name in written:
                frame = frame.set_column(names.index(name), name, kept.column(name))
        _check_text(frame, file, dialect.delimiter, path)
        # Text keeps the mark by which the numbers among it are known.
        fields = [with_decimal(each, dialect.decimal) if is_text_type(each.type) else each for each in frame.schema]
        frame = pa.Table.from_arrays(frame.columns, schema=pa.schema(fields))
    except pa.ArrowInvalid as error:
        raise _no_table(path, error) from None
    return frame


def _utf8(file: IO[bytes], path: str) -> IO[bytes]:
    """The same from its start, in UTF-8 if a mark says that it is in UTF-16; refuses UTF-16 without a mark."""
    start = file.read(_SAMPLE)
    if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return io.BytesIO((start + file.read()).decode("utf-16").encode())
    if b"\0" in start:
        raise ValueError(
            f"{path} is not text in UTF-8: it holds zero bytes, as UTF-16 without a byte-order mark does. Save it as "
            "UTF-8."
        )
    file.seek(0)
    return file


def _no_table(path: str, error: Exception) -> ValueError:
    """What is wrong with a file, of what pyarrow says."""
    told = str(error).splitlines()[0].removeprefix("CSV parse error: ")
    if "invalid UTF8" in told:
        return ValueError(f"{path} is not text in UTF-8, as files in Latin-1 are not. Save it as UTF-8.")
    return ValueError(f"{path} is not a table: {told} Expected one header line and one row a line.")


def _check_text(frame: Any, file: IO[bytes], delimiter: str, path: str) -> None:
    """Refuse text that is not UTF-8, which pyarrow gives as bytes, and quotes that have swallowed lines."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, column in zip(frame.column_names, frame.columns, strict=True):
        if pa.types.is_binary(column.type):
            raise ValueError(
                f"{path} is not text in UTF-8: column {name[:40]!r} holds other bytes, as files in Latin-1 do. Save it "
                "as UTF-8."
            )
    texts = (column for column in frame.itercolumns() if is_text_type(column.type))
    if any(pc.any(pc.match_substring(column, "\n")).as_py() for column in texts):
        line = _stray_quote(file, delimiter.encode())
        if line is not None:
            raise ValueError(
                f'{path} has a quote (") in line {line} that is not closed in its cell, so that the lines after it '
                "would be lost. Close it, or double it if it belongs to the text."
            )


def _stray_quote(file: IO[bytes], delimiter: bytes) -> int | None:
    """The line of a quote that begins a cell and ends nowhere, or in the middle of a cell of a later line."""
    file.seek(0)
    opened = 0  # the line in which the cell began; 0 outside of quotes
    for number, text in enumerate(file, 1):
        line, place = text.removeprefix(codecs.BOM_UTF8), 0
        if b'"' not in line:
            continue
        while True:
            if not opened and line.startswith(b'"', place):
                opened, place = number, place + 1
            if opened:
                end = line.find(b'"', place)
                if end < 0:
                    break
                if line.startswith(b'""', end):
                    place = end + 2
                    continue
                if opened < number and line[end + 1 :].lstrip(b" ")[:1] not in (delimiter, b"\r", b"\n", b""):
                    return opened
                opened, place = 0, end + 1
            place = line.find(delimiter, place) + 1
            if not place:
                break
    return opened or None


def _dialect(first: bytes, sample: bytes, path: str) -> Dialect:
    """How the file is written; refuses one that has too many columns."""
    dialect = find_dialect(first, sample, path)
    if first.count(dialect.delimiter.encode()) >= _MOST_COLUMNS:
        raise ValueError(f"{path} has more than {_MOST_COLUMNS:,} columns. Save so wide a table as .npy.")
    return dialect


def _first_line(file: IO[bytes]) -> bytes:
    """The line of names, which may hold line breaks between quotes."""
    line = b""
    while more := file.readline():
        line = (line + more).removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
        if line and line.count(b'"') % 2 == 0:
            break
    return line if b'"' in line or not line else re.split(rb"[\r\n]", line, maxsplit=1)[0] + b"\n"


def line_of(path: str, row: int) -> int:
    r"""The line of a file in which a row begins: empty lines are no rows, and cells in quotes may hold line breaks."""
    import fsspec

    seen, quoted = -1, False  # the first that is seen has the names
    with fsspec.open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            seen += not quoted and bool(line.strip(b"\r\n"))
            if seen > row:
                return number
            quoted ^= line.count(b'"') % 2 == 1
    return row + 2  # lines that end in a carriage return alone


def _names(line: bytes, delimiter: str) -> list[str]:
    """The names of the columns; pyarrow, which knows names of any length, takes a thousand times as long."""
    import pyarrow as pa
    import pyarrow.csv

    try:
        return next(csv.reader(io.StringIO(line.decode(), newline=""), delimiter=delimiter, strict=True))
    except (csv.Error, StopIteration):
        parse = pa.csv.ParseOptions(delimiter=delimiter)
        return list(pa.csv.read_csv(pa.BufferReader(line), parse_options=parse).column_names)


def _parsed(
    file: IO[bytes], dialect: Dialect, block: int, columns: list[str], aside: dict[str, Any], gaps: Sequence[str]
) -> Any:
    """A pyarrow table of the columns, then of those that are kept aside.

    Guessing what a column holds takes most of the time, so that all are taken for numbers first.
    """
    import pyarrow as pa
    import pyarrow.csv

    def parse(types: dict[str, Any]) -> Any:
        file.seek(0)
        return pa.csv.read_csv(
            file,
            parse_options=pa.csv.ParseOptions(delimiter=dialect.delimiter),
            read_options=pa.csv.ReadOptions(block_size=block, use_threads=len(columns) < _WIDE),
            convert_options=pa.csv.ConvertOptions(
                include_columns=list(dict.fromkeys([*columns, *aside])),
                column_types=types,
                null_values=(*GAP_WORDS, *gaps),
                strings_can_be_null=False,
                decimal_point=dialect.decimal,
            ),
        )

    try:
        return parse(dict.fromkeys(columns, pa.float64()) | aside)
    except pa.ArrowInvalid:  # text, dates, truths; or lines that are no table, which is said again
        return parse(aside)


def _numbers(frame: Any, columns: list[str], path: str, decimal: str) -> np.ndarray:
    """The first columns of a pyarrow table as float32; refuses those that hold no numbers."""
    import pyarrow as pa

    frame = frame.select(range(len(columns)))
    if set(frame.schema.types) - {pa.float64()}:
        arrays = [_cast(column, name, path, decimal) for column, name in zip(frame.itercolumns(), columns, strict=True)]
        frame = pa.table(arrays, names=columns)
    x = np.empty((frame.num_rows, len(columns)), np.float32)
    ends, start = [], 0
    for batch in frame.to_batches() if columns else []:
        values = batch.to_tensor(null_to_nan=True).to_numpy()
        refuse_beyond(values, columns, path, start)
        ends += [values.min(0), values.max(0)]
        x[start : start + len(values)] = values
        start += len(values)
    for position in np.flatnonzero(np.isnan(x).any(0))[:1]:
        missing, name = np.flatnonzero(np.isnan(x[:, position])), columns[position][:40]
        if len(missing) == len(x):
            raise ValueError(f"Column {name!r} of {path} is empty. Drop the column.")
        raise ValueError(
            f"{path} has a missing value in row {missing[0]} (line {line_of(path, missing[0])}), column {name!r}. Fill "
            "or drop such rows."
        )
    if ends:
        tell_rounded(np.stack(ends), columns)
    return x


def _cast(column: Any, name: str, path: str, decimal: str) -> Any:
    import pyarrow as pa

    tests = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean, pa.types.is_null)
    if not any(test(column.type) for test in tests):
        if is_text_type(column.type):
            with suppress(ValueError):  # which names the cell without its line
                return pa.chunked_array([pa.array(text_numbers(column, name, decimal=decimal), from_pandas=True)])
        raise ValueError(_about_text(path, name[:40], column, decimal))
    return column.cast(pa.float64(), safe=False)


def _check_names(names: list[str], columns: list[str], x: np.ndarray, path: str) -> None:
    """Refuse a file without a header, which would lose its first row; see `refuse_numbers`."""
    try:
        numbers = np.array([float(name or "nan") for name in names])
    except ValueError:
        return
    if names[0] == "" and len(names) > 1:  # an index of pandas above its numbers
        return
    place = {name: i for i, name in enumerate(names)}
    first = numbers[[place[name] for name in columns]]
    refuse_numbers(names, numbers, bool(((first < x.min(0)) | (first > x.max(0))).any()), path)
    _log.warning("Names: the first line of %s, which holds the numbers %s.", path, some_names(names))


def refuse_numbers(names: Sequence[str], numbers: np.ndarray, outside: bool, path: str) -> None:
    """Refuse names that are all numbers, as those of a file without a header are.

    A line of numbers is one of names if there are three or more, in order, as wavelengths and years are, and if it
    could not as well be a row: some of them lie outside the range of their columns, or they count from 0.

    Args:
        names: Names of the columns.
        numbers: The numbers that they are.
        outside: Whether some lie outside the range of their columns.
        path: The file, for messages.
    """
    ordered = all(a < b for a, b in pairwise(numbers)) or all(a > b for a, b in pairwise(numbers))
    counted = bool((numbers == np.arange(len(numbers))).all())
    if len(names) < 3 or not ordered or not (outside or counted):
        raise ValueError(
            f"{path} has no header: its first line holds numbers, {some_names(names)}. Put a line with the "
            "names of the columns first."
        )


def _about_text(path: str, name: str, column: Any, decimal: str) -> str:
    import pyarrow as pa

    if pa.types.is_temporal(column.type):
        return (
            f"Column {name!r} of {path} holds dates or times. Turn them into numbers first, for example days since the "
            "first one, or name the column as the label (--label) or as the rows' names (--id)."
        )
    for row, value in enumerate(column.to_pylist()):
        try:
            float(value.replace(".", "_.").replace(",", ".") if decimal == "," else value)
        except (AttributeError, TypeError, ValueError):
            if value in GAP_WORDS:
                continue
            shown = repr(str(value)[:40])
            return (
                f"{path} has the text {shown} in row {row} (line {line_of(path, row)}), column {name!r}, where numbers "
                "are expected. When fitting, name it as the label (--label) or as the rows' names (--id), or drop the "
                "column."
            )
    return (
        f"Column {name!r} of {path} holds {column.type}, not numbers. When fitting, name it as the label (--label) or "
        "as the rows' names (--id), or drop it."
    )
