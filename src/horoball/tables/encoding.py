"""Values of columns as numbers that a model sees, and numbers that a model draws as values of columns."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from horoball.tables.cell_values import (
    GAP_WORDS,
    MOST_ODD,
    SHARE,
    OddCell,
    about_odd,
    decimal_of,
    gap_numbers,
    is_text_type,
    text_numbers,
)
from horoball.tables.numbers import refuse_beyond
from horoball.tables.parquet_files import shown_type
from horoball.tables.schema import OTHER, Column, Schema

UNITS = {"seconds": 86_400.0, "milliseconds": 86_400_000.0}  # of numbers that count from 1970: units of a day


def days_since_1970(values: Any, form: str) -> np.ndarray:
    """Days of an Arrow array of dates, times, or numbers that count seconds; missing ones are NaN."""
    import pyarrow as pa

    if form in UNITS:
        return values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) / UNITS[form]
    if pa.types.is_date32(values.type):
        return values.cast(pa.int32()).cast(pa.float64()).to_numpy(zero_copy_only=False)
    ms = values.cast(pa.timestamp("ms"), safe=False).cast(pa.int64()).cast(pa.float64(), safe=False)
    return ms.to_numpy(zero_copy_only=False) / UNITS["milliseconds"]


def date_features(days: np.ndarray, start: float) -> np.ndarray:
    """Days since the start, the month from 0 and the weekday from 0, a Monday; shape (rows, 3)."""
    gone = np.isnan(days)
    some = bool(gone.any())
    whole = np.floor(np.where(gone, start, days) if some else days).astype("int64")
    found = np.empty((len(days), 3), order="F")
    found[:, 0] = days - start
    found[:, 1], found[:, 2] = _months_and_weekdays(whole)
    if some:
        found[gone] = np.nan
    return found


def _months_and_weekdays(days: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both of days since 1970, from 0; of a few years by a table of their days, which is soon made."""
    first, last = (int(days.min()), int(days.max())) if len(days) else (0, 0)
    few = last - first < len(days)
    each = np.arange(first, last + 1) if few else days
    months, weekdays = each.astype("datetime64[D]").astype("datetime64[M]").astype("int64") % 12, (each + 3) % 7
    if not few:
        return months, weekdays
    at = days - first
    return months[at], weekdays[at]


_LIKE_A_DATE = r"^\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([ T]\d{1,2}:\d{2}(:\d{2})?)?$"
_SHORT_YEAR = r"^\d{1,2}[-./]\d{1,2}[-./]\d{1,2}([ T]\d{1,2}:\d{2}(:\d{2})?)?$"
_FIRST_YEAR = 1000
_FORMATS = ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y")
_log = logging.getLogger("horoball")
_LOOKED_AT = 20  # cells that tell whether a column of text is looked at as one of dates
_LONGEST = 40  # characters of a date and a word beside it
_ODD = b"horoball.odd_dates"  # key of the metadata of a field
_CLOCKS = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S")


def may_be_dates(column: Any, gaps: Any) -> bool:
    """Whether cells at the beginning of a column of text look like dates: most columns need not be looked at whole."""
    import pyarrow.compute as pc

    first = column.slice(0, 10 * _LOOKED_AT)
    gone = pc.or_kleene(pc.is_in(first, gaps.cast(column.type)), first.is_null())
    if pc.all(gone).as_py():  # of none too: nothing is known of the rest
        return len(column) > len(first)
    first = first.filter(pc.and_(pc.invert(gone), pc.less(pc.binary_length(first), _LONGEST)))  # copies no long texts
    if not len(first):
        return False
    some = pc.match_substring_regex(first.slice(0, _LOOKED_AT), _LIKE_A_DATE)
    return bool(2 * pc.sum(some).as_py() >= len(some))


