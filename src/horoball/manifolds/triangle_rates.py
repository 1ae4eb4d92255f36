"""How the hyperbolic triangle changes with its sides, its angle and c: what its gradients are made of."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from horoball.manifolds.triangle import Scaled, Triangle, inverse, largest_exponent
from horoball.numerics.curvature import positive
from horoball.numerics.kernels import polynomial, scaled_sinhc, wide

__all__ = ["angles", "bend", "rates_in_c"]


def angles(tri: Triangle, f: Scaled) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """λ₁ = sinh a/sinh a_z, λ₂ = sinh b/sinh a_z, ∂R_z/∂|μ|, ∂R_z/∂|v| and sinhc(a)·sinhc(b)/sinhc(a_z).

    ẑ = (∂R_z/∂|μ|) μ̂ + λ₂ (v̂ − cos φ μ̂). Where z = 0 the limit along the radius is taken.

    Example:
        >>> from horoball.manifolds.triangle import scaled, solve
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
        >>> from horoball.manifolds.triangle import scaled, solve
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
        >>> from horoball.manifolds.triangle import scaled, solve
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
