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

A point meets the centers of partitions in an order, nearest first. It is assigned to the center that it meets first,
and has to meet the same one when it comes as a query. Scores of an inner product engine do not see to that: far out
they differ by less than their rounding, and BLAS rounds otherwise for few rows than for many. So squares of distances
are computed exactly here, of rows that are rounded to multiples of 2⁻²⁵ first: their products are multiples of 2⁻⁵⁰
and, with all lengths up to 1, all sums are below 2³, which 53 bits hold, in whatever order they are added. Rows that
are alike to 2⁻²⁵ then meet all centers in the same order, as neighbors should.

In the ball the centers are ordered by the s of `lift`. With R of the query and ρ of the center, both times √c, and
their unit vectors u and y,

    c s + 1 = exp(−ρ) + sinh(ρ) (1 − σ tanh R + σ tanh(R) |u − y|²/2),

where nothing cancels far out if 1 − tanh R is taken as 2/(exp 2R + 1). σ is 1 for the nearest center, and more to favor
those in the direction of the query.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.geometry.kernels import tanhc
from horoball.neighbors.lift import Lift
from horoball.plugins import required

_BITS = 2.0**25
_NUMBERS = 2**22  # scores that are held at a time, 32 MB


class Order:
    """Centers by their distance in some coordinates."""

    def __init__(self, rows: Callable[[Tensor], Tensor], centers: Tensor) -> None:
        longest = float(torch.linalg.vector_norm(centers, dim=-1).max()) or 1.0
        # a power of 2, which rounds nothing; 1 for unit vectors, though they may be longer by a rounding
        self._rows, self._unit = rows, 2.0 ** math.ceil(math.log2(longest) - 1e-9)
        y = _rounded(centers / self._unit)
        self._centers = torch.cat((-2 * y, torch.ones_like(y[:, :1]), _square(y)), 1)

    def first(self, z: Tensor, count: int) -> Tensor:
        """The centers that points meet first, int64, shape (n, count); of equal ones that of the least number is first.

        Args:
            z: Points in the tangent chart, shape (n, d).
            count: How many, at most m.
        """
        found, size = torch.empty(len(z), count, dtype=torch.int64), max(1, _NUMBERS // len(self._centers))
        for start in range(0, len(z), size):  # filled in place: small answers kept between large scores split the heap
            found[start : start + size] = self._block(z[start : start + size], count)
        return found

    def _block(self, z: Tensor, count: int) -> Tensor:
        scores = self._scores(z)
        lead = scores.argmin(1, keepdim=True)
        if count == 1:
            return lead
        found = scores.topk(count, largest=False).indices
        # Of equal ones topk may put any first.
        return torch.cat((lead, torch.where(found == lead, found[:, :1], found)[:, 1:]), 1)

    def _scores(self, z: Tensor) -> Tensor:
        return self._squares(self._rows(z) / self._unit)

    def _squares(self, x: Tensor) -> Tensor:
        """|x − y|² for all centers y."""
        x = _rounded(x)
        return torch.cat((x, _square(x), torch.ones_like(x[:, :1])), 1) @ self._centers.T


class BallOrder(Order):
    """Centers by their score s in the ball.

    Args:
        c: Minus the curvature, above 0.
        unit: The length of points that counts as 1.
        centers: The centers in units, shape (m, d).
        stretch: σ.
    """

    def __init__(self, c: float, unit: float, centers: Tensor, stretch: float) -> None:
        self._scale, self._stretch = math.sqrt(c) / unit, stretch
        r, y = _polar(centers * math.sqrt(c))
        super().__init__(lambda z: z, y)
        self._sinh, self._exp = torch.sinh(r).T, torch.exp(-r).T

    def _scores(self, z: Tensor) -> Tensor:
        r, x = _polar(z.double() * self._scale)
        tanh = self._stretch * torch.tanh(r)
        short = 2 / (torch.exp(2 * r) + 1) + (torch.tanh(r) - tanh)  # 1 − σ tanh
        return self._squares(x / self._unit).mul_(tanh / 2).add_(short).mul_(self._sinh).add_(self._exp)


def _polar(z: Tensor) -> tuple[Tensor, Tensor]:
    r = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    return r, z / r.clamp_min(1e-300)


def _rounded(x: Tensor) -> Tensor:
    return (x * _BITS).round() / _BITS


def _square(x: Tensor) -> Tensor:
    return x.square().sum(-1, keepdim=True)


_SAMPLE = 40  # points per partition that k-means looks at
_STEPS = 8
_FLAT = 1e-9  # (√cR)² of the farthest point, below which curvature does not change which partition is nearest
_RADIUS = 0.25  # weight of the radius among a query's own partitions


class Probe(NamedTuple):
    """How many partitions a search looks through."""

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
        index = required("faiss").IndexFlatIP(self.centers.shape[-1])
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
    kmeans = required("faiss").Kmeans(rows.shape[1], count, **options)
    kmeans.train(rows)
    return Partitions(torch.from_numpy(kmeans.centroids), lift, width, False, 1.0)