def parse_dates(column: Any, name: str = "") -> Any:
    """Dates of a column of text, if every text is one of the same format; None if not.

    Where 03/04/2026 may be read in two ways and no other date decides, the month comes first, and the log says so.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    there = column.drop_null()
    if not len(there) or not pc.all(pc.match_substring_regex(there.slice(0, _LOOKED_AT), _LIKE_A_DATE)).as_py():
        return None
    for clock in _CLOCKS:
        for day in _FORMATS:
            found = _strptime(column, day, clock)
            if found.null_count == column.null_count:
                if day == "%m/%d/%Y" and _reads(column, "%d/%m/%Y", clock):
                    _log.warning(
                        "Dates: column %r is read with the month first, %r as %s; it may as well be the day. If it "
                        "is, write dates as 2026-12-31.",
                        name[:40], there[0].as_py()[:40], found.drop_null()[0].as_py().strftime("%Y-%m-%d"),
                    )  # fmt: skip
                return found.cast(pa.date32()) if not clock else found
    if pc.all(pc.match_substring_regex(there, _SHORT_YEAR)).as_py():
        _log.warning(
            "Dates: column %r has years of two digits, such as %r, which do not say the century, nor which of the "
            "numbers is the year. It is taken as text; write dates as 2026-12-31.",
            name[:40], there[0].as_py()[:40],
        )  # fmt: skip
    return None


def odd_dates(column: Any) -> list[OddCell]:
    """Some texts that are no dates, of a column of which nine cells in ten are dates of one format."""
    import pyarrow.compute as pc

    there = column.drop_null()
    some = pc.match_substring_regex(there.slice(0, _LOOKED_AT), _LIKE_A_DATE)
    if not len(there) or 2 * pc.sum(some).as_py() < len(some):  # most columns of text: without looking at all cells
        return []
    most, best = SHARE * len(there), None
    for clock in _CLOCKS:
        for day in _FORMATS:
            found = _strptime(column, day, clock)
            dates = len(found) - found.null_count
            if dates >= most:
                most, best = dates, found
    if best is None:
        return []
    rows = np.flatnonzero(pc.and_(best.is_null(), column.is_valid()).to_numpy())
    odd: dict[str, OddCell] = {}
    for row in rows.tolist():
        text = column[row].as_py()
        if text in odd:
            odd[text] = odd[text]._replace(times=odd[text].times + 1)
        elif len(odd) <= MOST_ODD:
            odd[text] = OddCell(text, row, 1, dressed=False)
    return list(odd.values())


def with_odd_dates(field: Any, odd: list[OddCell]) -> Any:
    """A field that says which of its texts are no dates, where the others are."""
    return field.with_metadata({**(field.metadata or {}), _ODD: json.dumps([list(cell) for cell in odd]).encode()})


def odd_dates_of(field: Any) -> list[OddCell]:
    """What `with_odd_dates` has noted of a field."""
    noted = (field.metadata or {}).get(_ODD)
    return [] if noted is None else [OddCell(*cell) for cell in json.loads(noted)]


def text_of_dates(dates: Any, like: Any) -> Any:
    """Dates as the texts of a column are written; as ISO 8601 has them if these are of no format that is known."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = like.drop_null()
    for clock in _CLOCKS if len(texts) else ():
        for day in _FORMATS:
            read = _strptime(texts, day, clock)
            if not read.null_count:
                return pc.strftime(dates.cast(pa.timestamp("s"), safe=False), format=day + clock)
    return dates.cast(pa.string())


def _strptime(column: Any, day: str, clock: str) -> Any:
    """Times of texts of a format, null where they are none: strptime takes February 31 for a day of March."""
    import pyarrow.compute as pc

    found = pc.strptime(column, format=day + clock, unit="s", error_is_null=True)
    found = pc.if_else(pc.less(pc.year(found), _FIRST_YEAR), None, found)  # two digits are no year of the first century
    if found.null_count == len(found):
        return found
    late = day.replace(".", "[.]").replace("%d", "(29|30|31)").replace("%m", r"\d+").replace("%Y", r"\d+")
    beyond = pc.and_(pc.less_equal(pc.day(found), 3), pc.match_substring_regex(column, f"^{late}"))
    return pc.if_else(beyond, None, found)


def _reads(column: Any, day: str, clock: str) -> bool:
    """Whether every text is a date of that format."""
    return bool(_strptime(column, day, clock).null_count == column.null_count)


