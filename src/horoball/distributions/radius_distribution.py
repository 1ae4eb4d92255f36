"""The radius under the Riemannian normal, in float64 by quadrature: the reference for everything faster.

With t = r/σ, n = d − 1, λ = cσ² and s = √λ, the density of t is proportional to exp g(t),

    g(t) = n log(sinh(st)/s) − t²/2,        log Z_r = d log σ + J(λ),   J = log ∫ exp g.

All is smooth in λ (not in s), so c = 0 is an ordinary point: there t has the chi numbers. Integrals are taken about the
mode m, s·m tanh(s·m) = nλ, with G(δ) = g(m + δ) − g(m) in a form that does not cancel, by one Gauss–Legendre rule on
the window G ≥ −32. The paper's sums over the exponentials of sinh [eq:developedpr] are exact but cancel, and lose all
digits where d is large or √cσ small [errata:15]; none is used here.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from horoball.numerics.kernels import coth_excess, log_sinhc
from horoball.numerics.quadrature import gauss_legendre

__all__ = ["RadiusNumbers", "Tail", "graded_nodes", "log_density", "nodes", "polish", "solve", "tail"]

_NODES = 36  # for ∫ over the window: 2e-15 from d = 2 to 4096
_TAIL_NODES = 24
_WINDOW = 32.0  # exp(−32) = 1e-14 of the peak is left out, and falls off from there
_CAP = 600.0  # exponents are capped below float64's overflow; what multiplies them is 0 there
_TINY = 1e-60  # floor of λ: its square root still divides, and no value differs from that at λ = 0


class RadiusNumbers(NamedTuple):
    """The distribution of t for each λ; all fields have λ's shape.

    Example:
        >>> solve(2, torch.zeros((), dtype=torch.float64)).m  # the mode of t exp(−t²/2)
        tensor(1., dtype=torch.float64)
    """

    n: float
    lam: Tensor
    s: Tensor
    x: Tensor  # s·m
    m: Tensor  # the mode of g
    A: Tensor  # 1/(exp(2x) − 1)
    J0: Tensor  # log ∫ exp G
    J: Tensor  # log ∫ exp g
    M: Tensor  # E[t² K(λt²)]: dJ/dλ = nM/2


class Tail(NamedTuple):
    """What the distribution is like beyond t, on the side where its score has one sign.

    Example:
        >>> numbers = solve(2, torch.zeros((), dtype=torch.float64))
        >>> tail(numbers, torch.tensor(1e-3, dtype=torch.float64)).left
        tensor(True)
    """

    left: Tensor  # whether the integrals below run over (0, t) or (t, ∞)
    rho: Tensor  # F/p on the left, −(1 − F)/p on the right
    Y: Tensor  # ∂t/∂λ at fixed probability
    slope: Tensor  # g'(t)
    bend: Tensor  # g''(t)
    score: Tensor  # (n/2)(M − t²K): minus the derivative of the log density in λ


def _reciprocal(x: Tensor) -> Tensor:
    """1/(exp(2x) − 1), 0 where that underflows."""
    return torch.where(2 * x > _CAP, 0.0, 1 / torch.expm1((2 * x).clamp_max(_CAP)))


def _grow(n: float, A: Tensor, sd: Tensor) -> Tensor:
    """n·[log(sinh(x + sd)/sinh x) − sd coth x] for A of x, without cancellation."""
    ratio = -A * torch.expm1((-2 * sd).clamp_max(_CAP))
    return n * (torch.log1p(ratio.clamp_min(-1 + 1e-16)) - 2 * A * sd)


def _mode(alpha: Tensor) -> Tensor:
    """The solution of x tanh x = α; four Newton steps from within 5 % reach rounding for every α."""
    x = torch.sqrt(alpha + alpha * alpha * (1 / 3 + (2 / 3) * alpha / (alpha + 2)))
    for _ in range(4):
        th = torch.tanh(x)
        x = x - (x * th - alpha) / (th + x * (1 - th * th))
    return x


def solve(d: int, lam: Tensor) -> RadiusNumbers:
    """Mode, normalizer and its derivative for every λ ≥ 0 [eq:Zr2].

    Example:
        >>> numbers = solve(2, torch.zeros((), dtype=torch.float64))  # the Rayleigh numbers, Z = 1
        >>> abs(numbers.J.item()) < 1e-14
        True
    """
    numbers, t, weight = _quadrature(d, lam)
    M = (weight * t * t * coth_excess(numbers.lam.unsqueeze(-1) * t * t)).sum(-1)
    return numbers._replace(M=M)


def nodes(d: int, lam: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes t and weights, on a last axis, with Σ weight·f(t) = E[f(t)].

    Example:
        >>> t, w = nodes(3, torch.ones((), dtype=torch.float64))
        >>> torch.allclose(w.sum(), w.new_ones(()))
        True
    """
    return _quadrature(d, lam)[1:]


