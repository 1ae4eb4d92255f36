"""What a column is taken for, from its profile, with the reason in words; and what a user says it is."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from horoball.tables.cell_values import MOST_ODD, NumberCellWarning, OddCell, about_odd, shown_odd
from horoball.tables.encoding import UNITS, level_text
from horoball.tables.parquet_files import shown_type
from horoball.tables.profile import Profile, looks_counted
from horoball.tables.schema import KINDS, OTHER, Column, Schema, closest

_NAMED_ID = re.compile(r"(^|[_\s.-])(id|ids|uuid|guid|key|index|rowid|nr|no)$|[a-z]I[dD]$", re.IGNORECASE)
_MIN_ROWS_FOR_ID = 20  # rows below which values that are all different say nothing
_GAPS_OF_IDS = 10  # numbers for each row that ids in order may be spread over
_MOST_RATING = 10  # the largest level of a rating
_TOP_OF_SCALE = 0.02  # share of the rows that have the highest level of a rating
_SKEWED = 1.5  # skewness from which on positive numbers are taken for log-normal; 2 is that of an exponential
_MOST_CATEGORIES = 50  # of one column; the rest is pooled
_RARE = 0.002  # share of the rows below which a category is pooled, and at least
_MIN_ROWS_OF_CATEGORY = 5
_MOST_COUNT = 1 << 24  # from here on float32 has whole numbers only
_CIRCLES = (7, 12, 24, 31, 53, 60, 100, 360, 366, 1000)
SAYS_NOTHING = ("the same value in every row", "the same as ")  # reasons of columns without numbers of their own
_EPOCH = {"seconds": (9.4e8, 2.2e9), "milliseconds": (9.4e11, 2.2e12)}  # 1999 to 2039


def parse_kinds(text: str) -> dict[str, str]:
    """Kinds of columns as the command takes them."""
    kinds = {}
    for part in text.split(","):
        name, colon, kind = part.strip().rpartition(":")
        if not colon or not name:
            raise ValueError(
                f'Kinds of columns are given as "age:real,rating:ordinal", got {part.strip()[:40]!r}. Kinds are: '
                f"{', '.join(KINDS)}."
            )
        kinds[name.strip()] = kind.strip()
    return kinds


def guess_schema(
    profiles: Sequence[Profile],
    given: Mapping[str, str],
    where: str,
    *,
    gaps: Sequence[str] = (),
    place: Callable[[int], str] = "row {}".format,
) -> Schema:
    """The columns of a table: as given, and as guessed where nothing is.

    Cells that are no numbers in columns that are to be guessed, and of which nine cells in ten are, are refused.

    Args:
        profiles: Of all columns that may be used.
        given: Kinds of some columns by name.
        where: What holds the columns, for messages.
        gaps: Words that the user takes for a missing value, which the columns keep.
        place: How a row is called in messages.
    """
    names = [profile.name for profile in profiles]
    for name, kind in given.items():
        if name not in names:
            raise ValueError(f"{where} has no column {name[:40]!r}.{closest(name, names)}")
        if kind not in KINDS:
            raise ValueError(
                f"Column {name[:40]!r} is to be {kind[:40]!r}, which is no kind.{closest(kind, KINDS)} Choose one of: "
                f"{', '.join(KINDS)}."
            )
    seen: dict[str, str] = {}
    columns = []
    odd = {
        profile.name: profile.odd
        for profile in profiles
        if profile.name not in given and profile.numbers is not None and profile.odd
    }
    dates = {
        profile.name: profile.odd_dates
        for profile in profiles
        if profile.odd_dates and given.get(profile.name, "date") == "date"
    }
    for what, cells in (("numbers", odd), ("dates", dates)):
        if cells:
            name = next(iter(cells))[:40]
            more = f"to use it as text, or not at all, name its kind: --columns {name}:category, or {name}:skip"
            raise ValueError(about_odd(cells, where, place, more=more, what=what))
    for profile in profiles:
        twin = seen.setdefault(profile.digest, profile.name)
        if profile.name in given:
            columns.append(told_column(profile, given[profile.name], place))
        elif twin != profile.name:
            columns.append(Column(profile.name, "skip", f"the same as {twin[:40]}"))
        else:
            columns.append(guess_column(profile, where))
    return Schema(tuple(columns)).with_gaps(gaps)


def guess_column(profile: Profile, where: str = "The table") -> Column:
    """What a column is taken for."""
    if profile.is_number and profile.observed and math.isinf(max(profile.high, -profile.low)):
        raise ValueError(
            f"{where} holds an infinite number in column {profile.name[:40]!r}. Remove it, or leave its cell empty."
        )
    numbers = profile.numbers
    kind, why, more = _guess(profile if numbers is None else numbers)
    if numbers is not None and kind != "skip":
        why = f"{why}, written as text"
    if profile.missing and kind != "skip":
        why = f"{why}; {profile.missing:,} missing"
    return Column(profile.name, kind, why, **more)


def told_column(profile: Profile, kind: str, place: Callable[[int], str] = "row {}".format) -> Column:
    """A column of the kind that a user gives, if its values can be that.

    Text of which nine cells in ten are numbers can be one; the other cells are taken as missing, with a warning.
    """
    name, why = profile.name, "as told" + (f"; {profile.missing:,} missing" if profile.missing else "")
    if kind == "skip":
        return Column(name, kind, why)
    numbers = profile.numbers
    if numbers is not None and kind not in ("category", "binary"):
        gone = _gaps_told(profile, profile.odd, place)
        return replace(told_column(numbers, kind), gaps=gone)
    if not profile.observed:
        raise ValueError(f"Column {name[:40]!r} cannot be {kind}: it is empty. Skip it.")
    if kind in ("category", "ordinal", "binary"):
        return _told_levels(profile, kind, why)
    if kind == "date":
        form = _date_form(profile) or next((unit for unit in _EPOCH if profile.is_number), None)
        if form is None:
            raise _unsuited(profile, kind, "it holds no dates")
        return Column(name, kind, why, form=form, start=_first_day(profile, form))
    if not profile.is_number:
        shown = next(iter(profile.counts or ["…"]))
        raise _unsuited(
            profile, kind, f"it holds {'text' if profile.is_text else profile.type} such as {str(shown)[:40]!r}"
        )
    form = "whole" if profile.whole else "number"
    if kind == "positive" and profile.low <= 0:
        raise _unsuited(profile, kind, f"it holds {profile.low:g}, which is not above 0")
    if kind in ("count", "circular") and not profile.whole:
        raise _unsuited(profile, kind, "it holds numbers that are not whole")
    if kind == "count" and profile.low < 0:
        raise _unsuited(profile, kind, f"it holds {profile.low:g}, which is below 0")
    if kind != "circular":
        return Column(name, kind, why, form=form)
    points = profile.high - profile.low + 1
    period = next((circle for circle in _CIRCLES if circle >= points), 0)
    if not period:
        raise _unsuited(profile, kind, f"it has {points:,.0f} points; a circle has at most {_CIRCLES[-1]}")
    return Column(name, kind, f"{why}; a circle of {period}", form=form, start=profile.low, period=period)


def _gaps_told(profile: Profile, odd: Sequence[OddCell], place: Callable[[int], str]) -> tuple[str, ...]:
    """Words that stand for a missing value, as the user calls the column a number; said, since it may be a mistake."""
    if any(cell.dressed for cell in odd) or len(odd) > MOST_ODD:  # the first have a value, which would be lost
        dressed = [cell for cell in odd if cell.dressed] or list(odd)
        raise ValueError(about_odd({profile.name: dressed}, "", place))
    if odd:
        cells = sum(cell.times for cell in odd)
        are = "cell that is no number is" if cells == 1 else "cells that are no numbers are"
        warnings.warn(
            f"{cells:,} {are} taken as missing in column {profile.name[:40]!r}: {shown_odd(odd, place)}.",
            NumberCellWarning,
            stacklevel=5,
        )
    return tuple(cell.text for cell in odd)


def _guess(profile: Profile) -> tuple[str, str, dict[str, Any]]:
    import pyarrow as pa

    if not profile.observed:
        return "skip", "empty", {}
    if profile.merged:
        if _NAMED_ID.search(profile.name):
            return "skip", "an id, by its name", {}
        return "skip", "whole numbers beyond 2^53, which 64 bits cannot tell apart; subtract their least first", {}
    if profile.distinct == 1 and profile.is_number and abs(profile.low) >= 2**53:
        return "skip", f"one number, {profile.low:g}, in 64 bits, which cannot tell numbers apart that are near it", {}
    if profile.distinct == 1:
        return "skip", "the same value in every row" if not profile.missing else "one value, or missing", {}
    form = _date_form(profile)
    if form is not None:
        words = "dates and times" if form == "time" else "dates" if form == "date" else f"{form} since 1970"
        more = {"form": form, "start": _first_day(profile, form)}
        return "date", f"{words}: trend, month and weekday", more
    if pa.types.is_boolean(profile.type):
        return "binary", "true or false", {"form": "truth"}
    if profile.is_number:
        return _guess_numbers(profile)
    if profile.is_text:
        return _guess_text(profile)
    return "skip", f"holds {shown_type(profile.type)}, which is no number, text or date", {}


def _guess_numbers(profile: Profile) -> tuple[str, str, dict[str, Any]]:
    low, high = profile.low, profile.high
    if profile.whole and profile.distinct == 2:
        return (
            "binary",
            f"two values: {low:g} and {high:g}",
            {"form": "whole", "levels": (level_text(low), level_text(high))},
        )
    if not profile.whole:
        return _guess_shape(profile, "number")
    if _is_id(profile):
        return "skip", "an id: whole numbers that are different in every row", {}
    if _NAMED_ID.search(profile.name) and (profile.distinct is None or profile.distinct > _MOST_CATEGORIES):
        return "skip", "an id, by its name", {}
    if low == 1 and high <= _MOST_RATING and _is_scale(profile):
        levels = tuple(str(level) for level in range(1, int(high) + 1))
        return "ordinal", f"whole numbers from 1 to {high:g}", {"form": "whole", "levels": levels}
    counted = 0 <= low <= 1 and high < _MOST_COUNT
    if counted and bool(looks_counted(torch.as_tensor(profile.sample).unsqueeze(1)).all()):
        return "count", f"whole numbers from {low:g} to {high:g}", {"form": "whole"}
    return _guess_shape(profile, "whole")


def _guess_shape(profile: Profile, form: str) -> tuple[str, str, dict[str, Any]]:
    """Real numbers, or positive ones with a long tail."""
    words = "whole numbers" if form == "whole" else "numbers"
    span = f"{words} from {profile.low:.4g} to {profile.high:.4g}"
    if profile.low > 0 and len(profile.sample) > 2:
        skew = _skewness(profile.sample)
        if skew > _SKEWED and abs(_skewness(np.log(profile.sample))) < skew:
            return "positive", f"{span} with a long tail", {"form": form}
    return "real", span, {"form": form}


def _guess_text(profile: Profile) -> tuple[str, str, dict[str, Any]]:
    if profile.counts is None or (not profile.repeats and profile.observed >= _MIN_ROWS_FOR_ID):
        return "skip", "text that is different in every row, as ids and names are", {}
    if len(profile.counts) > max(10, profile.observed // 2):
        return "skip", f"text with {len(profile.counts):,} different values in {profile.observed:,} rows", {}
    if profile.ordered:
        levels = tuple(level for level in profile.dictionary if level in profile.counts)
        return "ordinal", "an ordered category", {"form": "text", "levels": levels}
    levels = _levels(profile)
    shown = ", ".join(level[:20] for level in levels[:4]) + (" …" if len(levels) > 4 else "")
    if len(levels) == 2 and OTHER not in levels:
        return "binary", f"text with 2 different values: {shown}", {"form": "text", "levels": levels}
    if len(levels) < 2:
        return "skip", "text whose values are all rare", {}
    return (
        "category",
        f"text with {len(profile.counts):,} different values: {shown}",
        {"form": "text", "levels": levels},
    )


def _levels(profile: Profile) -> tuple[str, ...]:
    """Categories in their order, rare ones pooled under `OTHER` at the end."""
    assert profile.counts is not None  # noqa: S101  the caller has looked
    counts: dict[str, int] = {}
    for value, count in profile.counts.items():
        counts[level_text(value)] = counts.get(level_text(value), 0) + count
    least = max(_MIN_ROWS_OF_CATEGORY, _RARE * profile.observed) if len(counts) > 10 else 0
    common = sorted(counts, key=lambda value: (-counts[value], value))[:_MOST_CATEGORIES]
    kept = sorted(value for value in common if counts[value] >= least and value != OTHER)
    return tuple(kept) if len(kept) == len(counts) else (*kept, OTHER)


def _told_levels(profile: Profile, kind: str, why: str) -> Column:
    if profile.counts is None:
        raise _unsuited(profile, kind, "it has more than 10,000 different values")
    form = "text" if not profile.is_number else "whole" if profile.whole else "number"
    form = "truth" if str(profile.type) == "bool" else form
    if kind == "category":
        levels = _levels(profile)
    elif profile.dictionary:
        levels = tuple(level for level in profile.dictionary if level in profile.counts)
    elif profile.is_number and profile.whole and profile.high - profile.low <= 100:
        levels = tuple(str(level) for level in range(int(profile.low), int(profile.high) + 1))
    else:
        levels = tuple(level_text(value) for value in sorted(profile.counts))
    if kind == "binary":
        levels = tuple(level_text(value) for value in sorted(profile.counts))
        if len(levels) != 2:
            raise _unsuited(profile, kind, f"it has {len(levels)} different values")
        levels = () if form == "truth" else levels
    elif len(levels) < 2:
        raise _unsuited(profile, kind, "it has one value only")
    order = ": " + " < ".join(levels[:6]) + (" …" if len(levels) > 6 else "") if kind == "ordinal" else ""
    return Column(profile.name, kind, why + order, form=form, levels=levels)


def _is_id(profile: Profile) -> bool:
    if profile.repeats or profile.missing or profile.rows < _MIN_ROWS_FOR_ID:
        return False
    span = profile.high - profile.low + 1
    counted = span == profile.rows or ((profile.rising or profile.falling) and span <= _GAPS_OF_IDS * profile.rows)
    return _NAMED_ID.search(profile.name) is not None or (profile.is_whole_type and counted)


def _is_scale(profile: Profile) -> bool:
    """Whether whole numbers from 1 on are a scale: all of them occur, and the highest is no rare one, as of counts."""
    counts: Mapping[Any, int] = profile.counts or {}
    return len(counts) == profile.high and counts.get(profile.high, 0) >= _TOP_OF_SCALE * profile.observed


def _date_form(profile: Profile) -> str | None:
    import pyarrow as pa

    if pa.types.is_date(profile.type):
        return "date"
    if pa.types.is_timestamp(profile.type):
        return "time"
    if profile.is_number and profile.whole and (profile.distinct is None or profile.distinct > 2):
        for unit, (low, high) in _EPOCH.items():
            if low <= profile.low and profile.high <= high:
                return unit
    return None


def _first_day(profile: Profile, form: str) -> float:
    """The day from which days are counted: float32 has all digits of those that are near it."""
    return float(math.floor(profile.low / UNITS[form] if form in UNITS else profile.low))


def _skewness(x: np.ndarray) -> float:
    spread = float(x.std())
    return float((((x - x.mean()) / spread) ** 3).mean()) if spread > 0 else 0.0


def _unsuited(profile: Profile, kind: str, why: str) -> ValueError:
    able = (
        ["real", "positive", "count", "category", "ordinal", "skip"]
        if profile.is_number
        else ["category", "ordinal", "skip"]
    )
    return ValueError(
        f"Column {profile.name[:40]!r} cannot be {kind}: {why}. Kinds that it can be: "
        f"{', '.join(each for each in able if each != kind)}."
    )
