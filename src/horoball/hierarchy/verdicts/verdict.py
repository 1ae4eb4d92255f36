"""The verdict: what structure a table or a metric space has, as far as tests can support it.

Note [Verdict]: three tests, one after the other. Gaps part the rows into groups (Note [Gap]); the centers of the groups
are tested for larger groups, level by level (Note [Nesting]); the largest groups are tested for branches
(Note [Branching]). `experiments/verdicts.py` measures how often they err together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from torch import Tensor

from horoball.data.tables.number_arrays import check_unmasked
from horoball.hierarchy.delta import Estimate, fixed_sample
from horoball.hierarchy.space import Space
from horoball.hierarchy.verdicts.branching import Branching, branching
from horoball.hierarchy.verdicts.columns import related_columns
from horoball.hierarchy.verdicts.gaps import Gaps, gaps
from horoball.hierarchy.verdicts.nesting import Nesting, nesting

__all__ = ["Answer", "Verdict", "verdict"]

Answer = Literal["none", "clusters", "nested", "branching", "undecided"]

_ROWS_OF_SPACE = 500  # of a space without coordinates: all their distances are needed
_FEWEST_ROWS = 60  # of a group to be tested for branches: fewer have too few quadruples and neighbors
_MOST_GROUPS = 3  # that are tested for branches, the largest: each test is one more chance to err


@dataclass(frozen=True)
class Verdict:
    """What structure data have, with the evidence.

    Example:
        >>> print(verdict(np.random.default_rng(0).normal(size=(200, 3))))
        no structure: no gap between groups of rows, position 0.97 [0.88, 1.07] between tree (0) and flat (1)
    """

    answer: Answer
    groups: int  # of rows that gaps part; 1 without gaps
    levels: int  # 0 without groups, 1 for clusters, 2 for clusters of clusters, …
    gaps: Gaps
    nesting: tuple[Nesting, ...]  # one test for each level
    branching: Branching | None  # of the group that is most like a tree; None if all groups are small

    @property
    def hierarchical(self) -> bool:
        """Whether the answer is "nested" or "branching"."""
        return self.answer in ("nested", "branching")

    @property
    def position(self) -> Estimate:
        """Between a tree (0) and flat data (1), of the group that is most like a tree; NaN without one."""
        return Estimate(math.nan, math.nan, math.nan) if self.branching is None else self.branching.position

    def __str__(self) -> str:
        said = {
            "none": f"no structure: no gap between groups of rows, {self._branches}",
            "clusters": f"clusters ({self.groups} of them), no nesting that can be supported: {self._evidence}",
            "nested": f"nested to level {self.levels}: {self._evidence}",
            "branching": f"a continuous branching tree: {self._branches}",
            "undecided": f"undecided between a branching tree and none: {self._branches}",
        }
        return said[self.answer]

    @property
    def _branches(self) -> str:
        if self.branching is None:
            return "too few rows to look for branches"
        where, branches = self.position, self.branching
        if math.isnan(where.value):
            return "and nothing to branch, as on a line or a star"
        among = f"the most tree-like of {self.groups} groups ({branches.rows} rows) has " if self.groups > 1 else ""
        tail = ", but it does not branch" if branches.answer == "no" and where.high < 1 and where.value < 0.6 else ""
        position = f"position {where.value:.2f} [{where.low:.2f}, {where.high:.2f}]"
        return f"{among}{position} between tree (0) and flat (1){tail}"

    @property
    def _evidence(self) -> str:
        gap = f"{self.groups} groups, widest gap {self.gaps.strength:.1f} (needed {self.gaps.needed:.1f})"
        if not self.nesting:
            return f"{gap}; too few groups to nest"
        level = self.nesting[0]
        p = np.nanmin((level.p_ratio, level.p_conflict))
        return f"{gap}; {p:.1%} of independent centers look as nested as theirs"


def verdict(
    x: ArrayLike | Tensor | Space,
    *,
    neighbors: int | None = 20,
    rows: int = 1500,
    landmarks: int = 40,
    draws: int = 6,
    seed: int = 0,
) -> Verdict:
    """What structure points or a metric space have: none, clusters, nested clusters or a branching tree.

    "undecided" is the answer where the interval of the position crosses 1, flat data. See Note [Verdict].

    Args:
        x: Points, shape (n, d), whose geodesics are taken; columns are used as they are. Or a `Space`.
        neighbors: Neighbors of the graph for points; None for straight distances, which blur a hierarchy.
        rows: Rows of a table to use: a fixed sample above.
        landmarks: Points of which all quadruples are counted, see `delta`. More are slower and more precise.
        draws: Flat tables of each kind that the data are compared with.
        seed: Seed of all draws.

    Example:
        >>> from horoball.data import branching_diffusion
        >>> print(verdict(branching_diffusion(depth=5, seed=1).x))
        a continuous branching tree: position 0.31 [0.18, 0.54] between tree (0) and flat (1)
    """
    if draws < 2 or landmarks < 4:
        raise ValueError(f"verdict needs draws >= 2 and landmarks >= 4, got {draws} and {landmarks}.")
    points, distances = _coordinates(x, rows, seed)
    if len(points) < 4:
        raise ValueError(f"verdict needs at least four points, got {len(points)}.")
    straight = distances is not None or neighbors is None

    def space_of(y: np.ndarray) -> Space:
        return Space.of_points(y) if straight else Space.of_neighbors(y, neighbors or 0)

    parted = gaps(points, cdist(points, points) if distances is None else distances, seed=seed)
    levels = _levels(points, parted, seed)
    nested = sum(level.nested for level in levels)
    judged = []
    for group in np.argsort(-np.bincount(parted.labels[parted.labels >= 0]))[:_MOST_GROUPS]:
        index = np.flatnonzero(parted.labels == group) if parted.count > 1 else np.arange(len(points))
        if len(index) >= min(_FEWEST_ROWS, len(points)):
            own = None if distances is None else Space.of_matrix(distances[np.ix_(index, index)])
            judged.append(branching(points[index], space_of, own, landmarks=landmarks, draws=draws, seed=seed))
    best = min(judged, key=_likeness, default=None)
    depth = 0 if parted.count == 1 else 1 + nested
    return Verdict(_answer(depth, best), parted.count, depth, parted, tuple(levels), best)


def _answer(levels: int, best: Branching | None) -> Answer:
    if levels > 1:
        return "nested"
    if best is not None and best.answer != "no":
        return "branching" if best.answer == "yes" else "undecided"
    return "clusters" if levels == 1 else "none"


def _likeness(found: Branching) -> tuple[int, float]:
    place = found.position.high
    return ("yes", "undecided", "no").index(found.answer), math.inf if math.isnan(place) else place


def _levels(points: np.ndarray, parted: Gaps, seed: int) -> list[Nesting]:
    """Tests of the centers of groups, of the centers of their groups, and so on until one finds none."""
    found: list[Nesting] = []
    labels: np.ndarray | None = parted.labels
    count = parted.count
    while labels is not None and count >= 4:
        points = np.stack([points[labels == group].mean(0) for group in range(count)])
        found.append(nesting(points, seed))
        labels = found[-1].labels
        count = 0 if labels is None else int(labels.max()) + 1
    return found


def _coordinates(x: ArrayLike | Tensor | Space, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Points as they are; of a space the positive part of its classical scaling, and its distances."""
    if not isinstance(x, Space):
        check_unmasked(x, "x")
        points = x.detach().cpu().double().numpy() if isinstance(x, Tensor) else np.asarray(x, np.float64)
        if points.ndim != 2 or not np.isfinite(points).all():
            raise ValueError(
                f"verdict expects finite points in two axes, got shape {points.shape} or values not finite."
            )
        points = points[fixed_sample(len(points), rows, seed)]
        return points[:, related_columns(points)], None
    distances = x.matrix(fixed_sample(x.n, min(rows, _ROWS_OF_SPACE), seed))
    if not np.isfinite(distances).all():
        raise ValueError("The space has parts that are infinitely far apart. Take one connected part.")
    distances = (distances + distances.T) / 2
    square = distances**2
    values, vectors = np.linalg.eigh(-(square - square.mean(0) - square.mean(1)[:, None] + square.mean()) / 2)
    kept = values > 1e-9 * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept]), distances
