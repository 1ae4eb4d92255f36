"""`tree`: from rows to a tree with support."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from horoball.data.tables.number_arrays import check_unmasked
from horoball.hierarchy.space import Space
from horoball.hierarchy.trees.consensus import consensus, log_distances
from horoball.hierarchy.trees.evidence import Candidate, candidates
from horoball.hierarchy.trees.leaves import CELLS, Leaves
from horoball.hierarchy.trees.linkage import METHODS, Joined, Method, average_linkage, join
from horoball.hierarchy.trees.roots import Root, find_root, root_radius
from horoball.hierarchy.trees.source import Source, distance_matrix
from horoball.hierarchy.trees.support import support
from horoball.hierarchy.trees.tree import Tree

__all__ = ["CONSENSUS", "grow", "tree"]

CONSENSUS = "consensus"  # a method besides those that single distances are joined by; see `consensus`

MAX_LEAVES = 20_000  # rows that are leaves themselves: 1.6 GB of distances
_PARALLEL = 2_000  # leaves from which on a replicate is worth a thread
_FEWEST = 4  # columns and, times five, rows that can be halved to compare candidates


def tree(
    x: ArrayLike | Tensor | Space,
    *,
    labels: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    root: str | int = "center",
    method: str = "auto",
    standardize: bool = True,
    draws: int = 100,
    max_leaves: int = MAX_LEAVES,
    n_jobs: int | None = None,
    seed: int = 0,
) -> Tree:
    """The tree of rows, or of labeled groups of rows, without a model.

    A fitted model makes a better tree where some columns are noise: see `PoincareVAE.tree`.

    Args:
        x: Rows, shape (n, columns); or a `Space` of distances, whose tree has no support.
        labels: One label per row: the leaves are then the labels.
        names: Names of the rows.
        root: Where the tree is seen from. "center" is the rows' center; a row number, a label, or "midpoint", half way
            between the two rows that are farthest apart, use the method "gromov".
        method: "gromov" for data that branch, with rows at inner nodes; "average" for clusters, with rows at the tips;
            "consensus" for vectors, from what replicates agree on; "auto" chooses between the first two the one that
            better predicts distances in columns it has not seen.
        standardize: Whether to scale the columns to a standard deviation of 1. Constant columns are left out.
        draws: Replicates for the support; 0 for none. See Note [Replicates] in `horoball.hierarchy.trees.source`.
        max_leaves: With more rows than this, 5,000 of them stand for all others near them.
        n_jobs: Threads for the replicates; one per core for trees of 2,000 leaves and more if not given.
        seed: Seed of all draws.

    Example:
        >>> from horoball.data import branching_diffusion
        >>> data = branching_diffusion(depth=3)
        >>> found = tree(data.x, labels=data.node, draws=50)
        >>> print(found)
        Tree of 15 leaves and 75 rows, 4 of 13 branches with support of at least 0.9 (gromov, columns)
    """
    rng = np.random.default_rng(seed)
    if isinstance(x, Space):
        leaves = _leaves(x.n, None, labels, names, max_leaves, rng)
        d = x.take(leaves.rows).matrix().astype(np.float32)
        chosen = "gromov" if method == "auto" else _method(method)
        if chosen == CONSENSUS:
            raise ValueError("A consensus needs replicates, and distances have none. Give rows, or another method.")
        joined = _of_distances(d, None, None, leaves, chosen, find_root(root, leaves))
        return _tree(joined, leaves, chosen, "distances")
    check_unmasked(x, "x")
    points = x.detach().cpu().double().numpy() if isinstance(x, Tensor) else np.asarray(x, np.float64)
    if points.ndim != 2 or len(points) < 3:
        raise ValueError(f"tree expects rows of shape (n, columns) with n >= 3, got shape {points.shape}.")
    if not np.isfinite(points).all():
        raise ValueError(
            "tree expects finite numbers, got NaN or infinity. Fill the gaps, or fit a model to the table."
        )
    if standardize:
        spread = points.std(0)
        points = (points[:, spread > 0] - points[:, spread > 0].mean(0)) / spread[spread > 0]
    if not points.shape[1] or not points.any():
        raise ValueError("All rows are the same: there is no tree to find. Give rows that differ.")
    options: dict[str, Any] = {"labels": labels, "names": names, "root": root, "draws": draws, "n_jobs": n_jobs}
    return grow(
        [Source.of_columns("columns", points)], points, method=method, max_leaves=max_leaves, rng=rng, **options
    )


def grow(
    sources: Sequence[Source],
    x: np.ndarray | None,
    *,
    labels: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    root: str | int = "center",
    method: str = "auto",
    weights: dict[str, np.ndarray] | None = None,
    draws: int = 100,
    max_leaves: int = MAX_LEAVES,
    n_jobs: int | None = None,
    rng: np.random.Generator,
    told: Callable[[int, int], None] | None = None,
) -> Tree:
    """The tree of the source that the evidence speaks for; see `tree` for the arguments.

    Args:
        sources: Where distances may come from; the first is used where there is no evidence.
        x: Rows whose columns are held out to compare sources and methods; None for points of a latent space.
        labels: See `tree`.
        names: See `tree`.
        root: See `tree`.
        method: See `tree`.
        weights: Weights of the columns, by the name of a source; equal weights if not given.
        draws: See `tree`.
        max_leaves: See `tree`.
        n_jobs: See `tree`.
        rng: Generator of all draws.
        told: Called with the number of replicates that are done, and of all.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(30, 6))
        >>> grow([Source.of_columns("columns", x)], x, draws=2, rng=rng).leaves
        30
    """
    evidence: tuple[Candidate, ...] = ()
    rooted = root != "center"
    if x is not None and min(x.shape[1], len(x) // 5) >= _FEWEST and (method == "auto" or len(sources) > 1):
        weights = weights or {source.name: np.ones(x.shape[1]) for source in sources}
        evidence = candidates(x, weights, seed=int(rng.integers(2**31)))
        if method == CONSENSUS:
            evidence = ()
        elif method != "auto" or rooted:  # asked for, or the only one that has a root
            wanted = _method("gromov" if rooted else method)
            evidence = tuple(one for one in evidence if one.method == wanted)
    chosen = "gromov" if rooted or x is None else "average"
    chosen = evidence[0].method if evidence else chosen if method == "auto" else _method(method)
    source = next(one for one in sources if not evidence or one.name == evidence[0].source)
    leaves = _leaves(len(source.points), source.points, labels, names, max_leaves, rng)
    at = find_root(root, leaves)
    if chosen == CONSENSUS and (rooted or not draws):
        raise ValueError(
            'A consensus is made of replicates, seen from the center: use draws=20 or more, root="center".'
        )
    jobs = n_jobs or (os.cpu_count() or 1 if len(leaves.names) >= _PARALLEL else 1)
    points = (_again(source, leaves, rng) for _ in range(draws))
    replicates: Iterable[Joined] = _replicates(points, source.c, leaves, chosen, at, jobs)
    replicates = replicates if told is None else _counted(replicates, draws, told)
    if chosen == CONSENSUS:
        replicates = list(replicates)  # merges and heights are small; distances are not kept
        d, _ = leaves.averaged(distance_matrix(source.points[leaves.rows], source.c), np.zeros(len(leaves.rows)))
        joined = consensus(d, replicates, None if leaves.grouped else leaves.size)
    else:
        joined = _joined(source.points[leaves.rows], source.c, leaves, chosen, at)
    made = replace(_tree(joined, leaves, chosen, source.name), evidence=evidence)
    if not draws:
        return made
    exact, soft = support(made, (replicate.merges for replicate in replicates))
    return replace(made, support=exact, transfer=soft)


def _method(name: str) -> str:
    if name not in (*METHODS, CONSENSUS):
        raise ValueError(f"Expected a method of auto, {', '.join((*METHODS, CONSENSUS))}, got {name!r}.")
    return name


def _leaves(
    n: int,
    points: np.ndarray | None,
    labels: ArrayLike | None,
    names: Sequence[str] | None,
    max_leaves: int,
    rng: np.random.Generator,
) -> Leaves:
    if labels is not None:
        found = Leaves.of_labels(labels, rng)
        if len(found.leaf) != n:
            raise ValueError(f"labels must hold one label per row: got {len(found.leaf)} for {n} rows.")
        return found
    if n <= max_leaves:
        return Leaves.of_rows(n, names)
    if points is None:
        raise ValueError(f"A tree of distances takes at most {max_leaves:,} rows, got {n:,}. Give labels, or points.")
    return Leaves.of_cells(points, rng, names, min(CELLS, max_leaves))


def _joined(points: np.ndarray, c: float | None, leaves: Leaves, method: str, root: Root) -> Joined:
    return _of_distances(distance_matrix(points, c), points, c, leaves, method, root)


def _of_distances(
    d: np.ndarray, points: np.ndarray | None, c: float | None, leaves: Leaves, method: str, root: Root
) -> Joined:
    between, radius = leaves.averaged(d, root_radius(d, points, c, root))
    if isinstance(root, np.ndarray):
        group = leaves.leaf[leaves.rows]
        if len(root) == int((group == group[root[0]]).sum()):
            # A group that is the root lies at the root, however wide it is: all others join before one joins it.
            radius[group[root[0]]] = 0.0
    weight = None if leaves.grouped else leaves.size
    if method == CONSENSUS:
        return Joined(*average_linkage(log_distances(between), weight), None)
    return join(between, cast(Method, method), radius=radius, weight=weight)


def _tree(joined: Joined, leaves: Leaves, method: str, source: str) -> Tree:
    return Tree.from_merges(
        joined.merges,
        joined.height,
        names=leaves.names,
        radius=joined.radius,
        size=leaves.size,
        leaf=leaves.leaf,
        method=method,
        source=source,
    )


def _again(source: Source, leaves: Leaves, rng: np.random.Generator) -> np.ndarray:
    """Points of a replicate: rows of groups are drawn again as well."""
    points = source.replicate(rng, leaves.rows)
    return points[leaves.again(rng)] if leaves.grouped else points


def _replicates(
    points: Iterator[np.ndarray], c: float | None, leaves: Leaves, method: str, root: Root, jobs: int
) -> Iterator[Joined]:
    """The replicates' trees, a few at a time: each holds a matrix of distances.

    Threads will do: nearly all of the time is spent in NumPy and torch, which let other threads run.
    """
    waiting: deque[Future[Joined]] = deque()
    with ThreadPoolExecutor(jobs) as pool:
        for each in points:
            waiting.append(pool.submit(_joined, each, c, leaves, method, root))
            if len(waiting) >= jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _counted(replicates: Iterable[Joined], draws: int, told: Callable[[int, int], None]) -> Iterator[Joined]:
    for done, joined in enumerate(replicates, 1):
        yield joined
        told(done, draws)
