"""The volume element of the exponential map, in the tangent chart."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from horoball.manifolds.plain import plain_log_volume
from horoball.numerics.autograd import differentiated_by
from horoball.numerics.curvature import Curvature, grad_in, load, root, save
from horoball.numerics.kernels import coth_excess, transformed, wide_dtype

__all__ = ["log_volume"]

_TINY = 1e-30  # floor of √c|v|: sinh(x)/x is 1 there


class _LogVolume(torch.autograd.Function):
    """∂/∂v = (d − 1) c K(c|v|²) v and ∂/∂c = (d − 1)|v|² K(c|v|²)/2, with K from `coth_excess`."""

    @staticmethod
    def forward(ctx: Any, v: Tensor, c: Curvature) -> Tensor:
        x = torch.linalg.vector_norm(v, dim=-1, dtype=wide_dtype(v)).mul_(root(c))
        save(ctx, c, v, x)
        t = (x * -2).clamp_max_(-_TINY)
        return torch.expm1(t).div_(t).log_().add_(x).mul_(v.shape[-1] - 1).to(v.dtype)

    @staticmethod
    @differentiated_by(plain_log_volume)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        c, (v, x) = load(ctx)
        square = torch.linalg.vector_norm(v, dim=-1, dtype=wide_dtype(v)).square_() if ctx.needs_input_grad[1] else x
        if v.dtype == torch.float32 and x.dtype == torch.float64:
            # For float32 a plain quotient does, with 1/3 − 2e-8 below x = 1e-3.
            x = x.clamp_min(1e-3)
            excess = (x / x.tanh()).sub_(1).div_(x).div_(x)
        else:
            square = torch.linalg.vector_norm(v, dim=-1, dtype=wide_dtype(v)).square_()
            excess = coth_excess(c * square)
        rate = (v.shape[-1] - 1) * grad * excess
        grad_c = grad_in(c, rate * square) / 2 if ctx.needs_input_grad[1] else None
        return (c * rate).to(v.dtype).unsqueeze(-1) * v, grad_c


def log_volume(v: Tensor, c: Curvature) -> Tensor:
    """(d − 1) log(sinh(√c|v|)/(√c|v|)) [eq:volume_element].

    Example:
        >>> log_volume(torch.zeros(3), 1.0)
        tensor(0.)
    """
    return plain_log_volume(v, c) if transformed() else _LogVolume.apply(v, c)
