"""The radius under the Riemannian normal, in float64 by quadrature, and a table that looks it up.

Quadrature is the reference for everything faster. With t = r/σ, n = d − 1, λ = cσ² and s = √λ, the density of t is
proportional to exp g(t),

    g(t) = n log(sinh(st)/s) − t²/2,        log Z_r = d log σ + J(λ),   J = log ∫ exp g.

All is smooth in λ (not in s), so c = 0 is an ordinary point: there t has the chi numbers. Integrals are taken about the
mode m, s·m tanh(s·m) = nλ, with G(δ) = g(m + δ) − g(m) in a form that does not cancel, by one Gauss–Legendre rule on
the window G ≥ −32. The paper's sums over the exponentials of sinh [eq:developedpr] are exact but cancel, and lose all
digits where d is large or √cσ small [errata:15]; none is used here.

With a table for each dimension a float32 sample costs a lookup instead of a quadrature. The scaled radius t(λ, ε) with
F(t) = Φ(ε), ε standard normal, is analytic in ε and in X = √(α₀ + α), α = nλ: its nearest singularity in α is where
sinh(√λ t) vanishes, α = −n(π/t)², and α₀ is chosen to put that at X = 0. A piecewise polynomial of log(t/√(n(1 + α)))
is then right to float32's rounding, and so is its derivative in λ. ε runs over ±8.6, beyond every number a float64
normal generator returns. Above the largest X of the table sinh is exp/2 to 1e-12, and t = n√λ + ε.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.devices import has_float64
from horoball.geometry.autograd import constant_when_compiled
from horoball.geometry.kernels import (
    coth_excess,
    in_graph,
    log_sinhc,
    looks_ahead,
    may_hold,
    polynomial_columns,
    static,
    transformed,
    wide,
)
from horoball.geometry.quadrature import gauss_legendre

_NODES = 36  # for ∫ over the window: 2e-15 from d = 2 to 4096
_TAIL_NODES = 24
_WINDOW = 32.0  # exp(−32) = 1e-14 of the peak is left out, and falls off from there
_CAP = 600.0  # exponents are capped below float64's overflow; what multiplies them is 0 there
_TINY = 1e-60  # floor of λ: its square root still divides, and no value differs from that at λ = 0


class RadiusNumbers(NamedTuple):
    """The distribution of t for each λ; all fields have λ's shape."""

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
    """What the distribution is like beyond t, on the side where its score has one sign."""

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


EPSILON_MAX = 8.6
ORDER = 8  # coefficients per axis and cell
_WIDTH = 0.25  # of a cell in X
EPSILON_CELLS = 40  # along ε
_AT_ONCE = 32  # λ whose quantiles are computed together


class RadiusTable(NamedTuple):
    """Polynomial coefficients, lowest power first, in cell coordinates of [−1, 1]."""

    shift: float  # α₀
    scale: float  # cells per unit of X
    cells: int  # along X
    numbers: Tensor  # (cells, 2·order): J less its asymptote, and M
    radius: Tensor  # (cells·cells_ε, order_ε·order_X): log(t/√(n(1 + α)))


class Entry(NamedTuple):
    """The scaled radius t = r/σ and Y = ∂t/∂λ at fixed ε."""

    t: Tensor
    Y: Tensor


# ---------------------------------------------------------------------------------------------------------- lookup


class Location(NamedTuple):
    """Where each λ lies in the table; λ beyond it is put at its end."""

    alpha: Tensor
    X: Tensor
    cell: Tensor
    x: Tensor  # the location within the cell


def locate(d: int, lam: Tensor) -> Location:
    """The location of each λ in the table of dimension d.

    Example:
        >>> locate(2, torch.zeros(1)).cell
        tensor([0])
    """
    table = radius_table(d, lam.device)
    alpha = (d - 1) * wide(lam)
    X = torch.sqrt(table.shift + alpha)
    at = ((X - math.sqrt(table.shift)) * table.scale).clamp_max_(float(table.cells))
    cell = at.floor().clamp_max_(table.cells - 1).nan_to_num_(0.0)  # what is not a number stays so in x
    return Location(alpha, X, cell.long(), (at - cell).mul_(2).sub_(1))


def _powers(x: Tensor) -> Tensor:
    """1, x, …, x⁷ on a last axis."""
    return x.unsqueeze(-1) ** _exponents(x.device, x.dtype)


@lru_cache(maxsize=32)
def _exponents(device: torch.device, dtype: torch.dtype) -> Tensor:
    with torch.inference_mode(False):
        return torch.arange(ORDER, device=device, dtype=dtype)


def _entries(table: Tensor, index: Tensor) -> Tensor:
    """Rows of a table; to index with a tensor of no dimensions would wait for it."""
    return table.index_select(0, index.reshape(-1)).reshape(*index.shape, table.shape[-1])


