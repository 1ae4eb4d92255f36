"""The order in which a point meets the centers of partitions: nearest first.

A point is assigned to the center that it meets first, and has to meet the same one when it comes as a query. Scores of
an inner product engine do not see to that: far out they differ by less than their rounding, and BLAS rounds otherwise
for few rows than for many. So squares of distances are computed exactly here, of rows that are rounded to multiples of
2⁻²⁵ first: their products are multiples of 2⁻⁵⁰ and, with all lengths up to 1, all sums are below 2³, which 53 bits
hold, in whatever order they are added. Rows that are alike to 2⁻²⁵ then meet all centers in the same order, as
neighbors should.

In the ball the centers are ordered by the s of `lift`. With R of the query and ρ of the center, both times √c, and
their unit vectors u and y,

    c s + 1 = exp(−ρ) + sinh(ρ) (1 − σ tanh R + σ tanh(R) |u − y|²/2),

where nothing cancels far out if 1 − tanh R is taken as 2/(exp 2R + 1). σ is 1 for the nearest center, and more to favor
those in the direction of the query.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["BallOrder", "Order"]

_BITS = 2.0**25
_NUMBERS = 2**22  # scores that are held at a time, 32 MB


class Order:
    """Centers by their distance in some coordinates.

    Args:
        rows: From points to coordinates, float64.
        centers: Coordinates of the centers, float64, shape (m, k).

    Example:
        >>> order = Order(lambda z: z, torch.tensor([[0.0, 3.0], [1.0, 0.0]]).double())
        >>> order.first(torch.tensor([[0.0, 0.0], [0.0, 2.0]]).double(), 2)
        tensor([[1, 0],
                [0, 1]])
    """

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
        blocks = z.split(max(1, _NUMBERS // len(self._centers)))
        return torch.cat([self._block(block, count) for block in blocks])

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

    Example:
        >>> order = BallOrder(1.0, 1.0, torch.tensor([[0.0, 30.0], [1e-6, 30.0], [0.0, -9.0]]).double(), 1.0)
        >>> order.first(torch.tensor([[0.0, 30.0], [0.0, -30.0]]), 2)
        tensor([[0, 1],
                [2, 0]])
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
