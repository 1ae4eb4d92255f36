"""exp_μ(v) for float32 vectors of moderate length: the hot path of sampling, in half the operations of `translation`.

The formulas are those of the `triangle`, with hyperbolic functions as they stand instead of scaled by exponentials,
and all of it in float64: two vectors a point are few. Rounding is then invisible in float32, unless v all but undoes μ
or √c(|μ| + |v|) exceeds 300; batches with such vectors, float64 and a c that is a tensor go the general way.

μ and v are kept as one tensor of shape (2, *batch, d), so that what is done to both is done once.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from horoball.autograd import first_order
from horoball.manifolds.triangle import Curvature

__all__ = ["moderate_exp"]

_TINY = 1e-30  # floor of a length: sinh(a)/a is 1 and a direction 0 there
_UNDONE = 1e-7  # least sinh²(a_z/2)/(sinh a sinh b): float64's rounding over it is well below float32's


def moderate_exp(mu: Tensor, v: Tensor, c: Curvature) -> Tensor | None:
    """exp_μ(v) [eq:exp], or None when the vectors are not for this way.

    Example:
        >>> moderate_exp(torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0]), 1.0)
        tensor([3., 0.])
    """
    usual = mu.dtype == torch.float32 and mu.device.type == "cpu" and not torch.compiler.is_compiling()
    if not usual or isinstance(c, Tensor):
        return None
    z, moderate = _ModerateExp.apply(mu, v, c)
    return z if moderate else None


class _ModerateExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mu: Tensor, v: Tensor, c: float) -> tuple[Tensor, bool]:
        s = math.sqrt(c)
        both = torch.stack((mu, v)).double()
        R = torch.linalg.vector_norm(both, dim=-1, keepdim=True).clamp_min(_TINY)
        unit = both / R
        e = unit.sum(0)
        P = e.mul_(e).sum(-1, keepdim=True).mul_(0.25)
        a, b = ab = s * R
        k = 2 * P - 1
        sinh, cosh = torch.sinh(ab), torch.cosh(ab)
        # x = sinh(a_z/2), from which a_z, sinh a_z = 2x√(1 + x²) and cosh a_z = 1 + 2x²
        product = sinh[0] * sinh[1]
        x2 = torch.addcmul(torch.sinh((a - b) / 2).square_(), product, P)
        if not bool(((a + b < 300) & (x2 > _UNDONE * product)).all()):
            return mu, False
        x, root = x2.sqrt(), (1 + x2).sqrt_()
        az = torch.log1p(torch.addcdiv(x, x2, 1 + root)).mul_(2)
        inverse = 0.5 / (x * root)
        ratio = az * inverse / s  # R_z/sinh a_z
        lift = sinh[0] * torch.tanh(a / 2)  # cosh a − 1
        weight = torch.stack((torch.addcmul(sinh[0] * cosh[1], k * sinh[1], lift), sinh[1])).mul_(ratio)
        z = (weight * unit).sum(0)
        ctx.s = s
        ctx.save_for_backward(R, unit, k, sinh, cosh, lift, x2, az, inverse, ratio, weight)
        return z.to(mu.dtype), True

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor, _: None) -> tuple[Tensor, Tensor, None]:
        R, unit, k, sinh, cosh, lift, x2, az, inverse, ratio, weight = ctx.saved_tensors
        g = grad.double()
        along = (g * unit).sum(-1, keepdim=True)  # g along μ̂ and v̂
        across = torch.addcmul(along.flip(0), k, along, value=-1)  # and along n = v̂ − kμ̂, m = μ̂ − kv̂
        (g_u, g_w), (g_n, g_m) = along, across
        lam1, lam2 = sinh * inverse
        mixed = sinh * cosh.flip(0)
        cos1, cos2 = torch.addcmul(mixed, k, mixed.flip(0)).mul_(inverse)  # ∂R_z/∂|μ| and ∂R_z/∂|v|
        cosh_z = 1 + 2 * x2
        g_r = torch.addcmul(cos1 * g_u, lam2, g_n)  # along ẑ
        turn = torch.addcmul(cos1 * g_n, lam2 * (k * k - 1), g_u)
        A, B = weight / R
        Cz = az * cosh_z * inverse
        sinhc_a, sinhc_b = sinh / (ctx.s * R)
        t = lift / sinh[0]  # tanh(a/2)
        bend = torch.addcmul(t, cosh_z, torch.addcmul(k * sinh[1], t, cosh[1])).mul_(inverse * ratio * sinh[0] / R[0])
        side1 = lam2 * (sinhc_a * (g_r - Cz * lam2 * g_n) - bend * g_u)
        side2 = sinhc_b * lam1 * g_r - B * (
            cos2 * (cos1 - k * lam2) * g_w + g_m * torch.addcmul(lam1 * lam1, lift * cos2, lam2)
        )
        radial1 = g_r * cos1 - turn * lam2 * Cz - A * g_u - k * side1
        radial2 = g_r * cos2 + turn * lam1 * ratio * ctx.s - B * g_w - k * side2
        plane = torch.stack((A, B)) * g
        plane.addcmul_(torch.stack((radial1, radial2)), unit).addcmul_(torch.stack((side1, side2)), unit.flip(0))
        grad_mu, grad_v = plane.to(grad.dtype)
        return grad_mu, grad_v, None