def _outside(table: RadiusTable, alpha: Tensor) -> Tensor:
    return alpha > (math.sqrt(table.shift) + table.cells / table.scale) ** 2 - table.shift


def lookup_normalizer(d: int, location: Location) -> tuple[Tensor, Tensor]:
    """J(λ) and M(λ) of `radius_distribution.solve`, to 1e-10.

    Example:
        >>> J, _ = lookup_normalizer(2, locate(2, torch.zeros(1)))
        >>> torch.allclose(J, torch.zeros(1).double(), atol=1e-9)
        True
    """
    alpha = location.alpha
    table = radius_table(d, alpha.device)
    n = d - 1
    rows = _entries(table.numbers, location.cell).unflatten(-1, (ORDER, 2))
    if looks_ahead(alpha) or in_graph():
        J, M = polynomial_columns(rows, location.x.unsqueeze(-1)).unbind(-1)
    else:  # one product instead of many small steps
        J, M = (_powers(location.x).unsqueeze(-2) @ rows).squeeze(-2).unbind(-1)
    J = J + _growth(n, alpha)
    outside = _outside(table, alpha)
    if not may_hold(outside):
        return J, M
    constant = (math.log(2 * math.pi) - n * math.log(4 / n)) / 2
    J = torch.where(outside, (alpha - alpha.log()).mul_(n / 2).add_(constant), J)
    return J, torch.where(outside, alpha.reciprocal().mul_(-n).add_(n), M)


def lookup(d: int, location: Location, epsilon: Tensor) -> Entry:
    """The radius at the quantile Φ(ε), for places broadcast against ε, |ε| ≤ 8.6.

    Example:
        >>> t, _ = lookup(2, locate(2, torch.zeros(1)), torch.zeros(1))  # the median of Rayleigh's distribution
        >>> torch.allclose(t, torch.full((1,), 2 * math.log(2)).double().sqrt(), atol=1e-7)
        True
    """
    alpha, X, cell, x = location
    table = radius_table(d, alpha.device)
    n = d - 1
    at = (wide(epsilon) + EPSILON_MAX) * (EPSILON_CELLS / (2 * EPSILON_MAX))
    cell_e = at.floor().clamp_(0, EPSILON_CELLS - 1)
    e = (at - cell_e).mul_(2).sub_(1)
    rows = _entries(table.radius, torch.add(cell_e.long(), cell, alpha=EPSILON_CELLS)).unflatten(-1, (ORDER, ORDER))
    if looks_ahead(alpha) or in_graph():
        *lower, value = polynomial_columns(rows, e.unsqueeze(-1)).unbind(-1)
        slope = torch.zeros_like(e)
        for coefficient in reversed(lower):
            slope = torch.addcmul(value, slope, x)
            value = torch.addcmul(coefficient, value, x)
    else:
        columns, powers = (_powers(e).unsqueeze(-2) @ rows).squeeze(-2), _powers(x)
        value = (columns * powers).sum(-1)
        slope = (columns[..., 1:] * (powers[..., :-1] * _exponents(x.device, x.dtype)[1:])).sum(-1)
    whole = 1 + alpha
    t = torch.exp(value) * torch.sqrt(n * whole)
    Y = t * torch.addcdiv((n / 2) / whole, slope, X, value=n * table.scale)
    outside = _outside(table, alpha)
    if not may_hold(outside):
        return Entry(t, Y)
    square = alpha * n
    return Entry(
        torch.where(outside, square.sqrt() + epsilon, t),
        torch.where(outside, square.rsqrt_().mul_(n * n / 2), Y),
    )


# ----------------------------------------------------------------------------------------------------------- build


def radius_table(d: int, device: torch.device) -> RadiusTable:
    """The table for dimension d, made on first use in about half a second and kept.

    Example:
        >>> radius_table(2, torch.device("cpu")).radius.shape[-1]
        64
    """
    return _held(static(d), device)


# Marked constant, the table becomes a constant of a compiled graph; Dynamo would trace through the cache itself.
@constant_when_compiled
def _held(d: int, device: torch.device) -> RadiusTable:
    return _cached(d, device)


@lru_cache(maxsize=32)
def _cached(d: int, device: torch.device) -> RadiusTable:
    # A table made in inference mode could not be used in training afterwards, and one made within a transform of
    # `torch.func` not outside of it: these are a thread's own.
    def plainly() -> RadiusTable:
        with torch.inference_mode(False), torch.no_grad(), torch.device("cpu"):
            return _build(d)

    if transformed():
        with ThreadPoolExecutor(1) as thread:
            table = thread.submit(plainly).result()
    else:
        table = plainly()
    kind = torch.float64 if has_float64(device) else torch.float32
    return table._replace(numbers=table.numbers.to(device, kind), radius=table.radius.to(device, kind))


