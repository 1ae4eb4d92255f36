"""How often each branch comes back in replicates of the data, up to a few rows.

Note [Support]: the support of a branch B is the share of replicates whose tree has a branch C that overlaps it,

    |B ∩ C| / |B ∪ C| ≥ 4/5.

A branch of two or three rows has to come back exactly; of a larger one a few rows may move. That all rows come back
(Felsenstein, 1985) is too much to ask of a group of forty: it is lost as soon as one of them moves. Where a replicate
has some of the rows only, it is the part of B among them that has to come back.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

__all__ = ["Branches", "Replicate", "leaf_spans"]

_SHARED, _ALL = 4, 5  # the overlap that counts, as a fraction
_EXACT = 4  # leaves of a branch, below which only the same branch overlaps it enough
_ELEMENTS = 16_000_000  # leaves of branches to compare at a time

Replicate = tuple[np.ndarray, np.ndarray | None]  # merges of a replicate's tree, and its leaves; None for all leaves


class Branches:
    """The branches of a tree, to look for in trees of replicates; the root is none.

    Args:
        merges: Merges of the tree's linkage, shape (n − 1, 2).

    Example:
        >>> found = Branches(np.array([[0, 1], [2, 3], [4, 5]]))
        >>> found.support([(np.array([[0, 1], [2, 3], [4, 5]]), None), (np.array([[0, 2], [1, 3], [4, 5]]), None)])
        array([0.5, 0.5])
    """

    def __init__(self, merges: np.ndarray) -> None:
        order, first, last = leaf_spans(merges)
        self.leaves = len(order)
        self.first, self.last = first[:-1], last[:-1]
        self.place = np.empty(self.leaves, np.int64)
        self.place[order] = np.arange(self.leaves)

    @property
    def size(self) -> np.ndarray:
        """Number of leaves of each branch."""
        return self.last - self.first

    def support(self, replicates: Iterable[Replicate]) -> np.ndarray:
        """The support of each branch; see Note [Support]."""
        found, asked = np.zeros(len(self.first)), np.zeros(len(self.first))
        for merges, leaves in replicates:
            back, part = self._in(merges, leaves)
            found += back
            asked += part
        if not asked.any():
            raise ValueError("Support expects at least one replicate.")
        return found / np.maximum(asked, 1)

    def _in(self, merges: np.ndarray, leaves: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Whether each branch is in a replicate's tree, and whether it has two leaves there, as a branch must."""
        order, first, last = leaf_spans(merges)
        place = self.place[order if leaves is None else leaves[order]]  # in this tree, of the replicate's leaves
        first, last = first[:-1], last[:-1]
        back, part = np.zeros(len(self.first), bool), np.zeros(len(self.first), bool)
        block = max(1, _ELEMENTS // len(order))
        # Where all leaves are there, a range of places that are one branch of both trees is found without counting.
        bounds, padded = np.column_stack([first, last]).ravel(), np.append(place, 0)
        low, high = np.minimum.reduceat(padded, bounds)[::2], np.maximum.reduceat(padded, bounds)[::2] + 1
        exact = high - low == last - first
        same = np.isin(self.first * (self.leaves + 1) + self.last, (low * (self.leaves + 1) + high)[exact])
        if leaves is None:
            back, part = same, np.ones_like(same)
        left = np.flatnonzero(~same & (self.size >= _EXACT)) if leaves is None else np.arange(len(self.first))
        most = last - first >= (_EXACT if leaves is None else 2)
        for at in range(0, len(left), block):
            nodes = left[at : at + block]
            inside = (place >= self.first[nodes, None]) & (place < self.last[nodes, None])
            along = np.zeros((len(nodes), len(order) + 1), np.int32)
            np.cumsum(inside, axis=1, out=along[:, 1:])
            here = along[:, -1:]
            shared = along[:, last[most]] - along[:, first[most]]
            enough = (_ALL + _SHARED) * shared >= _SHARED * (here + (last - first)[most])
            back[nodes] = enough.any(1) & (here[:, 0] >= 2)
            part[nodes] = here[:, 0] >= 2
        return back, part


def leaf_spans(merges: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The leaves in an order in which every branch is a range; the first and past-the-end place of each inner node.

    Example:
        >>> leaf_spans(np.array([[0, 2], [1, 3]]))
        (array([1, 0, 2]), array([1, 0]), array([3, 3]))
    """
    n = len(merges) + 1
    pairs = merges.tolist()
    count = [1] * n
    for a, b in pairs:
        count.append(count[a] + count[b])
    first = [0] * (2 * n - 1)
    for k in range(n - 2, -1, -1):  # from the root down
        a, b = pairs[k]
        first[a] = first[n + k]
        first[b] = first[n + k] + count[a]
    start = np.array(first)
    order = np.empty(n, np.int64)
    order[start[:n]] = np.arange(n)
    return order, start[n:], start[n:] + np.array(count[n:])
