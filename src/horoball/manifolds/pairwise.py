"""Distances between all points of one set and all of another, without a triangle for each pair.

With a = √c|z|, b = √c|y| and the chord |ẑ − ŷ| between directions, the law of cosines is a sum of two squares,

    sinh²(√c d/2) = sinh²((a − b)/2) + sinh(a) sinh(b) (|ẑ − ŷ|/2)²,

which does not cancel. Only the chords are a matrix of pairs before the last step, and torch has a kernel for those.
"""

from __future__ import annotations

import torch
from torch import Tensor

from horoball.numerics.curvature import Curvature, root
from horoball.numerics.kernels import may_hold, wide, wide_dtype

__all__ = ["pairwise_dist"]

_MODERATE = 340.0  # √c·radius up to which sinh(a) sinh(b) is finite in float64
_FLAT = 1e-12  # of c: below it d/√c would lose digits that the general way keeps
_TINY = 1e-60  # floor of sinh²(√c d/2): the distance of a point to itself has no gradient


def pairwise_dist(z: Tensor, y: Tensor, c: Curvature) -> Tensor | None:
    """d(z_i, y_j), shape (*batch, n, m) [eq:dist]; None for points too far out, c too close to 0, or no float64.

    Example:
        >>> pairwise_dist(torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 0.0], [-2.0, 0.0]]), 1.0)
        tensor([[3., 5.]])
    """
    if torch.compiler.is_compiling() or wide_dtype(z) != torch.float64 or may_hold(torch.as_tensor(c) < _FLAT):
        return None
    scale = root(c)
    (u, a), (w, b) = _polar(z, scale), _polar(y, scale)
    if may_hold(a > _MODERATE) or may_hold(b > _MODERATE):
        return None
    chord = torch.cdist(u, w, compute_mode="donot_use_mm_for_euclid_dist")
    a, b = a.unsqueeze(-1), b.unsqueeze(-2)
    half = torch.sinh((a - b) / 2)
    square = half * half + torch.sinh(a) * torch.sinh(b) * (chord * chord) / 4
    apart = torch.asinh(square.clamp_min(_TINY).sqrt()) * 2 / scale
    return torch.where(square > _TINY, apart, 0.0).to(torch.promote_types(z.dtype, y.dtype))


def _polar(z: Tensor, root: Tensor | float) -> tuple[Tensor, Tensor]:
    """Direction and √c·radius, in float64. The origin is given a direction, without which it would have no gradient."""
    z = wide(z)
    aside = z.new_zeros(z.shape[-1])
    aside[0] = 1e-30
    z = z + aside
    radius = torch.linalg.vector_norm(z, dim=-1)
    return z / radius.unsqueeze(-1), radius * root
