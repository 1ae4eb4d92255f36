"""Geodesics: points on the way from one point to another."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from horoball.manifolds.translation import translated_radius
from horoball.numerics.curvature import Curvature, widened
from horoball.numerics.kernels import asinhc, log_sinhc, wide

__all__ = ["geodesic"]

_FAR = {torch.float64: 300.0, torch.float32: 40.0}  # exponents up to which a square is a number


def geodesic(z: Tensor, y: Tensor, s: float | Tensor, c: Curvature) -> Tensor:
    """The point at fraction s of the way from z to y.

    On the hyperboloid it is a combination of both ends, h = (sinh((1 − s)D) h_z + sinh(sD) h_y)/sinh D, D = √c d(z, y),
    whose terms cancel only where the way passes the origin. Weights are logarithms: a radius may be of any size.

    Example:
        >>> geodesic(torch.tensor([20.0, 1.0]), torch.tensor([-3.0, 20.0]), 1.0, 1.0)
        tensor([-3., 20.])
    """
    kind = torch.promote_types(z.dtype, y.dtype)
    z, y, c = wide(z), wide(y), widened(c)
    fraction = wide(s) if isinstance(s, Tensor) else s
    square = c * translated_radius(z, -y, c).square().unsqueeze(-1)
    whole = log_sinhc(square)
    from_z, from_y = (
        log_sinhc(part * part * square) - whole + log_sinhc(c * (end * end).sum(-1, keepdim=True))
        for part, end in ((1 - fraction, z), (fraction, y))
    )
    size = torch.maximum(from_z, from_y).detach()
    n = (1 - fraction) * torch.exp(from_z - size) * z + fraction * torch.exp(from_y - size) * y  # h·exp(−size)
    u = c * (n * n).sum(-1, keepdim=True)
    far = size > _FAR[size.dtype]
    near = torch.where(far, 0.0, size)
    factor = torch.exp(near) * asinhc(torch.exp(2 * near) * u)
    # asinh x = log 2x there, unless the two ends have undone each other
    u_safe = torch.where(far & (u > 0), u, 1.0)
    beyond = (size + math.log(2) + torch.log(u_safe) / 2) / torch.sqrt(u_safe)
    return (n * torch.where(far, beyond, factor)).to(kind)