def _growth(n: float, alpha: Tensor) -> Tensor:
    """What J grows like; the rest fits in a table."""
    return (alpha - torch.log1p(alpha)).mul_(n / 2)


def _chebyshev() -> tuple[np.ndarray, np.ndarray]:
    """Chebyshev's nodes and the matrix that takes values there to coefficients of powers."""
    x = np.cos(np.pi * (np.arange(ORDER) + 0.5) / ORDER)
    return x, np.linalg.inv(np.vander(x, increasing=True))


def _build(d: int) -> RadiusTable:
    n = float(d - 1)
    # sinh is exp/2 to 1e-12 once √λ·t ≥ 14 for every ε of the table: α − 8.6 √(α/n) ≥ 14.
    last = ((EPSILON_MAX / math.sqrt(n) + math.sqrt(EPSILON_MAX**2 / n + 56)) / 2) ** 2
    shift = min(1.0, n * (math.pi / (math.sqrt(n) + EPSILON_MAX)) ** 2)
    span = math.sqrt(shift + last) - math.sqrt(shift)
    cells = math.ceil(span / _WIDTH)
    x, fit = _chebyshev()
    X = torch.from_numpy(((np.arange(cells)[:, None] + (x + 1) / 2) * span / cells).ravel()) + math.sqrt(shift)
    alpha = X * X - shift
    epsilon = (
        torch.from_numpy(((np.arange(EPSILON_CELLS)[:, None] + (x + 1) / 2) * 2 / EPSILON_CELLS - 1).ravel())
        * EPSILON_MAX
    )
    numbers = solve(d, alpha / n)
    # A few λ at a time: what is computed for them then stays in a core's cache.
    parts = [RadiusNumbers(n, *some) for some in zip(*(field.split(_AT_ONCE) for field in numbers[1:]), strict=True)]
    t = torch.cat([_quantiles(part, epsilon) for part in parts])
    radius = (
        torch.log(t / torch.sqrt(n * (1 + alpha)).unsqueeze(-1)).numpy().reshape(cells, ORDER, EPSILON_CELLS, ORDER)
    )
    radius = np.einsum("xi,aibj,yj->abyx", fit, radius, fit).reshape(cells * EPSILON_CELLS, -1)
    rest = torch.stack((numbers.J - _growth(n, alpha), numbers.M)).numpy().reshape(2, cells, ORDER)
    rest = np.einsum("xi,kai->axk", fit, rest).reshape(cells, -1)
    return RadiusTable(shift, cells / span, cells, *(torch.from_numpy(part.copy()) for part in (rest, radius)))


def _quantiles(numbers: RadiusNumbers, epsilon: Tensor) -> Tensor:
    """t(ε) for each λ."""
    t = _first_guess(numbers, epsilon)
    column = RadiusNumbers(numbers.n, *(field.unsqueeze(-1) for field in numbers[1:]))
    for _ in range(2):
        t, _ = polish(column, t, torch.special.log_ndtr(epsilon), torch.special.log_ndtr(-epsilon))
    return t


def _first_guess(numbers: RadiusNumbers, epsilon: Tensor) -> Tensor:
    """t(ε) for each λ, by inverting the nearly linear ε(log t) on a grid."""
    d = numbers.n + 1
    # Below the mode F falls at least as a normal's tail and, for small d, as (t/m)^d; above it as a normal's tail.
    floor = torch.maximum(numbers.m - 10, numbers.m * math.exp(-40 / d) / 2)
    steps = torch.linspace(0, 1, 97, dtype=torch.float64)
    below = torch.exp(torch.lerp(floor.log().unsqueeze(-1), numbers.m.log().unsqueeze(-1), steps))
    grid = torch.cat((below[:, :-1], numbers.m.unsqueeze(-1) + 10 * steps), 1)
    z, w = gauss_legendre(4)
    half = (grid[:, 1:] - grid[:, :-1]) / 2
    at = grid[:, :-1, None] + half.unsqueeze(-1) * (z + 1)
    panel = (
        torch.exp(log_density(RadiusNumbers(numbers.n, *(field[:, None, None] for field in numbers[1:])), at)) * w
    ).sum(-1) * half
    column = RadiusNumbers(numbers.n, *(field.unsqueeze(-1) for field in numbers[1:]))
    first = torch.exp(log_density(column, grid[:, :1])) * grid[:, :1] / d
    lower = torch.cat((first, panel), 1).cumsum(1).clamp(1e-300, 0.5)
    upper = torch.cat((panel, torch.full_like(first, 1e-23)), 1).flip(1).cumsum(1).flip(1).clamp_max(0.5)
    normal = torch.where(lower < upper, torch.special.ndtri(lower), -torch.special.ndtri(upper))
    guess = [np.interp(epsilon.numpy(), e, g) for e, g in zip(normal.numpy(), grid.log().numpy(), strict=True)]
    return torch.from_numpy(np.exp(np.stack(guess)))
