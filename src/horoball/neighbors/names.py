"""Names of points: text or whole numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["as_names"]


def as_names(names: ArrayLike, n: int) -> np.ndarray:
    """One name a point, as int64 or as text.

    Example:
        >>> as_names(["cat", "dog"], 2)
        array(['cat', 'dog'], dtype='<U3')
    """
    array = np.asarray(names)
    if array.shape != (n,):
        raise ValueError(f"Expected one name for each of {n} points, got shape {array.shape}.")
    if array.dtype.kind in "iu":
        if array.size and int(array.max()) > np.iinfo(np.int64).max:
            raise ValueError(f"Names that are numbers go up to 2**63 - 1, got {int(array.max())}. Pass them as text.")
        return array.astype(np.int64)
    if array.dtype.kind in "OT":
        kinds = {type(name) for name in array.tolist()}
        if all(issubclass(kind, str) for kind in kinds):
            return array.astype(str)
        if all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
            return array.astype(np.int64)
    if array.dtype.kind != "U":
        raise TypeError(f"Names are text or whole numbers, got {array.dtype}.")
    return array
