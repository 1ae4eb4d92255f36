"""Distances that the terms of a map share, as squared chords: cheaper than distances, and all that a kernel needs.

The squared chord of two points at distance d is s = 4 sinh²(√c d/2)/c, which is d² for c = 0. Between all points of two
sets it is one product of matrices in the coordinates of the hyperboloid, as cosh(√c d) = 1 + c s/2.
"""

from __future__ import annotations

import torch
from torch import Tensor

from horoball.manifolds import PoincareBall
from horoball.numerics.curvature import root
from horoball.numerics.kernels import asinh

__all__ = ["ChordPoints", "chord_distance"]

_TINY = 1e-30  # floor of a squared chord: the distance of a point to itself has no gradient
_CENTER = 1e-12  # floor of a radius: the origin has a gradient too


class ChordPoints:
    """Points with what their chords are made of, computed once: directions ẑ, and √c r, sinh √c r and cosh √c r.

    Args:
        ball: The ball.
        z: Points in tangent coordinates at the origin, shape (n, d).

    Example:
        >>> points = ChordPoints(PoincareBall(1.0), torch.tensor([[3.0, 0.0], [-2.0, 0.0]]))
        >>> chord_distance(points.ball, points.between(points.take(torch.tensor([1]))))[0]
        tensor([5.])
    """

    def __init__(self, ball: PoincareBall, z: Tensor) -> None:
        self.ball, self.z = ball, z
        if not ball.is_euclidean:
            radius = z.square().sum(-1).clamp_min(_CENTER**2).sqrt()
            self.unit, self.angle = z / radius.unsqueeze(-1), radius * root(ball.c)
            self.sinh, self.cosh = torch.sinh(self.angle), torch.cosh(self.angle)

    def take(self, index: Tensor) -> ChordPoints:
        """Some of the points, by their numbers."""
        some = object.__new__(ChordPoints)
        some.ball = self.ball
        for name, values in vars(self).items():
            if name != "ball":
                setattr(some, name, values.index_select(0, index))
        return some

    def between(self, others: ChordPoints) -> Tensor:
        """Squared chords to all of some other points, shape (n, m).

        They cancel where both points are far out and close to each other: in float32 at distance 4 from the origin, to
        0.02 of a distance. Landmarks are chosen at random, so hardly any pair is.
        """
        if self.ball.is_euclidean:
            mine, theirs = self.z.square().sum(-1), others.z.square().sum(-1)
            return (mine.unsqueeze(-1) + theirs - 2 * self.z @ others.z.mT).clamp_min(_TINY)
        u, w = self.unit * self.sinh.unsqueeze(-1), others.unit * others.sinh.unsqueeze(-1)
        return ((self.cosh.unsqueeze(-1) * others.cosh - u @ w.mT - 1) * (2 / self.ball.c)).clamp_min(_TINY)

    def paired(self, others: ChordPoints) -> Tensor:
        """Squared chords to as many other points, one each, to full precision for near pairs, shape (n,).

        By the law of cosines, cosh √c d − 1 is 2 sinh²(√c (r − r')/2) + sinh √c r sinh √c r' |ẑ − ẑ'|²/2.
        """
        if self.ball.is_euclidean:
            return (self.z - others.z).square().sum(-1)
        along = 4 * torch.sinh((self.angle - others.angle) / 2).square()
        across = self.sinh * others.sinh * (self.unit - others.unit).square().sum(-1)
        return (along + across) / self.ball.c


def chord_distance(ball: PoincareBall, square: Tensor) -> Tensor:
    """The distance of points whose squared chord is given.

    Example:
        >>> chord_distance(PoincareBall(0.0), torch.tensor([4.0]))
        tensor([2.])
    """
    if ball.is_euclidean:
        return square.sqrt()
    curved = root(ball.c)
    return asinh(square.sqrt() * (curved / 2)) * (2 / curved)
