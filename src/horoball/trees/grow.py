"""`tree`: from rows to a tree with support; `verdict`: what its branches say of the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from horoball.hierarchy.delta import fixed_sample
from horoball.hierarchy.space import Space
from horoball.likelihoods.counts import Counts
from horoball.options import MAX_LEAVES, TreeOptions
from horoball.tables.frames import index_of
from horoball.tables.numbers import check_unmasked
from horoball.tables.scaling import summarize
from horoball.tables.table import ArrayTable
from horoball.trees.chance import related_columns
from horoball.trees.linkage import METHODS, Candidate, Joined, candidates, find_root
from horoball.trees.microclusters import MicroClusters
from horoball.trees.source import Leaves, Source
from horoball.trees.support import CONSENSUS, FLAT_TABLES, Steps
from horoball.trees.tree import Tree
from horoball.trees.verdict import ANSWERS, Verdict

__all__ = ["grow", "tree", "verdict"]

_MOST_DISTANCES = 20_000  # leaves of a tree of distances, which have no micro-clusters: 1.6 GB
_RELATED = "columns that others say something about"
_SHARES = "square roots of shares"
_ROUNDING = 1e-12  # of a column's values: the deviation of equal values is not always 0
_FEWEST = 4  # columns and, times five, rows that can be halved to compare candidates


def tree(
    x: ArrayLike | Tensor | Space,
    *,
    labels: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    root: str | int = "center",
    method: str = "auto",
    standardize: bool = True,
    owners: ArrayLike | None = None,
    draws: int = 100,
    max_leaves: int = MAX_LEAVES,
    n_jobs: int | None = None,
    seed: int = 0,
    told: Callable[[int, int], None] | None = None,
) -> Tree:
    """The tree of rows, or of labeled groups of rows, without a model.

    Columns that no other column says anything about are left out where that predicts unseen columns better. A fitted
    model weights columns by what it explains of them: see `PoincareVAE.tree`.

    Args:
        x: Rows, shape (n, columns); or a `Space` of distances, whose tree has no support.
        labels: One label per row: the leaves are then the labels.
        names: Names of the rows; the index of a pandas data frame if not given.
        root: Where the tree is seen from. "center" is the rows' center; a row number, a label, or "midpoint", half way
            between the two rows that are farthest apart, use the method "gromov".
        method: "gromov" for data that branch, with rows at inner nodes; "average" for clusters, with rows at the tips;
            "consensus" for vectors, from what replicates agree on; "auto" chooses between the first two the one that
            better predicts distances in columns it has not seen.
        standardize: Whether to scale the columns to a standard deviation of 1. Constant columns are left out. Counts
            become square roots of shares of their row's total instead: their distances are Hellinger's.
        owners: Where a column is several numbers, as a category is one for each level: the column that each number of
            x belongs to, from 0 on. Numbers of a column are drawn, held out and left out together.
        draws: Replicates for the support; 0 for none. See Note [Replicates] in `horoball.trees.source`.
        max_leaves: With more rows than this, the leaves are as many micro-clusters of rows near each other, each named
            after its middle row and counted by its rows. Time and memory grow with its square. See Note
            [Micro-clusters] in `horoball.trees.microclusters`.
        n_jobs: Threads for the replicates; one per core for trees of 2,000 leaves and more if not given.
        seed: Seed of all draws.
        told: Called with the number of replicates that are done, and of all.

    Example:
        >>> from horoball.datasets import branching_diffusion
        >>> data = branching_diffusion(depth=3)
        >>> found = tree(data.x, labels=data.node, draws=50)
        >>> print(found)
        Tree of 15 leaves and 75 rows, ... of 13 branches above chance (gromov, columns); clusters: ...
    """
    rng = np.random.default_rng(seed)
    if isinstance(x, Space):
        if labels is None and x.n > max(max_leaves, _MOST_DISTANCES):
            raise ValueError(
                f"A tree of distances takes at most {_MOST_DISTANCES:,} rows, got {x.n:,}. Give labels, or points."
            )
        leaves = _leaves(x.n, labels, names, rng)
        d = x.take(leaves.rows).matrix().astype(np.float32)
        chosen = "gromov" if method == "auto" else _method(method)
        if chosen == CONSENSUS:
            raise ValueError("A consensus needs replicates, and distances have none. Give rows, or another method.")
        joined = Steps(leaves, chosen, find_root(root, leaves)).of_distances(d)
        return _tree(joined, leaves, chosen, "distances")
    if names is None and labels is None and (index := index_of(x)) is not None:
        names = [str(label) for label in index]
    check_unmasked(x, "x")
    points = x.detach().cpu().double().numpy() if isinstance(x, Tensor) else np.asarray(x, np.float64)
    if points.ndim != 2 or len(points) < 3:
        raise ValueError(f"tree expects rows of shape (n, columns) with n >= 3, got shape {points.shape}.")
    if np.isinf(points).any():
        row = int(np.isinf(points).any(1).argmax())
        raise ValueError(f"Row {row} holds an infinite number. A tree expects finite ones, or NaN for gaps.")
    if len(blank := np.flatnonzero(np.isnan(points).all(1))):
        more = f", and so do {len(blank) - 1:,} others" if len(blank) > 1 else ""
        raise ValueError(
            f"Row {blank[0]}, counted from 0, holds no value at all{more}: nothing says where it belongs. Drop such "
            "rows first."
        )
    known, name = ~np.isnan(points).all(0), "columns"
    points, of = (
        points[:, known],
        None if owners is None else np.unique(np.asarray(owners)[known], return_inverse=True)[1],
    )
    if standardize and _are_counts(points):
        points, name = np.sqrt(points / np.maximum(points.sum(1, keepdims=True), 1.0)), _SHARES
    elif standardize:
        spread = np.nanstd(points, 0)
        varied = spread > _ROUNDING * np.nanmax(np.abs(points), 0)
        of = None if of is None else np.unique(of[varied], return_inverse=True)[1]
        points = (points[:, varied] - np.nanmean(points[:, varied], 0)) / spread[varied]
    if not points.shape[1] or not (np.nanmax(points, 0) > np.nanmin(points, 0)).any():
        raise ValueError("All rows are the same: there is no tree to find. Give rows that differ.")
    sources, weights = [Source(name, points, owners=of)], {name: np.ones(points.shape[1])}
    # A gap is at its column's mean here, where it says nothing of others; distances leave it out.
    related = related_columns(np.where(np.isnan(points), np.nanmean(points, 0), points), of)
    if not related.all():
        weights[_RELATED] = np.asarray(related, np.float64)
        sources.append(Source(_RELATED, points, weight=weights[_RELATED], owners=of))
    options: TreeOptions = {"labels": labels, "names": names, "root": root, "method": method, "draws": draws}
    options |= {"max_leaves": max_leaves, "n_jobs": n_jobs, "told": told}
    return grow(sources, points, rng, weights=weights, **options)


def verdict(
    x: ArrayLike | Tensor,
    *,
    seeds: int = 3,
    standardize: bool = True,
    draws: int = 100,
    rows: int = 1500,
    seed: int = 0,
) -> Verdict:
    """What structure rows have: the verdict of their tree, over several draws of it; see Note [Verdict].

    Of the draws, the one in the middle is given, by how much they claim; `agreed` says how many have its answer.

    Args:
        x: Rows, shape (n, columns), NaN for gaps.
        seeds: Trees that are made, each with replicates and flat tables of its own.
        standardize: See `tree`.
        draws: Replicates of each tree.
        rows: Rows to use: a fixed sample above.
        seed: Seed of the first tree.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> verdict(rng.normal(size=(100, 5)), seeds=1).answer
        'not detected'
        >>> print(verdict(20 * rng.normal(size=(3, 5)).repeat(30, 0) + rng.normal(size=(90, 5))))
        clusters: ... above chance, ... in flat data (p = 0.05); groups of support 0.9: ..., too few to nest; in 3 ...
    """
    if isinstance(x, Space):
        raise ValueError("A verdict needs rows: distances alone have no replicates. `delta` measures a space.")
    if seeds < 1 or draws < 20:
        raise ValueError(f"verdict needs seeds >= 1 and draws >= 20, got {seeds} and {draws}.")
    points = x.detach().cpu().numpy() if isinstance(x, Tensor) else np.ma.asanyarray(x)
    points = points[fixed_sample(len(points), rows, seed)]
    made = [tree(points, standardize=standardize, draws=draws, seed=seed + each).verdict for each in range(seeds)]
    found = [one for one in made if one is not None]
    found.sort(key=lambda one: (ANSWERS.index(one.answer), -one.p, one.nesting != one.nesting, -one.nesting))
    middle = found[(len(found) - 1) // 2]
    return replace(middle, draws=seeds, agreed=sum(one.answer == middle.answer for one in found))


def grow(
    sources: Sequence[Source],
    x: np.ndarray | None,
    rng: np.random.Generator,
    *,
    weights: dict[str, np.ndarray] | None = None,
    labels: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    root: str | int = "center",
    method: str = "auto",
    draws: int = 100,
    max_leaves: int = MAX_LEAVES,
    n_jobs: int | None = None,
    told: Callable[[int, int], None] | None = None,
) -> Tree:
    """The tree of the source that the evidence speaks for; see `tree` for the arguments.

    Args:
        sources: Where distances may come from; the first is used where there is no evidence.
        x: Rows whose columns are held out to compare sources and methods; None for points of a latent space.
        rng: Generator of all draws.
        weights: Weights of the columns, by the name of a source; equal weights if not given.
        labels: See `tree`.
        names: See `tree`.
        root: See `tree`.
        method: See `tree`.
        draws: See `tree`.
        max_leaves: See `tree`.
        n_jobs: See `tree`.
        told: Called with the number of replicates that are done, and of all.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(30, 6))
        >>> grow([Source("columns", x)], x, rng, draws=2).leaves
        30
    """
    evidence: tuple[Candidate, ...] = ()
    rooted = root != "center"
    owners = sources[0].owners
    columns = 0 if x is None else x.shape[1] if owners is None else int(owners.max()) + 1
    if x is not None and min(columns, len(x) // 5) >= _FEWEST and (method == "auto" or len(sources) > 1):
        weights = weights or {source.name: np.ones(x.shape[1]) for source in sources}
        evidence = candidates(x, weights, owners=owners, seed=int(rng.integers(2**31)))
        if method == CONSENSUS:
            evidence = ()
        elif method != "auto" or rooted:  # asked for, or the only one that has a root
            wanted = _method("gromov" if rooted else method)
            evidence = tuple(one for one in evidence if one.method == wanted)
    chosen = "gromov" if rooted or x is None else "average"
    chosen = evidence[0].method if evidence else chosen if method == "auto" else _method(method)
    source = next(one for one in sources if not evidence or one.name == evidence[0].source)
    if max_leaves < 3:
        raise ValueError(f"max_leaves expects 3 or more, got {max_leaves}.")
    rows, micro = source, None
    if labels is None and len(source.points) > max_leaves:
        leaves, micro = _micro(source, names, max_leaves, rng)
        source, root = micro.source, _held(root, names, micro)
    else:
        leaves = _leaves(len(source.points), labels, names, rng)
    at = find_root(root, leaves)
    if chosen == CONSENSUS and (rooted or not draws):
        raise ValueError(
            'A consensus is made of replicates, seen from the center: use draws=20 or more, root="center".'
        )
    steps = Steps(leaves, chosen, at, n_jobs)
    work = draws + 2 * FLAT_TABLES
    joined, sure = steps.tree(source, draws, rng, None if told is None else lambda done: told(done, work))
    made = replace(_tree(joined, leaves, chosen, source.name), evidence=evidence)
    if micro is not None:
        made = replace(made, leaf=micro.leaf, micro=True)
    if sure is None:
        return made
    chance = steps.chance(rows, draws, rng, None if told is None else lambda done: told(draws + done, work))
    split = None if leaves.grouped else steps.split(joined, source)
    return made.with_support(sure, chance, steps.centers(source), split)


def joined_by(**options: Unpack[TreeOptions]) -> str:
    """The method for rows with a direction and no columns of their own: what replicates agree on, where it can be."""
    method, root = options.get("method", "auto"), options.get("root", "center")
    return CONSENSUS if method == "auto" and root == "center" and options.get("draws", 1) else method


def _are_counts(points: np.ndarray) -> bool:
    """Whether a fit would take the rows for counts, whose totals differ for reasons of their own."""
    return not np.isnan(points).any() and Counts.suits(summarize(ArrayTable(points))) is not None


def _method(name: str) -> str:
    if name not in (*METHODS, CONSENSUS):
        raise ValueError(f"Expected a method of auto, {', '.join((*METHODS, CONSENSUS))}, got {name!r}.")
    return name


def _leaves(n: int, labels: ArrayLike | None, names: Sequence[str] | None, rng: np.random.Generator) -> Leaves:
    if labels is None:
        return Leaves.of_rows(n, names)
    found = Leaves.of_labels(labels, rng)
    if len(found.leaf) != n:
        raise ValueError(f"labels must hold one label per row: got {len(found.leaf)} for {n} rows.")
    return found


def _micro(
    source: Source, names: Sequence[str] | None, count: int, rng: np.random.Generator
) -> tuple[Leaves, MicroClusters]:
    """Micro-clusters as leaves, each called by its middle row."""
    if names is not None and len(names) != len(source.points):
        raise ValueError(f"names must name every row: got {len(names)} names for {len(source.points)} rows.")
    made = MicroClusters.of(source, count, rng)
    called = [str(at if names is None else names[at]) for at in made.middle.tolist()]
    return Leaves.of_rows(len(called), called, made.size), made


def _held(root: str | int, names: Sequence[str] | None, micro: MicroClusters) -> str | int:
    """A root that is a row as the micro-cluster that holds it."""
    if isinstance(root, str):
        if root in ("center", "midpoint") or names is None or root not in names:
            return root
        root = list(names).index(root)
    return int(micro.leaf[root]) if 0 <= root < len(micro.leaf) else root


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
