"""Spreadsheets and lines of JSON, as tables of any columns."""

from __future__ import annotations

import datetime
import logging
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from horoball.plugins import required
from horoball.tables.cell_values import GAP_WORDS
from horoball.tables.limits import Budget, check_held

_DEEPEST = 32  # lists and objects within each other; a table of vectors has two
_PART = 1 << 20  # bytes of lines that are looked through at once
_KEY = re.compile(rb'"((?:[^"\\]|\\.)*)"\s*:')
_NUMBER = 8  # bytes of a cell, also of one that is missing


def check_lines(file: IO[bytes], path: str) -> None:
    r"""Refuse lines that are no objects, nest deeper than any table does, or have keys that are mostly missing."""
    keys: set[bytes] = set()
    number = rows = size = 0
    while lines := file.readlines(_PART):
        for line in lines:
            number += 1
            if line.isspace() or (number == 1 and not line.strip(b"\xef\xbb\xbf \t\r\n")):
                continue
            rows += 1
            _check_line(line, number, path)
        part = b"".join(lines)
        size += len(part)
        keys.update(_KEY.findall(part))
    check_held(_NUMBER * rows * len(keys), size, f"{path}, with {rows:,} rows and {len(keys):,} different keys,")


def _check_line(line: bytes, number: int, path: str) -> None:
    start = line.lstrip(b"\xef\xbb\xbf \t\r\n")[:4]
    if start == b"null":  # at which Arrow 26 ends the process, at the start of a file or of a block
        raise ValueError(f"{path} is not a readable table: line {number} is null, expected an object in braces.")
    if b"\\" in line:
        line = line.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = b"".join(line.split(b'"')[::2])  # of texts
    opened = outside.count(b"[") + outside.count(b"{")
    if opened > _DEEPEST and _depth(outside) > _DEEPEST:
        raise ValueError(
            f"{path} is not a readable table: line {number} nests lists or objects more than {_DEEPEST} deep. Leave "
            "those out."
        )
    if opened != outside.count(b"]") + outside.count(b"}") or not start.startswith(b"{"):
        raise ValueError(
            f"{path} is not a readable table: line {number} is not one whole object in braces. Write one row a line."
        )


def _depth(outside: bytes) -> int:
    depth = deepest = 0
    for byte in outside:
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


_log = logging.getLogger("horoball")
_MOST_CELLS = 1 << 27  # of a sheet; Excel's own limit is 2³⁴
_MOST_ROWS = 1 << 20  # of a sheet
_RATIO = 200  # bytes that one byte of a file may become: a cell takes two or three, and shows a text of any length
_CELL = 32  # bytes of a cell: a number and where it is kept
_SHEET_PART, _OVERLAP = 1 << 20, 1 << 15  # bytes of a sheet that are looked at together; a formula has 8192 characters
_FORMULA = re.compile(
    rb"<(?:\w+:)?c\b([^>]*)>\s*<(?:\w+:)?f\b(?:[^>]*/>|[^>]*>[^<]*</(?:\w+:)?f>)\s*"
    rb"(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v\s*>\s*</(?:\w+:)?v>)?\s*</(?:\w+:)?c>"
)
_IS_TEXT, _PLACE = re.compile(rb"""\bt=["']str["']"""), re.compile(rb"""\br=["']([A-Z]{1,3}\d{1,7})["']""")


def read_sheet(file: IO[bytes], path: str, aside: Sequence[str] = (), gaps: Sequence[str] = ()) -> Any:
    """The Arrow table of a spreadsheet."""
    import pyarrow as pa

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of openpyxl: on styles and links, which are not read
        names, cells = _cells(file, path)
    kept = [
        column_of([_text(v) for v in values]) if name in aside else column_of(values, (*GAP_WORDS, *gaps))
        for name, values in zip(names, cells, strict=True)
    ]
    return pa.table(kept, names=names)


