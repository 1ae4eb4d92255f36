"""The geometry in formulas that autograd and `torch.func` differentiate any number of times.

With even kernels of c|μ|², c|v|² and c⟨μ, v⟩ alone they are smooth everywhere: at the origin, for coincident points, at
c = 0. One scalar per point is float64, which holds √c(|μ| + |v|) ≤ 350. Where v all but undoes μ, their terms cancel
by a factor of exp(2√c min(|μ|, |v|)); the `triangle`, which is used for values and first derivatives, does not.
"""

from __future__ import annotations

import torch
from torch import Tensor

from horoball.numerics.curvature import Curvature, positive, root, widened
from horoball.numerics.kernels import asinhc, log_sinhc, sinhc, tanhc, wide

__all__ = ["plain_log_volume", "plain_side", "plain_translate", "plain_translated_radius", "plain_transport"]


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
