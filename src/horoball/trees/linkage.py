"""From distances to a tree: average linkage of distances, or of the depths at which rows part.

Note [Gromov]: seen from a root, the ways to rows i and j part at the depth (i|j) = (r_i + r_j − d_ij)/2, Gromov's
product, where r are distances from the root. On a tree that is exact, and u = max r − (i|j) is then an ultrametric
(Farris transform) of which any linkage finds the tree. Rows may lie at inner nodes and at different depths, which a
dendrogram of distances cannot show. Single linkage on u is Gromov's approximating tree, and chains under noise; average
linkage does not.

Note [Chain]: average linkage is reducible, so two clusters that are each other's nearest can be merged at once, in any
order, and the dendrogram is the same. A chain of nearest neighbors ends at such a pair; after the merge it goes on from
where it was. That takes O(n²) time for n rows; distances are held once, in float32.

Which distances, and how to join them: chosen by what they predict of columns they have not seen.

Note [Evidence]: a candidate is a weighting of the columns and a way of joining. Its tree is built from a random half
of the columns, and judged by the correlation of its path lengths with the rows' distances in the other half, which it
has not seen. Structure that is in the data is in both halves; what a tree makes of noise is not. A tree whose rows may
lie at inner nodes ("gromov") and one whose rows are all at the tips ("average") are judged alike, since each has a
path length between any two rows. A candidate is chosen only if it is better than the simpler ones, over the same
halves, by more than the standard error of the difference.

Where a tree is seen from: the root point, and how far each row is from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import pdist, squareform

from horoball.geometry.ball import PoincareBall
from horoball.trees.source import Leaves, distance_matrix

Method = Literal["gromov", "average"]
METHODS: tuple[Method, ...] = get_args(Method)

_SMALL = 64  # below it, copying what is left costs more than it saves
_COMPILED = 2_000  # leaves up to which scipy's chain, which has no weights, is two to four times as fast


@dataclass(frozen=True)
class Joined:
    """Merges of a linkage, and the depths of the leaves where they have one."""

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
    """Distance of each row from the center of all, r_i² = mean_j d_ij² − ½ mean d², which is exact in flat space."""
    square = np.einsum("ij,ij->i", d, d, dtype=np.float64) / len(d)
    return np.sqrt(np.maximum(square - square.mean() / 2, 0.0))


def average_linkage(d: np.ndarray, weight: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Merges and heights of average linkage, O(n²) by Note [Chain]. Overwrites d.

    Args:
        d: Dissimilarities, float32, shape (n, n), symmetric; may be negative.
        weight: How much each row counts in averages; 1 if not given.
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
    """Lengths of the ways between rows in the tree, in scipy's condensed order."""
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


_ROWS = 800  # drawn for the comparison: its standard error is that of the splits, not of the rows
_SPLITS = 6
_SIMPLEST: Method = "average"


@dataclass(frozen=True)
class Candidate:
    """A way to make the tree, and how well it predicted distances in columns it was not built from."""

    source: str
    method: Method
    correlation: float  # mean over random halves of the columns
    error: float  # standard error of the mean

    def __str__(self) -> str:
        return f"{self.source}, {self.method}: {self.correlation:.3f} ± {self.error:.3f}"


