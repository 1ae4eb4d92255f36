"""Busemann functions, whose level sets are horospheres: how far a point lies toward a point at infinity."""

from __future__ import annotations

import torch
from torch import Tensor

from horoball.numerics.curvature import Curvature, positive, root, widened
from horoball.numerics.kernels import sinhc, wide

__all__ = ["busemann"]

_FAR = {torch.float64: 300.0, torch.float32: 40.0}  # √c·radius up to which exp of twice it is a number


def busemann(z: Tensor, direction: Tensor, c: Curvature) -> Tensor:
    """log(cosh a − sinh a cos θ)/√c for c > 0, with a = √c|z| and the angle θ between z and the direction.

    Example:
        >>> busemann(torch.tensor([3.0, 0.0]), torch.tensor([1.0, 0.0]), 1.0)
        tensor(-3.)
    """
    kind = torch.promote_types(z.dtype, direction.dtype)
    z, xi = torch.broadcast_tensors(wide(z), wide(direction))
    xi = xi / torch.linalg.vector_norm(xi, dim=-1, keepdim=True)
    s, u = root(positive(c)), widened(c) * (z * z).sum(-1)
    # Near the origin in even kernels of a², which are smooth there; elsewhere −a + log(1 + (exp 2a − 1) sin²(θ/2)).
    near = u < 1
    small = torch.where(near, u, 0.0)
    rise = small / 2 * sinhc(small / 4).square() - s * sinhc(small) * (torch.where(near[..., None], z, 0.0) * xi).sum(
        -1
    )
    R = torch.linalg.vector_norm(torch.where(near[..., None], xi, z), dim=-1, keepdim=True)
    a = s * R.squeeze(-1)
    across = torch.where(near[..., None], xi, z) / R - xi
    share = (across * across).sum(-1) / 4  # sin²(θ/2)
    held = a.clamp_max(_FAR[a.dtype])
    far = torch.log1p(torch.expm1(2 * held) * share) + torch.where(share > 0, 2 * (a - held), 0.0) - a
    return (torch.where(near, torch.log1p(rise), far) / s).to(kind)
