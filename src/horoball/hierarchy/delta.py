"""Gromov's δ: how far a metric space is from a tree."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from horoball.hierarchy.four_point import FourPoint, four_point
from horoball.hierarchy.space import Space

__all__ = ["Delta", "Estimate", "delta", "fixed_sample"]


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval, which is the number itself where every quadruple was counted.

    Example:
        >>> Estimate.around(0.3, standard_error=0.01)
        Estimate(value=0.3, low=0.2804, high=0.3196)
    """

    value: float
    low: float
    high: float

    @classmethod
    def around(cls, value: float, standard_error: float) -> Estimate:
        """A normal interval, cut at 0: no quantity here is negative."""
        reach = 1.96 * standard_error
        return cls(value, max(0.0, value - reach), value + reach)


@dataclass(frozen=True)
class Delta:
    """What the quadruples of a space say about being a tree; δ, mean and conflict are 0 on a tree.

    L ≥ M ≥ S are a quadruple's three sums of two distances (see `four_point`).

    Example:
        >>> print(delta(Space.of_points(np.random.default_rng(0).normal(size=(1000, 2))), landmarks=60))
        δ ≥ 1.26, 2δ/diameter 0.501, mean 0.175 [0.147, 0.203], conflict 0.234 [0.218, 0.251] (60 of 1000 points)
    """

    n: int
    landmarks: int  # points whose quadruples were all counted
    delta: float  # the largest (L − M)/2 among the landmarks: δ itself if exact, otherwise a lower bound of it
    diameter: float  # of the landmarks
    median: float  # distance between two landmarks
    mean: Estimate  # of (L − M)/2 over all quadruples of the space
    conflict: Estimate  # Σ(L − M)/Σ(L − S) over all quadruples of the space; NaN for a star, without branches inside

    @property
    def exact(self) -> bool:
        """Whether every quadruple of the space was counted."""
        return self.landmarks == self.n

    @property
    def relative(self) -> float:
        """2δ/diameter of the landmarks, between 0 and 1."""
        return 2 * self.delta / self.diameter if self.diameter > 0 else 0.0

    def __str__(self) -> str:
        def shown(estimate: Estimate) -> str:
            interval = "" if self.exact else f" [{estimate.low:.3g}, {estimate.high:.3g}]"
            return f"{estimate.value:.3g}{interval}"

        return (
            f"δ {'=' if self.exact else '≥'} {self.delta:.3g}, 2δ/diameter {self.relative:.3g}, "
            f"mean {shown(self.mean)}, conflict {shown(self.conflict)} ({self.landmarks} of {self.n} points)"
        )


def delta(space: Space, *, landmarks: int = 200, seed: int = 0) -> Delta:
    """δ-hyperbolicity of a metric space: exact up to a number of points, from that many drawn points above.

    Of the landmarks every quadruple is counted. If they are a sample, the maximum among them is a lower bound of δ and
    is named so: no sample says what the largest of all quadruples is. The mean defect and the conflict are ratios of
    U-statistics, and get intervals from the spread of the landmarks' own means (Hájek's projection).

    Args:
        space: The points and their distances.
        landmarks: Points to count the quadruples of; time grows with their fourth power, about 3 s for 200.
        seed: Seed of the draw.

    Example:
        >>> star = Space.of_matrix([[0, 1, 1, 1], [1, 0, 2, 2], [1, 2, 0, 2], [1, 2, 2, 0]])
        >>> delta(star).delta, delta(star).exact
        (0.0, True)
    """
    if space.n < 4 or landmarks < 4:
        raise ValueError(f"delta needs four points and four landmarks, got {space.n} and {landmarks}.")
    index = fixed_sample(space.n, landmarks, seed)
    d = space.matrix(index)
    if not np.isfinite(d).all():
        raise ValueError("delta needs finite distances. Take one connected part of the graph.")
    d = (d + d.T) / 2  # rounding of the two ways round
    counted = four_point(d)
    fraction = len(index) / space.n
    return Delta(
        n=space.n,
        landmarks=len(index),
        delta=_without_rounding(counted.largest / 2, d),
        diameter=float(d.max()),
        median=float(np.median(d[np.triu_indices(len(d), 1)])),
        mean=_mean(counted, fraction, d),
        conflict=_conflict(counted, fraction, d),
    )


def fixed_sample(n: int, size: int, seed: int = 0) -> np.ndarray:
    """Which of n rows stand for all: every one if they are few, otherwise a draw that a seed fixes.

    Example:
        >>> fixed_sample(3, 10), len(fixed_sample(100, 10))
        (array([0, 1, 2]), 10)
    """
    return np.arange(n) if n <= size else np.random.default_rng(seed).choice(n, size, replace=False)


def _mean(counted: FourPoint, fraction: float, d: np.ndarray) -> Estimate:
    of_point = counted.gap / (2 * math.comb(len(counted.gap) - 1, 3))
    value = _without_rounding(float(of_point.mean()), d)
    return Estimate.around(value, _standard_error(of_point, fraction))


def _conflict(counted: FourPoint, fraction: float, d: np.ndarray) -> Estimate:
    gap, branch = counted.gap, counted.branch
    if _without_rounding(float(branch.mean()) / math.comb(len(gap) - 1, 3), d) == 0:
        return Estimate(math.nan, math.nan, math.nan)
    value = float(gap.sum() / branch.sum())
    value = value if _without_rounding(value * float(d.max()), d) else 0.0
    # A ratio of means varies as the residuals from it do.
    return Estimate.around(value, _standard_error((gap - value * branch) / branch.mean(), fraction))


def _standard_error(of_point: np.ndarray, fraction: float) -> float:
    """Of a mean over quadruples: Var = 16/m · Var(mean of a point's quadruples), less the part of the space seen."""
    m = len(of_point)
    if m < 6:
        return 0.0 if fraction == 1 else math.inf
    # Two points' means share quadruples, which narrows their spread: the jackknife's factor.
    spread = float(of_point.var(ddof=1)) * ((m - 1) / (m - 4)) ** 2
    return math.sqrt(16 / m * spread * (1 - fraction))


def _without_rounding(value: float, d: np.ndarray) -> float:
    return value if value > 1e-12 * float(d.max()) else 0.0