def candidates(
    x: np.ndarray, weights: dict[str, np.ndarray], *, owners: np.ndarray | None = None, seed: int = 0
) -> tuple[Candidate, ...]:
    """All weightings with all ways of joining: first the one to choose, then the best; see Note [Evidence].

    Args:
        x: Rows, shape (n, columns), with at least four columns.
        weights: Weights of the columns, by the name of the source, the simplest first.
        owners: Where a column is several numbers, the column that each of x belongs to, from 0 on.
        seed: Seed of the rows and of the halves.

    Example:
        >>> from horoball.datasets import branching_diffusion
        >>> x = branching_diffusion(depth=4).x.double().numpy()
        >>> candidates(x, {"columns": np.ones(x.shape[1])})[0].method
        'gromov'
    """
    rng = np.random.default_rng(seed)
    x = x[np.sort(rng.permutation(len(x))[:_ROWS])]
    owners = np.arange(x.shape[1]) if owners is None else owners
    numbers = np.split(np.argsort(owners, kind="stable"), np.cumsum(np.bincount(owners))[:-1])  # of each column
    scores: dict[tuple[str, Method], list[float]] = {(name, method): [] for name in weights for method in METHODS}
    for _ in range(_SPLITS):
        shuffled = rng.permutation(len(numbers))
        half, other = (np.concatenate([numbers[column] for column in shuffled[side::2]]) for side in (0, 1))
        unseen = _distances(x[:, other])
        for name, weight in weights.items():
            d = squareform(_distances(x[:, half] * weight[half]))
            for method in METHODS:
                seen = path_lengths(join(d, method), len(x))
                scores[name, method].append(_correlation(seen, unseen))
    made = {key: Candidate(*key, float(np.mean(of)), _error(np.array(of))) for key, of in scores.items()}
    order = sorted(made, key=lambda key: -made[key].correlation)
    chosen = order[0]
    # First the way of joining with the same columns, then the columns: either has to be worth it by itself.
    for simpler in ((chosen[0], _SIMPLEST), (next(iter(weights)), _SIMPLEST)):
        gain = np.array(scores[chosen]) - np.array(scores[simpler])
        chosen = chosen if gain.mean() > _error(gain) else simpler
    return (made[chosen], *(made[key] for key in order if key != chosen))


def rows_lie_along(evidence: Sequence[Candidate]) -> bool:
    """Whether rows at inner nodes predict unseen columns better than rows at the tips, by twice the standard error.

    Example:
        >>> rows_lie_along([Candidate("columns", "gromov", 0.7, 0.01), Candidate("columns", "average", 0.6, 0.01)])
        True
    """
    best = {one.method: one for one in sorted(evidence, key=lambda one: one.correlation)}
    if set(best) != set(METHODS):
        return False
    tips, along = best["average"], best["gromov"]
    return along.correlation - tips.correlation > 2 * float(np.hypot(tips.error, along.error))


def _error(values: np.ndarray) -> float:
    """Standard error of a mean."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def _distances(x: np.ndarray) -> np.ndarray:
    """Distances between rows, over the columns that both have, in scipy's condensed order."""
    return squareform(distance_matrix(x), checks=False) if np.isnan(x).any() else pdist(x)


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else 0.0


Root = str | np.ndarray  # "center", "midpoint", or places of rows among those used


def find_root(root: str | int, leaves: Leaves) -> Root:
    """The rows that are the root, or the name of a rule.

    Args:
        root: "center", "midpoint", the number of a row, or the name of a leaf.
        leaves: The leaves.
    """
    if isinstance(root, str) and root in ("center", "midpoint"):
        return root
    if isinstance(root, str):
        leaf = leaves.names.index(root) if root in leaves.names else -1
        places = np.flatnonzero(leaves.leaf[leaves.rows] == leaf)
    else:
        places = np.flatnonzero(leaves.rows == root)
    if not len(places):
        known = ", ".join(leaves.names[:10]) + " …" * (len(leaves.names) > 10)
        raise ValueError(f"There is no leaf {root!r} to be the root. Leaves: {known}.")
    return places


def root_radius(d: np.ndarray, points: np.ndarray | None, c: float | None, root: Root) -> np.ndarray:
    """Distance of each row from the root.

    Args:
        d: Distances between the rows.
        points: The rows; None where only distances are known.
        c: Minus the curvature of the space of points: its center is the origin. None for columns.
        root: What `find_root` has found.
    """
    if isinstance(root, np.ndarray):
        return d[:, root].mean(1, dtype=np.float64)
    if root == "midpoint":
        # On a tree, the distance from the middle of the longest way is that to its farther end, less half of it.
        i, j = np.unravel_index(int(d.argmax()), d.shape)
        return np.maximum(d[:, i], d[:, j]).astype(np.float64) - float(d[i, j]) / 2
    if c is None or points is None:
        return center_radius(d)
    z = torch.from_numpy(np.ascontiguousarray(points, np.float64))
    return PoincareBall(c).dist(z, torch.zeros_like(z[:1])).numpy()
