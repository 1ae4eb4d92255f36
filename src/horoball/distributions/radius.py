"""The distance from the mean under the Riemannian normal, differentiable in the scale σ and in c.

float64 arguments are answered by quadrature, float32 ones by a table of it, both in `radius_functions`. With λ = cσ²
and t = r/σ,

    ∂ log Z_r/∂σ = (d + nλM)/σ        ∂ log Z_r/∂c = nσ²M/2
    ∂r/∂σ = t + 2λY                   ∂r/∂c = σ³Y

the latter two at fixed F(r), that is −(∂F/∂σ)/p(r) [eq:implicit_gradient] and, beyond the paper, −(∂F/∂c)/p(r).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.constraints import Constraint

from horoball.distributions import radius_functions as radius_distribution
from horoball.distributions.base import Reparameterized, in_float64
from horoball.distributions.radius_functions import (
    EPSILON_MAX,
    Location,
    RadiusNumbers,
    locate,
    lookup,
    lookup_normalizer,
)
from horoball.geometry.autograd import again, first_order
from horoball.geometry.ball import PoincareBall
from horoball.geometry.curvature import Curvature, grad_in, is_zero, load, save, widened
from horoball.geometry.kernels import broadcast_shapes, coth_excess, in_graph, log_sinhc, transformed, wide
from horoball.geometry.quadrature import gauss_legendre
from horoball.geometry.random import standard_normal

_CHUNK = 1 << 16  # samples worked on at a time: 24 quadrature nodes or 64 coefficients each, some tens of MiB


def _lambda(scale: Tensor, c: Curvature) -> Tensor:
    sigma = wide(scale)
    return widened(c) * sigma * sigma


def _to_inputs(
    g_sigma: Tensor, g_lam: Tensor, scale: Tensor, c: Any, wants_c: bool, sigma: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """From the gradients in σ and in λ = cσ² to those in σ and c, in the shapes and dtypes of the inputs."""
    sigma = wide(scale) if sigma is None else sigma
    if isinstance(c, Tensor):
        whole = g_sigma + 2 * widened(c) * sigma * g_lam
    else:
        whole = torch.addcmul(g_sigma, sigma, g_lam, value=2 * c)
    grad_scale = whole.sum_to_size(scale.shape).to(scale.dtype)
    grad_c = grad_in(c, g_lam * sigma * sigma) if wants_c else None
    return grad_scale, grad_c


class _LogNormalizer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scale: Tensor, c: Curvature, d: int) -> Tensor:
        J, M = _law(d, _lambda(scale, c), exact=scale.dtype == torch.float64)
        J = torch.full_like(J, _chi_constant(d)) if is_zero(c) else J
        save(ctx, c, scale, M)
        ctx.d = d
        return d * torch.log(wide(scale)) + J

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        c, (scale, M) = load(ctx)
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():  # M is to be differentiated
            lam = _lambda(scale, c)
            t, w = radius_nodes(lam, ctx.d)
            M = (w * t * t * coth_excess(lam.unsqueeze(-1) * t * t)).sum(-1)
        g = wide(grad)
        return *_to_inputs(g * ctx.d / wide(scale), g * M * ((ctx.d - 1) / 2), scale, c, ctx.needs_input_grad[1]), None


class _Draw(torch.autograd.Function):
    """r with F(r) = Φ(ε), and −r²/2σ² − log Z_r, which shares its work."""

    @staticmethod
    def forward(
        ctx: Any, scale: Tensor, c: Curvature, epsilon: Tensor, d: int, exact: bool, constant: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        lam = _lambda(scale, c)
        t, Y, J, M = _radius(d, lam, epsilon, exact)
        J = torch.full_like(J, _chi_constant(d)) if is_zero(c) else J
        sigma = wide(scale)
        save(ctx, c, scale, sigma, t, Y, M, epsilon)
        ctx.d, ctx.rest = d, (d, exact, constant)
        return sigma * t, -constant - torch.add(J, torch.log(sigma), alpha=d).addcmul(t, t, value=0.5)

    @staticmethod
    def backward(ctx: Any, grad_r: Tensor, grad_q: Tensor) -> tuple[Tensor | None, ...]:
        c, (scale, sigma, t, Y, M, epsilon) = load(ctx)
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            inputs = (scale, c, epsilon, *ctx.rest)
            return again(_plain_draw, inputs, ctx.needs_input_grad, grad_r, grad_q)
        g_r, g_q = wide(grad_r), wide(grad_q)
        g_sigma = torch.addcdiv(g_r * t, g_q, sigma, value=-ctx.d)
        g_lam = torch.addcmul(g_r * sigma, g_q, t, value=-1).mul(Y).addcmul(g_q, M, value=(1 - ctx.d) / 2)
        return *_to_inputs(g_sigma, g_lam, scale, c, ctx.needs_input_grad[1], sigma), *4 * [None]


_WINDOW = 12.0  # beyond which the density of t is no more than exp(−72) of what it is at its mode
_WINDOW_NODES = 64
_NEWTON = 2  # steps from the answer: they make it right to the third order in what it depends on


def _plain_draw(
    scale: Tensor, c: Curvature, epsilon: Tensor, d: int, exact: bool, constant: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The same for autograd and `torch.func`, differentiable twice: Newton's steps from the answer, at F(r) = Φ(ε).

    F is integrated from the nearer end, so that no digits are lost in a tail.
    """
    lam, n, sigma = _lambda(scale, c), d - 1, wide(scale)
    with torch.no_grad():
        t = start = _radius(d, lam.detach(), epsilon.detach(), exact).t
    end = torch.where(epsilon > 0, start + _WINDOW, (start - _WINDOW).clamp_min(0.0))
    nodes, weights = gauss_legendre(_WINDOW_NODES, device=start.device)
    log_z = log_normalizer(torch.ones_like(lam), 0.0, d) if is_zero(c) else _plain_log_normalizer(lam, d)

    def density(t: Tensor, lam: Tensor, log_z: Tensor) -> Tensor:
        return torch.exp(n * (torch.log(t) + log_sinhc(lam * t * t)) - t * t / 2 - log_z)

    def mass(t: Tensor, lam: Tensor, log_z: Tensor) -> Tensor:
        half = (t - end).unsqueeze(-1) / 2
        at = end.unsqueeze(-1) + half * (1 + nodes)
        return (half * weights * density(at, lam.unsqueeze(-1), log_z.unsqueeze(-1))).sum(-1)

    wanted = mass(start, lam.detach(), log_z.detach())
    for _ in range(_NEWTON):
        t = t - (mass(t, lam, log_z) - wanted) / density(t, lam, log_z)
    return sigma * t, -constant - log_z - d * torch.log(sigma) - t * t / 2


