"""The exponential map: formulas that can be differentiated any number of times, and the fast path of a CPU.

The geometry in formulas that autograd and `torch.func` differentiate any number of times.

With even kernels of c|μ|², c|v|² and c⟨μ, v⟩ alone they are smooth everywhere: at the origin, for coincident points, at
c = 0. One scalar per point is float64, which holds √c(|μ| + |v|) ≤ 350. Where v all but undoes μ, their terms cancel
by a factor of exp(2√c min(|μ|, |v|)); the `triangle`, which is used for values and first derivatives, does not.

exp_μ(v) for float32 vectors of moderate length: the hot path of sampling, in half the operations of `translation`.

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

from horoball.devices import has_float64
from horoball.geometry.autograd import differentiated_by
from horoball.geometry.curvature import Curvature, load, positive, root, save, widened
from horoball.geometry.kernels import asinhc, log_sinhc, looks_ahead, sinhc, tanhc, wide

__all__ = [
    "moderate_exp",
    "plain_log_volume",
    "plain_side",
    "plain_translate",
    "plain_translated_radius",
    "plain_transport",
]


def plain_translate(mu: Tensor, v: Tensor, c: Curvature) -> Tensor:
    """exp_μ(v) [eq:exp], by way of the hyperboloid.

    h = (sinhc a cosh b + c⟨μ, v⟩ sinhc b (cosh a − 1)/a²) μ + sinhc b v with a = √c|μ| and b = √c|v|.

    Example:
        >>> plain_translate(torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0]), 1.0)
        tensor([3., 0.])
    """
    h, curvature = _hyperboloid(wide(mu), wide(v), widened(c)), widened(c)
    return (h * asinhc(curvature * _dot(h, h))).to(torch.promote_types(mu.dtype, v.dtype))


def plain_translated_radius(mu: Tensor, v: Tensor, c: Curvature) -> Tensor:
    """d(0, exp_μ(v)) [eq:dist].

    Near pairs far out, where v ≈ −μ, are two squares: sinh²(√c d/2) = sinh²((a − b)/2) + sinh a sinh b |μ̂ + v̂|²/4.

    Example:
        >>> plain_translated_radius(torch.tensor([60.0, 0.0]), torch.tensor([0.0, -60.0]), 1.0)
        tensor(119.3069)
    """
    kind = torch.promote_types(mu.dtype, v.dtype)
    mu, v = torch.broadcast_tensors(wide(mu), wide(v))
    s, curvature = root(positive(c)), widened(c)
    # A radius below 1 cancels nothing. The branch that is not taken is kept away from the origin, where it has a kink.
    far = (curvature * _dot(mu, mu) > 1) & (curvature * _dot(v, v) > 1)
    axis = torch.zeros_like(mu)
    axis[..., 0] = 1
    p, q = (torch.where(far, x, axis) for x in (mu, v))
    R1, R2 = (torch.linalg.vector_norm(x, dim=-1, keepdim=True) for x in (p, q))
    half, across = torch.sinh(s * (R1 - R2) / 2), p / R1 + q / R2
    square = half * half + torch.sinh(s * R1) * torch.sinh(s * R2) * _dot(across, across) / 4
    square = square.clamp_min(torch.finfo(square.dtype).tiny)
    two_squares = 2 * asinhc(square) * square.sqrt() / s
    h = _hyperboloid(torch.where(far, axis, mu), torch.where(far, axis, v), curvature)
    direct = torch.linalg.vector_norm(h, dim=-1, keepdim=True) * asinhc(curvature * _dot(h, h))
    return torch.where(far, two_squares, direct).squeeze(-1).to(kind)


def plain_transport(z: Tensor, y: Tensor, v: Tensor, c: Curvature) -> Tensor:
    """A vector at z, carried along the geodesic to y; see `transport` for the formula, here with √c taken out.

    Example:
        >>> plain_transport(torch.zeros(2), torch.tensor([0.0, 1.0]), torch.ones(2), 1.0)
        tensor([1., 1.])
    """
    kind = torch.promote_types(torch.promote_types(z.dtype, y.dtype), v.dtype)
    curvature, w = widened(c), wide(v)
    (x, gap), (other, other_gap) = (_in_ball(wide(end), curvature) for end in (z, y))
    delta = other - x
    alpha, beta, m, n = _dot(x, w), _dot(delta, w), curvature * _dot(x, delta), curvature * _dot(delta, delta)
    D = (n + gap * other_gap).clamp_min(torch.finfo(n.dtype).tiny)
    along, across = gap * beta - n * alpha, (gap - 2 * m) * alpha + curvature * _dot(x, x) * beta
    return (w + 2 * curvature / D * (along * x - across * delta)).to(kind)


def plain_side(R1: Tensor, R2: Tensor, P: Tensor, c: Curvature) -> Tensor:
    """The third side of a triangle with sides R₁ and R₂, whose directions make P = cos²(φ/2), elementwise in float64.

    sinh²(√c R/2)/c = sinh²(√c(R₁ − R₂)/2)/c + P sinh(√c R₁) sinh(√c R₂)/c.

    Example:
        >>> one = torch.ones((), dtype=torch.float64)
        >>> plain_side(one, 2 * one, one, 1.0)
        tensor(3., dtype=torch.float64)
    """
    curvature = widened(c)
    half = (R1 - R2) / 2
    along = half * sinhc(curvature * half * half)
    square = along * along + P * R1 * sinhc(curvature * R1 * R1) * R2 * sinhc(curvature * R2 * R2)
    square = square.clamp_min(torch.finfo(square.dtype).tiny)
    return 2 * square.sqrt() * asinhc(curvature * square)


def plain_log_volume(v: Tensor, c: Curvature) -> Tensor:
    """(d − 1) log(sinh(√c|v|)/(√c|v|)) [eq:volume_element].

    Example:
        >>> plain_log_volume(torch.zeros(3), 1.0)
        tensor(0.)
    """
    x = wide(v)
    return ((v.shape[-1] - 1) * log_sinhc(widened(c) * _dot(x, x)).squeeze(-1)).to(v.dtype)


def _hyperboloid(mu: Tensor, v: Tensor, c: Curvature) -> Tensor:
    """Coordinates h of exp_μ(v)."""
    u, w = c * _dot(mu, mu), c * _dot(v, v)
    half, sinhc_v = sinhc(u / 4), sinhc(w)
    cosh_v = 1 + w / 2 * sinhc(w / 4).square()
    return (sinhc(u) * cosh_v + c * _dot(mu, v) * sinhc_v * half.square() / 2) * mu + sinhc_v * v


def _in_ball(z: Tensor, c: Curvature) -> tuple[Tensor, Tensor]:
    """Ball coordinates, and their gap 1 − c|x|² = 1/cosh²(√c|z|/2)."""
    u = c * _dot(z, z) / 4
    near = u.clamp(max=90_000.0)  # sinh²(300) is a number, and far below rounding is its inverse
    return z * (tanhc(u) / 2), 1 / (1 + near * sinhc(near).square())


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(-1, keepdim=True)


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
