"""The radius law as differentiable functions of the scale σ and of c.

float64 arguments are answered by quadrature (`radius_law`), float32 ones by the table (`radius_table`) of the same
law. With λ = cσ² and t = r/σ,

    ∂ log Z_r/∂σ = (d + nλM)/σ        ∂ log Z_r/∂c = nσ²M/2
    ∂r/∂σ = t + 2λY                   ∂r/∂c = σ³Y

the latter two at fixed F(r), that is −(∂F/∂σ)/p(r) [eq:implicit_gradient] and, beyond the paper, −(∂F/∂c)/p(r).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from horoball.autograd import first_order
from horoball.distributions import radius_law
from horoball.distributions.radius_law import Law
from horoball.distributions.radius_table import EPSILON_MAX, Place, locate, lookup, lookup_law
from horoball.manifolds import Curvature
from horoball.numerics import coth_excess, log_sinhc, wide

__all__ = ["draw", "log_normalizer", "lower_tail", "quantile", "radius_nodes"]

_CHUNK = 1 << 16  # samples worked on at a time: 24 quadrature nodes or 64 coefficients each, some tens of MiB


def _lambda(scale: Tensor, c: Curvature) -> Tensor:
    sigma = wide(scale)
    return (wide(c) if isinstance(c, Tensor) else c) * sigma * sigma


def _save(ctx: Any, c: Curvature, *tensors: Tensor) -> None:
    ctx.c = None if isinstance(c, Tensor) else c
    ctx.save_for_backward(*tensors, *((c,) if isinstance(c, Tensor) else ()))


def _load(ctx: Any) -> tuple[Any, list[Tensor]]:
    saved = list(ctx.saved_tensors)
    return (saved.pop() if ctx.c is None else ctx.c), saved


def _to_inputs(g_sigma: Tensor, g_lam: Tensor, scale: Tensor, c: Any, wants_c: bool) -> tuple[Tensor, Tensor | None]:
    """From the gradients in σ and in λ = cσ² to those in σ and c, in the shapes and dtypes of the inputs."""
    sigma = wide(scale)
    value = wide(c) if isinstance(c, Tensor) else c
    grad_scale = (g_sigma + 2 * value * sigma * g_lam).sum_to_size(scale.shape).to(scale.dtype)
    grad_c = (g_lam * sigma * sigma).sum().to(c.dtype).reshape(c.shape) if wants_c else None
    return grad_scale, grad_c


class _LogNormalizer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scale: Tensor, c: Curvature, d: int) -> Tensor:
        J, M = _law(d, _lambda(scale, c), exact=scale.dtype == torch.float64)
        J = torch.full_like(J, _chi_constant(d)) if _is_zero(c) else J
        _save(ctx, c, scale, M)
        ctx.d = d
        return d * torch.log(wide(scale)) + J

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        c, (scale, M) = _load(ctx)
        g = wide(grad)
        return *_to_inputs(g * ctx.d / wide(scale), g * M * ((ctx.d - 1) / 2), scale, c, ctx.needs_input_grad[1]), None


class _Draw(torch.autograd.Function):
    """r with F(r) = Φ(ε), and −r²/2σ² − log Z_r, which shares its work."""

    @staticmethod
    def forward(ctx: Any, scale: Tensor, c: Curvature, epsilon: Tensor, d: int, exact: bool) -> tuple[Tensor, Tensor]:
        lam = _lambda(scale, c)
        t, Y, J, M = _radius(d, lam, epsilon, exact)
        J = torch.full_like(J, _chi_constant(d)) if _is_zero(c) else J
        _save(ctx, c, scale, t, Y, M)
        ctx.d = d
        sigma = wide(scale)
        return sigma * t, -t * t / 2 - d * torch.log(sigma) - J

    @staticmethod
    @first_order
    def backward(ctx: Any, grad_r: Tensor, grad_q: Tensor) -> tuple[Tensor | None, ...]:
        c, (scale, t, Y, M) = _load(ctx)
        sigma = wide(scale)
        g_r, g_q = wide(grad_r), wide(grad_q)
        g_sigma = g_r * t - g_q * (ctx.d / sigma)
        g_lam = (g_r * sigma - g_q * t) * Y - g_q * M * ((ctx.d - 1) / 2)
        return *_to_inputs(g_sigma, g_lam, scale, c, ctx.needs_input_grad[1]), None, None, None


class _LowerTail(torch.autograd.Function):
    """F(r): ∂F/∂r = p, and along a quantile F does not change, so ∂F/∂λ = −pY."""

    @staticmethod
    def forward(ctx: Any, r: Tensor, scale: Tensor, c: Curvature, d: int) -> Tensor:
        sigma = wide(scale)
        t = wide(r) / sigma
        law = radius_law.solve(d, _lambda(scale, c))
        # Outside F is 0 or 1 to rounding, and squares overflow.
        inside = (t > 1e-150) & (t < 1e150)
        t_safe = torch.where(inside, t, law.m)
        at = radius_law.tail(law, t_safe)
        p = torch.where(inside, torch.exp(radius_law.log_density(law, t_safe)), 0.0)
        part = p * at.rho
        _save(ctx, c, r, scale, t_safe, at.Y, p)
        return torch.where(inside, torch.where(at.left, part, 1 + part), t.clamp(0.0, 1.0).round()).to(r.dtype)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        c, (r, scale, t, Y, p) = _load(ctx)
        g = wide(grad) * p / wide(scale)
        grad_r = g.sum_to_size(r.shape).to(r.dtype)
        return grad_r, *_to_inputs(-g * t, -g * wide(scale) * Y, scale, c, ctx.needs_input_grad[2]), None


class _Nodes(torch.autograd.Function):
    """Nodes stay where they are; the weights follow the law: ∂w/∂λ = w (n/2)(t²K − M)."""

    @staticmethod
    def forward(ctx: Any, lam: Tensor, d: int, graded: bool) -> tuple[Tensor, Tensor]:
        t, w = (radius_law.graded_nodes if graded else radius_law.nodes)(d, lam)
        ctx.save_for_backward(lam, t, w)
        ctx.n = d - 1
        ctx.mark_non_differentiable(t)
        return t, w

    @staticmethod
    @first_order
    def backward(ctx: Any, _: Tensor, grad: Tensor) -> tuple[Tensor, None, None]:
        lam, t, w = ctx.saved_tensors
        score = t * t * coth_excess(lam.unsqueeze(-1) * t * t)
        mean = (w * score).sum(-1, keepdim=True)
        return (ctx.n / 2) * (grad * w * (score - mean)).sum(-1), None, None


def _is_zero(c: Curvature) -> bool:
    return not isinstance(c, Tensor) and c == 0


def _chi_constant(d: int) -> float:
    """J at c = 0, closed: there the normal is the plain one, to the last digit."""
    return (d / 2 - 1) * math.log(2) + math.lgamma(d / 2)


def _law(d: int, lam: Tensor, exact: bool) -> tuple[Tensor, Tensor]:
    if not exact:
        return lookup_law(d, locate(d, lam))
    law = radius_law.solve(d, lam)
    return law.J, law.M


class _Sample(NamedTuple):
    t: Tensor
    Y: Tensor
    J: Tensor
    M: Tensor


def _radius(d: int, lam: Tensor, epsilon: Tensor, exact: bool) -> _Sample:
    place = locate(d, lam)
    if exact:
        law = radius_law.solve(d, lam)
        t, Y = _chunked(lambda eps, *f: _exact(Law(law.n, *f[:8]), Place(*f[8:]), eps), epsilon, *law[1:], *place)
        return _Sample(t, Y, law.J, law.M)
    t, Y = _chunked(lambda eps, *f: lookup(d, Place(*f), eps), epsilon, *place)
    return _Sample(t, Y, *lookup_law(d, place))


def _exact(law: Law, place: Place, epsilon: Tensor) -> tuple[Tensor, Tensor]:
    """The table's answer improved by a third-order step, which takes its error of 1e-6 below rounding."""
    d = int(law.n) + 1
    guess = lookup(d, place, epsilon.clamp(-EPSILON_MAX, EPSILON_MAX)).t
    log_lower, log_upper = torch.special.log_ndtr(epsilon), torch.special.log_ndtr(-epsilon)
    if not torch.compiler.is_compiling() and bool((epsilon < -EPSILON_MAX).any()):
        guess = _below_table(law, guess, epsilon, log_lower)
    return radius_law.polish(law, guess, log_lower, log_upper)


