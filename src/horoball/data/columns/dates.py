"""Dates as days since 1970, and what a model sees of them: a trend, the month, the weekday."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

__all__ = ["UNITS", "date_features", "days_since_1970", "parse_dates", "text_of_dates"]

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
_CLOCKS = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S")


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
    if not len(there) or not pc.all(pc.match_substring_regex(there.slice(0, 20), _LIKE_A_DATE)).as_py():
        return None
    for clock in _CLOCKS:
        for day in _FORMATS:
            found = pc.strptime(column, format=day + clock, unit="s", error_is_null=True)
            if found.null_count == column.null_count:
                if day == "%m/%d/%Y" and _reads(column, "%d/%m/%Y" + clock):
                    _log.warning(
                        "Dates: column %r is read with the month first, %r as %s; it may as well be the day. If it "
                        "is, write dates as 2026-12-31.",
                        name[:40], there[0].as_py()[:40], found.drop_null()[0].as_py().strftime("%Y-%m-%d"),
                    )  # fmt: skip
                return found.cast(pa.date32()) if not clock else found
    return None


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
            read = pc.strptime(texts, format=day + clock, unit="s", error_is_null=True)
            if not read.null_count:
                return pc.strftime(dates.cast(pa.timestamp("s"), safe=False), format=day + clock)
    return dates.cast(pa.string())


def _reads(column: Any, form: str) -> bool:
    """Whether every text is a date of that format."""
    import pyarrow.compute as pc

    return bool(pc.strptime(column, format=form, unit="s", error_is_null=True).null_count == column.null_count)