def graded_nodes(d: int, lam: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights as in `nodes`, crowded as y³ at the lower end, for functions with a logarithm at t = 0.

    Example:
        >>> t, w = graded_nodes(2, torch.zeros((), dtype=torch.float64))
        >>> (w * t.log()).sum()  # (log 2 − γ)/2
        tensor(0.0580, dtype=torch.float64)
    """
    numbers = solve(d, lam)
    numbers = RadiusNumbers(numbers.n, *(field.unsqueeze(-1) for field in numbers[1:]))
    z, w = gauss_legendre(2 * _NODES, torch.float64, lam.device)
    y = (z + 1) / 2
    lower = (numbers.m - math.sqrt(2 * _WINDOW)).clamp_min(0.0)
    t = lower + (numbers.m + math.sqrt(2 * _WINDOW) - lower) * y**3
    mass = torch.exp(log_density(numbers, t)) * w * y * y
    return t, mass / mass.sum(-1, keepdim=True)


def _quadrature(d: int, lam: Tensor) -> tuple[RadiusNumbers, Tensor, Tensor]:
    n = float(d - 1)
    lam = lam.double().clamp_min(_TINY)
    s = lam.sqrt()
    alpha = n * lam
    x = _mode(alpha)
    m = x / s
    A = _reciprocal(x)
    kappa = 1 + 4 * alpha * A * (1 + A)  # −g''(m); 1/sinh² x = 4A(1 + A)
    # The window: on the left G ≤ −κδ²/2; on the right two Newton steps from outside, which stay outside.
    lower = -torch.minimum(m, torch.sqrt(2 * _WINDOW / kappa))
    upper = torch.full_like(m, math.sqrt(2 * _WINDOW))
    for _ in range(2):
        coth = 1 + 2 * _reciprocal(x + s * upper)
        fall = n * s * coth - (m + upper)
        upper = upper - (_grow(n, A, s * upper) - upper * upper / 2 + _WINDOW) / fall
    z, w = gauss_legendre(_NODES, torch.float64, lam.device)
    half = (upper - lower) / 2
    delta = ((upper + lower) / 2).unsqueeze(-1) + half.unsqueeze(-1) * z
    G = _grow(n, A.unsqueeze(-1), s.unsqueeze(-1) * delta) - delta * delta / 2
    mass = torch.exp(G) * w
    total = mass.sum(-1)
    J0 = torch.log(half * total)
    peak = n * (torch.log(m) + log_sinhc(x * x)) - m * m / 2
    numbers = RadiusNumbers(n, lam, s, x, m, A, J0, J0 + peak, torch.zeros_like(m))
    return numbers, m.unsqueeze(-1) + delta, mass / total.unsqueeze(-1)


def log_density(numbers: RadiusNumbers, t: Tensor) -> Tensor:
    """Log of the density of t, taken about the mode: exact to rounding also where log Z is large.

    Example:
        >>> numbers = solve(3, torch.ones((), dtype=torch.float64))
        >>> log_density(numbers, numbers.m)
        tensor(-0.8081, dtype=torch.float64)
    """
    delta = t - numbers.m
    near = delta > -numbers.m / 2
    safe = torch.where(near, delta, 0.0)
    about = _grow(numbers.n, numbers.A, numbers.s * safe) - safe * safe / 2
    # Far below the mode (small d only) t is the exact number, m − t is not.
    t_safe = torch.where(near, numbers.m, t)
    y, x = numbers.lam * t_safe * t_safe, numbers.x * numbers.x
    below = (
        numbers.n * (torch.log(t_safe / numbers.m) + log_sinhc(y) - log_sinhc(x))
        - (t_safe - numbers.m) * (t_safe + numbers.m) / 2
    )
    return torch.where(near, about, below) - numbers.J0


def tail(numbers: RadiusNumbers, t: Tensor) -> Tail:
    """One-sided integrals from t, by a rule on the stretch over which the density falls by exp(−34).

    Y = (n/2) ∫₀ᵗ (M − x²K) exp(g(x) − g(t)) dx = −(n/2) ∫ₜ^∞ (same) [eq:implicit_gradient]. The side is the one on
    which the integrand has one sign: nothing cancels, and no density is divided by.

    Example:
        >>> numbers = solve(2, torch.zeros((), dtype=torch.float64))
        >>> tail(numbers, torch.tensor(1e-3, dtype=torch.float64)).rho  # F/p = (t²/2)/t
        tensor(0.0005, dtype=torch.float64)
    """
    n, lam, s, M = numbers.n, numbers.lam, numbers.s, numbers.M
    drop = 34.0
    A = _reciprocal(s * t)
    slope = n * s * (1 + 2 * A) - t
    kappa = 1 + 4 * n * lam * A * (1 + A)
    weight = t * t * coth_excess(lam * t * t)
    left = weight < M
    rise = torch.where(left, slope, -slope)
    curve = torch.where(left, kappa, 1.0)
    root = torch.sqrt(rise * rise + 2 * drop * curve)
    # The root of rise·l + curve·l²/2 = drop, in the form that does not cancel
    reach = torch.where(rise > 0, 2 * drop / (rise + root).clamp_min(1e-300), (root - rise) / curve)
    reach = torch.where(left, torch.minimum(reach, t), reach)
    sign = torch.where(left, -1.0, 1.0).to(t.dtype)
    z, w = gauss_legendre(_TAIL_NODES, torch.float64, t.device)
    delta = (sign * reach).unsqueeze(-1) * ((z + 1) / 2)
    at = t.unsqueeze(-1) + delta
    G = _grow(n, A.unsqueeze(-1), s.unsqueeze(-1) * delta) + delta * (slope.unsqueeze(-1) - delta / 2)
    mass = torch.exp(G) * (w / 2)
    rho = -sign * reach * mass.sum(-1)
    gain = M.unsqueeze(-1) - at * at * coth_excess(lam.unsqueeze(-1) * at * at)
    Y = -sign * (n / 2) * reach * (mass * gain).sum(-1)
    return Tail(left, rho, Y, slope, -kappa, (n / 2) * (M - weight))


def polish(numbers: RadiusNumbers, t: Tensor, log_lower: Tensor, log_upper: Tensor) -> tuple[Tensor, Tensor]:
    """One third-order step toward F(t) = u in log F or log(1 − F), and Y there.

    Args:
        numbers: The numbers, broadcast to t.
        t: A guess, t > 0.
        log_lower: log u.
        log_upper: log(1 − u).

    Example:
        >>> numbers = solve(2, torch.zeros((), dtype=torch.float64))  # F = 1 − exp(−t²/2)
        >>> half = torch.tensor(0.5, dtype=torch.float64).log()
        >>> t, _ = polish(numbers, torch.tensor(1.2, dtype=torch.float64), half, half)
        >>> round(t.item(), 5)
        1.17741
    """
    at = tail(numbers, t)
    target = torch.where(at.left, log_lower, log_upper)
    miss = (target - torch.log(at.rho.abs()) - log_density(numbers, t)).clamp(-2.0, 2.0)
    r1 = 1 - at.slope * at.rho
    r2 = -(at.bend * at.rho + at.slope * r1)
    step = at.rho * miss * (1 + miss * (r1 / 2 + miss / 6 * (r1 * r1 + at.rho * r2)))
    step = torch.maximum(step, -t / 2)
    return t + step, at.Y + step * (at.score - at.slope * at.Y)
