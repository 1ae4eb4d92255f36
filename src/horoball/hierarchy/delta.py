"""Gromov's δ: how far a metric space is from a tree.

The four-point condition: what four points say about being on a tree. Of the three ways to part four points into two
pairs, take the sums of the two distances, L ≥ M ≥ S. On a tree L = M, and L − S is twice the length of the branch
between the two close pairs. (L − M)/2 is the defect of the quadruple.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.special import logsumexp

from horoball.geometry.ball import PoincareBall
from horoball.hierarchy.space import Space

_ELEMENTS = 16_384  # sums at a time: what fits the nearest cache


@dataclass(frozen=True)
class FourPoint:
    """Sums over all quadruples of a finite metric space."""

    quadruples: int
    largest: float  # the largest L − M
    gap: np.ndarray  # of each point: the sum of L − M over its quadruples
    branch: np.ndarray  # of each point: the sum of L − S over its quadruples


def four_point(d: np.ndarray) -> FourPoint:
    """L − M and L − S of all n(n−1)(n−2)(n−3)/24 quadruples: about 3 s for n = 200, in a few megabytes."""
    d = np.asarray(d, np.float64)
    n = len(d)
    gap, branch, largest = np.zeros(n), np.zeros(n), 0.0
    for j in range(1, n - 2):
        later = slice(j + 1, n)
        km, to_j = d[later, later], d[j, later]
        chunk = max(1, _ELEMENTS // len(km) ** 2)
        for start in range(0, j, chunk):
            i = np.arange(start, min(start + chunk, j))  # i < j < k, m: all k and m at once, each pair both ways round
            cross = d[i, later][:, :, None] + to_j
            aligned = km + d[i, j][:, None, None]
            turned = cross.transpose(0, 2, 1)
            high, low = np.maximum(cross, turned), np.minimum(cross, turned)
            long = np.maximum(aligned, high)
            middle = np.maximum(np.minimum(aligned, high, out=high), low, out=high)
            short = np.minimum(aligned, low, out=low)
            np.einsum("ikk->ik", short)[:] = np.einsum("ikk->ik", long)  # k = m is no quadruple; there L = M
            largest = max(largest, float(np.subtract(long, middle, out=middle).max()))
            for total, value in ((gap, middle), (branch, np.subtract(long, short, out=short))):
                of_k = value.sum(2)
                total[later] += of_k.sum(0)
                total[i] += of_k.sum(1) / 2
                total[j] += of_k.sum() / 2
    return FourPoint(math.comb(n, 4), largest, gap, branch)


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval, which is the number itself where every quadruple was counted."""

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


def references(n: int, d: int, *, neighbors: int | None = 20, landmarks: int = 128, seed: int = 0) -> dict[str, Delta]:
    """δ of known spaces of the same size, so that a relative δ can be read: it depends on n and d.

    Args:
        n: Number of points.
        d: Dimension.
        neighbors: Neighbors of the graph whose geodesics are taken; None for straight distances. The tree and the
            hyperbolic ball have their own distances.
        landmarks: See `delta`.
        seed: Seed of the draws.

    Example:
        >>> for name, known in references(300, 10, landmarks=40).items():
        ...     print(f"{name:10} {known.relative:.2f} {known.conflict.value:.2f}")
        tree       0.00 0.00
        hyperbolic 0.06 0.35
        cloud      0.58 0.39
        sphere     0.72 0.41
    """
    spaces = reference_spaces(n, d, neighbors=neighbors, seed=seed)
    return {name: delta(space, landmarks=landmarks, seed=seed) for name, space in spaces.items()}


def reference_spaces(n: int, d: int, *, neighbors: int | None = 20, seed: int = 0) -> dict[str, Space]:
    """A random tree, points uniform in a hyperbolic ball of radius 2 ln n, a normal cloud, a unit sphere.

    Args:
        n: Number of points.
        d: Dimension of the cloud, of the hyperbolic ball and of the space around the sphere.
        neighbors: See `references`.
        seed: Seed of the draws.

    Example:
        >>> list(reference_spaces(50, 3))
        ['tree', 'hyperbolic', 'cloud', 'sphere']
    """
    if n < 4 or d < 1:
        raise ValueError(f"References need n >= 4 points and a dimension d >= 1, got n = {n}, d = {d}.")
    rng = np.random.default_rng(seed)
    cloud, sphere, direction = rng.standard_normal((3, n, d))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    inside = direction * _hyperbolic_radii(n, d, rng)[:, None]

    def space(x: np.ndarray) -> Space:
        return Space.of_points(x) if neighbors is None else Space.of_neighbors(x, neighbors)

    return {
        "tree": random_tree(n, seed),
        "hyperbolic": Space.of_points(inside, PoincareBall(1.0)),
        "cloud": space(cloud),
        "sphere": space(sphere),
    }


def random_tree(n: int, seed: int = 0) -> Space:
    """A random recursive tree: each node hangs on one of those before it, all edges of length 1.

    Example:
        >>> delta(random_tree(30)).delta
        0.0
    """
    rng = np.random.default_rng(seed)
    child = np.arange(1, n)
    parent = rng.integers(child)
    return Space.of_graph(coo_matrix((np.ones(n - 1), (child, parent)), shape=(n, n)).tocsr())


def _hyperbolic_radii(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Distances from the center of a hyperbolic ball of radius 2 ln n: density ∝ sinh(r)^(d−1), by inversion."""
    r = np.linspace(0, 2 * math.log(n), 4001)[1:]
    log_density = (d - 1) * (r + np.log(-np.expm1(-2 * r)))
    density = np.exp(log_density - logsumexp(log_density))
    return np.interp(rng.random(n), np.cumsum(density), r)


def suggest_c(measured: Delta, *, median: float = 2.0) -> float:
    """The c at which hyperbolic space has the δ of the data, c = (ln 2/δ)².

    ln 2/√c is δ of hyperbolic space of curvature −c in the four-point sense used here. (ln(1 + √2)/√c, often quoted, is
    for slim triangles.) δ has a unit, so c has one: it is meant for an embedding whose median distance is `median`.
    Data that fill a cloud have a large δ and get a c near 0, a tree gets infinity.

    It is a start for a search over a factor of ten, no more. δ is one extreme quadruple, so noise makes it larger and
    c smaller; a sample makes it smaller and c larger.

    Args:
        measured: δ of the data.
        median: The median distance between points of the embedding, in the ball's units. A standard Riemannian normal
            in the plane with c = 1 has about 2.

    Example:
        >>> from horoball.hierarchy import Space, delta
        >>> hexagon = Space.of_matrix([[min(abs(i - j), 6 - abs(i - j)) for j in range(6)] for i in range(6)])
        >>> print(f"{suggest_c(delta(hexagon)):.2f}")
        0.48
    """
    if not median > 0:
        raise ValueError(f"suggest_c expects a median distance above 0, got {median}.")
    if measured.delta == 0:
        return math.inf
    return (math.log(2) * measured.median / (measured.delta * median)) ** 2
