"""Do the rows fall into groups with gaps between them? Single linkage, beside clouds of the same spectrum.

Note [Gap]: where single linkage joins two groups, the gap between them is compared with the edges inside of both: the
strength is log(gap/q90)/log(q90/q50), with quantiles of the inner edges. Edges grow as a power 1/d of an exponential
variable, where d is the dimension that the rows fill locally, so that the ratio of two logarithms does not depend on
d: a curve, a sheet and a cloud without gaps all have a strength of about 1 or less. Groups have at least ten rows: a
few outliers that lie together are no group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

__all__ = ["SMALLEST", "Gaps", "gaps", "scales", "spanning_tree", "strengths"]

SMALLEST = 10  # rows of a group at least: quantiles of fewer edges vary too much
MARK = 1.3  # strength that curves, sheets and clouds without gaps rarely reach


@dataclass(frozen=True)
class Gaps:
    """The groups of rows that gaps keep apart, and the evidence for the widest gap.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = np.concatenate((rng.normal(size=(50, 3)), rng.normal(20, 1, size=(50, 3))))
        >>> found = gaps(x, cdist(x, x))
        >>> found.count, np.bincount(found.labels)
        (2, array([50, 50]))
    """

    count: int  # groups of at least ten rows; 1 if there is no gap
    strength: float  # of the widest gap, see Note [Gap]
    needed: float  # what a gap has to exceed: the mark, and the widest gap of every cloud
    p: float  # share of clouds with such a gap; NaN where the mark was not reached, so that no cloud was drawn
    labels: np.ndarray = field(repr=False)  # the group of each row; −1 for rows outside of groups


def gaps(x: np.ndarray, distances: np.ndarray, *, draws: int = 19, seed: int = 0) -> Gaps:
    """Find the gaps that are wider than in each of several normal clouds of the same size and spectrum.

    Args:
        x: Rows, shape (n, d), for their spectrum.
        distances: Between the rows, shape (n, n).
        draws: Number of clouds; 19 make an error rate of 1/20.
        seed: Seed of the clouds.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(100, 3))
        >>> gaps(x, cdist(x, x)).count
        1
    """
    edges, found = strengths(distances)
    widest, needed, p = max(found.values(), default=0.0), MARK, math.nan
    if widest > MARK:
        spread, rng = scales(x), np.random.default_rng((seed, 0))
        clouds = [_widest(rng.standard_normal((len(x), len(spread))) * spread) for _ in range(draws)]
        needed = max(MARK, *clouds)
        p = (1 + sum(cloud >= widest for cloud in clouds)) / (1 + draws)
    kept = [number for number in range(len(edges)) if not found.get(number, 0.0) > needed]
    i, j = edges[kept, :2].astype(int).T
    part = connected_components(coo_matrix((np.ones(len(i)), (i, j)), (len(x), len(x))), directed=False)[1]
    sizes = np.bincount(part)
    number = np.where(sizes >= SMALLEST, np.cumsum(sizes >= SMALLEST) - 1, -1)
    return Gaps(max(1, int(number.max()) + 1), widest, needed, p, number[part])


def _widest(x: np.ndarray) -> float:
    return max(strengths(cdist(x, x))[1].values(), default=0.0)


def strengths(distances: np.ndarray) -> tuple[np.ndarray, dict[int, float]]:
    """Edges of single linkage from short to long, and the strength of those that join two groups, by their number.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(30, 1))
        >>> x[15:] += 100
        >>> edges, found = strengths(cdist(x, x))
        >>> found[28] > 3  # the last and longest of 29
        True
    """
    edges = spanning_tree(distances)
    n = len(distances)
    root, rows, inner = list(range(n)), [1] * n, [np.empty(0)] * n
    found = {}
    for number, (i, j, length) in enumerate(edges):
        a, b = _root(root, int(i)), _root(root, int(j))
        if min(rows[a], rows[b]) >= SMALLEST:
            found[number] = _strength(length, inner[a], inner[b])
        root[b], rows[a] = a, rows[a] + rows[b]
        # Equal rows have edges of length 0, which say nothing about how dense their group is.
        inner[a] = np.concatenate((inner[a], inner[b], [length] if length > 0 else []))
    return edges, found


def _strength(gap: float, first: np.ndarray, second: np.ndarray) -> float:
    if min(len(first), len(second)) < SMALLEST // 2:
        return 0.0  # copies of few rows: there is no inner edge to compare with
    (middle_a, high_a), (middle_b, high_b) = (np.quantile(edges, (0.5, 0.9)) for edges in (first, second))
    spread = float(np.quantile(np.concatenate((first / middle_a, second / middle_b)), 0.9))
    excess = math.log(gap / max(high_a, high_b))
    # Edges of a lattice are all alike: any excess is then a gap, and none is none.
    return excess / max(math.log(spread), 1e-3) if excess > 0 else 0.0


def _root(root: list[int], i: int) -> int:
    while root[i] != i:
        root[i] = root[root[i]]
        i = root[i]
    return i


def spanning_tree(distances: np.ndarray) -> np.ndarray:
    """The minimum spanning tree by Prim's algorithm: rows (i, j, length), from short to long.

    Example:
        >>> x = np.array([[0.0], [1.0], [5.0]])
        >>> spanning_tree(cdist(x, x))
        array([[0., 1., 1.],
               [1., 2., 4.]])
    """
    n = len(distances)
    nearest, source = distances[0].astype(np.float64), np.zeros(n, np.int64)
    outside = np.ones(n, bool)
    outside[0], nearest[0] = False, np.inf
    edges = np.empty((n - 1, 3))
    for step in range(n - 1):
        j = int(nearest.argmin())
        edges[step] = source[j], j, nearest[j]
        outside[j], nearest[j] = False, np.inf
        closer = (distances[j] < nearest) & outside
        nearest[closer], source[closer] = distances[j][closer], j
    return edges[np.argsort(edges[:, 2], kind="stable")]


def scales(x: np.ndarray) -> np.ndarray:
    """Standard deviations along the principal axes. Distances of a normal cloud depend on nothing else.

    Example:
        >>> scales(np.array([[0.0, 1.0], [0.0, -1.0]]))
        array([1.])
    """
    singular = np.linalg.svd(x - x.mean(0), compute_uv=False)
    if not singular[0] > 0:
        raise ValueError("All points are the same: there is no shape to judge. Give points that differ.")
    return np.asarray(singular[singular > 1e-9 * singular[0]] / math.sqrt(len(x)))
