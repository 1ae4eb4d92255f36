"""One tree from many: average linkage of what replicates agree on.

Note [Consensus]: a linkage decides at every merge, and a decision that noise has turned stays. Replicates decide each
for themselves, so the mean over them of the heights at which two rows meet is a steadier distance than that of the
rows. The tree is average linkage of that mean together with the rows' own distances, which tell apart the rows that all
replicates join at once. Heights are logarithms, log(1 + 20 d/median d): between vectors of many dimensions all but the
nearest are about equally far apart, and what tells groups apart are the small distances. (The logarithm of any
distance is close to that of a tree: it is hyperbolic in the sense of Gromov.)
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from horoball.hierarchy.trees.linkage import Joined, average_linkage
from horoball.hierarchy.trees.tree import Tree

__all__ = ["consensus", "log_distances"]

_SCALE = 20.0  # medians of the distances to one unit inside the logarithm
_ROWS = 1024  # of a matrix at a time
_SAMPLE = 1000  # rows whose distances give the median


def log_distances(d: np.ndarray) -> np.ndarray:
    """log(1 + 20 d/median d), float32; see Note [Consensus].

    Example:
        >>> log_distances(np.array([[0.0, 2.0], [2.0, 0.0]])).round(3)
        array([[0.   , 3.045],
               [3.045, 0.   ]], dtype=float32)
    """
    some = d[:: max(1, len(d) // _SAMPLE)]
    apart = some[some > 0]
    median = float(np.median(apart)) if len(apart) else 1.0
    out = np.empty(d.shape, np.float32)
    for first in range(0, len(d), _ROWS):
        np.log1p(d[first : first + _ROWS] * (_SCALE / median), out=out[first : first + _ROWS], casting="same_kind")
    return out


def consensus(d: np.ndarray, replicates: Iterable[Joined], weight: np.ndarray | None = None) -> Joined:
    """The tree that replicates agree on; see Note [Consensus].

    Args:
        d: Distances between leaves, shape (n, n).
        replicates: Trees of the same leaves, with heights that are logarithms of distances; at least one.
        weight: Number of rows that each leaf stands for; one if not given.

    Example:
        >>> x = np.array([0.0, 1.0, 5.0])
        >>> d = abs(x - x[:, None])
        >>> one = Joined(*average_linkage(log_distances(d)), None)
        >>> consensus(d, [one, one]).merges.tolist()
        [[0, 1], [2, 3]]
    """
    total, count = np.zeros(d.shape, np.float32), 0
    for replicate in replicates:
        _add_heights(total, replicate)
        count += 1
    if not count:
        raise ValueError("A consensus expects at least one replicate.")
    total /= count
    total += log_distances(d)
    total /= 2
    return Joined(*average_linkage(total, weight), None)


def _add_heights(total: np.ndarray, joined: Joined) -> None:
    """Add the height at which two leaves meet, for all pairs, block by block in the order of a drawing."""
    n = len(total)
    order, first, last = Tree.from_merges(joined.merges, np.arange(1.0, n)).spans
    met = np.zeros((n, n), np.float32)
    for (left, right), height in zip(joined.merges.tolist(), joined.height.tolist(), strict=True):
        rows, columns = slice(first[left], last[left]), slice(first[right], last[right])
        met[rows, columns] = height
        met[columns, rows] = height
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    for start in range(0, n, _ROWS):
        total[start : start + _ROWS] += met[place[start : start + _ROWS]][:, place]
