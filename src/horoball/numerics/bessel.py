"""The modified Bessel function of the first kind, for any order and argument: the normalizer of directions.

Note [Bessel]: F_ν(κ) = I_ν(κ)/κ^ν is even in κ and positive at 0, so it is computed from κ², and its gradient has no
singular point. For orders of 64 and more, Debye's uniform expansion has all digits of float64 with seven terms,

    log F_ν = ν (s − log(1 + s) − log ν) − ½ log(2πν s) + log Σ_k U_k(1/s)/ν^k,    s = √(1 + (κ/ν)²).

Lower orders follow from F_(ν−1) = 2ν F_ν + κ² F_(ν+1), whose terms are all positive: nothing cancels on the way down.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import torch
from torch import Tensor

from horoball.numerics.kernels import wide

__all__ = ["log_bessel"]

_LARGE = 64  # order from which on Debye's expansion is exact to float64
_TERMS = 7


def log_bessel(order: float, square: Tensor) -> Tensor:
    """log(I_ν(κ)/κ^ν), in float64 where the device has it; see Note [Bessel].

    Args:
        order: ν ≥ 0.
        square: κ² ≥ 0.

    Example:
        >>> log_bessel(0.5, torch.zeros(1))  # −log(√(π/2) · …) = ½ log(2/π)
        tensor([-0.2258], dtype=torch.float64)
    """
    square = wide(square)
    steps = max(0, math.ceil(_LARGE - order))
    high = order + steps
    value = _debye(high, square)
    if steps:
        ratio = (_debye(high + 1, square) - value).exp()  # F_(ν+1)/F_ν
        for step in range(steps):
            up = 2 * (high - step) + square * ratio  # F_(ν−1)/F_ν
            value, ratio = value + up.log(), 1 / up
    return value


def _debye(order: float, square: Tensor) -> Tensor:
    s = (1 + square / order**2).sqrt()
    t = 1 / s
    total = torch.zeros_like(s)
    for polynomial in reversed(_polynomials()):
        inner = torch.zeros_like(s)
        for coefficient in reversed(polynomial):
            inner = inner * t + coefficient
        total = total / order + inner
    return order * (s - s.log1p() - math.log(order)) - 0.5 * (2 * math.pi * order * s).log() + total.log()


@cache
def _polynomials() -> list[list[float]]:
    """Coefficients of U_0 … U_7: U_(k+1) = ½ t² (1 − t²) U_k′ + ⅛ ∫₀ᵗ (1 − 5s²) U_k ds (DLMF 10.41.9)."""
    found = [[Fraction(1)]]
    for _ in range(_TERMS):
        last = found[-1]
        new = [Fraction(0)] * (len(last) + 3)
        for power, a in enumerate(last):
            new[power + 1] += a * (Fraction(power, 2) + Fraction(1, 8 * (power + 1)))
            new[power + 3] -= a * (Fraction(power, 2) + Fraction(5, 8 * (power + 3)))
        found.append(new)
    return [[float(a) for a in polynomial] for polynomial in found]
