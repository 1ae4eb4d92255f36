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

Other engines that know inner products, such as vector databases, get the same vectors, with lengths in units of 1/√c.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from horoball.geometry.ball import PoincareBall
from horoball.tables.numbers import check_unmasked

FARTHEST = 80.0  # of √cR: exp(88) is the end of float32
_ROUNDING = 2.0**-24
_SMALLEST = 1e-36  # below it float32 loses digits


class Queries(NamedTuple):
    """Lifted queries."""

    rows: np.ndarray  # (−1, g/cosh), float32, shape (n, d + 1)
    radius: Tensor  # R_q, shape (n,); this and the rest in units of the lift, float64
    B: Tensor
    cosh: Tensor
    length: Tensor  # |g|/cosh


@dataclass(frozen=True)
class Lift:
    """The lift for points of a certain size."""

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
    """sinh(√u)/√u: `kernels.sinhc` without regard to gradients, in few operations, for single queries."""
    x = u.sqrt().clamp_min(1e-100)
    return torch.sinh(x) / x


_COORDINATES = ("tangent", "ball")


def check_coordinates(coordinates: str) -> None:
    """Refuse a word that names no coordinates.

    Example:
        >>> check_coordinates("Ball")
        Traceback (most recent call last):
        ...
        ValueError: Expected coordinates 'tangent' or 'ball', got 'Ball'.
    """
    if coordinates not in _COORDINATES:
        raise ValueError(f"Expected coordinates {' or '.join(map(repr, _COORDINATES))}, got {coordinates!r}.")


def in_chart(z: ArrayLike | Tensor, ball: PoincareBall, coordinates: str, d: int | None, what: str) -> Tensor:
    """Points in the tangent chart, on the CPU; float32 stays float32, all else becomes float64.

    Args:
        z: Points, shape (n, d).
        ball: Their ball.
        coordinates: `"tangent"` or `"ball"`.
        d: The dimension that is expected, if one is.
        what: What they are, for messages.

    Example:
        >>> in_chart([[0.5, 0.0]], PoincareBall(), "ball", 2, "Queries")
        tensor([[1.0986, 0.0000]], dtype=torch.float64)
    """
    check_coordinates(coordinates)
    points = z.detach().cpu() if isinstance(z, Tensor) else _as_tensor(z, what)
    if points.dtype == torch.bool or points.is_complex():
        raise TypeError(f"{what} are real numbers, got {points.dtype}.")
    if points.dim() != 2 or points.shape[1] == 0 or (d is not None and points.shape[1] != d):
        hint = " Give a single point as z[None]." if points.dim() == 1 else ""
        raise ValueError(f"{what} have shape (n, {d or 'd'}), got {tuple(points.shape)}.{hint}")
    if not bool(points.isfinite().all()):
        row = int((~points.isfinite().all(-1)).nonzero()[0])
        raise ValueError(f"{what} are finite, got NaN or infinity in row {row}.")
    if coordinates == "ball":
        points = ball.from_ball(points.double())
    points = points if points.dtype == torch.float32 else points.double()
    farthest = float(torch.linalg.vector_norm(points, dim=-1, dtype=torch.float64).max()) if len(points) else 0.0
    c = ball.c_value
    if c**0.5 * farthest > FARTHEST:
        raise ValueError(
            f"{what} lie within sqrt(c)·|z| = {FARTHEST:g} of the origin, got {c**0.5 * farthest:.3g}. Farther out the "
            "search by inner products overflows."
        )
    return points.contiguous()


def _as_tensor(z: ArrayLike, what: str) -> Tensor:
    check_unmasked(z, f"The array of {what[0].lower()}{what[1:]}")
    try:
        array = np.array(z)
    except ValueError:  # rows of different lengths
        raise ValueError(f"{what} have shape (n, d), got rows of different lengths.") from None
    if array.dtype.kind in "US" or (array.dtype.kind == "O" and any(isinstance(one, str) for one in array.flat)):
        raise TypeError(
            f"{what} are coordinates, got text. The coordinates of a point of an index are index.points[i], where i "
            "counts points in the order in which they were added."
        )
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{what} are real numbers, got {array.dtype}.")
    return torch.from_numpy(array if array.dtype.itemsize <= 8 else array.astype(np.float64))


def vectors(z: ArrayLike | Tensor, ball: PoincareBall, *, coordinates: str = "tangent") -> np.ndarray:
    """What to store of points: float32, shape (n, d + 1). They stand for themselves, whatever else is stored.

    Args:
        z: Points, shape (n, d).
        ball: Their ball.
        coordinates: `"tangent"`, as models carry points, or `"ball"`, as estimators, commands and files give them.

    Example:
        >>> vectors([[0.0, 0.0], [0.0, 1.0]], PoincareBall(1.0))
        array([[0.        , 0.        , 0.        ],
               [0.54308...,  0.        , 1.1752...]], dtype=float32)
    """
    return _lift(ball).points(in_chart(z, ball, coordinates, None, "Points"))


def query_vectors(z: ArrayLike | Tensor, ball: PoincareBall, *, coordinates: str = "tangent") -> np.ndarray:
    """What to search for: float32, shape (n, d + 1). See `vectors`.

    Example:
        >>> ball = PoincareBall(1.0)
        >>> stored = vectors([[0.0, 0.0], [0.0, 1.0], [2.0, 0.0]], ball)
        >>> (query_vectors([[1.5, 0.5]], ball) @ stored.T).argmax()
        np.int64(2)
    """
    return _lift(ball).queries(in_chart(z, ball, coordinates, None, "Queries")).rows


def _lift(ball: PoincareBall) -> Lift:
    """One lift for all points of a ball, so that vectors made on different days go together."""
    c = ball.c_value
    return Lift(1.0, 1 / math.sqrt(c), torch.inf) if c > 0 else Lift(0.0, 1.0, torch.inf)