def _below_table(law: Law, edge: Tensor, epsilon: Tensor, log_lower: Tensor) -> Tensor:
    """Quantiles that no generator reaches but a caller of icdf may, by bisection from the table's edge down to 0.

    The law is more concave than the normal's, so |∂t/∂ε| ≤ 1; and F(t) ≤ t^d sinhc(√λt)^n exp(−J)/d. Both bound t.
    Above, the table ends past the last number below 1.
    """
    d = law.n + 1
    below = (-epsilon - EPSILON_MAX).clamp_min(0.0)
    power = (log_lower + math.log(d) + law.J - law.n * log_sinhc(law.lam * edge * edge)) / d
    low, high = torch.maximum(torch.exp(power), edge - below).minimum(edge).log(), edge.log()
    for _ in range(48):
        middle = (low + high) / 2
        t = middle.exp()
        log_part = torch.log(radius_law.tail(law, t).rho.abs()) + radius_law.log_density(law, t)
        short = log_part < log_lower
        low, high = torch.where(short, middle, low), torch.where(short, high, middle)
    return torch.where(below > 0, ((low + high) / 2).exp(), edge)


def _chunked(work: Any, epsilon: Tensor, *fields: Tensor) -> tuple[Tensor, Tensor]:
    """The work on all samples, a bounded number at a time; the fields have a shape that broadcasts to ε's."""
    shape = torch.broadcast_shapes(epsilon.shape, fields[0].shape)
    if torch.compiler.is_compiling() or shape.numel() <= _CHUNK:
        return work(epsilon, *fields)
    parts = zip(*(x.broadcast_to(shape).reshape(-1).split(_CHUNK) for x in (epsilon, *fields)), strict=True)
    t, Y = zip(*(work(*part) for part in parts), strict=True)
    return torch.cat(t).reshape(shape), torch.cat(Y).reshape(shape)