def _plain_log_normalizer(lam: Tensor, d: int) -> Tensor:
    """log Z_r − d log σ, whose value is that of `solve`."""
    fixed = lam.detach()
    t, w = radius_distribution.nodes(d, fixed)
    growth = log_sinhc(lam.unsqueeze(-1) * t * t) - log_sinhc(fixed.unsqueeze(-1) * t * t)
    return radius_distribution.solve(d, fixed).J + torch.log((w * torch.exp((d - 1) * growth)).sum(-1))


class _LowerTail(torch.autograd.Function):
    """F(r): ∂F/∂r = p, and along a quantile F does not change, so ∂F/∂λ = −pY."""

    @staticmethod
    def forward(ctx: Any, r: Tensor, scale: Tensor, c: Curvature, d: int) -> Tensor:
        sigma = wide(scale)
        t = wide(r) / sigma
        numbers = radius_distribution.solve(d, _lambda(scale, c))
        # Outside F is 0 or 1 to rounding, and squares overflow.
        inside = (t > 1e-150) & (t < 1e150)
        t_safe = torch.where(inside, t, numbers.m)
        at = radius_distribution.tail(numbers, t_safe)
        p = torch.where(inside, torch.exp(radius_distribution.log_density(numbers, t_safe)), 0.0)
        part = p * at.rho
        save(ctx, c, r, scale, t_safe, at.Y, p)
        return torch.where(inside, torch.where(at.left, part, 1 + part), t.clamp(0.0, 1.0).round()).to(r.dtype)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        c, (r, scale, t, Y, p) = load(ctx)
        g = wide(grad) * p / wide(scale)
        grad_r = g.sum_to_size(r.shape).to(r.dtype)
        return grad_r, *_to_inputs(-g * t, -g * wide(scale) * Y, scale, c, ctx.needs_input_grad[2]), None