def level_text(value: Any) -> str:
    """A value as the text of a level: 1 and 1.0 alike."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


class Unseen:
    """Values that no level stands for, counted by column: they are taken as missing, which is said once."""

    def __init__(self) -> None:
        self.count = 0
        self._first: dict[str, str] = {}

    def add(self, column: str, values: list[Any]) -> None:
        """Note values of a column."""
        self.count += len(values)
        if values:
            self._first.setdefault(column, str(values[0]))

    def __str__(self) -> str:
        shown = ", ".join(f"{name[:40]} {value[:40]!r}" for name, value in list(self._first.items())[:5])
        are = "value that the model has not seen is" if self.count == 1 else "values that the model has not seen are"
        return f"{self.count:,} {are} taken as missing: {shown}"


def encode(
    schema: Schema, frame: Any, unseen: Unseen | None = None, first: Callable[[], int] = lambda: 0
) -> np.ndarray:
    """Rows of numbers from an Arrow table: float32, missing values NaN, columns contiguous."""
    # Arrow has columns: filling them and turning them once, as the caller does, is faster than filling rows.
    out = np.empty((frame.num_rows, len(schema.features)), np.float32, order="F")
    names = {name: number for number, name in enumerate(frame.schema.names)}
    for column, place in schema.slices():
        values = frame.column(names[column.name])
        with np.errstate(over="ignore"):
            out[:, place] = _encoded(column, _typed(column, values, frame.schema, first), unseen)
    return out


def _typed(column: Column, values: Any, schema: Any, first: Callable[[], int]) -> Any:
    """Numbers, where a column of numbers is written as text."""
    import pyarrow as pa

    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if not is_text_type(kind) or column.form not in ("number", "whole", *UNITS):
        return values
    decimal = decimal_of(schema.field(schema.get_field_index(column.name)))
    x = text_numbers(values, column.name, gaps=column.gaps, decimal=decimal, first=first)
    return pa.array(x, from_pandas=True)


def _encoded(column: Column, values: Any, unseen: Unseen | None) -> np.ndarray:
    import pyarrow as pa

    if column.levels:
        return _codes(column, values, unseen)[:, None]
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if column.kind == "date":
        return date_features(days_since_1970(_as_dates(column, values), column.form), column.start)
    if not (
        pa.types.is_integer(values.type)
        or pa.types.is_floating(values.type)
        or pa.types.is_boolean(values.type)
        or pa.types.is_decimal(values.type)
        or pa.types.is_null(values.type)
    ):
        raise ValueError(
            f"Column {column.name[:40]!r} holds {shown_type(values.type)}, but the model was fitted to numbers "
            f"({column.kind}). Give it numbers."
        )
    if pa.types.is_boolean(values.type):  # Arrow makes them float64 five times as slowly
        values = values.cast(pa.uint8())
    single = pa.types.is_float32(values.type) and column.kind != "circular"  # is what it becomes
    x = (values if single else values.cast(pa.float64(), safe=False)).to_numpy(zero_copy_only=False)
    if sentinels := gap_numbers(column.gaps):
        x = np.where(np.isin(x, sentinels), np.nan, x)
    if len(x) and max(np.fmax.reduce(x), -np.fmin.reduce(x)) == np.inf:
        raise ValueError(f"Column {column.name[:40]!r} holds an infinite number. Remove it, or leave its cell empty.")
    refuse_beyond(x[:, None], [column.name], "The table")
    if column.kind == "circular":
        x = x - column.start
    return x[:, None]


def _as_dates(column: Column, values: Any) -> Any:
    """Dates of a file whose dates are few, all missing, or of another unit."""
    import pyarrow as pa

    good = pa.types.is_temporal(values.type) if column.form not in UNITS else not pa.types.is_temporal(values.type)
    if pa.types.is_null(values.type):
        return values.cast(pa.float64() if column.form in UNITS else pa.timestamp("ms"))
    if is_text_type(values.type):
        return _dates_of_text(column, values)
    if not good:
        raise ValueError(
            f"Column {column.name[:40]!r} holds {shown_type(values.type)}, but the model was fitted to dates "
            f"({column.form})."
        )
    return values


def _dates_of_text(column: Column, values: Any) -> Any:
    """Dates of text that has words for missing values of the fit; others are refused, by row if they are few."""
    import pyarrow as pa
    import pyarrow.compute as pc

    words = pa.array((*GAP_WORDS, *column.gaps)).cast(values.type)
    texts = pc.if_else(pc.is_in(values, words), None, values)
    dates = parse_dates(texts, column.name) if column.form not in UNITS else None
    if dates is None and texts.null_count < len(texts):
        odd = odd_dates(texts)
        if odd:
            raise ValueError(about_odd({column.name: odd}, "", what="dates"))
        raise ValueError(
            f"Column {column.name[:40]!r} holds {shown_type(values.type)}, but the model was fitted to dates "
            f"({column.form})."
        )
    return texts.cast(pa.timestamp("ms")) if dates is None else dates


def _codes(column: Column, values: Any, unseen: Unseen | None) -> np.ndarray:
    """Numbers of the levels; a value without one is in `OTHER` if there is one, and missing if not."""
    import pyarrow as pa

    place = {level: float(number) for number, level in enumerate(column.levels)}
    gaps = _gap_words(column)
    other = place.get(OTHER) if column.kind == "category" else None
    parts = []
    for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        texts, at = _distinct(chunk)
        found = [None if _is_gap(value, gaps) else place.get(level_text(value), other) for value in texts]
        new = [number for number, code in enumerate(found) if code is None and not _is_gap(texts[number], gaps)]
        if new and unseen is not None:  # a dictionary may hold values that do not occur
            unseen.add(column.name, [texts[number] for number in np.intersect1d(new, at)])
        table = np.array([np.nan if code is None else code for code in (*found, None)], np.float32)
        parts.append(table.take(at, mode="clip"))  # all are in it, and to look costs as much
    return np.concatenate(parts) if parts else np.empty(0, np.float32)


def _distinct(chunk: Any) -> tuple[list[Any], np.ndarray]:
    """Values that an Arrow array may hold, and which of them each cell has; a missing one has the number after them."""
    import pyarrow as pa

    if pa.types.is_boolean(chunk.type):
        texts, at = [False, True], chunk.cast(pa.uint8())
    else:
        encoded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        texts, at = encoded.dictionary.to_pylist(), encoded.indices
    return texts, (at.fill_null(len(texts)) if at.null_count else at).to_numpy(zero_copy_only=False)


def level_gaps(column: Column, values: Any) -> np.ndarray:
    """Which cells of a column of levels are missing; a value that is none of the levels is there."""
    import pyarrow as pa

    words, parts = _gap_words(column), []
    for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        texts, at = _distinct(chunk)
        gone = np.array([*(_is_gap(value, words) for value in texts), True])
        parts.append(gone[at])
    return np.concatenate(parts) if parts else np.empty(0, bool)


def _gap_words(column: Column) -> set[str]:
    """Words that stand for a missing value of a column of levels, unless they are levels."""
    return {*GAP_WORDS, *column.gaps, *(level_text(word) for word in gap_numbers(column.gaps))} - set(column.levels)


def _is_gap(value: Any, gaps: set[str]) -> bool:
    return value is None or (isinstance(value, float) and value != value) or level_text(value) in gaps


def decode(schema: Schema, x: np.ndarray) -> Any:
    """An Arrow table of typed columns from rows of numbers: the inverse of `encode`, rounded to what a column holds."""
    import pyarrow as pa

    columns = {column.name: _decoded(column, np.asarray(x[:, place], np.float64)) for column, place in schema.slices()}
    return pa.table(columns)


def _decoded(column: Column, x: np.ndarray) -> Any:
    import pyarrow as pa

    first = x[:, 0]
    gone = np.isnan(first)
    if column.kind == "date":
        days = np.where(gone, 0.0, first) + column.start
        if column.form in UNITS:
            return pa.array(np.rint(days * UNITS[column.form]).astype(np.int64), mask=gone)
        if column.form == "date":
            return pa.array(np.rint(days).astype("int64").astype("datetime64[D]"), pa.date32(), mask=gone)
        return pa.array(np.rint(days * 86_400).astype("int64").astype("datetime64[s]"), mask=gone)
    if column.kind in ("category", "ordinal") or column.levels:
        codes = np.where(gone, 0, np.rint(first)).astype(np.int64).clip(0, len(column.levels) - 1)
        kind = {"whole": float, "number": float}.get(column.form)
        if kind is not None and OTHER not in column.levels:
            return _numbers(column, np.array([float(level) for level in column.levels])[codes], gone)
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32(), mask=gone), pa.array(column.levels)).cast(
            pa.string()
        )
    if column.form == "truth":
        return pa.array(np.where(gone, 0, first) >= 0.5, mask=gone)
    return _numbers(column, first + column.start if column.kind == "circular" else first, gone)


def _numbers(column: Column, x: np.ndarray, gone: np.ndarray) -> Any:
    import pyarrow as pa

    if column.form != "whole":
        return pa.array(np.where(gone, 0.0, x), mask=gone)
    # Half a unit is the least that a positive whole number is drawn as: rounded to 0 it would not be positive.
    least = 1.0 if column.kind == "positive" else -(2.0**62)
    return pa.array(np.where(gone, 0.0, np.rint(x).clip(least, 2.0**62)).astype(np.int64), mask=gone)
