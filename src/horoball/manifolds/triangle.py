"""The hyperbolic triangle 0, μ, z = exp_μ(v): one kernel for exp, log and distance in the tangent chart.

Points are tangent vectors at the origin in metric units. With a = √c|μ|, b = √c|v| and the angle φ between μ and v,
the hyperbolic law of cosines gives a_z = √c·d(0, z) without cancellation as

    sinh²(a_z/2) = sinh²((a − b)/2) + sinh a · sinh b · P,        P = |μ̂ + v̂|²/4 = cos²(φ/2),

and z lies in the plane of μ and v. Since log_z(y) = exp_{−z}(y) and d(z, y) = d(0, exp_{−z}(y)) in this chart, the
same triangle serves all three. The vectors keep their dtype; one scalar per point is worked out in float64, scaled by
exp(−a−b) so that no radius overflows. The gradients are written by hand: they are those of the triangle's sides and
angles, regular at μ = 0, v = 0 and c = 0, where autograd would meet 0/0.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from horoball.numerics import asinhc, polynomial, wide, wide_dtype

__all__ = ["Curvature", "translate", "translated_radius"]

Curvature = float | Tensor
"""c ≥ 0: a number, or a tensor of one element when its gradient is wanted."""

_E_MAX = 300.0  # exponents are capped here: a product of two such factors is still a float64


class _Triangle(NamedTuple):
    """Sides, angle and opening vector of the triangle; all but `e` have shape (*batch, 1) in float64."""

    R1: Tensor  # |μ|
    R2: Tensor  # |v|
    gap: Tensor  # |μ| − |v|
    e: Tensor  # μ̂ + v̂
    P: Tensor  # |e|²/4
    Rz: Tensor  # d(0, z)


def _root(c: Curvature) -> Curvature:
    return wide(c).sqrt() if isinstance(c, Tensor) else math.sqrt(c)


def _positive(c: Curvature) -> Curvature:
    """c where it may divide: 1 stands for 0 in branches that are not taken."""
    return torch.where(c > 0, wide(c), 1.0) if isinstance(c, Tensor) else (c or 1.0)


def _norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=wide_dtype(x))


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(-1, keepdim=True, dtype=wide_dtype(x))


def _unit(x: Tensor, norm: Tensor) -> Tensor:
    """x/|x|, and 0 at 0."""
    return x / torch.where(norm > 0, norm, 1.0).to(x.dtype)


def _sinhce(x: Tensor) -> Tensor:
    """sinh(x)/x · exp(−x) for x ≥ 0; the floor is far below every x whose quotient differs from 1."""
    x = x.clamp_min(1e-150 if x.dtype == torch.float64 else 1e-30)
    return torch.expm1(-2 * x) / (-2 * x)


def _solve(mu: Tensor, v: Tensor, c: Curvature) -> _Triangle:
    s = _root(c)
    R1, R2 = _norm(mu), _norm(v)
    total = mu + v
    # |μ| − |v| and μ̂ + v̂ from μ + v: exact also for v ≈ −μ, the near pairs of dist and log.
    R_sum, R_max = R1 + R2, torch.maximum(R1, R2)
    gap = _dot(total, mu - v) / torch.where(R_sum > 0, R_sum, 1.0)
    shorter = R1 <= R2
    omega = _unit(torch.where(shorter, mu, -v), torch.where(shorter, R1, R2))
    e = _unit(total - omega * gap.to(mu.dtype), R_max)
    P = _norm(e).square() / 4
    # N = sinh(a_z/2)/√c = q·exp((a + b)/2)
    a, b = s * R1, s * R2
    half = (gap / 2) * _sinhce(s * gap.abs() / 2) * torch.exp(-torch.minimum(a, b))
    q2 = half * half + R1 * R2 * _sinhce(a) * _sinhce(b) * P
    S = (a + b) / 2
    N = torch.exp(S.clamp_max(_E_MAX / 2)) * q2.sqrt()
    Rz = 2 * N * asinhc(c * N * N)
    sq = s * q2.sqrt()
    far = 2 * (S + torch.log(sq + torch.sqrt(sq * sq + torch.exp(-2 * S)))) / _root(_positive(c))
    return _Triangle(R1, R2, gap, e, P, torch.where(S < _E_MAX / 2, Rz, far))


class _Scaled(NamedTuple):
    """Hyperbolic functions of the sides relative to those of a_z: each is bounded for points in general position."""

    a: Tensor
    b: Tensor
    az: Tensor
    sa: Tensor  # sinhc(a) exp(−a); sb and sz likewise
    sb: Tensor
    sz: Tensor
    E: Tensor  # exp(a + b − a_z)
    t: Tensor  # tanh(a/2)
    A: Tensor  # z = A μ + B v
    B: Tensor


def _scale(tri: _Triangle, c: Curvature) -> _Scaled:
    s = _root(c)
    a, b, az = s * tri.R1, s * tri.R2, s * tri.Rz
    sa, sb, sz = _sinhce(a), _sinhce(b), _sinhce(az)
    E = torch.exp((a + b - az).clamp_max(_E_MAX))
    t = torch.tanh(a / 2)
    ea = torch.exp(-a)
    t_gap = 2 * ea / (1 + ea)  # 1 − t
    # sinhc(a)·(cosh b + cos φ sinh b tanh(a/2)), a sum of positive terms
    A = sa * 0.5 * (t_gap + 2 * tri.P * t + (t_gap + 2 * (1 - tri.P) * t) * torch.exp(-2 * b))
    return _Scaled(a, b, az, sa, sb, sz, E, t, A * E / sz, sb * ea * E / sz)


def _point(mu: Tensor, v: Tensor, tri: _Triangle, c: Curvature) -> Tensor:
    f = _scale(tri, c)
    # Near pairs far out (v ≈ −μ): A μ + B v cancels; B|v| e + [sinh(a−b) + 2P sinh b (cosh a − 1)] μ̂ does not.
    shorter = torch.minimum(f.a, f.b)
    near = (tri.P < 0.25) & (shorter > 0.5)
    opening = tri.R2 * f.sb * f.E / f.sz  # sinh b · exp(a)/sinhc(a_z)
    radial = tri.gap * _sinhce((f.a - f.b).abs()) * torch.exp(-2 * shorter) * f.E / f.sz
    radial = radial + opening * tri.P * torch.expm1(-f.a).square()
    radial = radial / torch.where(near, tri.R1, 1.0)
    kind = mu.dtype
    z = torch.where(near, radial, f.A).to(kind) * mu + torch.where(near, 0.0, f.B).to(kind) * v
    return z + torch.where(near, tri.R2 * f.B, 0.0).to(kind) * tri.e


class _Translate(torch.autograd.Function):
    """z = exp_μ(v) and its vector-Jacobian product."""

    @staticmethod
    def forward(ctx: Any, mu: Tensor, v: Tensor, c: Curvature) -> Tensor:
        tri = _solve(mu, v, c)
        _save(ctx, mu, v, c, tri)
        return _point(mu, v, tri, c)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        mu, v, c, tri = _load(ctx)
        f = _scale(tri, c)
        u, w = _unit(mu, tri.R1), _unit(v, tri.R2)
        g_u, g_w, g_e = _dot(grad, u), _dot(grad, w), _dot(grad, tri.e)
        k = 2 * tri.P - 1
        g_n, g_m = g_e - 2 * tri.P * g_u, g_e - 2 * tri.P * g_w  # along n = v̂ − kμ̂ and m = μ̂ − kv̂
        lam1, lam2, cos1, cos2, X = _angles(tri, f)
        g_r = cos1 * g_u + lam2 * g_n  # along ẑ
        turn = cos1 * g_n - lam2 * 4 * tri.P * (1 - tri.P) * g_u  # along the direction in which ẑ turns with φ
        Cz = f.az + torch.exp(-2 * f.az) / f.sz  # a_z coth a_z
        grad_mu = grad_v = grad_c = None
        kind = mu.dtype
        if ctx.needs_input_grad[0]:
            K = _bend(tri, f, lam2, cos2, k)
            radial = g_r * cos1 - turn * lam2 * Cz - f.A * g_u
            across = X * tri.R2 * _inverse(tri.Rz) * (g_r - Cz * lam2 * g_n) - K * lam2 * g_u
            grad_mu = f.A.to(kind) * grad + (radial - 2 * tri.P * across).to(kind) * u + across.to(kind) * tri.e
        if ctx.needs_input_grad[1]:
            radial = g_r * cos2 + turn * lam1 * torch.exp(-f.az) / f.sz - f.B * g_w
            lift = f.sb / f.sz * f.E * torch.expm1(-f.a).square() / 2  # B (cosh a − 1)
            across = X * tri.R1 * _inverse(tri.Rz) * g_r - f.B * cos2 * (cos1 - k * lam2) * g_w
            across = across - g_m * (f.B * lam1 * lam1 + lift * cos2 * lam2)
            grad_v = f.B.to(kind) * grad + (radial - 2 * tri.P * across).to(kind) * w + across.to(kind) * tri.e
        if ctx.needs_input_grad[2]:
            rate, twist = _rates_in_c(tri, f, cos1, cos2, Cz, _dot(mu, v), c)
            grad_c = (rate * g_r + tri.Rz * twist * turn).sum().to(c.dtype).reshape(c.shape)
        return grad_mu, grad_v, grad_c


class _TranslatedRadius(torch.autograd.Function):
    """d(0, exp_μ(v)) and its vector-Jacobian product; 0 stands for the gradient where the distance is 0."""

    @staticmethod
    def forward(ctx: Any, mu: Tensor, v: Tensor, c: Curvature) -> Tensor:
        tri = _solve(mu, v, c)
        _save(ctx, mu, v, c, tri)
        return tri.Rz.squeeze(-1).to(mu.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        mu, v, c, tri = _load(ctx)
        f = _scale(tri, c)
        u, w = _unit(mu, tri.R1), _unit(v, tri.R2)
        _, _, cos1, cos2, X = _angles(tri, f)
        g = torch.where(tri.Rz > 0, wide(grad).unsqueeze(-1), 0.0)
        across = g * X * _inverse(tri.Rz)
        kind = mu.dtype
        grad_mu = grad_v = grad_c = None
        if ctx.needs_input_grad[0]:
            side = across * tri.R2
            grad_mu = (g * cos1 - 2 * tri.P * side).to(kind) * u + side.to(kind) * tri.e
        if ctx.needs_input_grad[1]:
            side = across * tri.R1
            grad_v = (g * cos2 - 2 * tri.P * side).to(kind) * w + side.to(kind) * tri.e
        if ctx.needs_input_grad[2]:
            rate, _ = _rates_in_c(tri, f, cos1, cos2, torch.ones_like(f.az), _dot(mu, v), c)
            grad_c = (rate * g).sum().to(c.dtype).reshape(c.shape)
        return grad_mu, grad_v, grad_c


def _save(ctx: Any, mu: Tensor, v: Tensor, c: Curvature, tri: _Triangle) -> None:
    ctx.c = None if isinstance(c, Tensor) else c
    ctx.save_for_backward(mu, v, *tri, *((c,) if isinstance(c, Tensor) else ()))


def _load(ctx: Any) -> tuple[Tensor, Tensor, Any, _Triangle]:
    mu, v, *rest = ctx.saved_tensors
    return mu, v, rest[6] if ctx.c is None else ctx.c, _Triangle(*rest[:6])


def _inverse(R: Tensor) -> Tensor:
    return torch.where(R > 0, 1 / R, 0.0)


def _angles(tri: _Triangle, f: _Scaled) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """λ₁ = sinh a/sinh a_z, λ₂ = sinh b/sinh a_z, ∂R_z/∂|μ|, ∂R_z/∂|v| and sinhc(a)·sinhc(b)/sinhc(a_z).

    ẑ = (∂R_z/∂|μ|) μ̂ + λ₂ (v̂ − cos φ μ̂). Where z = 0 the limit along the radius is taken.
    """
    inverse = _inverse(tri.Rz)
    lam1 = tri.R1 * inverse * f.sa / f.sz * torch.exp((f.a - f.az).clamp_max(_E_MAX))
    lam2 = tri.R2 * inverse * f.B
    gap = (f.a - f.b).abs()
    plus = tri.P * (tri.R1 + tri.R2) * _sinhce(f.a + f.b) * f.E
    minus = (1 - tri.P) * tri.gap * _sinhce(gap) * torch.exp((gap - f.az).clamp_max(0.0))
    inverse_z = inverse / f.sz
    at_zero = torch.where(tri.Rz > 0, 0.0, 1.0)
    return (
        lam1,
        lam2,
        (plus + minus) * inverse_z + at_zero,
        (plus - minus) * inverse_z - at_zero,
        f.sa * f.sb / f.sz * f.E,
    )


def _bend(tri: _Triangle, f: _Scaled, lam2: Tensor, cos2: Tensor, k: Tensor) -> Tensor:
    """How fast A changes with the direction of μ: (R_z/|μ|)(1 − λ₂ cos ψ), and the same without 1/|μ| for short μ."""
    short = tri.R1 < tri.R2 / 4
    direct = tri.Rz * _inverse(torch.where(short, 0.0, tri.R1)) * (1 - lam2 * cos2)
    az = torch.where(short, f.az, 1.0)
    grown = f.sa / f.sz * f.E * 0.5 * ((f.t + k) + (f.t - k) * torch.exp(-2 * f.b)) / torch.tanh(az.clamp_min(1e-150))
    small = f.sa / f.sz * torch.exp((f.a - 2 * f.az).clamp_max(_E_MAX)) * f.t / (az * f.sz).clamp_min(1e-150)
    return torch.where(short, grown + small, direct)


# Series of (sinhc x − 1)/x², (cosh x − 1)/x² and of the x²-derivative of the latter, in x²
_SINHC_REST = [1 / math.factorial(2 * k + 3) for k in range(10)]
_COSH_REST = [1 / math.factorial(2 * k + 2) for k in range(10)]
_COSH_RATE = [(k + 1) / math.factorial(2 * k + 4) for k in range(10)]
_SINHC_RATE = [(k + 1) / math.factorial(2 * k + 3) for k in range(10)]


def _rates_in_c(
    tri: _Triangle, f: _Scaled, cos1: Tensor, cos2: Tensor, Cz: Tensor, dot: Tensor, c: Tensor
) -> tuple[Tensor, Tensor]:
    """∂R_z/∂c and ∂θ/∂c per sin φ, where θ is the angle from μ to z at the origin.

    A change of c rescales all sides; the difference quotient by c cancels for short sides, whose series does not.
    """
    c = wide(c)
    R1, R2, Rz = tri.R1, tri.R2, tri.Rz
    inverse = _inverse(Rz)
    short = torch.maximum(f.a, f.b) < 1.0
    rate = (cos1 * R1 + cos2 * R2 - Rz) / (2 * _positive(c))
    twist = (f.sa / f.sz * torch.exp(f.a - 2 * f.az) / f.sz - f.B * Cz) / _positive(c)
    ua, ub, uz = (torch.where(short, x * x, 0.0) for x in (f.a, f.b, f.az))
    sinhc_a, sinhc_b, sinhc_z = (1 + u * polynomial(_SINHC_REST, u) for u in (ua, ub, uz))
    phi_a, phi_b = R1 * R1 * polynomial(_COSH_REST, ua), R2 * R2 * polynomial(_COSH_REST, ub)
    slow = (
        R1**4 * polynomial(_COSH_RATE, ua) * (1 + c * phi_b)
        + R2**4 * polynomial(_COSH_RATE, ub) * (1 + c * phi_a)
        + phi_a * phi_b
        + dot * (R1 * R1 * polynomial(_SINHC_RATE, ua) * sinhc_b + R2 * R2 * sinhc_a * polynomial(_SINHC_RATE, ub))
        - Rz**4 * polynomial(_COSH_RATE, uz)
    ) * (inverse / sinhc_z)
    slow_twist = (
        R1 * R1 * polynomial(_SINHC_REST, ua)
        - R2 * R2 * polynomial(_SINHC_REST, ub)
        - sinhc_b * Rz * Rz * polynomial(_COSH_REST, uz)
    ) / (sinhc_z * sinhc_z)
    twist = torch.where(short, slow_twist, twist) * (R1 * inverse) * (R2 * inverse) / 2
    return torch.where(short, slow, rate), twist


def _prepare(mu: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    kind = torch.promote_types(mu.dtype, v.dtype)
    mu, v = torch.broadcast_tensors(mu.to(kind), v.to(kind))
    return mu, v


def translate(mu: Tensor, v: Tensor, c: Curvature) -> Tensor:
    """Z = exp_μ(v): the vector v, given at the origin, carried to μ and followed [eq:exp].

    Example:
        >>> translate(torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0]), 1.0)
        tensor([3., 0.])
    """
    return _Translate.apply(*_prepare(mu, v), c)


def translated_radius(mu: Tensor, v: Tensor, c: Curvature) -> Tensor:
    """d(0, exp_μ(v)), the third side of the triangle [eq:dist].

    Example:
        >>> translated_radius(torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 0.0]), 1.0)
        tensor(0.)
    """
    return _TranslatedRadius.apply(*_prepare(mu, v), c)
