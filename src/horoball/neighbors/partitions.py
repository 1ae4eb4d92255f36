"""Partitions: which points are searched together.

A search looks through the partitions whose centers have the best inner products with the query, so a partition ought to
hold points that are neighbors of the same queries. Seen from afar, the score of a point changes by a factor exp(δ) when
its √cR changes by δ, and by a factor of about 1 + δ when its direction turns by δ. So they are found by k-means on

    (w tanh(√cR/w) z/R, √cR − w tanh(√cR/w)),

where a turn and a step outwards weigh the same for w = 1. Near the origin, and for c = 0, this is z itself. Points in
tight clusters far out have their neighbors in nearly their own direction: they want a larger w, and to be assigned to
the center that is nearest in the ball. Points that fill the ball do not: the innermost centers would get nearly all.
`calibration` measures which it is.

The best products alone are not enough. In many dimensions the points that fill a ball are far from each other, and the
innermost ones are the neighbors of all: every query would be sent to them, and a point that is in the index, or nearly
so, would not find itself. So a search also looks through the query's own partitions: the one that it would be assigned
to if it were added to the index, and then the nearest in the features, with radii weighed less. For a step in a random
direction leads outwards, and hardly turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.neighbors.lift import Lift
from horoball.neighbors.order import BallOrder, Order
from horoball.numerics.kernels import tanhc
from horoball.runtime.extras import require_faiss

__all__ = ["Partitions", "Probe", "features", "train"]

_SAMPLE = 40  # points per partition that k-means looks at
_STEPS = 8
_FLAT = 1e-9  # (√cR)² of the farthest point, below which curvature does not change which partition is nearest
_RADIUS = 0.25  # weight of the radius among a query's own partitions


class Probe(NamedTuple):
    """How many partitions a search looks through.

    Example:
        >>> Probe(2, 30).doubled()
        Probe(own=4, best=60)
    """

    own: int  # the one that the query would be assigned to, and the next ones
    best: int  # those with the best inner products

    def doubled(self) -> Probe:
        """Twice as many of both."""
        return Probe(2 * self.own, 2 * self.best)


@dataclass(frozen=True)
class Partitions:
    """Centers, and how points and queries are assigned to them.

    Example:
        >>> z = torch.randn(1000, 2, generator=torch.Generator().manual_seed(0))
        >>> partitions = train(z, Lift.of(z, 1.0), 20, width=1.0, seed=0)
        >>> partitions.assign(z).max()
        np.int64(19)
        >>> bool((partitions.own(z, 3)[:, 0] == partitions.assign(z)).all())
        True
    """

    centers: Tensor  # in the features above, float32, shape (m, d + 1)
    lift: Lift
    width: float  # w
    curved: bool  # points go to the center that is nearest in the ball, not in the features
    stretch: float  # factor of the center's h: more than 1 favors partitions in the query's direction

    def __len__(self) -> int:
        return len(self.centers)

    def assign(self, z: Tensor) -> np.ndarray:
        """The partition of each point, int64."""
        return self._rule.first(z, 1)[:, 0].numpy()

    def own(self, z: Tensor, count: int) -> np.ndarray:
        """The partition that a point would be assigned to, and the next ones, int64, shape (n, count); −1 is none."""
        if self.curved or count == 1:
            return self._rule.first(z, count).numpy()
        assigned = self.assign(z)[:, None]
        near = self._near.first(z, count - 1).numpy()
        near[near == assigned] = -1
        return np.concatenate((assigned, near), 1)

    def best(self, z: Tensor, count: int) -> np.ndarray:
        """The partitions whose centers have the best scores with queries, int64, shape (n, count)."""
        return self._by_score.first(z, count).numpy()

    def probed(self, z: Tensor, probe: Probe) -> np.ndarray:
        """The partitions to look through for queries, each once, int64; −1 is none.

        Args:
            z: Queries in the tangent chart, shape (n, d).
            probe: How many.
        """
        if sum(probe) >= len(self):
            return np.tile(np.arange(len(self)), (len(z), 1))
        best, own = self.best(z, probe.best), self.own(z, probe.own)
        own[(own[:, :, None] == best[:, None]).any(-1)] = -1  # FAISS would look through it twice
        return np.concatenate((own, best), 1)

    def are_finite(self) -> bool:
        """Whether all centers can be written in float32 as queries meet them, far-out ones included."""
        return bool(np.isfinite(self._lifted()).all())

    def quantizer(self) -> Any:
        """A flat FAISS index of the centers: an inverted file wants one, though it is told where points are."""
        index = require_faiss().IndexFlatIP(self.centers.shape[-1])
        index.add(self._lifted())
        return index

    def _lifted(self) -> np.ndarray:
        return self.lift.points(self._points() * self.lift.unit)

    @cached_property
    def _by_score(self) -> Order:
        return self._in_ball(self.stretch)

    @cached_property
    def _rule(self) -> Order:
        """How points are assigned."""
        if self.curved:
            return self._in_ball(1.0)
        return Order(lambda z: features(z, self.lift, self.width), self.centers.double())

    @cached_property
    def _near(self) -> Order:
        """The same without regard to the ball, with radii weighed less."""
        return Order(lambda z: _weighed(features(z, self.lift, self.width)), _weighed(self.centers.double()))

    def _in_ball(self, stretch: float) -> Order:
        if self.lift.c * self.lift.reach**2 < _FLAT:
            return Order(lambda z: self.lift.scaled(z)[0], self._points())
        return BallOrder(self.lift.c, self.lift.unit, self._points(), stretch)

    def _points(self) -> Tensor:
        """The centers in units of the lift, float64."""
        center = self.centers.double()
        turned, rest = center[:, :-1], center[:, -1:]
        length = torch.linalg.vector_norm(turned, dim=-1, keepdim=True)
        # Of a mean of features: its direction, at the radius that its two parts make together.
        return torch.where(length > 0, turned * (1 + rest / length.clamp_min(1e-30)), 0.0)


def features(z: Tensor, lift: Lift, width: float) -> Tensor:
    """What k-means sees of points, float64, shape (n, d + 1).

    Example:
        >>> z = torch.tensor([[0.0, 20.0]])
        >>> features(z, Lift.of(z, 1.0), 1.0)  # direction and radius
        tensor([[ 0.,  1., 19.]], dtype=torch.float64)
    """
    z, u = lift.scaled(z)
    turned = tanhc(u / (width * width))
    radius = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    return torch.cat((z * turned, radius * (1 - turned)), -1)


def _weighed(rows: Tensor) -> Tensor:
    return torch.cat((rows[:, :-1], _RADIUS * rows[:, -1:]), 1)


def train(z: Tensor, lift: Lift, count: int, *, width: float, seed: int) -> Partitions:
    """Find partitions by k-means on a sample.

    Args:
        z: Points in the tangent chart, shape (n, d).
        lift: Their lift.
        count: Number of partitions.
        width: w.
        seed: Of the sample and of k-means.

    Example:
        >>> z = torch.randn(1000, 2)
        >>> train(z, Lift.of(z, 1.0), 20, width=1.0, seed=0).centers.shape
        torch.Size([20, 3])
    """
    if len(z) > count * _SAMPLE:
        z = z[torch.randperm(len(z), generator=torch.Generator().manual_seed(seed))[: count * _SAMPLE]]
    rows = features(z, lift, width).float().numpy()
    options = {"niter": _STEPS, "seed": seed + 1, "max_points_per_centroid": _SAMPLE, "min_points_per_centroid": 1}
    kmeans = require_faiss().Kmeans(rows.shape[1], count, **options)
    kmeans.train(rows)
    return Partitions(torch.from_numpy(kmeans.centroids), lift, width, False, 1.0)
