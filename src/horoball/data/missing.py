"""What stands for a value that is not there: None, NaN, NaT, and pandas' NA, which cannot be compared with anything."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["category_names", "is_missing"]

_KINDS = ("NAType", "NaTType")  # of pandas, which need not be installed


def is_missing(value: Any) -> bool:
    """Whether a value is missing.

    Example:
        >>> [is_missing(value) for value in (None, float("nan"), "", 0, "NaN")]
        [True, True, False, False, False]
    """
    return value is None or type(value).__name__ in _KINDS or bool(value != value)


def category_names(labels: Any) -> np.ndarray:
    """Categories as text; None, NaN and empty ones are "(missing)".

    Example:
        >>> category_names(["a", None, float("nan"), " "]).tolist()
        ['a', '(missing)', '(missing)', '(missing)']
    """
    values = np.asarray(labels, dtype=object)
    known = [not is_missing(value) and str(value).strip() != "" for value in values]
    return np.array([str(value) if there else "(missing)" for value, there in zip(values, known, strict=True)])
