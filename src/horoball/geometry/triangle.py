"""The hyperbolic triangle 0, μ, z = exp_μ(v): one geometry for exp, log and distance in the tangent chart.

Points are tangent vectors at the origin in metric units. With a = √c|μ|, b = √c|v| and the angle φ between μ and v, the
hyperbolic law of cosines gives a_z = √c·d(0, z) without cancellation as

    sinh²(a_z/2) = sinh²((a − b)/2) + sinh a · sinh b · P,        P = |μ̂ + v̂|²/4 = cos²(φ/2),

and z lies in the plane of μ and v. Since log_z(y) = exp_{−z}(y) and d(z, y) = d(0, exp_{−z}(y)) in this chart, the same
triangle serves all three. The vectors keep their dtype; one scalar per point is worked out in float64, scaled by
exp(−a−b) so that no radius overflows. `translation` makes differentiable functions of it, of how it changes with its
sides, its angle and c.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from horoball.geometry.curvature import Curvature, positive, root
from horoball.geometry.kernels import may_hold, polynomial, scaled_sinhc, wide, wide_dtype

__all__ = [
    "Scaled",
    "Triangle",
    "angles",
    "bend",
    "dot",
    "inverse",
    "largest_exponent",
    "narrow",
    "positive",
    "rates_in_c",
    "scaled",
    "solve",
    "third_side",
    "third_vertex",
    "unit",
]

_FLOOR = 1e-30  # added to nothing, it keeps x/x at 1 where x is 0
# Exponents are capped here: a product of two such factors is still a number.
_LARGEST = {torch.float64: 300.0, torch.float32: 40.0}


class Triangle(NamedTuple):
    """Sides, angle and opening vector of the triangle; all but `e` have shape (*batch, 1) in float64."""

    R1: Tensor  # |μ|
    R2: Tensor  # |v|
    gap: Tensor  # |μ| − |v|
    e: Tensor  # μ̂ + v̂
    P: Tensor  # |e|²/4
    Rz: Tensor  # d(0, z)


def largest_exponent(x: Tensor) -> float:
    """The cap of exponents in the dtype of x, which is float32 where a device has no float64.

    Example:
        >>> largest_exponent(torch.zeros(1)), largest_exponent(torch.zeros(1).double())
        (40.0, 300.0)
    """
    return _LARGEST[x.dtype]


def _norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=wide_dtype(x))


def dot(x: Tensor, y: Tensor) -> Tensor:
    """⟨x, y⟩ with the axis kept, summed in float64.

    Example:
        >>> dot(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
        tensor([11.], dtype=torch.float64)
    """
    return (x * y).sum(-1, keepdim=True, dtype=wide_dtype(x))


def unit(x: Tensor, norm: Tensor) -> Tensor:
    """x/|x|, and 0 at 0.

    Example:
        >>> unit(torch.tensor([3.0, 4.0]), torch.tensor([5.0]))
        tensor([0.6000, 0.8000])
    """
    return x / torch.where(norm > 0, norm, 1.0).to(x.dtype)


def solve(mu: Tensor, v: Tensor, c: Curvature) -> Triangle:
    """The triangle of μ and v.

    Example:
        >>> solve(torch.tensor([2.0, 0.0]), torch.tensor([-1.0, 0.0]), 1.0).Rz
        tensor([1.], dtype=torch.float64)
    """
    R1, R2 = _norm(mu), _norm(v)
    total = mu + v
    # |μ| − |v| and μ̂ + v̂ from μ + v: exact also for v ≈ −μ, the near pairs of dist and log.
    R_sum, R_max = R1 + R2, torch.maximum(R1, R2)
    gap = dot(wide(total), wide(mu - v)) / torch.where(R_sum > 0, R_sum, 1.0)
    shorter = R1 <= R2
    omega = unit(torch.where(shorter, mu, -v), torch.where(shorter, R1, R2))
    e = unit(total - omega * gap.to(mu.dtype), R_max)
    P = _norm(e).square() / 4
    return Triangle(R1, R2, gap, e, P, third_side(R1, R2, gap, P, c))


def third_side(R1: Tensor, R2: Tensor, gap: Tensor, P: Tensor, c: Curvature) -> Tensor:
    """d(0, z) from the two sides, their difference and P = cos²(φ/2) [eq:dist].

    Example:
        >>> one = torch.ones((), dtype=torch.float64)
        >>> third_side(2 * one, one, one, 0 * one, 1.0)  # φ = π
        tensor(1., dtype=torch.float64)
    """
    s = root(c)
    a, b = s * R1, s * R2
    # N = sinh(a_z/2)/√c from N² = N₁² + N₂², scaled by exp(−(a + b)/2)
    S = (a + b) / 2
    one = gap.abs() / 2 * scaled_sinhc(s * gap.abs() / 2)
    two = R1 * R2 * scaled_sinhc(a) * scaled_sinhc(b) * P
    most = largest_exponent(S)
    N = torch.exp(S.clamp_max(most / 2)) * torch.hypot(one * torch.exp(-torch.minimum(a, b)), two.sqrt())
    x = (s * N).clamp_min(_FLOOR)
    near = 2 * N * torch.log1p(x + x * x / (1 + torch.sqrt(1 + x * x))) / x  # 2 asinh(√cN)/√c
    beyond = most / 2 <= S
    if not may_hold(beyond):
        return near
    # Far out the same in logarithms: asinh exp h = h + log(1 + √(1 + exp(−2h)))
    divisor = root(positive(c))
    h = torch.logaddexp(2 * torch.log(one) + (a - b).abs(), torch.log(two) + 2 * S) / 2
    h = h + (torch.log(divisor) if isinstance(divisor, Tensor) else math.log(divisor))
    far = torch.where(h > 0, h + torch.log1p(torch.sqrt(1 + torch.exp(-2 * h.abs()))), torch.asinh(torch.exp(h)))
    return torch.where(beyond, 2 * far / divisor, near)


class Scaled(NamedTuple):
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


def scaled(tri: Triangle, c: Curvature) -> Scaled:
    """The hyperbolic functions of a solved triangle.

    Example:
        >>> f = scaled(solve(torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0]), 1.0), 1.0)
        >>> 1 * f.A + 2 * f.B  # z = A μ + B v, here on one ray
        tensor([3.], dtype=torch.float64)
    """
    s = root(c)
    a, b, az = s * tri.R1, s * tri.R2, s * tri.Rz
    sa, sb, sz = scaled_sinhc(a), scaled_sinhc(b), scaled_sinhc(az)
    E = torch.exp((a + b - az).clamp_max(largest_exponent(a)))
    t = torch.tanh(a / 2)
    ea = torch.exp(-a)
    t_gap = 2 * ea / (1 + ea)  # 1 − t
    # sinhc(a)·(cosh b + cos φ sinh b tanh(a/2)), a sum of positive terms
    A = sa * 0.5 * (t_gap + 2 * tri.P * t + (t_gap + 2 * (1 - tri.P) * t) * torch.exp(-2 * b))
    return Scaled(a, b, az, sa, sb, sz, E, t, A * E / sz, sb * ea * E / sz)


def third_vertex(mu: Tensor, v: Tensor, tri: Triangle, f: Scaled) -> Tensor:
    """z of the triangle of μ and v [eq:exp].

    Example:
        >>> mu, v = torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0])
        >>> tri = solve(mu, v, 1.0)
        >>> third_vertex(mu, v, tri, scaled(tri, 1.0))
        tensor([3., 0.])
    """
    # Near pairs far out (v ≈ −μ): A μ + B v cancels; B|v| e + [sinh(a−b) + 2P sinh b (cosh a − 1)] μ̂ does not.
    shorter = torch.minimum(f.a, f.b)
    near = (tri.P < 0.25) & (shorter > 0.5)
    opening = tri.R2 * f.sb * f.E / f.sz  # sinh b · exp(a)/sinhc(a_z)
    gap = (f.a - f.b).abs()
    radial = tri.gap * scaled_sinhc(gap) * torch.exp((gap - f.az).clamp_max(0.0)) / f.sz
    radial = radial + opening * tri.P * torch.expm1(-f.a).square()
    radial = radial / torch.where(near, tri.R1, 1.0)
    # A μ + B v as B (μ + v) + (A − B) μ: for near pairs close to the origin μ + v is exact and A − B small.
    z = narrow(torch.where(near, radial, f.A - f.B), mu) * mu + narrow(torch.where(near, 0.0, f.B), mu) * (mu + v)
    z = z + narrow(torch.where(near, tri.R2 * f.B, 0.0), mu) * tri.e
    # A direction far out is known to few digits, and takes the sum's length with it; d(0, z) is known to all of them.
    return z * narrow(torch.where(near, tri.Rz * inverse(_norm(z)), 1.0), mu)


def narrow(x: Tensor, like: Tensor) -> Tensor:
    """A factor of a vector in the vector's dtype, held at its largest number: 0·∞ would be no number.

    Example:
        >>> narrow(torch.tensor(1e300, dtype=torch.float64), torch.zeros(2))
        tensor(3.4028e+38)
    """
    if like.dtype == torch.float64:
        return x
    most = torch.finfo(like.dtype).max
    return x.clamp(-most, most).to(like.dtype)


def inverse(R: Tensor) -> Tensor:
    """1/R, and 0 at 0.

    Example:
        >>> inverse(torch.tensor([0.0, 4.0]))
        tensor([0.0000, 0.2500])
    """
    return torch.where(R > 0, 1 / R, 0.0)


def angles(tri: Triangle, f: Scaled) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """λ₁ = sinh a/sinh a_z, λ₂ = sinh b/sinh a_z, ∂R_z/∂|μ|, ∂R_z/∂|v| and sinhc(a)·sinhc(b)/sinhc(a_z).

    ẑ = (∂R_z/∂|μ|) μ̂ + λ₂ (v̂ − cos φ μ̂). Where z = 0 the limit along the radius is taken.

    Example:
        >>> from horoball.geometry.triangle import scaled, solve
        >>> tri = solve(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0]), 0.0)
        >>> angles(tri, scaled(tri, 0.0))[2:4]  # in the plane: the cosines of the triangle 3, 4, 5
        (tensor([0.6000], dtype=torch.float64), tensor([0.8000], dtype=torch.float64))
    """
    per_Rz = inverse(tri.Rz)
    lam1 = tri.R1 * per_Rz * f.sa / f.sz * torch.exp((f.a - f.az).clamp_max(largest_exponent(f.a)))
    lam2 = tri.R2 * per_Rz * f.B
    gap = (f.a - f.b).abs()
    plus = tri.P * (tri.R1 + tri.R2) * scaled_sinhc(f.a + f.b) * f.E
    minus = (1 - tri.P) * tri.gap * scaled_sinhc(gap) * torch.exp((gap - f.az).clamp_max(0.0))
    per_sinh = per_Rz / f.sz
    at_zero = torch.where(tri.Rz > 0, 0.0, 1.0)
    return (
        lam1,
        lam2,
        (plus + minus) * per_sinh + at_zero,
        (plus - minus) * per_sinh - at_zero,
        f.sa * f.sb / f.sz * f.E,
    )


def bend(tri: Triangle, f: Scaled, lam2: Tensor, cos2: Tensor, k: Tensor) -> Tensor:
    """How fast A changes with the direction of μ: (R_z/|μ|)(1 − λ₂ cos ψ), and the same without 1/|μ| for short μ.

    Example:
        >>> from horoball.geometry.triangle import scaled, solve
        >>> tri = solve(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0]), 0.0)
        >>> f = scaled(tri, 0.0)
        >>> _, lam2, _, cos2, _ = angles(tri, f)
        >>> bend(tri, f, lam2, cos2, 2 * tri.P - 1)  # (5/3)(1 − 4²/5²)
        tensor([0.6000], dtype=torch.float64)
    """
    short = tri.R1 < tri.R2 / 4
    least = 1e-150 if f.az.dtype == torch.float64 else 1e-18  # its square is still a number
    direct = tri.Rz * inverse(torch.where(short, 0.0, tri.R1)) * (1 - lam2 * cos2)
    az = torch.where(short, f.az, 1.0)
    grown = f.sa / f.sz * f.E * 0.5 * ((f.t + k) + (f.t - k) * torch.exp(-2 * f.b)) / torch.tanh(az.clamp_min(least))
    small = (
        f.sa / f.sz * torch.exp((f.a - 2 * f.az).clamp_max(largest_exponent(f.a))) * f.t / (az * f.sz).clamp_min(least)
    )
    return torch.where(short, grown + small, direct)


# Series of (sinhc x − 1)/x², (cosh x − 1)/x² and of the x²-derivative of the latter, in x²
_SINHC_REST = [1 / math.factorial(2 * k + 3) for k in range(10)]
_COSH_REST = [1 / math.factorial(2 * k + 2) for k in range(10)]
_COSH_RATE = [(k + 1) / math.factorial(2 * k + 4) for k in range(10)]
_SINHC_RATE = [(k + 1) / math.factorial(2 * k + 3) for k in range(10)]


def rates_in_c(tri: Triangle, f: Scaled, cos1: Tensor, cos2: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """∂R_z/∂c and ∂θ/∂c per sin φ, where θ is the angle from μ to z at the origin.

    A change of c rescales all sides; the difference quotient by c cancels for short sides, whose series does not.

    Example:
        >>> from horoball.geometry.triangle import scaled, solve
        >>> c = torch.zeros((), dtype=torch.float64)
        >>> tri = solve(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0]), c)
        >>> f = scaled(tri, c)
        >>> _, _, cos1, cos2, _ = angles(tri, f)
        >>> rates_in_c(tri, f, cos1, cos2, c)[0]  # |μ|²|v|²/6R_z
        tensor([4.8000], dtype=torch.float64)
    """
    c = wide(c)
    R1, R2, Rz = tri.R1, tri.R2, tri.Rz
    per_Rz = inverse(Rz)
    short = torch.maximum(f.a, f.b) < 1.0
    Cz = f.az + torch.exp(-2 * f.az) / f.sz  # a_z coth a_z
    rate = (cos1 * R1 + cos2 * R2 - Rz) / (2 * positive(c))
    twist = (f.sa / f.sz * torch.exp((f.a - 2 * f.az).clamp_max(largest_exponent(f.a))) / f.sz - f.B * Cz) / positive(c)
    ua, ub, uz = (torch.where(short, x * x, 0.0) for x in (f.a, f.b, f.az))
    sinhc_a, sinhc_b, sinhc_z = (1 + u * polynomial(_SINHC_REST, u) for u in (ua, ub, uz))
    # The derivative of (cosh a_z − 1)/c = (cosh(a − b) − 1)/c + 2P R₁R₂ sinhc(a) sinhc(b)
    product_rate = R1 * R1 * polynomial(_SINHC_RATE, ua) * sinhc_b + R2 * R2 * sinhc_a * polynomial(_SINHC_RATE, ub)
    slow = (
        tri.gap**4 * polynomial(_COSH_RATE, torch.where(short, c * tri.gap * tri.gap, 0.0))
        + 2 * tri.P * R1 * R2 * product_rate
        - Rz**4 * polynomial(_COSH_RATE, uz)
    ) * (per_Rz / sinhc_z)
    slow_twist = (
        R1 * R1 * polynomial(_SINHC_REST, ua)
        - R2 * R2 * polynomial(_SINHC_REST, ub)
        - sinhc_b * Rz * Rz * polynomial(_COSH_REST, uz)
    ) / (sinhc_z * sinhc_z)
    twist = torch.where(short, slow_twist, twist) * (R1 * per_Rz) * (R2 * per_Rz) / 2
    return torch.where(short, slow, rate), twist
