"""The gyroplane layer for devices where starting a kernel is what costs: few operations, and none that is waited for.

Points and offsets are multiplied by √c and f is divided by it, so that all is done on the ball of c = 1. With the unit
normal ŵ = w/ℓ, x = b/ℓ and a = |z|,

    f = ℓ asinh(y),    y = cosh a sinh x + sinhc(a) cosh x ⟨z, ŵ⟩.

A point or hyperplane beyond `REACH` is put there. f goes on with slope ±1 from it: what a and |x| exceed it by is added
to asinh(y), with its sign. In gradients sinh and cosh of reach stand for those beyond it, whose quotient is the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from horoball.nn.gyroplane_function import REACH, SHORTEST, plain_gyroplane
from horoball.numerics.autograd import differentiated_by
from horoball.numerics.curvature import Curvature, load, root, save
from horoball.numerics.kernels import wide

__all__ = ["fused_gyroplane"]

_TINY = 1e-30  # floor of √c|z|: sinh(a)/a is 1 there


def fused_gyroplane(z: Tensor, weight: Tensor, bias: Tensor, c: Curvature) -> Tensor:
    """f for points (*batch, d), normals (out, d) and offsets (out,), shape (*batch, out) [eq:gyroplane].

    Example:
        >>> fused_gyroplane(torch.tensor([3.0, 0.0]), torch.tensor([[1.0, 0.0]]), torch.zeros(1), 1.0)
        tensor([3.])
    """
    f = _FusedGyroplane.apply(z.reshape(-1, z.shape[-1]), weight, bias, c)
    return f.reshape(*z.shape[:-1], weight.shape[0])


class _FusedGyroplane(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, w: Tensor, b: Tensor, c: Curvature) -> Tensor:
        s, kind, reach = root(c), z.dtype, REACH[z.dtype]
        p, n = wide(z) * s, wide(w)
        a = torch.linalg.vector_norm(p, dim=-1, keepdim=True).clamp_min_(_TINY)
        inside = a.clamp_max(reach)
        cosh, sinhc = inside.cosh(), inside.sinh().div_(a)
        H = torch.cat((cosh, p * sinhc), -1).to(kind)
        length = torch.linalg.vector_norm(n, dim=-1).clamp_min_(SHORTEST)
        x = (wide(b) * s).div_(length)
        near = x.clamp(-reach, reach)
        sinh_x, cosh_x = near.sinh(), near.cosh()
        slant = cosh_x / length
        W = torch.cat((sinh_x.unsqueeze(-1), slant.unsqueeze(-1) * n), -1).to(kind)
        scale = (length / s).to(kind)
        y = H @ W.mT
        beyond = ((a - inside) + (x - near).abs_()).to(kind)
        f = y.asinh().addcmul_(y.sign(), beyond).mul_(scale)
        save(ctx, c, z, w, b, p, n, a, cosh, sinhc, H, length, x, sinh_x, cosh_x, slant, W, scale, y, f)
        return f

    @staticmethod
    @differentiated_by(plain_gyroplane)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        c, (_z, _w, _b, p, n, a, cosh, sinhc, H, length, x, sinh_x, cosh_x, slant, W, scale, y, f) = load(ctx)
        s = root(c)
        slope = (y * y).add_(1).rsqrt_().mul_(grad).mul_(scale)
        G_H, G_W = wide(slope @ W), wide(slope.mT @ H)
        # Points: ∂cosh a/∂z = sinhc(a) z, ∂sinhc(a)/∂z = (cosh a − sinhc a)/a² z
        to_p = G_H[:, 1:]
        pull = (cosh - sinhc).div_(a).div_(a).mul_((to_p * p).sum(-1, keepdim=True)).addcmul_(sinhc, G_H[:, :1])
        of_p = (to_p * sinhc).addcmul_(p, pull)
        # Hyperplanes: W is (sinh x, ŵ cosh x) with x = b/ℓ; and f is a multiple of ℓ
        to_n = G_W[:, 1:]
        along = (to_n * n).sum(-1)
        of_x = (G_W[:, 0] * cosh_x).addcmul_(along / length, sinh_x)
        of_f = wide((grad * f).sum(0))
        of_length = torch.addcmul(of_f, along, slant, value=-1).addcmul_(of_x, x, value=-1)
        of_length.div_(length).div_(length)
        grad_w = (to_n * slant.unsqueeze(-1)).addcmul_(n, of_length.unsqueeze(-1)).to(grad.dtype)
        grad_c = None
        if ctx.needs_input_grad[3]:  # through √c, by which z and b were multiplied and f divided
            total = (of_p * p).sum() + torch.addcmul(-of_f, of_x, x).sum()
            grad_c = total.div_(2 * wide(c)).to(c.dtype).reshape(c.shape)
        return of_p.mul_(s).to(grad.dtype), grad_w, of_x.mul_(s).div_(length).to(grad.dtype), grad_c
