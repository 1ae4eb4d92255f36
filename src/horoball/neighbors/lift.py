"""The lift that turns distances into inner products, in float32, and how far float32 can be trusted.

A point at distance R from the origin has coordinates on the hyperboloid, of which the first is taken from 1,

    A = (cosh(√cR) − 1)/c,        h = sinh(√cR)/√c · z/R,

and with those of a query, B and g, the distance d between the two satisfies

    (cosh(√c d) − 1)/c = B + cosh(√cR_q) s,        s = A − ⟨h, g⟩/cosh(√cR_q).

The nearest point has the least s, so the largest inner product of (A, h) with (−1, g/cosh √cR_q). For c = 0 this is
A = |z|²/2, h = z and s = |z − q|²/2 − |q|²/2: nothing changes.

A and h grow as exp(√cR) and s does not: for near points far out it is a difference of nearly equal numbers. Rounding
moves it by at most (d + 4) u (A + |h||g|/cosh √cR_q), u = 2⁻²⁴, which is `Lift.error`. It tells which points the order
of s has settled, and which have to be compared in float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

__all__ = ["FARTHEST", "Lift", "Queries"]

FARTHEST = 80.0  # of √cR: exp(88) is the end of float32
_ROUNDING = 2.0**-24
_SMALLEST = 1e-36  # below it float32 loses digits


class Queries(NamedTuple):
    """Lifted queries.

    Example:
        >>> Lift.of(torch.ones(1, 2), 1.0).queries(torch.zeros(1, 2)).rows
        array([[-1.,  0.,  0.]], dtype=float32)
    """

    rows: np.ndarray  # (−1, g/cosh), float32, shape (n, d + 1)
    radius: Tensor  # R_q, shape (n,); this and the rest in units of the lift, float64
    B: Tensor
    cosh: Tensor
    length: Tensor  # |g|/cosh


@dataclass(frozen=True)
class Lift:
    """The lift for points of a certain size.

    Example:
        >>> lift = Lift.of(torch.tensor([[0.0, 0.0], [3.0, 4.0]]), 0.0)
        >>> lift.points(torch.tensor([[3.0, 4.0]]))  # lengths are in units of the largest, 5
        array([[0.5, 0.6, 0.8]], dtype=float32)
    """

    c: float  # minus the curvature, in units of 1/unit²
    unit: float  # the length that counts as 1: of the farthest point, or 1/√c if it is farther
    reach: float  # of the farthest point, in units

    @classmethod
    def of(cls, z: Tensor, c: float) -> Lift:
        """The lift for points in the tangent chart, shape (n, d)."""
        farthest = float(torch.linalg.vector_norm(z, dim=-1, dtype=torch.float64).max())
        unit = min(farthest, 1 / math.sqrt(c)) if c > 0 else farthest
        unit = unit or 1.0
        return cls(c * unit * unit, unit, farthest / unit)

    def reaching(self, z: Tensor) -> Lift:
        """The same lift, for these points too."""
        return replace(self, reach=max(self.reach, Lift.of(z, 0.0).unit / self.unit if len(z) else 0.0))

    def scaled(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """z in units, and c|z|²; float64."""
        z = z.double() / self.unit
        return z, self.c * z.square().sum(-1, keepdim=True)

    def points(self, z: Tensor) -> np.ndarray:
        """(A, h) of points, float32, shape (n, d + 1)."""
        return torch.cat(self._coordinates(z), -1).float().numpy()

    def queries(self, z: Tensor) -> Queries:
        """Queries that are searched for by inner products, shape (n, d)."""
        B, g = self._coordinates(z)
        cosh = 1 + self.c * B
        g = g / cosh
        rows = torch.cat((-torch.ones_like(B), g), -1).float().numpy()
        radius = torch.linalg.vector_norm(z, dim=-1, dtype=torch.float64) / self.unit
        return Queries(rows, radius, B.squeeze(-1), cosh.squeeze(-1), torch.linalg.vector_norm(g, dim=-1))

    def score(self, queries: Queries, distance: Tensor) -> Tensor:
        """The s of points at a distance from each query, in float64."""
        return (self._height((distance / self.unit).square()) - queries.B) / queries.cosh

    def error(self, queries: Queries, distance: Tensor, d: int) -> Tensor:
        """Bound of the rounding of s, for all points that are not farther from a query than a distance."""
        R = (queries.radius + distance / self.unit).clamp_max(self.reach)
        A, h = self._height(R * R), R * _sinhc(self.c * R * R)
        return (d + 4) * _ROUNDING * (A + h * queries.length) + _SMALLEST

    def _coordinates(self, z: Tensor) -> tuple[Tensor, Tensor]:
        z, u = self.scaled(z)
        return self._height(z.square().sum(-1, keepdim=True)), z * _sinhc(u)

    def _height(self, square: Tensor) -> Tensor:
        """(cosh(√cR) − 1)/c = 2 sinh²(√cR/2)/c from R²."""
        return square / 2 * _sinhc(self.c * square / 4).square()


def _sinhc(u: Tensor) -> Tensor:
    """sinh(√u)/√u: `numerics.sinhc` without regard to gradients, in few operations, for single queries."""
    x = u.sqrt().clamp_min(1e-100)
    return torch.sinh(x) / x