def _chi_constant(d: int) -> float:
    """J at c = 0, closed: there the normal is the plain one, to the last digit."""
    return (d / 2 - 1) * math.log(2) + math.lgamma(d / 2)


def _law(d: int, lam: Tensor, exact: bool) -> tuple[Tensor, Tensor]:
    if not exact:
        return lookup_normalizer(d, locate(d, lam))
    numbers = radius_distribution.solve(d, lam)
    return numbers.J, numbers.M


class _Sample(NamedTuple):
    t: Tensor
    Y: Tensor
    J: Tensor
    M: Tensor


def _radius(d: int, lam: Tensor, epsilon: Tensor, exact: bool) -> _Sample:
    location = locate(d, lam)
    if exact:
        numbers = radius_distribution.solve(d, lam)
        t, Y = _chunked(
            lambda eps, *f: _exact(RadiusNumbers(numbers.n, *f[:8]), Location(*f[8:]), eps),
            epsilon,
            *numbers[1:],
            *location,
        )
        return _Sample(t, Y, numbers.J, numbers.M)
    t, Y = _chunked(lambda eps, *f: lookup(d, Location(*f), eps), epsilon, *location)
    return _Sample(t, Y, *lookup_normalizer(d, location))


def _exact(numbers: RadiusNumbers, location: Location, epsilon: Tensor) -> tuple[Tensor, Tensor]:
    """The table's answer improved by a third-order step, which takes its error of 1e-6 below rounding."""
    d = int(numbers.n) + 1
    guess = lookup(d, location, epsilon.clamp(-EPSILON_MAX, EPSILON_MAX)).t
    log_lower, log_upper = torch.special.log_ndtr(epsilon), torch.special.log_ndtr(-epsilon)
    if not in_graph() and bool((epsilon < -EPSILON_MAX).any()):
        guess = _below_table(numbers, guess, epsilon, log_lower)
    return radius_distribution.polish(numbers, guess, log_lower, log_upper)


def _below_table(numbers: RadiusNumbers, edge: Tensor, epsilon: Tensor, log_lower: Tensor) -> Tensor:
    """Quantiles that no generator reaches but a caller of icdf may, by bisection from the table's edge down to 0.

    The density is more log-concave than the normal's, so |∂t/∂ε| ≤ 1; and F(t) ≤ t^d sinhc(√λt)^n exp(−J)/d. Both
    bound t. Above, the table ends past the last number below 1.
    """
    d = numbers.n + 1
    below = (-epsilon - EPSILON_MAX).clamp_min(0.0)
    power = (log_lower + math.log(d) + numbers.J - numbers.n * log_sinhc(numbers.lam * edge * edge)) / d
    low, high = torch.maximum(torch.exp(power), edge - below).minimum(edge).log(), edge.log()
    for _ in range(48):
        middle = (low + high) / 2
        t = middle.exp()
        log_part = torch.log(radius_distribution.tail(numbers, t).rho.abs()) + radius_distribution.log_density(
            numbers, t
        )
        short = log_part < log_lower
        low, high = torch.where(short, middle, low), torch.where(short, high, middle)
    return torch.where(below > 0, ((low + high) / 2).exp(), edge)


def _chunked(work: Any, epsilon: Tensor, *fields: Tensor) -> tuple[Tensor, Tensor]:
    """The work on all samples, a bounded number at a time; the fields have a shape that broadcasts to ε's."""
    shape = broadcast_shapes(epsilon.shape, fields[0].shape)
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
    if transformed():
        return d * torch.log(wide(scale)) + _plain_log_normalizer(_lambda(scale, c), d)
    return _LogNormalizer.apply(scale, c, d)


def draw(scale: Tensor, c: Curvature, epsilon: Tensor, d: int, constant: float = 0.0) -> tuple[Tensor, Tensor]:
    """The radius r at the probability Φ(ε), with implicit gradients [eq:implicit_gradient], and −r²/2σ² − log Z_r.

    A constant, as the log area of the sphere, is subtracted from the latter.

    Example:
        >>> draw(torch.tensor(1.0), 0.0, torch.tensor(0.0), 2)  # the median r = √(2 log 2), and −log 2
        (tensor(1.1774, dtype=torch.float64), tensor(-0.6931, dtype=torch.float64))
    """
    work = _plain_draw if transformed() else _Draw.apply
    return work(scale, c, epsilon, d, scale.dtype == torch.float64, constant)


