"""Names of points: text or whole numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["as_names"]

_INT64 = np.iinfo(np.int64)


def as_names(names: ArrayLike, n: int) -> np.ndarray:
    """One name a point, as int64 or as Python strings.

    Text is kept in an array of objects: one of fixed width would take as much for every name as for the longest.

    Example:
        >>> as_names(["cat", "dog"], 2)
        array(['cat', 'dog'], dtype=object)
    """
    array = np.fromiter(names, object) if isinstance(names, list | tuple | range) else np.asarray(names)
    if array.shape != (n,):
        raise ValueError(f"Expected one name for each of {n} points, got shape {array.shape}.")
    if array.dtype.kind not in "OTUiu":
        raise TypeError(f"Names are text or whole numbers, got {array.dtype}.")
    kinds = {type(name) for name in array.tolist()}
    if all(issubclass(kind, str) for kind in kinds):
        return np.fromiter(map(str, array.tolist()), object, n)
    if not all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        got = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(f"Names are text or whole numbers, got {got}.")
    for name in (max(array), min(array)):
        if not _INT64.min <= name <= _INT64.max:
            raise ValueError(f"Names that are numbers go from -2**63 up to 2**63 - 1, got {name}. Pass them as text.")
    return array.astype(np.int64)
