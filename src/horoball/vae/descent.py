"""What a layout goes down: its two terms over all rows, with their gradients by hand, block by block.

A layout has hundreds of steps, each over all rows, and what these cost are passes over matrices of squared chords, and
for a small table the bookkeeping of automatic differentiation. So a block of rows, small enough for a core's cache, is
carried from coordinates to gradients at once.

With H(z) = (cosh √c r, ẑ sinh √c r) the squared chord of two points is a product of matrices, s = H K Hᵀ − 2/c, where
K = (2/c) diag(1, −1, …). For c = 0 it is one with H(z) = (1, z, |z|²), and K swaps the ends and doubles the rest. So
the gradient in z comes from that in H, which is again a product.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from horoball.geometry.ball import PoincareBall
from horoball.vae.distances import NEAR, ChordPoints

_LEAST = 1e-10  # floor of a squared chord: rounding leaves no digit of shorter ones
_BLOCK = 1 << 17  # pairs at a time: buffers of half a megabyte


class Pull(NamedTuple):
    """Gradients of the sum of the terms."""

    z: Tensor  # in the points, shape (rows, d)
    distances: float  # in the logarithm of the distances' scale
    kernel: float  # in the logarithm of the kernel's scale


class Terms(NamedTuple):
    """What a step compares; a part with weight 0 is left out."""

    landmarks: Tensor  # numbers of rows
    g: Tensor  # distances in the data, shape (landmarks, rows)
    weight_of_distances: float
    near: Tensor  # one neighbor of each row
    far: Tensor  # numbers of rows that stand for all others
    crowd: float  # m, see `NeighborTerm`
    weight_of_neighbors: float


class Descent:
    """The gradients of (1 − λ) distance term + λ neighbor term, each a mean over all rows.

    They are those of the means of `DistanceTerm` and `NeighborTerm` in `horoball.vae.distances`.
    """

    def __init__(self, ball: PoincareBall, z: Tensor) -> None:
        self.points, self.c, self.root, d = ChordPoints(ball, z), ball.c_value, math.sqrt(ball.c_value), z.shape[1]
        if self.c == 0:
            self.h = torch.cat((torch.ones_like(z[:, :1]), z, z.square().sum(-1, keepdim=True)), -1)
            self.metric = torch.diag(z.new_tensor((0.0, *(-2.0,) * d, 0.0)))
            self.metric[0, -1] = self.metric[-1, 0] = 1.0
            self.shift = 0.0
        else:
            unit, sinh, cosh = self.points.unit, self.points.sinh, self.points.cosh
            self.h = torch.cat((cosh.unsqueeze(-1), unit * sinh.unsqueeze(-1)), -1)
            self.metric = torch.diag(z.new_tensor((1.0, *(-1.0,) * d))) * (2 / self.c)
            self.shift = -2 / self.c

    def pull(self, terms: Terms, distances: float, kernel: float) -> Pull:
        """The gradients."""
        points, rows, of_h = self.points, len(self.h), torch.zeros_like(self.h)
        of_distances = of_kernel = 0.0
        narrow = math.exp(-2 * kernel)
        marks, others = (self.h[index] @ self.metric for index in (terms.landmarks, terms.far))
        to_marks, to_others = torch.zeros_like(marks), torch.zeros_like(others)
        if terms.weight_of_neighbors > 0:
            beside = points.take(terms.near)
            near = points.paired(beside)
            to_near = torch.empty_like(near).unsqueeze(-1)
        size = max(1, _BLOCK // max(len(marks), len(others)))
        for first in range(0, rows, size):
            block = slice(first, first + size)
            h = self.h[block]
            if terms.weight_of_distances > 0:
                scaled = terms.weight_of_distances / (rows * len(marks))
                slopes, part = self._distances(self._squares(marks, h), terms.g[:, block], distances)
                of_distances += scaled * part
                of_h[block] += scaled * (slopes.mT @ marks)
                to_marks += scaled * (slopes @ h)
            if terms.weight_of_neighbors > 0:
                square = self._squares(others, h)
                k = (square * narrow).add_(1).reciprocal_()
                mean, wanted = k.mean(0), near[block] * narrow + 1
                share = terms.weight_of_neighbors / rows / (1 + terms.crowd * mean * wanted)
                falls = k.square_().mul_(share * wanted * (-terms.crowd / len(others)))
                of_narrow = torch.dot(falls.flatten(), square.flatten())
                of_narrow += (share * terms.crowd * mean * near[block]).sum()
                of_kernel += -2 * narrow * float(of_narrow)
                falls *= narrow
                to_near[block, 0] = share * (terms.crowd * narrow) * mean
                of_h[block] += falls.mT @ others
                to_others += falls @ h
        of_h.index_add_(0, terms.landmarks, to_marks @ self.metric)
        if terms.weight_of_neighbors > 0:
            of_h.index_add_(0, terms.far, to_others @ self.metric)
        of_z = self._from_h(of_h)
        if terms.weight_of_neighbors > 0:
            of_z += to_near * points.slope(beside)
            of_z.index_add_(0, terms.near, to_near * beside.slope(points))
        return Pull(of_z, of_distances, of_kernel)

    def _squares(self, some: Tensor, h: Tensor) -> Tensor:
        """Squared chords, shape (some, rows)."""
        return (some @ h.mT).add_(self.shift).clamp_min_(_LEAST)

    def _distances(self, square: Tensor, g: Tensor, log_scale: float) -> tuple[Tensor, float]:
        """Of (d e^−t − g)²/(g² + 0.01) the derivative in s, and the sum of those in t."""
        inverse, chord = math.exp(-log_scale), square.sqrt_()
        if self.c == 0:
            distance, slope = chord, chord.reciprocal()
        else:
            half = chord * (self.root / 2)
            rise = torch.addcmul(half.new_ones(()), half, half).sqrt_()
            distance = half.add_(rise).log_().mul_(2 / self.root)
            slope = chord.mul_(rise).reciprocal_()  # of d in s, twice
        weighed = (distance * inverse).sub_(g).div_(torch.addcmul(g.new_full((), NEAR), g, g))
        of_scale = -2 * inverse * float(torch.dot(weighed.flatten(), distance.flatten()))
        return slope.mul_(weighed).mul_(inverse), of_scale

    def _from_h(self, of_h: Tensor) -> Tensor:
        """The gradient in z from that in H."""
        points, across = self.points, of_h[:, 1:]
        if self.c == 0:
            return across[:, :-1] + 2 * points.z * across[:, -1:]
        stretch = points.sinh / points.angle * self.root
        along = of_h[:, 0] * points.sinh * self.root
        along += (across * points.unit).sum(-1) * (points.cosh * self.root - stretch)
        return stretch.unsqueeze(-1) * across + along.unsqueeze(-1) * points.unit
