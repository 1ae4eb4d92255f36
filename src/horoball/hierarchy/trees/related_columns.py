"""Which columns have to do with any other? Columns of noise hide gaps and levels that the others have."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from horoball.hierarchy.delta import fixed_sample

__all__ = ["related_columns"]

_NEIGHBORS = 5
_EXPLAINED = 0.1  # share of a column's variance that its rows' neighbors explain; of noise it is about −1/5
_ROWS, _COLUMNS = 500, 1000  # more rows are sampled, more columns are all kept: time grows with both


def related_columns(x: np.ndarray) -> np.ndarray:
    """A mask of the columns that the other columns say something about; all, if those are fewer than two.

    The mean of a column over the five rows that are nearest in all other columns is compared with its value. What
    remains is judged again, until nothing more is left out.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> blobs = np.repeat(10 * rng.normal(size=(5, 3)), 40, 0) + rng.normal(size=(200, 3))
        >>> related_columns(np.hstack((blobs / blobs.std(0), rng.normal(size=(200, 2)))))
        array([ True,  True,  True, False, False])
    """
    kept = np.ones(x.shape[1], bool)
    x = x[fixed_sample(len(x), _ROWS)]
    if len(x) <= 2 * _NEIGHBORS or x.shape[1] > _COLUMNS:
        return kept
    while True:
        noise = np.flatnonzero(kept)[_explained(x[:, kept]) <= _EXPLAINED]
        if not len(noise) or kept.sum() - len(noise) < 2:
            return kept
        kept[noise] = False


def _explained(x: np.ndarray) -> np.ndarray:
    square = cdist(x, x, "sqeuclidean")
    np.fill_diagonal(square, np.inf)
    shares = np.zeros(x.shape[1])
    for number, column in enumerate(x.T):
        variance = column.var()
        if variance > 0:
            others = square - (column[:, None] - column) ** 2
            nearest = np.argpartition(others, _NEIGHBORS, axis=1)[:, :_NEIGHBORS]
            shares[number] = 1 - ((column - column[nearest].mean(1)) ** 2).mean() / variance
    return shares
