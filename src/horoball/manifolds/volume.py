"""The volume element of the exponential map, in the tangent chart."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from horoball.autograd import first_order
from horoball.manifolds.triangle import Curvature
from horoball.numerics import coth_excess, wide, wide_dtype

__all__ = ["log_volume"]

_TINY = 1e-30  # floor of √c|v|: sinh(x)/x is 1 there


class _LogVolume(torch.autograd.Function):
    """∂/∂v = (d − 1) c K(c|v|²) v and ∂/∂c = (d − 1)|v|² K(c|v|²)/2, with K from `coth_excess`."""

    @staticmethod
    def forward(ctx: Any, v: Tensor, c: Curvature) -> Tensor:
        root = wide(c).sqrt() if isinstance(c, Tensor) else math.sqrt(c)
        x = torch.linalg.vector_norm(v, dim=-1, dtype=wide_dtype(v)).mul_(root)
        ctx.c = None if isinstance(c, Tensor) else c
        ctx.save_for_backward(v, x, *((c,) if isinstance(c, Tensor) else ()))
        t = (x * -2).clamp_max_(-_TINY)
        return torch.expm1(t).div_(t).log_().add_(x).mul_(v.shape[-1] - 1).to(v.dtype)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        v, x, *rest = ctx.saved_tensors
        if ctx.c is not None and v.dtype == torch.float32:
            # For float32 a plain quotient does, with 1/3 − 2e-8 below x = 1e-3; ∂/∂c at c = 0 wants the series.
            x = x.clamp_min(1e-3)
            rate = (x / x.tanh()).sub_(1).div_(x).div_(x)
            return (rate.to(v.dtype) * grad).mul_(ctx.c * (v.shape[-1] - 1)).unsqueeze(-1) * v, None
        c = rest[0] if ctx.c is None else ctx.c
        square = torch.linalg.vector_norm(v, dim=-1, dtype=wide_dtype(v)).square_()
        rate = (v.shape[-1] - 1) * grad * coth_excess(c * square)
        grad_c = (rate * square).sum().to(c.dtype).reshape(c.shape) / 2 if ctx.needs_input_grad[1] else None
        return (c * rate).to(v.dtype).unsqueeze(-1) * v, grad_c


def log_volume(v: Tensor, c: Curvature) -> Tensor:
    """(d − 1) log(sinh(√c|v|)/(√c|v|)) [eq:volume_element].

    Example:
        >>> log_volume(torch.zeros(3), 1.0)
        tensor(0.)
    """
    return _LogVolume.apply(v, c)