def log_normalizer(scale: Tensor, c: Curvature, d: int) -> Tensor:
    """log Z_r = log ∫ exp(−r²/2σ²) (sinh(√c r)/√c)^(d−1) dr, in float64 [eq:Zr2].

    Example:
        >>> log_normalizer(torch.tensor(1.0), 0.0, 3)  # ∫ r² exp(−r²/2) dr = √(π/2)
        tensor(0.2258, dtype=torch.float64)
    """
    return _LogNormalizer.apply(scale, c, d)


def draw(scale: Tensor, c: Curvature, epsilon: Tensor, d: int) -> tuple[Tensor, Tensor]:
    """The radius r at the probability Φ(ε), with implicit gradients [eq:implicit_gradient], and −r²/2σ² − log Z_r.

    Example:
        >>> draw(torch.tensor(1.0), 0.0, torch.tensor(0.0), 2)  # the median r = √(2 log 2), and −log 2
        (tensor(1.1774, dtype=torch.float64), tensor(-0.6931, dtype=torch.float64))
    """
    return _Draw.apply(scale, c, epsilon, d, scale.dtype == torch.float64)


def quantile(scale: Tensor, c: Curvature, epsilon: Tensor, d: int) -> Tensor:
    """The radius at the probability Φ(ε); 0 and ∞ at its ends.

    Example:
        >>> quantile(torch.tensor(1.0), 0.0, torch.tensor([-torch.inf, 0.0]), 2)
        tensor([0.0000, 1.1774])
    """
    inside = epsilon.isfinite()
    epsilon_safe = torch.where(inside, epsilon, 0.0)
    beyond = not torch.compiler.is_compiling() and bool((epsilon_safe.abs() > EPSILON_MAX).any())
    r, _ = _Draw.apply(scale, c, epsilon_safe, d, beyond or scale.dtype == torch.float64)
    r = torch.where(inside, r, epsilon.clamp_min(0.0).to(r.dtype))  # 0, ∞, and what is not a number
    return r.to(scale.dtype)


def lower_tail(r: Tensor, scale: Tensor, c: Curvature, d: int) -> Tensor:
    """F(r) [eq:cdf], by quadrature: the printed sum lacks a factor and a sign [errata:5], and cancels [errata:15].

    Example:
        >>> lower_tail(torch.tensor(1.1774), torch.tensor(1.0), 0.0, 2)
        tensor(0.5000)
    """
    return _LowerTail.apply(r.to(torch.promote_types(r.dtype, scale.dtype)), scale, c, d)


def radius_nodes(lam: Tensor, d: int, graded: bool = False) -> tuple[Tensor, Tensor]:
    """Nodes t and weights w with Σ w f(t) = E[f(r/σ)], λ = cσ²; the weights carry the gradient in λ.

    Graded nodes, twice as many, crowd at 0 and bear a logarithm there.

    Example:
        >>> t, w = radius_nodes(torch.tensor(0.0), 3)
        >>> round((w * t * t).sum().item(), 12)  # E[t²] = d for the chi law
        3.0
    """
    return _Nodes.apply(wide(lam), d, graded)
