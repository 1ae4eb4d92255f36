"""The radius distribution of one dimension as a table: a float32 sample costs a lookup instead of a quadrature.

The scaled radius t(λ, ε) with F(t) = Φ(ε), ε standard normal, is analytic in ε and in X = √(α₀ + α), α = nλ: its
nearest singularity in α is where sinh(√λ t) vanishes, α = −n(π/t)², and α₀ is chosen to put that at X = 0. A piecewise
polynomial of log(t/√(n(1 + α))) is then right to float32's rounding, and so is its derivative in λ. ε runs over ±8.6,
beyond every number a float64 normal generator returns. Above the largest X of the table sinh is exp/2 to 1e-12, and
t = n√λ + ε.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.distributions.radius_distribution import RadiusNumbers, log_density, polish, solve
from horoball.numerics.compile import constant_when_compiled
from horoball.numerics.kernels import in_graph, looks_ahead, may_hold, polynomial_columns, static, wide
from horoball.numerics.quadrature import gauss_legendre
from horoball.runtime.devices import has_float64

__all__ = [
    "EPSILON_CELLS",
    "EPSILON_MAX",
    "ORDER",
    "Entry",
    "Location",
    "RadiusTable",
    "locate",
    "lookup",
    "lookup_normalizer",
    "radius_table",
]

EPSILON_MAX = 8.6
ORDER = 8  # coefficients per axis and cell
_WIDTH = 0.25  # of a cell in X
EPSILON_CELLS = 40  # along ε


class RadiusTable(NamedTuple):
    """Polynomial coefficients, lowest power first, in cell coordinates of [−1, 1].

    Example:
        >>> table = radius_table(2, torch.device("cpu"))
        >>> len(table.numbers) == table.cells
        True
    """

    shift: float  # α₀
    scale: float  # cells per unit of X
    cells: int  # along X
    numbers: Tensor  # (cells, 2·order): J less its asymptote, and M
    radius: Tensor  # (cells·cells_ε, order_ε·order_X): log(t/√(n(1 + α)))


class Entry(NamedTuple):
    """The scaled radius t = r/σ and Y = ∂t/∂λ at fixed ε.

    Example:
        >>> lookup(2, locate(2, torch.zeros(1)), torch.zeros(1)).t.shape
        torch.Size([1])
    """

    t: Tensor
    Y: Tensor


# ---------------------------------------------------------------------------------------------------------- lookup


class Location(NamedTuple):
    """Where each λ lies in the table; λ beyond it is put at its end.

    Example:
        >>> locate(2, torch.ones(1)).alpha  # nλ
        tensor([1.], dtype=torch.float64)
    """

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
    # A table made in inference mode could not be used in training afterwards.
    with torch.inference_mode(False), torch.no_grad(), torch.device("cpu"):
        table = _build(d)
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
    t = _first_guess(numbers, epsilon)
    column = RadiusNumbers(n, *(field.unsqueeze(-1) for field in numbers[1:]))
    for _ in range(2):
        t, _ = polish(column, t, torch.special.log_ndtr(epsilon), torch.special.log_ndtr(-epsilon))
    radius = (
        torch.log(t / torch.sqrt(n * (1 + alpha)).unsqueeze(-1)).numpy().reshape(cells, ORDER, EPSILON_CELLS, ORDER)
    )
    radius = np.einsum("xi,aibj,yj->abyx", fit, radius, fit).reshape(cells * EPSILON_CELLS, -1)
    rest = torch.stack((numbers.J - _growth(n, alpha), numbers.M)).numpy().reshape(2, cells, ORDER)
    rest = np.einsum("xi,kai->axk", fit, rest).reshape(cells, -1)
    return RadiusTable(shift, cells / span, cells, *(torch.from_numpy(part.copy()) for part in (rest, radius)))


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
