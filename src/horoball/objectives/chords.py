"""Distances that the terms of a map share, as squared chords: cheaper than distances, and all that a kernel needs.

The squared chord of two points at distance d is s = 4 sinh²(√c d/2)/c, which is d² for c = 0. Between all points of two
sets it is one product of matrices in the coordinates of the hyperboloid, as cosh(√c d) = 1 + c s/2.
"""

from __future__ import annotations

import torch
from torch import Tensor

from horoball.manifolds import PoincareBall
from horoball.numerics.curvature import root
from horoball.numerics.kernels import wide

__all__ = ["chord_distance", "chords_between", "paired_chords"]

_TINY = 1e-30  # floor of a squared chord: the distance of a point to itself has no gradient


def paired_chords(ball: PoincareBall, z: Tensor, y: Tensor) -> Tensor:
    """Squared chords of pairs of points, to full precision for near pairs, shape (n,).

    Example:
        >>> paired_chords(PoincareBall(0.0), torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 4.0]]))
        tensor([25.], dtype=torch.float64)
    """
    distance = wide(ball.dist(z, y))
    if ball.is_euclidean:
        return distance.square()
    curved = root(ball.c)
    return (torch.sinh(distance * (curved / 2)) * (2 / curved)).square()


def chords_between(ball: PoincareBall, z: Tensor, y: Tensor) -> Tensor:
    """Squared chords between all points of two sets, shape (n, m).

    They cancel where both points are far out and close to each other: at distance 10 from the origin, to 10⁻³ of a
    distance. Landmarks are chosen at random, so hardly any pair is.

    Example:
        >>> square = chords_between(PoincareBall(1.0), torch.tensor([[3.0, 0.0]]), torch.tensor([[-2.0, 0.0]]))
        >>> round(chord_distance(PoincareBall(1.0), square).item(), 6)
        5.0
    """
    z, y = wide(z), wide(y)
    if ball.is_euclidean:
        square = z.square().sum(-1).unsqueeze(-1) + y.square().sum(-1) - 2 * z @ y.mT
        return square.clamp_min(_TINY)
    (u, a), (w, b) = _lift(ball, z), _lift(ball, y)
    return ((a.unsqueeze(-1) * b - u @ w.mT - 1) * (2 / ball.c)).clamp_min(_TINY)


def chord_distance(ball: PoincareBall, square: Tensor) -> Tensor:
    """The distance of points whose squared chord is given.

    Example:
        >>> chord_distance(PoincareBall(0.0), torch.tensor([4.0]))
        tensor([2.])
    """
    if ball.is_euclidean:
        return square.sqrt()
    curved = root(ball.c)
    return torch.asinh(square.sqrt() * (curved / 2)) * (2 / curved)


def _lift(ball: PoincareBall, z: Tensor) -> tuple[Tensor, Tensor]:
    """Coordinates of the hyperboloid, sinh(√c r) z/r and cosh(√c r)."""
    radius = z.square().sum(-1).clamp_min(_TINY).sqrt()  # the origin has a gradient too
    angle = radius * root(ball.c)
    return z * (torch.sinh(angle) / radius).unsqueeze(-1), torch.cosh(angle)
