"""Is it hierarchical? The conflict among quadruples, beside that of a cloud with the same spectrum.

Note [Verdict]: the conflict Σ(L − M)/Σ(L − S) is 0 on a tree and does not change with scale. Unlike δ/diameter it is
no smaller in high dimension, where all distances are alike and every cloud looks like a star; and as a ratio of sums it
is ruled by the long branches, not by the noise at the tips. What a cloud has depends on its spectrum and on the
graph of neighbours, so the data's is divided by that of normal clouds with the data's own spectrum, at the same n, seen
through the same graph: position 0 is a tree, 1 is such a cloud. A line is as much a tree as a cloud can be, and its
cloud is one too: its position is near 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from horoball.hierarchy.delta import Delta, Estimate, delta, fixed_sample
from horoball.hierarchy.space import Space

__all__ = ["Answer", "Verdict", "verdict"]

Answer = Literal["hierarchical", "partly", "no"]

_HIERARCHICAL = 1 / 2  # nearer to a tree than to the cloud
_NO = 3 / 4  # nearer to the cloud than to the middle


@dataclass(frozen=True)
class Verdict:
    """Where data lie between a tree and a cloud of the same spectrum.

    Example:
        >>> print(verdict(np.random.default_rng(0).normal(size=(200, 3)), landmarks=60))
        no: position 1.04 [0.999, 1.09] between tree (0) and cloud (1), z = 1.5
    """

    answer: Answer
    position: Estimate  # conflict of the data/mean conflict of the clouds; NaN on a line and on a star
    z: float  # standard errors between the data and the clouds, negative towards the tree
    data: Delta
    clouds: tuple[Delta, ...]

    def __str__(self) -> str:
        where = self.position
        return (
            f"{self.answer}: position {where.value:.3g} [{where.low:.3g}, {where.high:.3g}] "
            f"between tree (0) and cloud (1), z = {self.z:.1f}"
        )


def verdict(
    x: ArrayLike | Tensor | Space,
    *,
    neighbours: int | None = 20,
    rows: int = 1500,
    landmarks: int = 128,
    draws: int = 8,
    seed: int = 0,
) -> Verdict:
    """Whether points or a metric space are hierarchical.

    The answer is "hierarchical" at a position of at most 1/2, nearer to a tree than to the cloud; "no" above 3/4,
    nearer to the cloud than to the middle, or less than three standard errors below the cloud; otherwise "partly".
    See Note [Verdict].

    Args:
        x: Points, shape (n, d), whose geodesics are taken; columns are used as they are. Or a `Space`.
        neighbours: Neighbours of the graph for points; None for straight distances, which blur a hierarchy.
        rows: Rows of a table to use: a fixed sample above, the clouds have as many.
        landmarks: Points of which all quadruples are counted, see `delta`.
        draws: Number of clouds.
        seed: Seed of all draws.

    Example:
        >>> from horoball.data import branching_diffusion
        >>> print(verdict(branching_diffusion(depth=5).x, landmarks=60))
        hierarchical: position 0.193 [0.118, 0.267] between tree (0) and cloud (1), z = -11.4
    """
    if draws < 2:
        raise ValueError(f"verdict needs at least two clouds, got draws = {draws}.")
    if isinstance(x, Space):
        space, scales, size = x, _scales_of_distances(x, seed), min(x.n, rows)
        neighbours = None  # distances of a space are not those of a neighbour graph
    else:
        points = x.detach().cpu().double().numpy() if isinstance(x, Tensor) else np.asarray(x, np.float64)
        points = points[fixed_sample(len(points), rows, seed)]
        space, scales, size = _space(points, neighbours), _scales_of_points(points), len(points)
    data = delta(space, landmarks=landmarks, seed=seed)
    clouds = []
    for draw in range(draws):
        cloud = np.random.default_rng((seed, draw)).standard_normal((size, len(scales))) * scales
        clouds.append(delta(_space(cloud, neighbours), landmarks=landmarks, seed=draw))
    position, z = _compare(data.conflict, [cloud.conflict.value for cloud in clouds])
    return Verdict(_answer(position.value, z), position, z, data, tuple(clouds))


def _space(x: np.ndarray, neighbours: int | None) -> Space:
    return Space.of_points(x) if neighbours is None else Space.of_neighbours(x, neighbours)


def _scales_of_points(x: np.ndarray) -> np.ndarray:
    """Standard deviations along the principal axes. Distances of a normal cloud depend on nothing else."""
    singular = np.linalg.svd(x - x.mean(0), compute_uv=False)
    if not singular[0] > 0:
        raise ValueError("All points are the same: there is no shape to judge. Give points that differ.")
    return singular[singular > 1e-9 * singular[0]] / math.sqrt(len(x))


def _scales_of_distances(space: Space, seed: int, points: int = 500) -> np.ndarray:
    """The same for a space without coordinates: the positive part of the spectrum of classical scaling."""
    index = fixed_sample(space.n, points, seed)
    square = space.matrix(index) ** 2
    if not np.isfinite(square).all():
        raise ValueError("The space has parts that are infinitely far apart. Take one connected part.")
    centred = square - square.mean(0) - square.mean(1)[:, None] + square.mean()
    values = np.linalg.eigvalsh(-centred / 2)
    return np.sqrt(values[values > 1e-9 * values[-1]] / len(index))


def _compare(data: Estimate, clouds: list[float]) -> tuple[Estimate, float]:
    cloud, spread = float(np.mean(clouds)), float(np.std(clouds, ddof=1))
    if cloud == 0 or math.isnan(data.value):  # points on a line, or a star: there is nothing to compare
        return Estimate(math.nan, math.nan, math.nan), math.nan
    own = (data.high - data.value) / 1.96
    # One more draw varies by its landmarks too: the spread of the clouds holds both.
    z = (data.value - cloud) / max(math.hypot(own, spread), 1e-12)
    relative = math.hypot(own / cloud, data.value / cloud * spread / cloud / math.sqrt(len(clouds)))
    return Estimate.around(data.value / cloud, relative), z


def _answer(position: float, z: float) -> Answer:
    if math.isnan(position) or position > _NO or z > -3:
        return "no"
    return "hierarchical" if position <= _HIERARCHICAL else "partly"
