"""exp_μ(v) for float32 vectors of moderate length: the hot path of sampling, in half the operations of `translation`.

The formulas are those of the `triangle`, with hyperbolic functions as they stand instead of scaled by exponentials,
and all of it in float64: two vectors a point are few. Rounding is then invisible in float32, unless v all but undoes μ
or √c(|μ| + |v|) exceeds 300; batches with such vectors, float64 and a c that is a tensor go the general way.

At a batch of some hundred points the time goes into starting operations, not into numbers. So what is done to both μ
and v is done once, to a tensor of shape (2, *batch, d), and sums of products are gathered in place.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from horoball.manifolds.plain import plain_translate
from horoball.numerics.autograd import differentiated_by
from horoball.numerics.curvature import Curvature, load, save
from horoball.numerics.kernels import looks_ahead
from horoball.runtime.devices import has_float64

__all__ = ["moderate_exp"]

_TINY = 1e-30  # floor of a length: sinh(a)/a is 1 and a direction 0 there
_MOST = 1e125  # of sinh²(a_z/2): products of two such numbers are still float64
_UNDONE = 1e-7  # least sinh²(a_z/2)/(sinh a sinh b): float64's rounding over it is well below float32's


def moderate_exp(mu: Tensor, v: Tensor, c: Curvature) -> Tensor | None:
    """exp_μ(v) [eq:exp], or None when the vectors are not for this way.

    Example:
        >>> moderate_exp(torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0]), 1.0)
        tensor([3., 0.])
    """
    usual = mu.dtype == torch.float32 and looks_ahead(mu) and has_float64(mu.device) and mu.numel()
    if not usual or isinstance(c, Tensor):
        return None
    z, moderate = _ModerateExp.apply(mu, v, c)
    return z if moderate else None


class _ModerateExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mu: Tensor, v: Tensor, c: float) -> tuple[Tensor, bool]:
        s = math.sqrt(c)
        unit = torch.stack((mu, v)).double()
        R = torch.linalg.vector_norm(unit, dim=-1, keepdim=True).clamp_min_(_TINY)
        unit.div_(R)
        u, w = unit.unbind(0)
        k = (u * w).sum(-1, keepdim=True)  # cos φ
        ab = R * s
        sinh, cosh = ab.sinh(), ab.cosh_()
        (sinh_a, sinh_b), cosh_b = sinh.unbind(0), cosh[1]
        tanh_half = torch.tanh(R[0] * (s / 2))
        # x = sinh(a_z/2), from which a_z, sinh a_z = 2x√(1 + x²) and cosh a_z = 1 + 2x²
        half = (R[0] - R[1]).mul_(s / 2).sinh_()
        product = sinh_a * sinh_b
        x2 = torch.addcmul(half * half, product, (k + 1).mul_(0.5))
        if not (x2.max() < _MOST and torch.add(x2, product, alpha=-_UNDONE).min() > 0):
            return mu, False
        x, root = x2.sqrt(), (x2 + 1).sqrt_()
        az = torch.addcdiv(x, x2, root + 1).log1p_().mul_(2)
        inverse = (x * root).reciprocal_().mul_(0.5)  # 1/sinh a_z
        ratio = (az * inverse).mul_(1 / s)  # R_z/sinh a_z
        lift = sinh_a * tanh_half  # cosh a − 1
        weight_u = torch.addcmul(sinh_a * cosh_b, k * sinh_b, lift).mul_(ratio)
        weight_w = sinh_b * ratio
        z = (u * weight_u).addcmul_(w, weight_w)
        save(ctx, c, mu, v, R, unit, k, sinh, cosh, lift, tanh_half, x2, az, inverse, ratio, weight_u, weight_w)
        return z.to(mu.dtype), True

    @staticmethod
    @differentiated_by(plain_translate)
    def backward(ctx: Any, grad: Tensor, _: None) -> tuple[Tensor, Tensor, None]:
        c, (_mu, _v, R, unit, k, sinh, cosh, lift, t, x2, az, inverse, ratio, weight_u, weight_w) = load(ctx)
        s = math.sqrt(c)
        (R1, R2), (u, w) = R.unbind(0), unit.unbind(0)
        (sinh_a, sinh_b), (cosh_a, cosh_b) = sinh.unbind(0), cosh.unbind(0)
        g = grad.double()
        g_u, g_w = (g * unit).sum(-1, keepdim=True).unbind(0)
        g_n, g_m = torch.addcmul(g_w, k, g_u, value=-1), torch.addcmul(g_u, k, g_w, value=-1)  # along v̂ − kμ̂, μ̂ − kv̂
        lam1, lam2 = sinh_a * inverse, sinh_b * inverse
        out, back = sinh_a * cosh_b, cosh_a * sinh_b
        cos1 = torch.addcmul(out, k, back).mul_(inverse)  # ∂R_z/∂|μ|
        cos2 = torch.addcmul(back, k, out).mul_(inverse)  # ∂R_z/∂|v|
        cosh_z = (x2 * 2).add_(1)
        g_r = torch.addcmul(cos1 * g_u, lam2, g_n)  # along ẑ
        turn = (cos1 * g_n).addcmul_(lam2 * g_u, (k * k).sub_(1))
        A, B = weight_u / R1, weight_w / R2
        lean = lam2 * (az * cosh_z).mul_(inverse)  # λ₂ a_z coth a_z
        bend = torch.addcmul(t, cosh_z, torch.addcmul(k * sinh_b, t, cosh_b)).mul_(lam1).mul_(ratio).div_(R1)
        side1 = torch.addcmul(g_r, lean, g_n, value=-1).mul_(sinh_a / R1).mul_(1 / s)
        side1 = side1.addcmul_(bend, g_u, value=-1).mul_(lam2)
        side2 = (sinh_b / R2).mul_(1 / s).mul_(lam1).mul_(g_r)
        fall = torch.addcmul(cos1, k, lam2, value=-1).mul_(cos2).mul_(g_w)
        side2.addcmul_(B, fall.addcmul_(g_m, torch.addcmul(lam1 * lam1, lift * cos2, lam2)), value=-1)
        radial1 = (
            torch.addcmul(g_r * cos1, turn, lean, value=-1).addcmul_(A, g_u, value=-1).addcmul_(k, side1, value=-1)
        )
        radial2 = (turn * lam1).mul_(ratio).mul_(s).addcmul_(g_r, cos2)
        radial2.addcmul_(B, g_w, value=-1).addcmul_(k, side2, value=-1)
        grad_mu = (g * A).addcmul_(u, radial1).addcmul_(w, side1)
        grad_v = (g * B).addcmul_(w, radial2).addcmul_(u, side2)
        return grad_mu.to(grad.dtype), grad_v.to(grad.dtype), None
