"""The exponential map: formulas that can be differentiated any number of times, and the fast way for float32.

With even kernels of c|μ|², c|v|² and c⟨μ, v⟩ alone the plain formulas are smooth everywhere: at the origin, for
coincident points, at c = 0. One scalar per point is float64, which holds √c(|μ| + |v|) ≤ 350. Where v all but undoes μ,
their terms cancel by a factor of exp(2√c min(|μ|, |v|)); the `triangle`, which is used for values and first
derivatives, does not.

The fast way is one function, exp_μ(v) and the log volume element at v, as starting operations is what costs at a batch
of some hundred points. Lengths are first multiplied by √c and z is divided by it, so that all is done on the ball of
c = 1: a c that is learned then costs no more than one that is fixed. By way of the hyperboloid, with a = |μ|, b = |v|:

    h = (ρ₁ cosh b + ⟨μ, v⟩ ρ₂ ℓ) μ + ρ₂ v,    ρ₁ = sinh a/a,  ρ₂ = sinh b/b,  ℓ = (cosh a − 1)/a²,
    z = h · asinh(q)/q,   q = |h|.

Vectors are rows of one tensor of shape (*batch, 2, d), and the scalars of μ and v columns of another. All is float64,
which is right to float32's rounding unless v all but undoes μ or √c(|μ| + |v|) exceeds 350. A CPU is asked for that,
and such batches go the general way; other devices are not waited for.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from horoball.devices import has_float64
from horoball.geometry.autograd import again
from horoball.geometry.curvature import Curvature, CurvedSpace, load, positive, root, save, widened
from horoball.geometry.kernels import asinhc, in_graph, log_sinhc, looks_ahead, sinhc, tanhc, wide


def plain_translate(mu: Tensor, v: Tensor, c: Curvature) -> Tensor:
    """exp_μ(v) [eq:exp], by way of the hyperboloid.

    h = (sinhc a cosh b + c⟨μ, v⟩ sinhc b (cosh a − 1)/a²) μ + sinhc b v with a = √c|μ| and b = √c|v|.
    """
    h, curvature = _hyperboloid(wide(mu), wide(v), widened(c)), widened(c)
    return (h * asinhc(curvature * _dot(h, h))).to(torch.promote_types(mu.dtype, v.dtype))


def plain_translated_radius(mu: Tensor, v: Tensor, c: Curvature) -> Tensor:
    """d(0, exp_μ(v)) [eq:dist].

    Near pairs far out, where v ≈ −μ, are two squares: sinh²(√c d/2) = sinh²((a − b)/2) + sinh a sinh b |μ̂ + v̂|²/4.
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
    """A vector at z, carried along the geodesic to y; see `transport` for the formula, here with √c taken out."""
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
    """
    curvature = widened(c)
    half = (R1 - R2) / 2
    along = half * sinhc(curvature * half * half)
    square = along * along + P * R1 * sinhc(curvature * R1 * R1) * R2 * sinhc(curvature * R2 * R2)
    square = square.clamp_min(torch.finfo(square.dtype).tiny)
    return 2 * square.sqrt() * asinhc(curvature * square)


def plain_log_volume(v: Tensor, c: Curvature) -> Tensor:
    """(d − 1) log(sinh(√c|v|)/(√c|v|)) [eq:volume_element]."""
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


_SHORT = 1e-4  # floor of √c·radius: sinh(x)/x is 1 + 2e-9 there, and quotients by x² keep eight digits
_MOST = 1e150  # of q = sinh(√c|z|): its square is still float64
_UNDONE = 1e-7  # least q/(sinh a cosh b): float64's rounding over it is well below float32's


def is_fused(x: Tensor, ball: CurvedSpace) -> bool:
    """Whether points that are drawn go the fast way: float32 off the CPU, and c known to be above 0."""
    return (
        x.dtype == torch.float32
        and x.device.type not in ("cpu", "meta")
        and not in_graph()
        and has_float64(x.device)
        and isinstance(ball, CurvedSpace)
        and (ball.learnable or not (isinstance(ball.c, Tensor) or ball.is_euclidean))
    )


def fused_exp(mu: Tensor, v: Tensor, c: Curvature, *, volume: bool = True) -> tuple[Tensor, Any]:
    """exp_μ(v) [eq:exp] and log(sinh(√c|v|)/(√c|v|))·(d − 1) [eq:volume_element], if it is asked for."""
    return _Exp.apply(mu, v, c, volume)[:2]


def moderate_exp(mu: Tensor, v: Tensor, c: Curvature) -> Tensor | None:
    """exp_μ(v) [eq:exp] on a CPU, or None when the vectors are not for this way.

    Example:
        >>> moderate_exp(torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0]), 1.0)
        tensor([3., 0.])
    """
    if mu.dtype != torch.float32 or isinstance(c, Tensor) or not looks_ahead(mu) or not mu.numel():
        return None
    z, _, moderate = _Exp.apply(mu, v, c, False)
    return z if moderate else None


class _Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mu: Tensor, v: Tensor, c: Curvature, volume: bool) -> tuple[Tensor, Tensor | None, bool]:
        s = root(c)
        x = torch.stack((mu, v), -2).double().mul_(s)
        ab = torch.linalg.vector_norm(x, dim=-1).clamp_min_(_SHORT)
        first, second = x.unbind(-2)
        between = (first * second).sum(-1)  # ⟨μ, v⟩
        sinh, cosh = ab.sinh(), ab.cosh()
        rho = sinh / ab
        (rho1, rho2), (cosh1, cosh2) = rho.unbind(-1), cosh.unbind(-1)
        lift = (rho1 * rho1).div_(cosh1 + 1)
        across = between * rho2
        weights = torch.stack((torch.addcmul(rho1 * cosh2, across, lift), rho2), -1)
        h = (first * weights[..., :1]).addcmul_(second, rho2.unsqueeze(-1))
        q = torch.linalg.vector_norm(h, dim=-1, keepdim=True)
        if looks_ahead(mu):
            kept = torch.addcmul(q.squeeze(-1), sinh[..., 0], cosh2, value=-_UNDONE).min()
            if not (kept > 0 and q.max() < _MOST):
                return mu, None, False
        q.clamp_min_(_SHORT)
        factor = q.asinh().div_(q)
        z = (h * factor).div_(s).to(mu.dtype)
        save(ctx, c, mu, v, x, between, ab, rho, cosh, lift, across, weights, h, q, factor)
        return z, rho2.log().mul_(mu.shape[-1] - 1).to(mu.dtype) if volume else None, True

    @staticmethod
    def backward(ctx: Any, grad: Tensor, grad_volume: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
        c, (mu, v, x, between, ab, rho, cosh, lift, across, weights, h, q, factor) = load(ctx)
        if torch.is_grad_enabled():
            return again(_plain, (mu, v, c), ctx.needs_input_grad, grad, grad_volume)
        s = root(c)
        (rho1, rho2), cosh2 = rho.unbind(-1), cosh[..., 1]
        g = grad.double().div_(s)
        # z = h·factor(q): along h the factor changes by (1/√(1 + q²) − factor)/q
        square = q * q
        bend = (square + 1).rsqrt_().sub_(factor).div_(square)
        along = (g * h).sum(-1, keepdim=True)
        g_h = (g * factor).addcmul_(h, along * bend)
        g1, g2 = (g_h.unsqueeze(-2) * x).sum(-1).unbind(-1)
        # What each scalar changes by, over the radius it depends on
        radius = ab * ab
        d_rho = (cosh - rho).div_(radius)
        d_lift = torch.add(rho1, lift, alpha=-2).div_(radius[..., 0])
        g_mu = torch.addcmul(d_rho[..., 0] * cosh2, across, d_lift).mul_(g1)
        if grad_volume is not None:
            g2 = torch.addcdiv(g2, grad_volume.double(), rho2, value=mu.shape[-1] - 1)
        by_v = torch.addcmul(rho1 * rho2, between * lift, d_rho[..., 1])
        g_v = torch.addcmul(by_v.mul_(g1), g2, d_rho[..., 1])
        g_mixed = (rho2 * lift).mul_(g1)
        mixing = torch.stack((g_mu, g_mixed, g_mixed, g_v), -1).unflatten(-1, (2, 2))
        g_x = (mixing @ x).addcmul_(weights.unsqueeze(-1), g_h.unsqueeze(-2))
        grad_c = None
        if ctx.needs_input_grad[2]:  # through √c, by which x was multiplied and z divided
            grad_c = ((g_x * x).sum() - (along * factor).sum()).div_(2 * wide(c)).to(c.dtype).reshape(c.shape)
        return *g_x.mul_(s).to(grad.dtype).unbind(-2), grad_c, None


def _plain(mu: Tensor, v: Tensor, c: Curvature) -> tuple[Tensor, Tensor]:
    return plain_translate(mu, v, c), plain_log_volume(v, c)
