"""Blocks of pairs of points: their distances, and gradients collected by point.

Note [Pairs]: with y = √c z and H = (cosh|y|, sinh|y| y/|y|), a point of the unit hyperboloid, a pair has

    s = sinh²(√c d/2) = (H₀H₀' − H·H' − 1)/2,    d = 2 asinh(√s)/√c,

so the gradient of any sum over pairs is a matrix product with H. s itself is taken from the same product where that
keeps seven digits, and from two squares, as in `manifolds.pairwise`, for the few pairs where it does not, which lie
close together and far out. For c = 0, s = d².
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from horoball.manifolds import PoincareBall

__all__ = ["Block", "Curved", "Flat"]

_DIGITS = 1e7  # what is asked of s: seven digits


class Block(NamedTuple):
    """Pairs: a matrix, rows × columns, or a list of (row, column).

    Example:
        >>> Block(torch.tensor([0, 1]), torch.tensor([2, 2])).listed
        True
    """

    rows: Tensor
    columns: Tensor
    listed: bool = True
    weight: float = 1.0  # how often each pair counts
    left_out: tuple[Tensor, Tensor] | None = None  # places of the matrix that do not count

    def counts(self, like: Tensor) -> Tensor:
        """How often each place counts."""
        counts = torch.full_like(like, self.weight)
        if self.left_out is not None:
            counts[self.left_out] = 0.0
        return counts


class Curved:
    """Points of the ball.

    Args:
        y: √c z, float64, shape (n, d).
        root: √c.

    Example:
        >>> space = Curved(torch.tensor([[3.0], [1.0]], dtype=torch.float64), torch.tensor(1.0))
        >>> space.distances(space.squares(Block(torch.tensor([0]), torch.tensor([1]))))
        tensor([2.], dtype=torch.float64)
    """

    def __init__(self, y: Tensor, root: Tensor) -> None:
        self.root = float(root)
        with torch.enable_grad():
            self.y = y.detach().requires_grad_()
            self.h = PoincareBall(1.0).to_lorentz(self.y)
        self.k = self.h.detach().clone()  # H·k' is Lorentz's product with its sign changed
        self.k[:, 1:] *= -1
        self.of_h, self.of_root = torch.zeros_like(self.k), y.new_zeros(())
        radius = torch.linalg.vector_norm(y, dim=-1, keepdim=True)
        direction = y / radius.clamp_min(1e-300)  # at 0 any will do
        # All that is known of a point in one row, which is fetched at once.
        self.known = torch.cat((radius, torch.sinh(radius), direction, self.k), -1)
        self.blurred = _DIGITS * float(self.k[:, 0].amax()) ** 2 * torch.finfo(y.dtype).eps
        self.ends = self.known, self.known  # of the block at hand, if it is listed
        self.slope = y  # √(s(1 + s)) of the block at hand

    def squares(self, block: Block) -> Tensor:
        """The numbers s of a block."""
        i, j = block.rows, block.columns
        if block.listed:
            self.ends = self.known.index_select(0, i), self.known.index_select(0, j)
            return self._two_squares(*self.ends)
        s = (self.h.detach()[i] @ self.k[j].T - 1) / 2
        few = (s < self.blurred).nonzero(as_tuple=True)
        s[few] = self._two_squares(self.known[i[few[0]]], self.known[j[few[1]]])
        return s

    def _two_squares(self, first: Tensor, second: Tensor) -> Tensor:
        d = self.y.shape[1]
        half = torch.sinh((first[:, 0] - second[:, 0]) / 2)
        chord = (first[:, 2 : 2 + d] - second[:, 2 : 2 + d]).square().sum(-1)
        return half * half + first[:, 1] * second[:, 1] * chord / 4

    def distances(self, s: Tensor) -> Tensor:
        """d, from s."""
        sinh, cosh = s.sqrt(), torch.sqrt(1 + s)
        self.slope = sinh * cosh
        return torch.log1p(sinh + s / (1 + cosh)) * (2 / self.root)  # asinh, of numbers that are positive

    def collect(self, block: Block, rate: Tensor, d: Tensor) -> None:
        """Add what a block gives to the gradients, where `rate` is that of its distances."""
        self.of_root -= torch.sum(rate * d, dtype=torch.float64) / self.root
        i, j = block.rows, block.columns
        rate = (rate / self.slope).double() / (2 * self.root)
        if block.listed:
            first, second = (end[:, 2 + self.y.shape[1] :] for end in self.ends)
            rate = rate.unsqueeze(-1)
            self.of_h.index_add_(0, i, rate * second)
            self.of_h.index_add_(0, j, rate * first)
        else:
            self.of_h[i] += rate @ self.k[j]
            self.of_h[j] += rate.T @ self.k[i]

    def gradients(self) -> tuple[Tensor, Tensor]:
        """In y, and in √c where it divides."""
        return torch.autograd.grad(self.h, self.y, self.of_h)[0], self.of_root


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
        a, b = self.y.index_select(0, block.rows), self.y.index_select(0, block.columns)
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
            self.of_y[i] += rate.sum(1, keepdim=True) * self.y[i] - rate @ self.y[j]
            self.of_y[j] += rate.sum(0).unsqueeze(-1) * self.y[j] - rate.T @ self.y[i]

    def gradients(self) -> tuple[Tensor, Tensor]:
        """In y; √c is no number here."""
        return self.of_y, self.of_y.new_zeros(())
