"""Distances of blocks of pairs of points, and gradients collected by point.

Note [Pairs]: with y = √c z and H = (cosh|y|, sinh|y| y/|y|), a point of the unit hyperboloid, a pair has

    s = sinh²(√c d/2) = (H₀H₀' − H·H' − 1)/2,    d = 2 asinh(√s)/√c,

so the gradient of any sum over pairs is a matrix product with H. Both are taken from such products where that keeps
seven digits. For the few pairs where it does not, which lie close together and far out, and for listed pairs, s is two
squares, as in `manifolds.pairwise`, of radius r = |y| and direction u = y/r, and the gradient is that of

    s = sinh²((r − r')/2) + sinh r sinh r' |u − u'|²/4.

For c = 0, s = d².
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import embedding

from horoball.models.graph.pair_blocks import Block

__all__ = ["Curved", "Flat"]

_DIGITS = 1e7  # what is asked of s: seven digits


class Curved:
    """Points of the ball.

    Args:
        y: √c z, float64, shape (n, d).
        root: √c.

    Example:
        >>> space = Curved(torch.tensor([[3.0], [1.0]], dtype=torch.float64), root=1.0)
        >>> space.distances(space.squares(Block(torch.tensor([0]), torch.tensor([1]))))
        tensor([2.], dtype=torch.float64)
    """

    def __init__(self, y: Tensor, root: float) -> None:
        self.root = root
        radius = torch.linalg.vector_norm(y, dim=-1, keepdim=True)
        direction = y / radius.clamp_min(1e-300)  # at 0 any will do
        # All that is known of a point in one row, which is fetched at once; and the gradients in radius and direction,
        # the latter by sinh r. A graph of ten million nodes has nothing else of this size.
        self.known = torch.cat((radius, torch.sinh(radius), torch.cosh(radius), direction), -1)
        self.of_radius_direction, self.of_root = y.new_zeros(len(y), y.shape[1] + 1), y.new_zeros(())
        self.sign = torch.cat((y.new_ones(1), -y.new_ones(y.shape[1])))
        self.ends = self.known, self.known  # of the listed, or the few, pairs of the block at hand
        self.squared = radius, radius, radius  # and what their squares are made of
        self.sides = self.known, self.known  # of the block at hand, if it is not listed
        self.products = self.known, self.known  # and their k: H·k' is Lorentz's product with its sign changed
        self.few: tuple[Tensor, ...] = ()  # the places of the few pairs there
        self.slope = radius  # √(s(1 + s)) of the block at hand

    def squares(self, block: Block) -> Tensor:
        """The numbers s of a block."""
        i, j = block.rows, block.columns
        if block.listed:
            self.ends = self.known.index_select(0, i), self.known.index_select(0, j)
            return self._two_squares(*self.ends)
        self.sides = embedding(i, self.known), embedding(j, self.known)
        self.products = rows, columns = _signed(self.sides[0]), _signed(self.sides[1])
        s = ((rows * self.sign) @ columns.mT).sub_(1).div_(2)
        # The product loses as many digits of a pair as its own H₀H₀' is large: one far point makes no other pair slow.
        blurred = (rows[..., :1] * (_DIGITS * torch.finfo(s.dtype).eps)) * columns[..., :1].mT
        self.few = (s < blurred).nonzero(as_tuple=True)
        i, j = self._few_of(block)
        self.ends = self.known[i], self.known[j]
        s[self.few] = self._two_squares(*self.ends)
        return s

    def _few_of(self, block: Block) -> tuple[Tensor, Tensor]:
        """Rows and columns of the few pairs."""
        *matrix, row, column = self.few
        return block.rows[(*matrix, row)], block.columns[(*matrix, column)]

    def _two_squares(self, first: Tensor, second: Tensor) -> Tensor:
        half, across = torch.sinh((first[:, 0] - second[:, 0]) / 2), first[:, 3:] - second[:, 3:]
        chord = across.square().sum(-1) / 4
        self.squared = half, across, chord
        return half * half + first[:, 1] * second[:, 1] * chord

    def distances(self, s: Tensor) -> Tensor:
        """d, from s."""
        sinh, cosh = s.sqrt(), torch.sqrt(1 + s)
        self.slope = sinh * cosh
        return torch.log1p(sinh + s / (1 + cosh)) * (2 / self.root)  # asinh, of numbers that are positive

    def collect(self, block: Block, rate: Tensor, d: Tensor) -> None:
        """Add what a block gives to the gradients, where `rate` is that of its distances."""
        self.of_root -= torch.sum(rate * d, dtype=torch.float64) / self.root
        rate = (rate / self.slope).double() / (2 * self.root)
        i, j = block.rows, block.columns
        if not block.listed:
            close, rate[self.few] = rate[self.few], 0.0
            rows, columns = self.products
            for end, side, of_h in ((i, self.sides[0], rate @ columns), (j, self.sides[1], rate.mT @ rows)):
                of_radius_direction = _by_radius(of_h, side).flatten(0, -2)
                self.of_radius_direction.index_add_(0, end.flatten(), of_radius_direction)  # maybe a row twice
            rate, (i, j) = close, self._few_of(block)
        self._collect_by_radius(i, j, 2 * rate)

    def _collect_by_radius(self, i: Tensor, j: Tensor, rate: Tensor) -> None:
        """The gradients of pairs in radius and direction, where `rate` is that of s."""
        (first, second), (half, across, chord) = self.ends, self.squared
        slope = half * torch.sqrt(1 + half * half)  # sinh(r − r')/2
        of_first, of_second = slope + chord * first[:, 2] * second[:, 1], chord * first[:, 1] * second[:, 2] - slope
        across = across * (rate / 2).unsqueeze(-1)
        for end, of_radius, of_direction in (
            (i, of_first, across * second[:, 1:2]),
            (j, of_second, across * -first[:, 1:2]),
        ):
            self.of_radius_direction.index_add_(0, end, torch.cat(((rate * of_radius).unsqueeze(-1), of_direction), -1))

    def gradients(self) -> tuple[Tensor, Tensor]:
        """In y, and in √c where it divides."""
        of_radius, of_direction = self.of_radius_direction.split((1, self.known.shape[1] - 3), -1)
        radius, sinh, direction = self.known[:, :1], self.known[:, 1:2], self.known[:, 3:]
        across = of_direction - (of_direction * direction).sum(-1, keepdim=True) * direction
        across *= torch.where(radius > 0, sinh / radius.clamp_min(1e-300), 1.0)
        return across.addcmul_(of_radius, direction), self.of_root


def _signed(known: Tensor) -> Tensor:
    """k = (cosh r, −sinh r u) of points."""
    return torch.cat((known[..., 2:3], -known[..., 1:2] * known[..., 3:]), -1)


def _by_radius(of_h: Tensor, known: Tensor) -> Tensor:
    """Gradients in H = (cosh r, sinh r u) as those in r and, by sinh r, in u."""
    of_time, of_space = of_h[..., :1], of_h[..., 1:]
    along = (of_space * known[..., 3:]).sum(-1, keepdim=True)
    return torch.cat((of_time * known[..., 1:2] + along * known[..., 2:3], of_space), -1)


class Flat:
    """Points of the plane, the case c = 0.

    Args:
        y: Points, float64, shape (n, d).

    Example:
        >>> space = Flat(torch.tensor([[3.0], [1.0]], dtype=torch.float64))
        >>> space.distances(space.squares(Block(torch.tensor([0]), torch.tensor([1]))))
        tensor([2.], dtype=torch.float64)
    """

    def __init__(self, y: Tensor) -> None:
        self.y, self.of_y = y.detach(), torch.zeros_like(y)
        self.apart = self.y  # z_i − z_j of the block at hand, if it is listed

    def squares(self, block: Block) -> Tensor:
        """The numbers s of a block."""
        a, b = self.y[block.rows], self.y[block.columns]
        if block.listed:
            self.apart = a - b
            return self.apart.square().sum(-1)
        return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").square()

    def distances(self, s: Tensor) -> Tensor:
        """d, from s."""
        return s.sqrt()

    def collect(self, block: Block, rate: Tensor, d: Tensor) -> None:
        """Add what a block gives to the gradients, where `rate` is that of its distances."""
        i, j = block.rows, block.columns
        rate = (rate / d).double()
        if block.listed:
            part = rate.unsqueeze(-1) * self.apart
            self.of_y.index_add_(0, i, part)
            self.of_y.index_add_(0, j, part, alpha=-1)
        else:
            a, b = self.y[i], self.y[j]
            of_rows = rate.sum(-1, keepdim=True) * a - rate @ b
            of_columns = rate.sum(-2).unsqueeze(-1) * b - rate.mT @ a
            self.of_y.index_add_(0, i.flatten(), of_rows.flatten(0, -2))  # a stack may hold a row twice
            self.of_y.index_add_(0, j.flatten(), of_columns.flatten(0, -2))

    def gradients(self) -> tuple[Tensor, Tensor]:
        """In y; √c is no number here."""
        return self.of_y, self.of_y.new_zeros(())
