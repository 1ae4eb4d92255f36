"""From a source to its tree and the support of its branches: the same steps for the rows and for flat tables."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from horoball.hierarchy.trees.chance import FLAT_ROWS, Chance, Judged
from horoball.hierarchy.trees.consensus import consensus, log_distances
from horoball.hierarchy.trees.flat_tables import KINDS, FlatTables
from horoball.hierarchy.trees.leaves import Leaves
from horoball.hierarchy.trees.linkage import Joined, Method, average_linkage, join
from horoball.hierarchy.trees.roots import Root, root_radius
from horoball.hierarchy.trees.source import Draw, Source, distance_matrix
from horoball.hierarchy.trees.support import Branches, Replicate
from horoball.runtime.cores import workers_within

__all__ = ["CONSENSUS", "FLAT_TABLES", "Steps"]

CONSENSUS = "consensus"  # a method besides those that single distances are joined by; see `consensus`
FLAT_TABLES = 19  # of each kind: the least p-value is 1/20

_FLAT_DRAWS = 20  # replicates of a flat table: a level of many branches needs fewer than the support of one
_MANY_GROUPS = 50  # groups whose centers say how columns are correlated
_SHARE = 0.7  # of the rows, in replicates of few columns
_PARALLEL = 2_000  # leaves from which on a replicate is worth a thread
_BUDGET = 4 << 30  # bytes of all replicates at the same time, however many cores there are
_MATRICES = 21  # bytes for each pair of leaves that a replicate takes: 2.6 matrices in float64

Told = Callable[[int, int], None]


@dataclass(frozen=True)
class Steps:
    """How leaves are joined.

    Example:
        >>> steps = Steps(Leaves.of_rows(4), "average", "center")
        >>> source = Source("columns", np.array([[0.0, 0.1], [0.2, 0.0], [5.0, 5.2], [5.1, 5.0]]))
        >>> joined, judged = steps.tree(source, 20, np.random.default_rng(0))
        >>> joined.merges[-1].tolist(), judged.size.tolist()
        ([4, 5], [2, 2])
    """

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
        d = distance_matrix(source.weighted(leaves.rows), source.c)
        if self.method == CONSENSUS:
            kept = list(again)  # merges and heights are small; distances are not kept
            d, _ = leaves.averaged(d, np.zeros(len(leaves.rows)))
            joined, again = consensus(d, (one for one, _ in kept), self._weight), iter(kept)
        else:
            joined = self.of_distances(d, source.weighted(leaves.rows), source.c)
        if not draws:
            return joined, None
        found: Iterable[Replicate] = ((one.merges, places) for one, places in again)
        branches = Branches(joined.merges)
        return joined, Judged(branches.size, branches.support(found), joined.length)

    def chance(
        self, source: Source, draws: int, rng: np.random.Generator, told: Callable[[int], None] | None = None
    ) -> Chance:
        """Trees of flat tables like a source, by the same steps with at most so many draws; see Note [Chance]."""
        leaves = self.leaves
        used = leaves.rows
        if leaves.grouped:  # groups keep their rows; it is the groups' centers that are flat
            centers = _centers(source.points[used], leaves.leaf[used], len(leaves.names))
            within, count, steps = source.points[used] - centers[leaves.leaf[used]], len(centers), self
        else:
            centers, within, count = source.points[used], None, min(len(used), FLAT_ROWS)
            root = self.root if isinstance(self.root, str) or len(used) == count else np.array([0])
            steps = replace(self, leaves=Leaves.of_rows(count), root=root, jobs=1)
        correlated = not leaves.grouped or count >= _MANY_GROUPS
        flat, done = FlatTables(centers, rng, correlated=correlated), 0
        tables: dict[str, list[Judged]] = {kind: [] for kind in KINDS}
        for kind in KINDS:
            for _ in range(FLAT_TABLES):
                points = flat.draw(kind, count, rng)
                if within is not None:
                    points = points[leaves.leaf[used]] + within
                noise = _noise_of_others(source, rng.choice(used, len(points), replace=len(points) > len(used)))
                made = replace(source, points=points, noise=noise)
                rows = replace(steps.leaves, rows=np.arange(len(points)), leaf=steps.leaves.leaf[steps.leaves.rows])
                judged = replace(steps, leaves=rows).tree(made, min(draws, _FLAT_DRAWS), rng)[1]
                tables[kind].append(cast(Judged, judged))
                done += 1
                if told is not None:
                    told(done)
        return Chance(count, tables, 2 if leaves.grouped else 5)

    def centers(self, source: Source) -> np.ndarray:
        """The leaves as distances between them are taken: the means of their rows."""
        rows = self.leaves.rows
        return np.nan_to_num(_centers(source.weighted(rows), self.leaves.leaf[rows], len(self.leaves.names)))

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
        waiting: deque[Future[tuple[Joined, np.ndarray | None]]] = deque()
        with ThreadPoolExecutor(jobs) as pool:
            for _ in range(draws):
                points, places = source.replicate(rng, self.leaves.rows), None
                if self.leaves.grouped:
                    points = points[self.leaves.again(rng)]
                elif some:
                    places = np.sort(rng.choice(len(points), max(3, round(_SHARE * len(points))), replace=False))
                waiting.append(pool.submit(self._replicate, points, source.c, places))
                if len(waiting) >= jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _replicate(
        self, points: np.ndarray, c: float | None, places: np.ndarray | None
    ) -> tuple[Joined, np.ndarray | None]:
        if places is None:
            return self.of_distances(distance_matrix(points, c), points, c), None
        part = replace(self.leaves, names=tuple(self.leaves.names[at] for at in places), leaf=np.arange(len(places)))
        part = replace(part, rows=np.arange(len(places)))
        points = points[places]
        return replace(self, leaves=part).of_distances(distance_matrix(points, c), points, c), places


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
