"""Does a group of rows without gaps branch like a tree? Its geodesics, beside those of flat clouds and mixtures.

Note [Branching]: the conflict Σ(L − M)/Σ(L − S) of the four-point condition is 0 on a tree and does not change with
scale. What a cloud has depends on its spectrum and on the graph of neighbors, and overlapping clusters have less than
one cloud. So the conflict of the data is divided by that of flat data of the same size and covariance, through the same
graph: a normal cloud, and mixtures of 3 and of 8 normals with independent centers, as far apart as k-means finds them
in the data but without gaps, as the data have none. The position is relative to the kind with the least conflict: 0
is a tree, 1 is flat. Points on a line or an arc are a tree that does not branch; the arms tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import t as student

from horoball.hierarchy.delta import Estimate, fixed_sample
from horoball.hierarchy.four_point import four_point
from horoball.hierarchy.space import Space
from horoball.hierarchy.verdicts.gaps import MARK, scales, strengths

__all__ = ["Branching", "branching"]

_MIXTURES = (1, 3, 8)  # normals of a flat kind
_TRIES = 3  # draws of a mixture for each that is kept: those with gaps are left out
_CLEAR = 2 / 3  # position up to which a group is tree-like at all
_FLAT = 0.8  # position from which it is flat: no other kind is tried, which would only make it higher
_ARMS = 0.05  # shortest over longest arm; three thin arms of equal length have 0.07, a thin line has less
_ARMS_OF_STRIP = 1.75  # times the conflict: in a strip or an arc with noise, its width makes both, about equal


@dataclass(frozen=True)
class Branching:
    """Where a group of rows lies between a tree and flat data, and whether it branches.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(200, 3))
        >>> branching(x, lambda y: Space.of_neighbors(y, 20)).answer
        'no'
    """

    rows: int
    conflict: float
    position: Estimate  # conflict/that of flat data, with the interval for one more flat table; NaN on a line or star
    arms: float  # shortest over longest arm of three rows: 0 on a line, more where branches meet
    kind: int  # normals of the flat kind with the least conflict

    @property
    def answer(self) -> Literal["yes", "no", "undecided"]:
        """Yes: at most 2/3, with an interval below 1, and with arms. No: without arms, or flat. Else undecided."""
        where = self.position
        if self.arms < max(_ARMS, _ARMS_OF_STRIP * self.conflict) or not where.value <= _FLAT or where.low >= _CLEAR:
            return "no"
        return "yes" if where.value <= _CLEAR and where.high < 1 else "undecided"


def branching(
    x: np.ndarray,
    space_of: Callable[[np.ndarray], Space],
    space: Space | None = None,
    *,
    landmarks: int = 40,
    draws: int = 6,
    seed: int = 0,
) -> Branching:
    """Judge rows that no gap parts.

    Args:
        x: Rows, shape (n, d).
        space_of: Makes rows a metric space: with geodesics, or straight distances.
        space: The rows' own distances, if they are not those.
        landmarks: Rows of which all quadruples are counted.
        draws: Flat tables of each kind, at least two.
        seed: Seed of all draws.

    Example:
        >>> from horoball.data import branching_diffusion
        >>> branching(branching_diffusion(depth=5, seed=1).x.numpy(), Space.of_neighbors).answer
        'yes'
    """
    conflict, arms = _shape(space or space_of(x), landmarks, seed)
    centers, deviations, kinds = [], [], []
    for kind in _MIXTURES if conflict == conflict else ():
        flat = _flat(x, kind, draws, seed)
        found = [_shape(space_of(y), landmarks, number)[0] for number, y in enumerate(flat)]
        if len(found) < max(2, draws // 2) or not min(found) > 0:
            continue
        logs = np.log(found)
        centers.append(logs.mean())
        deviations.append(logs.std(ddof=1))
        kinds.append(kind)
        if conflict > _FLAT * math.exp(centers[-1]):
            break
    if not kinds:
        return Branching(len(x), conflict, Estimate(math.nan, math.nan, math.nan), arms, 1)
    least = int(np.argmin(centers))
    freedom = len(kinds) * (draws - 1)
    deviation = math.sqrt(np.square(deviations).mean() * (1 + 1 / draws))
    reach = math.exp(float(student.ppf(0.975, freedom)) * deviation)
    value = conflict / math.exp(centers[least])
    return Branching(len(x), conflict, Estimate(value, value / reach, value * reach), arms, kinds[least])


def _shape(space: Space, landmarks: int, seed: int) -> tuple[float, float]:
    """The conflict of all quadruples of landmarks, and shortest over longest arm of all their triples."""
    d = space.matrix(fixed_sample(space.n, landmarks, seed))
    d = (d + d.T) / 2  # rounding of the two ways round
    counted = four_point(d)
    total = counted.branch.sum()
    none = total <= 1e-9 * d.max() * counted.quadruples  # a star: all quadruples are alike
    shortest = longest = 0.0
    for to in d:
        across = to[:, None] + to
        arms = np.stack((across - d, d + to[:, None] - to, d - to[:, None] + to))  # twice the arms of three points
        shortest, longest = shortest + arms.min(0).sum(), longest + arms.max(0).sum()
    return math.nan if none else float(counted.gap.sum() / total), float(shortest / max(longest, 1e-300))


def _flat(x: np.ndarray, kind: int, draws: int, seed: int) -> list[np.ndarray]:
    """Tables of the same covariance without a hierarchy; of a mixture those without gaps, which may be none."""
    from sklearn.cluster import KMeans  # as large as torch: only who asks for mixtures pays

    n, rng = len(x), np.random.default_rng((seed, 2, kind))
    if kind == 1:
        spread = scales(x)
        return [rng.standard_normal((n, len(spread))) * spread for _ in range(draws)]
    if len(np.unique(x, axis=0)) < 12 * kind:
        return []
    labels = KMeans(kind, n_init=2, random_state=seed).fit_predict(x)
    sizes = np.bincount(labels, minlength=kind)
    centers = np.stack([x[labels == group].mean(0) for group in range(kind)]) - x.mean(0)
    within = np.linalg.svd(x - x.mean(0) - centers[labels], full_matrices=False)
    between = np.linalg.svd(centers * np.sqrt(sizes / n)[:, None], full_matrices=False)
    kept: list[np.ndarray] = []
    for _ in range(_TRIES * draws):
        rows = rng.standard_normal((n, len(within.S))) * within.S / math.sqrt(n) @ within.Vh
        drawn = rows + (rng.standard_normal((kind, len(between.S))) * between.S @ between.Vh)[labels]
        if max(strengths(cdist(drawn, drawn))[1].values(), default=0.0) <= MARK:
            kept.append(drawn)
        if len(kept) == draws:
            break
    return kept