def quantile(scale: Tensor, c: Curvature, epsilon: Tensor, d: int) -> Tensor:
    """The radius at the probability Φ(ε); 0 and ∞ at its ends.

    Example:
        >>> quantile(torch.tensor(1.0), 0.0, torch.tensor([-torch.inf, 0.0]), 2)
        tensor([0.0000, 1.1774])
    """
    inside = epsilon.isfinite()
    epsilon_safe = torch.where(inside, epsilon, 0.0)
    beyond = not torch.compiler.is_compiling() and bool((epsilon_safe.abs() > EPSILON_MAX).any())
    r, _ = _Draw.apply(scale, c, epsilon_safe, d, beyond or scale.dtype == torch.float64, 0.0)
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
        >>> round((w * t * t).sum().item(), 12)  # E[t²] = d for the chi distribution
        3.0
    """
    lam = wide(lam)
    t, w, growth = _followed(lam, d, graded)
    if growth is None:
        return t, w
    mass = w * growth
    return t, mass / mass.sum(-1, keepdim=True)


def _followed(lam: Tensor, d: int, graded: bool = False) -> tuple[Tensor, Tensor, Any]:
    """Nodes and weights for the numbers that λ has now, and how the densities there change with λ, if that is asked.

    Nodes stay where they are, so that only sinhc(√λ t)^n depends on λ: it is smooth, also at 0.
    """
    fixed = lam.detach()
    t, w = (radius_distribution.graded_nodes if graded else radius_distribution.nodes)(d, fixed)
    if not lam.requires_grad and not transformed():
        return t, w, None
    square = t * t
    growth = log_sinhc(lam.unsqueeze(-1) * square) - log_sinhc(fixed.unsqueeze(-1) * square)
    return t, w, torch.exp((d - 1) * growth)


class HyperbolicRadius(Reparameterized):
    r"""The distribution of r = d(μ, z) for z from the Riemannian normal in d dimensions [eq:radius_density].

    p(r) = exp(−r²/2σ²) (sinh(√c r)/√c)^(d−1) / Z_r,  r ≥ 0; for c = 0 the chi distribution of σ, which
    is the radius of the wrapped normal for every c [eq:wrapped_radius].

    Args:
        d: Dimension of the ball, d ≥ 2.
        scale: σ > 0, shape (*batch).
        ball: The ball, for its c.
        validate_args: As in torch.distributions.

    Example:
        >>> numbers = HyperbolicRadius(2, torch.tensor([0.5, 1.0]), PoincareBall(1.0))
        >>> numbers.mean
        tensor([0.6529, 1.4648])
        >>> numbers.cdf(numbers.icdf(torch.tensor([0.1, 0.9])))
        tensor([0.1000, 0.9000])
    """

    arg_constraints = {"scale": constraints.positive}  # noqa: RUF012
    support: Constraint = constraints.nonnegative

    def __init__(self, d: int, scale: Tensor, ball: PoincareBall, *, validate_args: bool | None = None) -> None:
        if d < 2:
            raise ValueError(f"HyperbolicRadius needs d >= 2, got {d}. On a line use WrappedNormal, the plain normal.")
        self.d, self.scale, self.ball = d, scale, ball
        super().__init__(scale.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> HyperbolicRadius:
        """The same distributions over a larger batch shape."""
        new = self._get_checked_instance(HyperbolicRadius, _instance)
        new.d, new.ball = self.d, self.ball
        new.scale = self.scale.expand(torch.Size(batch_shape))
        super(HyperbolicRadius, new).__init__(new.scale.shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def log_normalizer(self) -> Tensor:
        """log Z_r, shape (*batch) [eq:Zr2].

        Example:
            >>> HyperbolicRadius(3, torch.tensor(1.0), PoincareBall(1.0)).log_normalizer
            tensor(1.3872)
        """
        return log_normalizer(self.scale, self.ball.c, self.d).to(self.scale.dtype)

    def rsample(self, sample_shape: Any = torch.Size(), generator: torch.Generator | None = None) -> Tensor:  # noqa: B008
        """Radii by inversion of the cdf, differentiable in σ and c [eq:implicit_gradient].

        The paper rejects proposals, which takes a loop; one of its two simple proposals is no bound [errata:6].

        Example:
            >>> HyperbolicRadius(3, torch.ones(4), PoincareBall(1.0)).rsample((2,)).shape
            torch.Size([2, 4])
        """
        shape = self._extended_shape(sample_shape)
        epsilon = standard_normal(shape, torch.float64, self.scale.device, row_axis=-1, generator=generator)
        return draw(self.scale, self.ball.c, epsilon, self.d)[0].to(self.scale.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density with respect to dr.

        Example:
            >>> HyperbolicRadius(2, torch.tensor(1.0), PoincareBall(0.0)).log_prob(torch.tensor(1.0))
            tensor(-0.5000)
        """
        if self._validate_args:
            self._validate_sample(value)
        r, sigma = wide(value), wide(self.scale)
        growth = torch.log(r) + log_sinhc(self.ball.c * r * r)
        log_p = (self.d - 1) * growth - (r / sigma).square() / 2 - log_normalizer(self.scale, self.ball.c, self.d)
        return log_p.to(torch.promote_types(value.dtype, self.scale.dtype))

    @in_float64
    def cdf(self, value: Tensor) -> Tensor:
        """P(R ≤ r) [eq:cdf], of which the paper's print lacks a part [errata:5].

        Example:
            >>> HyperbolicRadius(2, torch.tensor(1.0), PoincareBall(0.0)).cdf(torch.tensor(1.0))  # 1 − exp(−1/2)
            tensor(0.3935)
        """
        if self._validate_args:
            self._validate_sample(value)
        return lower_tail(value, self.scale, self.ball.c, self.d)

    @in_float64
    def icdf(self, value: Tensor) -> Tensor:
        """The radius below which a sample lies with the given probability, in [0, 1].

        Example:
            >>> HyperbolicRadius(2, torch.tensor(1.0), PoincareBall(0.0)).icdf(torch.tensor(0.5))  # √(2 log 2)
            tensor(1.1774)
        """
        if self._validate_args and not bool(((value >= 0) & (value <= 1)).all()):
            raise ValueError(f"icdf expects probabilities in [0, 1], got values from {value.min()} to {value.max()}.")
        r = quantile(self.scale, self.ball.c, torch.special.ndtri(wide(value.detach())), self.d)
        if not value.requires_grad:
            return r
        # ∂r/∂u = 1/p(r)
        inside = (value > 0) & (value < 1)
        rate = torch.exp(-self.log_prob(torch.where(inside, r, 1.0))).detach()
        return r + torch.where(inside, rate * (value - value.detach()), 0.0)

    def _moments(self) -> tuple[Tensor, Tensor]:
        sigma = wide(self.scale)
        t, w = radius_nodes(self.ball.c * sigma * sigma, self.d)
        mean = (w * t).sum(-1)
        return sigma * mean, (w * (t - mean.unsqueeze(-1)).square()).sum(-1) * sigma * sigma

    @property
    @in_float64
    def mean(self) -> Tensor:
        """E[r] [eq:mean_radius]."""
        return self._moments()[0].to(self.scale.dtype)

    @property
    @in_float64
    def variance(self) -> Tensor:
        """Var[r], which the paper uses but does not give [errata:9]."""
        return self._moments()[1].to(self.scale.dtype)

    @in_float64
    def entropy(self) -> Tensor:
        """−E[log p(r)].

        Example:
            >>> HyperbolicRadius(2, torch.tensor(1.0), PoincareBall(0.0)).entropy()
            tensor(0.9420)
        """
        sigma = wide(self.scale)
        t, w = radius_nodes(self.ball.c * sigma * sigma, self.d, graded=True)  # for log t
        r = sigma.unsqueeze(-1) * t
        growth = torch.log(r) + log_sinhc(self.ball.c * r * r)
        log_p = (self.d - 1) * growth - t.square() / 2
        log_z = log_normalizer(self.scale, self.ball.c, self.d)
        return (log_z - (w * log_p).sum(-1)).to(self.scale.dtype)
