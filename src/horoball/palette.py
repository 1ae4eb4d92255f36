"""Colours of categories, the same in every picture."""

from __future__ import annotations

from typing import Any

import numpy as np

from horoball.missing import is_missing

__all__ = ["COLOURS", "colour_of", "named"]

# Colours that colour-blind readers can tell apart: Okabe and Ito's, then Tol's muted ones, as in the viewer by day.
COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#c46a9b", "#e69f00", "#3aa0dd", "#8a7a00"),
    *("#332288", "#882255", "#44aa99", "#999933", "#aa4499", "#cc6677", "#117733"),
)


def colour_of(number: int) -> str:
    """The colour of a category by its number.

    Example:
        >>> colour_of(0)
        '#0072b2'
    """
    return COLOURS[number % len(COLOURS)]


def named(labels: Any) -> np.ndarray:
    """Categories as text; None, NaN and empty ones are "(missing)".

    Example:
        >>> named(["a", None, float("nan"), " "]).tolist()
        ['a', '(missing)', '(missing)', '(missing)']
    """
    values = np.asarray(labels, dtype=object)
    known = [not is_missing(value) and str(value).strip() != "" for value in values]
    return np.array([str(value) if there else "(missing)" for value, there in zip(values, known, strict=True)])
