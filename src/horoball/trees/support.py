"""From a source of distances to its tree and the support of its branches, by replicates of the data.

`Steps` makes the tree of a source, and the trees of its replicates and of flat tables by the very same steps. What
replicates tell is used twice: `Branches` counts how often each branch of the tree comes back in them, and with the
method "consensus" the tree itself is made of what they agree on.

Note [Support]: the support of a branch B is the share of replicates whose tree has a branch C that overlaps it,

    |B ∩ C| / |B ∪ C| ≥ 4/5.

A branch of two or three rows has to come back exactly; of a larger one a few rows may move. That all rows come back
(Felsenstein, 1985) is too much to ask of a group of forty: it is lost as soon as one of them moves. Where a replicate
has some of the rows only, it is the part of B among them that has to come back. Micro-clusters count by their rows.

Note [Consensus]: a linkage decides at every merge, and a decision that noise has turned stays. Replicates decide each
for themselves, so the mean over them of the heights at which two rows meet is a steadier distance than that of the
rows. The tree is average linkage of that mean together with the rows' own distances, which tell apart the rows that all
replicates join at once. Heights are logarithms, log(1 + 20 d/median d): between vectors of many dimensions all but the
nearest are about equally far apart, and what tells groups apart are the small distances. (The logarithm of any
distance is close to that of a tree: it is hyperbolic in the sense of Gromov.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from horoball.process import workers_within
from horoball.trees.chance import FLAT_ROWS, KINDS, Chance, FlatTables, Judged
from horoball.trees.linkage import Joined, Method, Root, average_linkage, join, root_radius
from horoball.trees.microclusters import MicroClusters
from horoball.trees.source import Draw, Leaves, Source, distance_matrix
from horoball.trees.split import Split, main_split
from horoball.trees.tree import Tree

CONSENSUS = "consensus"  # a method besides those that single distances are joined by; see `consensus`
FLAT_TABLES = 19  # of each kind: the least p-value is 1/20
Replicate = tuple[np.ndarray, np.ndarray | None]  # merges of a replicate's tree, and its leaves; None for all leaves

# Support
_SHARED, _ALL = 4, 5  # the overlap that counts, as a fraction
_EXACT = 4  # leaves of a branch, below which only the same branch overlaps it enough
_ELEMENTS = 200_000  # leaves of branches to compare at a time: what a cache holds

# Consensus
_SCALE = 20.0  # medians of the distances to one unit inside the logarithm
_ROWS = 1024  # of a matrix at a time
_SAMPLE = 1000  # rows whose distances give the median

# Replicates
_FLAT_DRAWS = 20  # of a flat table: a level of many branches needs fewer than the support of one
_MANY_GROUPS = 50  # groups whose centers say how columns are correlated
_FLAT_OF = 10_000  # rows of micro-clusters that flat tables are like
_FLAT_EACH = 8  # rows of a flat table to a micro-cluster, at most: more change little
_SHARE = 0.7  # of the rows, in replicates of few columns
_PARALLEL = 2_000  # leaves from which on a replicate is worth a thread
_BUDGET = 4 << 30  # bytes of all replicates at the same time, however many cores there are
_MATRICES = 21  # bytes for each pair of leaves that a replicate takes: 2.6 matrices in float64


class Branches:
    """The branches of a tree, to look for in trees of replicates; the root is none."""

    def __init__(self, merges: np.ndarray, weight: np.ndarray | None = None) -> None:
        order, first, last = leaf_spans(merges)
        self.leaves = len(order)
        self.weight = weight
        self.first, self.last = first[:-1], last[:-1]
        self.place = np.empty(self.leaves, np.int64)
        self.place[order] = np.arange(self.leaves)
        ranges = self.first * (self.leaves + 1) + self.last  # a number for each
        self._sorted = ranges.argsort()
        self._ranges = ranges[self._sorted]
        self.size = self.last - self.first  # in leaves, or their mean number of rows
        if weight is not None:
            until = np.concatenate([[0], np.cumsum(weight[order])])
            self.size = (until[self.last] - until[self.first]) * (self.leaves / until[-1])

    def support(self, replicates: Iterable[Replicate]) -> np.ndarray:
        """The support of each branch; see Note [Support]."""
        found, asked = np.zeros(len(self.first)), np.zeros(len(self.first))
        for merges, leaves in replicates:
            back, part = self._in(merges, leaves)
            found += back
            asked += part
        if len(asked) and not asked.any():
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
        found = (low * (self.leaves + 1) + high)[exact]
        at = np.minimum(np.searchsorted(self._ranges, found), len(self._ranges) - 1)
        same = np.zeros(len(self.first), bool)
        same[self._sorted[at[self._ranges[at] == found]]] = True
        if leaves is None:
            back, part = same, np.ones_like(same)
        few = 2 if self.weight is not None or leaves is not None else _EXACT
        left = (
            np.arange(len(self.first))
            if leaves is not None
            else np.flatnonzero(~same & (self.last - self.first >= few))
        )
        most = last - first >= few
        rows = np.ones(len(order), np.int64)
        if self.weight is not None:
            rows = self.weight[order if leaves is None else leaves[order]]
        until = np.concatenate([[0], np.cumsum(rows)])
        held = (until[last] - until[first])[most]
        kind = np.int32 if (_ALL + _SHARED) * until[-1] < np.iinfo(np.int32).max else np.int64
        rows = rows.astype(kind)
        for at in range(0, len(left), block):
            nodes = left[at : at + block]
            inside = (place >= self.first[nodes, None]) & (place < self.last[nodes, None])
            along = np.zeros((len(nodes), len(order) + 1), kind)
            np.cumsum(inside * rows, axis=1, out=along[:, 1:])
            shared = along[:, last[most]] - along[:, first[most]]
            enough = (_ALL + _SHARED) * shared >= _SHARED * (along[:, -1:] + held)
            part[nodes] = inside.sum(1) >= 2
            back[nodes] = enough.any(1) & part[nodes]
        return back, part


def leaf_spans(merges: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The leaves in an order in which every branch is a range; the first and past-the-end place of each inner node."""
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


