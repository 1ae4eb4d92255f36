"""Arrays of numbers as a table takes them: which are refused, and which lose digits in float32."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.tables.schema import some_names

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
    """
    spread = np.asarray(np.asarray(high) - np.asarray(low), np.float64)  # of whole numbers before they are rounded
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    size = np.maximum(abs(low), abs(high))
    whole = (low == np.rint(low)) & (high == np.rint(high)) & (size < 2.0**53)  # as float64 holds them, exactly
    noise = np.where(exact | whole, 0.0, np.where(size < 2.0**53, _NOISE, _HUGE_NOISE) * size)
    return (spread > noise) & (spread < _COARSE * size)


def tell_names(names: Sequence[str]) -> None:
    """Warn of columns that lose digits, by their names."""
    if names:
        _log.warning(
            "Rounding: %s vary by little of their size, most of which float32 loses. Center them first.",
            some_names(names),
        )


def tell_rounded(x: np.ndarray, columns: Sequence[str]) -> None:
    """Warn of columns of an array that vary by so little of their size that float32 rounds most of it away."""
    if not x.size or x.dtype.kind not in "iuf" or x.dtype.itemsize < 8:
        return
    whole = x.dtype.kind in "iu"
    low, high = (end.astype(object) if whole else end for end in (x.min(0), x.max(0)))
    with np.errstate(over="ignore", invalid="ignore"):
        lost = np.flatnonzero(loses_digits(low, high, exact=whole))
    tell_names([columns[int(i)] for i in lost])


_DATES = "Turn dates into numbers first, for example days since the first one."
_SPANS = "Turn durations into numbers first, for example seconds."
_COMPLEX = "Complex data not supported: give the real and the imaginary part as two columns."  # scikit-learn's words
_KINDS = {"M": _DATES, "m": _SPANS, "c": _COMPLEX}
_OBJECTS = (
    ((np.datetime64, datetime.date, datetime.time), _DATES),  # a datetime is a date, and so is a Timestamp of pandas
    ((np.timedelta64, datetime.timedelta), _SPANS),
    ((complex, np.complexfloating), _COMPLEX),
)


def advice_for(array: np.ndarray, otherwise: str) -> str:
    """What to do with an array that does not hold numbers."""
    if array.dtype.kind in _KINDS:
        return _KINDS[array.dtype.kind]
    if array.dtype.kind == "O":
        for value in array.flat:
            for kinds, advice in _OBJECTS:
                if isinstance(value, kinds):
                    return advice
    return otherwise


def check_numbers(x: Any, name: str, *, objects: bool = False) -> None:
    """Refuse an array that cannot be converted to float32 without changing what it means.

    Args:
        x: An array, a tensor or a scipy sparse matrix; anything else passes.
        name: What it is called in messages.
        objects: Whether arrays of Python objects may hold numbers, as scikit-learn allows.

    Raises:
        ValueError: Values are masked, or are dates, durations, complex numbers, text or objects.
    """
    if isinstance(x, Tensor):
        if x.is_complex():
            raise ValueError(f"{name} holds {str(x.dtype).removeprefix('torch.')}, not numbers. {_COMPLEX}")
        return
    check_unmasked(x, name)
    kind = getattr(getattr(x, "dtype", None), "kind", "")
    if not kind or kind in "biuf":
        return
    text = "Leave out columns of text."
    advice = advice_for(x, text) if isinstance(x, np.ndarray) else _KINDS.get(kind, text)
    if not (objects and kind in "OUST" and advice == text):
        raise ValueError(f"{name} holds {x.dtype}, not numbers. {advice}")


def check_unmasked(x: Any, name: str) -> None:
    """Refuse a masked array of which anything is masked."""
    masked = int(np.ma.count_masked(x)) if isinstance(x, np.ma.MaskedArray) else 0
    if masked:
        values, them = ("value", "it") if masked == 1 else ("values", "them")
        raise ValueError(
            f"{name} has {masked:,} masked {values}. Masks are not read: fill {them} (array.filled(...)) or drop such "
            "rows first."
        )


_LARGEST = float(np.finfo(np.float32).max)


def refuse_beyond(x: np.ndarray, columns: Sequence[str], name: str, first: int = 0) -> None:
    """Refuse numbers that float32 cannot hold, which would become infinite."""
    if not x.size or not max(np.fmax.reduce(x, axis=None), -np.fmin.reduce(x, axis=None)) > _LARGEST:
        return  # most tables: without an array as large as they are
    beyond = np.isfinite(x) & (abs(x) > _LARGEST)
    if beyond.any():
        row, column = np.argwhere(beyond)[0].tolist()
        raise ValueError(
            f"{name} has {x[row, column]:g} in row {first + row}, column {columns[column][:40]!r}, which is beyond "
            "3.4e38, the largest number of float32. Scale the column, or correct it."
        )


def all_finite(x: Tensor) -> bool:
    """Whether a tensor has neither NaN nor infinity; sure if true, false also where the sum overflows.

    One pass, where masks of what is not finite take several, as long as a network does.

    Example:
        >>> import torch
        >>> all_finite(torch.ones(2)), all_finite(torch.tensor([torch.inf, -torch.inf]))
        (True, False)
    """
    return bool(x.sum().isfinite())


def check_finite(block: Tensor, first: int, columns: Sequence[str], name: str) -> None:
    """Refuse rows with NaN or infinity."""
    if not all_finite(block) and bool((bad := ~torch.isfinite(block)).any()):
        row, column = bad.nonzero()[0].tolist()
        raise ValueError(
            f"{name} holds a missing or infinite value in row {first + row}, column {columns[column][:40]!r}. Fill or "
            "drop such rows first."
        )
