"""The means of `DistanceTerm` and `NeighborTerm` over all rows, from a matrix of squared chords.

Each is one function with a gradient of its own. A layout has thousands of such matrices, and what they cost is passes
over them, of which automatic differentiation takes more.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from horoball.objectives.distances import NEAR

__all__ = ["mean_distance_term", "mean_neighbor_term"]


def mean_distance_term(square: Tensor, g: Tensor, log_scale: Tensor, c: float) -> Tensor:
    """The mean over all pairs of (d e^−t − g)² / (g² + 0.01), where t is the logarithm of the scale.

    Args:
        square: Squared chords s in the map, positive; see `horoball.objectives.chords`.
        g: The same distances in the data, all known.
        log_scale: t.
        c: Minus the curvature.

    Example:
        >>> square, g = torch.tensor([[4.0, 9.0]]), torch.tensor([[2.0, 2.0]])
        >>> mean_distance_term(square, g, torch.zeros(()), 0.0)
        tensor(0.1247)
    """
    mean: Tensor = _MeanDistanceTerm.apply(square, g, log_scale, c)
    return mean


def mean_neighbor_term(near: Tensor, far: Tensor, log_scale: Tensor, crowd: float) -> Tensor:
    """The mean over rows of log(1 + m k̄/k), with the kernel k of a row's neighbor and the mean k̄ of others.

    Args:
        near: Squared chords from rows to one neighbor each, shape (rows,).
        far: The same from others to rows, shape (others, rows).
        log_scale: Logarithm of the kernel's scale τ.
        crowd: m, rows that are told apart from the neighbor.

    Example:
        >>> mean_neighbor_term(torch.tensor([1.0]), torch.tensor([[3.0], [1.0]]), torch.zeros(()), 8.0)
        tensor(1.9459)
    """
    narrow = (-2 * log_scale).exp()
    return torch.log1p(crowd * _MeanKernel.apply(far, narrow) * (1 + near * narrow)).mean()


class _MeanDistanceTerm(torch.autograd.Function):
    """With h = √(c s)/2: d = 2 asinh(h)/√c and ∂d/∂s = 1/(2 √s √(1 + h²)). Distances far below 0.1 are rounded."""

    @staticmethod
    def forward(ctx: Any, square: Tensor, g: Tensor, log_scale: Tensor, c: float) -> Tensor:
        inverse, curved = (-log_scale).exp(), c**0.5
        chord = square.sqrt()
        if c == 0:
            distance, slope = chord, chord.reciprocal()
        else:
            half = chord * (curved / 2)
            rise = torch.addcmul(half.new_ones(()), half, half).sqrt_()
            distance = half.add_(rise).log_().mul_(2 / curved)
            slope = chord.mul_(rise).reciprocal_()
        error = distance * inverse - g
        weighed = error / torch.addcmul(g.new_full((), NEAR), g, g)
        pairs = square.numel()
        ctx.scale_slope = -2 * inverse * torch.dot(weighed.flatten(), distance.flatten()) / pairs
        mean = torch.dot(weighed.flatten(), error.flatten()) / pairs
        ctx.slope = slope.mul_(weighed).mul_(inverse / pairs)
        return mean

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, Tensor, None]:
        return ctx.slope * grad, None, ctx.scale_slope * grad, None


class _MeanKernel(torch.autograd.Function):
    """The mean over others, the first dimension, of k = 1/(1 + s/τ²); ∂k/∂s = −k²/τ²."""

    @staticmethod
    def forward(ctx: Any, far: Tensor, narrow: Tensor) -> Tensor:
        kernel = (far * narrow).add_(1).reciprocal_()
        mean = kernel.mean(0)
        ctx.save_for_backward(far, narrow)
        ctx.square = kernel.square_()
        return mean

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        far, narrow = ctx.saved_tensors
        falls = ctx.square * (grad / -len(far))
        return falls * narrow, torch.dot(falls.flatten(), far.flatten())