def _cells(file: IO[bytes], path: str) -> tuple[list[str], list[list[Any]]]:
    """Names and values of the columns; rows without any value are left out."""
    _check_members(file, path)
    try:
        book = required("openpyxl").load_workbook(file, read_only=True, data_only=True, keep_links=False)
    except ValueError as error:
        first = str(error).splitlines()[0][:200].rstrip(" .")  # followed by advice to those who write such files
        raise ValueError(f"{path} is not a sound spreadsheet: {first}. Save it anew, or as .csv.") from error
    budget = Budget(file.seek(0, 2), _RATIO)
    try:
        others = [sheet.title for sheet in book.worksheets[1:]]
        if others:
            shown = ", ".join(repr(title[:40]) for title in others[:5]) + " …" * (len(others) > 5)
            _log.warning("Sheets: read %r, the first of %s; not read: %s.", book.worksheets[0].title[:40], path, shown)
        sheet = book.worksheets[0]
        sheet.reset_dimensions()  # which a file may give as the whole of Excel's, and each row is then filled up to
        _refuse_formulas(file, sheet, path)
        rows = enumerate(_counted(sheet.iter_rows(values_only=True), budget, path), 1)
        header = next((row for _, row in rows if any(cell is not None for cell in row)), None)
        if header is None:
            raise ValueError(f"{path} has no rows.")
        last = max(number for number, cell in enumerate(header) if cell is not None) + 1
        names = ["" if cell is None else str(cell) for cell in header[:last]]
        cells: list[list[Any]] = [[] for _ in names]
        for number, row in rows:
            if any(cell is not None for cell in row[last:]):
                raise ValueError(_about_beyond(row, last, number, path))
            if any(cell is not None for cell in row):
                for column, cell in zip(cells, [*row, *[None] * last], strict=False):
                    column.append(cell)
    finally:
        book.close()
    return names, cells


def _about_beyond(row: Sequence[Any], last: int, number: int, path: str) -> str:
    """What is said of a cell without a name above it, which would be lost."""
    from openpyxl.utils import get_column_letter

    place = next(place for place in range(last, len(row)) if row[place] is not None)
    return (
        f"{path} has a cell to the right of its last name: {str(row[place])[:40]!r} in "
        f"{get_column_letter(place + 1)}{number}. Give its column a name in the first row, or clear the cell."
    )


def _refuse_formulas(file: IO[bytes], sheet: Any, path: str) -> None:
    """Refuse formulas whose values the program that wrote them did not store: they would be gaps.

    A formula that gives an empty text is one whose value is there.
    """
    with zipfile.ZipFile(file) as archive, archive.open(sheet._worksheet_path) as content:  # it has no public name
        text, found = b"", None
        while found is None and (part := content.read(_SHEET_PART)):
            text = text[-_OVERLAP:] + part
            cells = (cell for cell in _FORMULA.finditer(text) if not _IS_TEXT.search(cell[1]))
            found = next(cells, None)
    file.seek(0)
    if found is not None:
        place = _PLACE.search(found[1])
        where = f"cell {place[1].decode()}" if place else "a cell"
        raise ValueError(
            f"{path} holds a formula in {where} without its value, as programs write it that do not compute. Open and "
            "save it in a spreadsheet program, which stores the values."
        )


def _check_members(file: IO[bytes], path: str) -> None:
    """Refuse an archive whose members become more than it can hold: the list of texts is read whole."""
    with zipfile.ZipFile(file) as archive:
        held = sum(member.file_size for member in archive.infolist())
    check_held(held, file.seek(0, 2), f"the list of parts of {path}")
    file.seek(0)


def _counted(rows: Iterable[Sequence[Any]], budget: Budget, path: str) -> Iterator[Sequence[Any]]:
    """The same rows, as long as they are not more than a sheet has, nor their cells more than the file may hold.

    A row that says it is the last of a billion comes after as many empty ones, and a text of a sheet is stored once,
    however many cells show it.
    """
    seen = 0
    for number, row in enumerate(rows):
        if number >= _MOST_ROWS:
            raise ValueError(f"{path} has a row beyond {_MOST_ROWS:,}, the last one of a sheet. Save it as .parquet.")
        seen += len(row)
        if seen > _MOST_CELLS:
            raise ValueError(f"{path} has more than {_MOST_CELLS:,} cells. Save it as .parquet.")
        budget.spend(_CELL * len(row) + sum(len(cell) for cell in row if isinstance(cell, str)))
        yield row


def column_of(values: list[Any], gaps: Sequence[str] = ("",)) -> Any:
    """Cells as an Arrow array of one type: truths, whole numbers, numbers, dates, times, otherwise text."""
    import pyarrow as pa

    words = frozenset(gaps)
    values = [None if isinstance(value, str) and value in words else value for value in values]
    there = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in there):
        return pa.array(values, pa.bool_() if there else pa.null())
    if all(isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62 for value in there):
        return pa.array(values, pa.int64())
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in there):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if all(isinstance(value, datetime.datetime) for value in there):
        if all(value.time() == datetime.time() for value in there):
            return pa.array([None if value is None else value.date() for value in values], pa.date32())
        return pa.array(values, pa.timestamp("s"))
    return pa.array([_text(value) for value in values], pa.string())


def _text(value: Any) -> str | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return None if value is None else str(value)
