"""From distances to a tree: average linkage of distances, or of the depths at which rows part.

Note [Gromov]: seen from a root, the ways to rows i and j part at the depth (i|j) = (r_i + r_j − d_ij)/2, Gromov's
product, where r are distances from the root. On a tree that is exact, and u = max r − (i|j) is then an ultrametric
(Farris transform) of which any linkage finds the tree. Rows may lie at inner nodes and at different depths, which a
dendrogram of distances cannot show. Single linkage on u is Gromov's approximating tree, and chains under noise; average
linkage does not.

Note [Chain]: average linkage is reducible, so two clusters that are each other's nearest can be merged at once, in any
order, and the dendrogram is the same. A chain of nearest neighbors ends at such a pair; after the merge it goes on from
where it was. That takes O(n²) time for n rows; distances are held once, in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import squareform

__all__ = ["METHODS", "Joined", "Method", "average_linkage", "center_radius", "join", "path_lengths"]

Method = Literal["gromov", "average"]
METHODS: tuple[Method, ...] = get_args(Method)

_SMALL = 64  # below it, copying what is left costs more than it saves
_COMPILED = 2_000  # leaves up to which scipy's chain, which has no weights, is two to four times as fast


@dataclass(frozen=True)
class Joined:
    """Merges of a linkage, and the depths of the leaves where they have one.

    Example:
        >>> Joined(np.array([[0, 1]]), np.array([1.0]), None).radius is None
        True
    """

    merges: np.ndarray  # (n − 1, 2), as scipy numbers them
    height: np.ndarray  # (n − 1,), non-decreasing
    radius: np.ndarray | None  # (n,) for "gromov"

    @property
    def length(self) -> np.ndarray:
        """How long the branch above each merge but the last is, as a share of the height that it leads to."""
        n = len(self.merges) + 1
        above = np.empty(2 * n - 2, np.int64)
        above[self.merges] = np.arange(n - 1)[:, None]
        low, high = self.height[:-1], self.height[above[n:]]
        return np.clip(1 - low / np.where(high > 0, high, 1.0), 0.0, 1.0)


def join(
    d: np.ndarray, method: Method, *, radius: np.ndarray | None = None, weight: np.ndarray | None = None
) -> Joined:
    """The tree of a matrix of distances.

    Args:
        d: Distances, shape (n, n), symmetric.
        method: "average": average linkage of the distances, rows are the tips. "gromov": average linkage of the depths
            at which rows part, see Note [Gromov].
        radius: Distances from the root, for "gromov"; from the rows' center if not given.
        weight: Number of rows that each leaf stands for; one if not given.

    Example:
        >>> x = np.array([0.0, 1.0, 5.0])
        >>> join(abs(x - x[:, None]), "average").merges.tolist()
        [[0, 1], [2, 3]]
    """
    if method == "average":
        return Joined(*average_linkage(d.astype(np.float32), weight), None)
    if method != "gromov":
        raise ValueError(f"Expected a method of {', '.join(METHODS)}, got {method!r}.")
    r = center_radius(d) if radius is None else np.asarray(radius, np.float64)
    u = (r.max() - 0.5 * r[:, None] + 0.5 * (d - r)).astype(np.float32)
    merges, height = average_linkage(u, weight)
    return Joined(merges, height, r)


def center_radius(d: np.ndarray) -> np.ndarray:
    """Distance of each row from the center of all, r_i² = mean_j d_ij² − ½ mean d², which is exact in flat space.

    Example:
        >>> center_radius(np.array([[0.0, 2.0], [2.0, 0.0]]))
        array([1., 1.])
    """
    square = np.einsum("ij,ij->i", d, d, dtype=np.float64) / len(d)
    return np.sqrt(np.maximum(square - square.mean() / 2, 0.0))


def average_linkage(d: np.ndarray, weight: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Merges and heights of average linkage, O(n²) by Note [Chain]. Overwrites d.

    Args:
        d: Dissimilarities, float32, shape (n, n), symmetric; may be negative.
        weight: How much each row counts in averages; 1 if not given.

    Example:
        >>> x = np.array([0.0, 1.0, 5.0], np.float32)
        >>> merges, height = average_linkage(abs(x - x[:, None]))
        >>> merges.tolist(), height.tolist()
        ([[0, 1], [2, 3]], [1.0, 4.5])
    """
    n = len(d)
    if weight is None and n <= _COMPILED:
        made = linkage(squareform(d, checks=False), "average")
        return made[:, :2].astype(np.int64), made[:, 2]
    w = np.ones(n) if weight is None else np.array(weight, np.float64)
    np.fill_diagonal(d, np.inf)
    name, alive, gone, room = np.arange(n), np.ones(n, bool), np.zeros(n, np.float32), np.empty(n, np.float32)
    pairs, height = np.empty((n - 1, 2), np.int64), np.empty(n - 1)
    chain: list[int] = []
    left, start = n, 0
    for step in range(n - 1):
        if not chain:
            start += int(alive[start:].argmax())
            chain = [start]
        while True:
            i = chain[-1]
            j = int(np.add(d[i], gone, out=room).argmin())
            if len(chain) > 1 and d[i, chain[-2]] <= d[i, j]:
                j = chain[-2]
                break  # each other's nearest
            chain.append(j)
        del chain[-2:]
        pairs[step], height[step] = (name[i], name[j]), d[i, j]
        share = w[i] / (w[i] + w[j])
        merged = d[j]
        merged *= 1 - share
        merged += share * d[i]
        merged[j] = np.inf
        d[:, j] = merged
        w[j], alive[i], gone[i], left = w[i] + w[j], False, np.inf, left - 1
        if left > _SMALL and 3 * left < 2 * len(d):  # a smaller matrix is faster to walk
            keep = np.flatnonzero(alive)
            place = np.cumsum(alive) - 1
            chain, start = [int(place[at]) for at in chain], 0
            d, w, name = d[np.ix_(keep, keep)], w[keep], name[keep]
            alive, gone, room = alive[keep], gone[keep], room[keep]
    return _numbered(pairs, height)


def _numbered(pairs: np.ndarray, height: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Merges of leaves that stand for their clusters, in the order of height, as merges of nodes."""
    n = len(pairs) + 1
    order = np.argsort(height, kind="stable")
    above, merges = np.arange(2 * n - 1), np.empty((n - 1, 2), np.int64)
    for k, pair in enumerate(pairs[order].tolist()):
        for side, node in enumerate(pair):
            while above[node] != node:
                above[node] = above[above[node]]  # shortens the way for those that come after
                node = above[node]
            merges[k, side] = node
        above[merges[k]] = n + k
    return np.sort(merges, axis=1), height[order]


def path_lengths(joined: Joined, n: int) -> np.ndarray:
    """Lengths of the ways between rows in the tree, in scipy's condensed order.

    Example:
        >>> x = np.array([0.0, 1.0, 5.0])
        >>> path_lengths(join(abs(x - x[:, None]), "average"), 3)
        array([1. , 4.5, 4.5])
    """
    lift = max(0.0, -float(joined.height.min()))  # cophenet expects heights of 0 and more
    count = np.ones(2 * n - 1)
    for k, pair in enumerate(joined.merges):
        count[n + k] = count[pair].sum()
    height = cophenet(np.column_stack([joined.merges, joined.height + lift, count[n:]])) - lift
    if joined.radius is None:
        return height
    i, j = np.triu_indices(n, 1)
    r = joined.radius
    return r[i] + r[j] - 2 * (r.max() - height)
