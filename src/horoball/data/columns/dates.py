"""Dates as days since 1970, and what a model sees of them: a trend, the month, the weekday."""

from __future__ import annotations

import json
import logging
from typing import Any

import numpy as np

from horoball.data.columns.number_cells import MOST_ODD, SHARE, OddCell

__all__ = [
    "UNITS",
    "date_features",
    "days_since_1970",
    "may_be_dates",
    "odd_dates",
    "odd_dates_of",
    "parse_dates",
    "text_of_dates",
    "with_odd_dates",
]

UNITS = {"seconds": 86_400.0, "milliseconds": 86_400_000.0}  # of numbers that count from 1970: units of a day


def days_since_1970(values: Any, form: str) -> np.ndarray:
    """Days of an Arrow array of dates, times, or numbers that count seconds; missing ones are NaN.

    Example:
        >>> import pyarrow as pa
        >>> days_since_1970(pa.array([86400, None]), "seconds")
        array([ 1., nan])
    """
    import pyarrow as pa

    if form in UNITS:
        return values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) / UNITS[form]
    if pa.types.is_date32(values.type):
        return values.cast(pa.int32()).cast(pa.float64()).to_numpy(zero_copy_only=False)
    ms = values.cast(pa.timestamp("ms"), safe=False).cast(pa.int64()).cast(pa.float64(), safe=False)
    return ms.to_numpy(zero_copy_only=False) / UNITS["milliseconds"]


def date_features(days: np.ndarray, start: float) -> np.ndarray:
    """Days since the start, the month from 0 and the weekday from 0, a Monday; shape (rows, 3).

    Example:
        >>> date_features(np.array([0.0, np.nan]), 0.0)  # a Thursday in January
        array([[ 0.,  0.,  3.],
               [nan, nan, nan]])
    """
    there = ~np.isnan(days)
    whole = np.floor(np.where(there, days, 0.0)).astype("int64")
    months = whole.astype("datetime64[D]").astype("datetime64[M]").astype("int64") % 12
    found = np.stack((days - start, months, (whole + 3) % 7), 1).astype(np.float64)
    found[~there] = np.nan
    return found


_LIKE_A_DATE = r"^\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([ T]\d{1,2}:\d{2}(:\d{2})?)?$"
_FORMATS = ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y")
_log = logging.getLogger("horoball")
_LOOKED_AT = 20  # cells that tell whether a column of text is looked at as one of dates
_LONGEST = 40  # characters of a date and a word beside it
_ODD = b"horoball.odd_dates"  # key of the metadata of a field
_CLOCKS = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S")


def may_be_dates(column: Any, gaps: Any) -> bool:
    """Whether cells at the beginning of a column of text look like dates: most columns need not be looked at whole.

    Args:
        column: An Arrow array of text.
        gaps: An Arrow array of words that stand for a missing value.

    Example:
        >>> import pyarrow as pa
        >>> may_be_dates(pa.chunked_array([["NA", "31.12.2025", "soon"]]), pa.array(["NA"]))
        True
    """
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

    Args:
        column: An Arrow array of text.
        name: Its name, for the log.

    Example:
        >>> import pyarrow as pa
        >>> parse_dates(pa.chunked_array([["31.12.2025", None]])).to_pylist()
        [datetime.date(2025, 12, 31), None]
        >>> parse_dates(pa.chunked_array([["31.12.2025", "soon"]])) is None
        True
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
    return None


def odd_dates(column: Any) -> list[OddCell]:
    """Texts that are no dates in a column of which nine cells in ten are dates of one format; some if there are many.

    Args:
        column: An Arrow array of text; cells that are missing are null.

    Example:
        >>> import pyarrow as pa
        >>> odd_dates(pa.chunked_array([["2025-12-31"] * 9 + ["soon"]]))
        [OddCell(text='soon', row=9, times=1, dressed=False)]
        >>> odd_dates(pa.chunked_array([["2025-12-31", "soon"]]))
        []
    """
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
    """A field that says which of its texts are no dates, where the others are.

    Example:
        >>> import pyarrow as pa
        >>> field = with_odd_dates(pa.field("a", pa.string()), [OddCell("soon", 9, 1, dressed=False)])
        >>> odd_dates_of(field)[0].text, odd_dates_of(pa.field("a", pa.string()))
        ('soon', [])
    """
    return field.with_metadata({**(field.metadata or {}), _ODD: json.dumps([list(cell) for cell in odd]).encode()})


def odd_dates_of(field: Any) -> list[OddCell]:
    """What `with_odd_dates` has noted of a field.

    Example:
        >>> import pyarrow as pa
        >>> odd_dates_of(pa.field("a", pa.string()))
        []
    """
    noted = (field.metadata or {}).get(_ODD)
    return [] if noted is None else [OddCell(*cell) for cell in json.loads(noted)]


def text_of_dates(dates: Any, like: Any) -> Any:
    """Dates as the texts of a column are written; as ISO 8601 has them if these are of no format that is known.

    Args:
        dates: An Arrow array of dates or times.
        like: Texts of a column, which may have gaps.

    Example:
        >>> import datetime, pyarrow as pa
        >>> day = pa.array([datetime.date(2026, 1, 31)])
        >>> text_of_dates(day, pa.chunked_array([["31.12.2025", None]])).to_pylist()
        ['31.01.2026']
        >>> text_of_dates(day, pa.chunked_array([["2025-12-31"]])).to_pylist()
        ['2026-01-31']
    """
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
    if found.null_count == len(found):
        return found
    late = day.replace(".", "[.]").replace("%d", "(29|30|31)").replace("%m", r"\d+").replace("%Y", r"\d+")
    beyond = pc.and_(pc.less_equal(pc.day(found), 3), pc.match_substring_regex(column, f"^{late}"))
    return pc.if_else(beyond, None, found)


def _reads(column: Any, day: str, clock: str) -> bool:
    """Whether every text is a date of that format."""
    return bool(_strptime(column, day, clock).null_count == column.null_count)