def log_distances(d: np.ndarray) -> np.ndarray:
    """log(1 + 20 d/median d), float32; see Note [Consensus]."""
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


@dataclass(frozen=True)
class Steps:
    """How leaves are joined."""

    leaves: Leaves
    method: str
    root: Root
    jobs: int | None = None

    def tree(
        self, source: Source, draws: int, rng: np.random.Generator, told: Callable[[int], None] | None = None
    ) -> tuple[Joined, Judged | None]:
        """The tree of a source, and its branches with their support; None without draws."""
        again = self._replicates(source, draws, rng)
        if told is not None:
            again = _counted(again, told)
        leaves = self.leaves
        d = distance_matrix(source.weighted(leaves.rows), source.c, source.within(leaves.rows))
        if self.method == CONSENSUS:
            kept = list(again)  # merges and heights are small; distances are not kept
            d, _ = leaves.averaged(d, np.zeros(len(leaves.rows)))
            joined, again = consensus(d, (one for one, _ in kept), self._weight), iter(kept)
        else:
            joined = self.of_distances(d, source.weighted(leaves.rows), source.c)
        del d  # each replicate has its own
        if not draws:
            return joined, None
        found: Iterable[Replicate] = ((one.merges, places) for one, places in again)
        branches = Branches(joined.merges, leaves.weight)
        return joined, Judged(branches.size, branches.support(found), joined.length)

    def chance(
        self, source: Source, draws: int, rng: np.random.Generator, told: Callable[[int], None] | None = None
    ) -> Chance:
        """Trees of flat tables like a source, by the same steps with at most so many draws; see Note [Chance].

        Of micro-clusters, it is the source of their rows that is given.
        """
        leaves = self.leaves
        used = leaves.rows
        if leaves.weight is not None:
            used = np.sort(rng.permutation(len(source.points))[:_FLAT_OF])
        if leaves.grouped:  # groups keep their rows; it is the groups' centers that are flat
            centers = _centers(source.points[used], leaves.leaf[used], len(leaves.names))
            within, count, steps = source.points[used] - centers[leaves.leaf[used]], len(centers), self
        else:
            centers, within, count = source.points[used], None, min(len(leaves.names), FLAT_ROWS)
            root = self.root if isinstance(self.root, str) or len(used) == count else np.array([0])
            steps = replace(self, leaves=Leaves.of_rows(count), root=root, jobs=1)
        correlated = not leaves.grouped or count >= _MANY_GROUPS
        flat, done = FlatTables(centers, rng, correlated=correlated), 0
        rows = count if leaves.weight is None else round(count * min(_FLAT_EACH, leaves.weight.mean()))
        tables: dict[str, list[Judged]] = {kind: [] for kind in KINDS}
        shares: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for kind in KINDS:
            for _ in range(FLAT_TABLES):
                points = flat.draw(kind, rows, rng)
                if within is not None:
                    points = points[leaves.leaf[used]] + within
                noise = _noise_of_others(source, rng.choice(used, len(points), replace=len(points) > len(used)))
                made = replace(source, points=points, noise=noise)
                if rows > count:
                    found = MicroClusters.of(made, count, rng)
                    made, those = found.source, Leaves.of_rows(len(found.size), weight=found.size)
                else:
                    those = steps.leaves
                    those = replace(those, rows=np.arange(len(points)), leaf=those.leaf[those.rows])
                drawn = replace(steps, leaves=those)
                joined, judged = drawn.tree(made, min(draws, _FLAT_DRAWS), rng)
                tables[kind].append(cast(Judged, judged))
                if not leaves.grouped:
                    shares[kind].append(drawn.split(joined, made).share)
                done += 1
                if told is not None:
                    told(done)
        return Chance(count, tables, 2) if leaves.grouped else Chance(count, tables, shares=shares)

    def centers(self, source: Source) -> np.ndarray:
        """The leaves as distances between them are taken: the means of their rows."""
        rows = self.leaves.rows
        if not self.leaves.grouped:
            return np.nan_to_num(source.weighted(rows))
        return np.nan_to_num(_centers(source.weighted(rows), self.leaves.leaf[rows], len(self.leaves.names)))

    def split(self, joined: Joined, source: Source) -> Split:
        """The main split of a source's tree."""
        within = source.within(self.leaves.rows)
        return main_split(joined.merges, self.centers(source), self.leaves.weight, within)

    def of_distances(self, d: np.ndarray, points: np.ndarray | None = None, c: float | None = None) -> Joined:
        """The tree of a matrix of distances between the rows used."""
        leaves = self.leaves
        seen = self.method == "gromov"  # the others do not ask where a root is
        radius = root_radius(d, points, c, self.root) if seen else np.zeros(len(d))
        between, radius = leaves.averaged(d, radius)
        if seen and isinstance(self.root, np.ndarray):
            group = leaves.leaf[leaves.rows]
            if len(self.root) == int((group == group[self.root[0]]).sum()):
                # A group that is the root lies at the root, however wide it is: all others join before one joins it.
                radius[group[self.root[0]]] = 0.0
        if self.method == CONSENSUS:
            return Joined(*average_linkage(log_distances(between), self._weight), None)
        return join(between, cast(Method, self.method), radius=radius, weight=self._weight)

    @property
    def _weight(self) -> np.ndarray | None:
        size = self.leaves.size
        return None if self.leaves.grouped or (size == 1).all() else size

    def _replicates(
        self, source: Source, draws: int, rng: np.random.Generator
    ) -> Iterator[tuple[Joined, np.ndarray | None]]:
        """Trees of the replicates, a few at a time: each holds a matrix of distances.

        Threads will do: nearly all of the time is spent in NumPy and torch, which let other threads run.
        """
        leaves = len(self.leaves.names)
        jobs = 1 if leaves < _PARALLEL else workers_within(_BUDGET, _MATRICES * leaves**2, most=self.jobs)
        some = source.few_columns and not self.leaves.grouped and isinstance(self.root, str)
        some = some and self.method != CONSENSUS  # which is made of all leaves
        drawn = self._drawn(source, draws, rng, some)
        if jobs == 1:  # of small trees the hand-over to a thread would take as long as a part of the work
            yield from (self._replicate(*one) for one in drawn)
            return
        waiting: deque[Future[tuple[Joined, np.ndarray | None]]] = deque()
        with ThreadPoolExecutor(jobs) as pool:
            for one in drawn:
                waiting.append(pool.submit(self._replicate, *one))
                if len(waiting) >= jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _drawn(
        self, source: Source, draws: int, rng: np.random.Generator, some: bool
    ) -> Iterator[tuple[np.ndarray, float | None, np.ndarray | None, np.ndarray | None]]:
        """What each replicate is made of: its points, their curvature, the variances within, and some of the leaves."""
        for _ in range(draws):
            (points, within), places = source.replicate(rng, self.leaves.rows), None
            if self.leaves.grouped:
                points = points[self.leaves.again(rng)]
            elif some:
                places = np.sort(rng.choice(len(points), max(3, round(_SHARE * len(points))), replace=False))
            yield points, source.c, within, places

    def _replicate(
        self, points: np.ndarray, c: float | None, within: np.ndarray | None, places: np.ndarray | None
    ) -> tuple[Joined, np.ndarray | None]:
        if places is None:
            return self.of_distances(distance_matrix(points, c, within), points, c), None
        names, weight = tuple(self.leaves.names[at] for at in places), self.leaves.weight
        part = Leaves.of_rows(len(places), names, None if weight is None else weight[places])
        points, within = points[places], None if within is None else within[places]
        return replace(self, leaves=part).of_distances(distance_matrix(points, c, within), points, c), places


def _centers(points: np.ndarray, leaf: np.ndarray, leaves: int) -> np.ndarray:
    """Means of the leaves' rows, over the values that are there."""
    known = ~np.isnan(points)
    total, count = np.zeros((leaves, points.shape[1])), np.zeros((leaves, points.shape[1]))
    np.add.at(total, leaf, np.where(known, points, 0.0))
    np.add.at(count, leaf, known)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _noise_of_others(source: Source, rows: np.ndarray) -> Draw | None:
    """The noise of rows of the data for rows of a flat table, which has no posterior of its own."""
    noise = source.noise
    return None if noise is None else lambda rng, places: noise(rng, rows[places])


def _counted(
    replicates: Iterator[tuple[Joined, np.ndarray | None]], told: Callable[[int], None]
) -> Iterator[tuple[Joined, np.ndarray | None]]:
    for done, one in enumerate(replicates, 1):
        yield one
        told(done)
