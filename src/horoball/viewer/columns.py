"""Columns of any kind as the page holds them: categories, numbers or text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from horoball.data.missing import is_missing

__all__ = ["Column", "make_column", "make_columns", "smallest"]

_MAX_INTEGER_CATEGORIES = 20  # whole numbers with no more values than this are categories, as of digits or clusters
_MOST = 200  # texts with more values than this are shown, but are no legend
MISSING = "missing"


@dataclass(frozen=True)
class Column:
    """One value per point.

    Example:
        >>> make_column("type", ["b", "a", "b"]).categories
        ['a', 'b']
    """

    name: str
    kind: str  # "category": values are numbers of categories; "text": the same, too many for a legend; "number"
    values: np.ndarray
    categories: list[str] = field(default_factory=list)
    missing: int = -1  # the category of missing values


def make_columns(columns: Any, n: int) -> list[Column]:
    """The columns of a dict or of a data frame.

    Args:
        columns: A dict from names to arrays, a pandas or polars data frame, or None.
        n: Number of points.

    Example:
        >>> [column.kind for column in make_columns({"type": ["a", "b"], "size": [0.5, 1.5]}, 2)]
        ['category', 'number']
    """
    if columns is None:
        return []
    if not isinstance(columns, Mapping) and not hasattr(columns, "columns"):
        raise TypeError(f"columns must be a dict or a data frame, got {type(columns).__name__}.")
    names = list(columns) if isinstance(columns, Mapping) else list(columns.columns)
    made = [make_column(str(name), columns[name]) for name in names]
    for column in made:
        if len(column.values) != n:
            raise ValueError(
                f"Column {column.name[:40]!r} has {len(column.values)} values for {n} points, expected one per point."
            )
    if len({column.name for column in made}) < len(made):
        raise ValueError("Two columns have the same name. Rename one.")
    return made


def make_column(name: str, values: Any) -> Column:
    """A column from values: texts, truth values and few whole numbers are categories, other numbers are numbers.

    Example:
        >>> make_column("digit", [7, 1, 7]).kind, make_column("height", [1.7, 1.8]).kind
        ('category', 'number')
    """
    order = _order(values)
    array = _array(values)
    if array.ndim != 1:
        raise ValueError(f"Column {name[:40]!r} has shape {array.shape}, expected one value per point.")
    if order is None and array.dtype.kind == "f":
        return Column(name, "number", array.astype("<f8" if _needs_eight(array) else "<f4"))
    if order is None and array.dtype.kind in "iu" and len(np.unique(array)) > _MAX_INTEGER_CATEGORIES and _exact(array):
        return Column(name, "number", smallest(array))
    texts = ["" if is_missing(value) else str(value) for value in array.tolist()]
    absent = [is_missing(value) for value in array.tolist()]
    seen = {text for text, gone in zip(texts, absent, strict=True) if not gone}
    categories = [text for text in order if text in seen] if order is not None else _sorted(seen)
    code = {text: i for i, text in enumerate(categories)}
    missing = len(categories) if any(absent) else -1
    codes = np.array([missing if gone else code[text] for text, gone in zip(texts, absent, strict=True)], np.int64)
    shown = [*categories, MISSING] if missing >= 0 else categories
    kind = "category" if len(shown) <= _MOST else "text"
    return Column(name, kind, smallest(codes), shown, missing)


def _array(values: Any) -> np.ndarray:
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if array.dtype.kind == "M":
        return _dates(array)
    return array if array.dtype.kind in "biuf" else np.asarray(array, object)


def _dates(array: np.ndarray) -> np.ndarray:
    """Dates as text: without hours where all are midnight, else to the second."""
    whole = array.astype("datetime64[s]")
    days = whole.astype("datetime64[D]")
    there = ~np.isnat(array)
    texts = (days if (days[there] == whole[there]).all() else whole).astype(str).astype(object)
    texts[~there] = None
    return texts


def _exact(array: np.ndarray) -> bool:
    """Whether the page's numbers, which are float64, tell whole numbers apart; ids near 2⁶⁰ are shown as text."""
    return int(array.max()) <= 1 << 53 and int(array.min()) >= -(1 << 53)


def _needs_eight(array: np.ndarray) -> bool:
    """Whether there are whole numbers, such as ids beside missing ones, that float32 would change."""
    large = array[np.isfinite(array) & (np.abs(array) > 1 << 24)]
    with np.errstate(over="ignore"):
        return bool(((large == np.rint(large)) & (large != large.astype(np.float32))).any())


def _order(values: Any) -> list[str] | None:
    """The order of a pandas categorical: its makers had a reason for it."""
    kind: Any = getattr(values, "dtype", None)
    return [str(value) for value in kind.categories] if type(kind).__name__ == "CategoricalDtype" else None


def _sorted(texts: Iterable[str]) -> list[str]:
    """In the order of numbers where all are numbers, else of the alphabet."""
    try:
        return sorted(texts, key=float)
    except ValueError:
        return sorted(texts)


def smallest(values: np.ndarray) -> np.ndarray:
    """Whole numbers in as few bytes as hold them; what 32 bits do not hold becomes float64.

    Example:
        >>> smallest(np.array([3, 200])).dtype
        dtype('uint8')
    """
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    for kind in ("<u1", "<i2", "<u2", "<i4"):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return values.astype(kind)
    return values.astype("<f8")
