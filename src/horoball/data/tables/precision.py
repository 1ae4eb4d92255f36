"""Numbers that float32 cannot tell apart, such as seconds since 1970: said, not passed over."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from horoball.data.tables.column_names import some_names

__all__ = ["loses_digits", "tell_names", "tell_rounded"]

_NOISE = 1e-12  # of a column's size: what varies by less is a constant with float64's own rounding
_HUGE_NOISE = 1e-15  # the same from 2⁵³ on, where float64 has whole numbers alone and noise is a few of its steps
_COARSE = 2.0**-16  # of a column's size: what varies by less has at most 256 values in float32
_log = logging.getLogger("horoball")


def loses_digits(low: Any, high: Any, *, exact: Any = False) -> Any:
    """Whether columns vary by so little of their size that float32 rounds most of it away.

    Args:
        low: Least values, numbers or arrays of them; whole ones may be Python's, of any size.
        high: Largest values.
        exact: Whether they are whole numbers that were given as such, without any rounding.

    Example:
        >>> bool(loses_digits(1.7e9, 1.7e9 + 300)), bool(loses_digits(0.0, 1.0))
        (True, False)
        >>> bool(loses_digits(2**60, 2**60 + 60, exact=True))
        True
    """
    spread = np.asarray(np.asarray(high) - np.asarray(low), np.float64)  # of whole numbers before they are rounded
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    size = np.maximum(abs(low), abs(high))
    whole = (low == np.rint(low)) & (high == np.rint(high)) & (size < 2.0**53)  # as float64 holds them, exactly
    noise = np.where(exact | whole, 0.0, np.where(size < 2.0**53, _NOISE, _HUGE_NOISE) * size)
    return (spread > noise) & (spread < _COARSE * size)


def tell_names(names: Sequence[str]) -> None:
    """Warn of columns that lose digits, by their names.

    Example:
        >>> tell_names([])  # nothing to say
    """
    if names:
        _log.warning(
            "Rounding: %s vary by little of their size, most of which float32 loses. Center them first.",
            some_names(names),
        )


def tell_rounded(x: np.ndarray, columns: Sequence[str]) -> None:
    """Warn of columns of an array that vary by so little of their size that float32 rounds most of it away.

    Args:
        x: Rows as they were given, before they become float32.
        columns: Their names.

    Example:
        >>> tell_rounded(1.7e9 + np.arange(300.0)[:, None], ["seconds"])  # warns
    """
    if not x.size or x.dtype.kind not in "iuf" or x.dtype.itemsize < 8:
        return
    whole = x.dtype.kind in "iu"
    low, high = (end.astype(object) if whole else end for end in (x.min(0), x.max(0)))
    with np.errstate(over="ignore", invalid="ignore"):
        lost = np.flatnonzero(loses_digits(low, high, exact=whole))
    tell_names([columns[int(i)] for i in lost])
