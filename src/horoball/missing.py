"""What stands for a value that is not there: None, NaN, NaT, and pandas' NA, which cannot be compared with anything."""

from __future__ import annotations

from typing import Any

__all__ = ["is_missing"]

_KINDS = ("NAType", "NaTType")  # of pandas, which need not be installed


def is_missing(value: Any) -> bool:
    """Whether a value is missing.

    Example:
        >>> [is_missing(value) for value in (None, float("nan"), "", 0, "NaN")]
        [True, True, False, False, False]
    """
    return value is None or type(value).__name__ in _KINDS or bool(value != value)
