"""The radius law of the Riemannian normal from its definition, in 40 digits: what `test_radius` compares with.

p(r) ∝ (sinh(√c r)/√c)^(d−1) exp(−r²/2σ²), r ≥ 0. All integrals are sums over Gauss–Legendre panels of t = r/σ, and all
derivatives are central differences: no identity that the library uses is used here. Numbers are taken exactly, so a
float32 argument is to be passed as the float it is.

The log density of t has a second derivative below −1: within δ of the mode it falls by more than δ²/2, and farther
out than a point where its slope is k by more than kδ + δ²/2. So it falls by 50 within min(10, 50/k), and what lies
beyond is e⁻⁵⁰ of the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise

import mpmath as mp
import numpy as np

__all__ = ["RadiusLaw", "log_normalizer_gradient", "radius_distribution", "radius_gradient"]

_DIGITS = 40
_DROP = 50
_STRETCH = 10  # √(2·drop)
_PANELS = 8  # to each side: over one the log density changes by a few units, which 16 nodes integrate to 25 digits
_STEP = mp.mpf(10) ** -12  # of the differences, relative; what they leave out is its square


@cache
def _rule(order: int = 16) -> list[tuple[mp.mpf, mp.mpf]]:
    """Gauss–Legendre on [−1, 1], by Newton's method from the nodes in float64."""
    rule = []
    for node in np.polynomial.legendre.leggauss(order)[0]:
        x = mp.mpf(float(node))
        for _ in range(3):
            last, value = mp.mpf(1), x
            for k in range(2, order + 1):
                last, value = value, ((2 * k - 1) * x * value - (k - 1) * last) / k
            slope = order * (x * value - last) / (x * x - 1)
            x -= value / slope
        rule.append((x, 2 / ((1 - x * x) * slope**2)))
    return rule


class RadiusLaw:
    """The law for one dimension, scale and curvature; c may be a little below 0, for differences at c = 0."""

    def __init__(self, d: int, sigma: mp.mpf | float, c: mp.mpf | float) -> None:
        with mp.workdps(_DIGITS):
            self.n, self.sigma = d - 1, mp.mpf(sigma)
            self.lam = mp.mpf(c) * self.sigma**2
            self.root = mp.sqrt(abs(self.lam))  # with a sine in place of sinh for c < 0
            self.mode = self._mode()
            self.peak = self._log_weight(self.mode)
            self.total = sum(self._integral(self.mode, self.mode + side * _STRETCH) for side in (-1, 1))

    @property
    def log_normalizer(self) -> mp.mpf:
        """log ∫ (sinh(√c r)/√c)^(d−1) exp(−r²/2σ²) dr."""
        with mp.workdps(_DIGITS):
            return (self.n + 1) * mp.log(self.sigma) + self.peak + mp.log(self.total)

    def density(self, r: mp.mpf | float) -> mp.mpf:
        with mp.workdps(_DIGITS):
            return mp.exp(self._log_weight(r / self.sigma) - self.peak) / (self.total * self.sigma)

    def lower(self, r: mp.mpf | float) -> mp.mpf:
        """P(R ≤ r), right to relative precision however small."""
        with mp.workdps(_DIGITS):
            t = mp.mpf(r) / self.sigma
            return self._integral(t, t - self._reach(t)) / self.total if t < self.mode else 1 - self.upper(r)

    def upper(self, r: mp.mpf | float) -> mp.mpf:
        """P(R > r), right to relative precision however small."""
        with mp.workdps(_DIGITS):
            t = mp.mpf(r) / self.sigma
            return self._integral(t, t + self._reach(t)) / self.total if t >= self.mode else 1 - self.lower(r)

    def mean(self, f: Callable[[mp.mpf], mp.mpf]) -> mp.mpf:
        """E[f(R)], by mpmath's rule, which bears a logarithm at 0."""
        with mp.workdps(_DIGITS):
            ends = [max(self.mode - _STRETCH, mp.mpf(0)), self.mode, self.mode + _STRETCH]
            return mp.quad(lambda t: f(t * self.sigma) * mp.exp(self._log_weight(t) - self.peak), ends) / self.total

    def quantile(self, u: mp.mpf | float, near: float) -> mp.mpf:
        """The r with F(r) = u, by two Newton steps in the log of the smaller tail from a good guess."""
        with mp.workdps(_DIGITS):
            r, u = mp.mpf(near), mp.mpf(u)
            for _ in range(2):
                sign, tail, goal = (1, self.lower(r), u) if u < 0.5 else (-1, self.upper(r), 1 - u)
                r += sign * mp.log(goal / tail) * tail / self.density(r)
            return r

    def _size(self, t: mp.mpf) -> mp.mpf:
        """sinh(√c r)/√c, over σ."""
        if not self.lam:
            return t
        return (mp.sinh(self.root * t) if self.lam > 0 else mp.sin(self.root * t)) / self.root

    def _log_weight(self, t: mp.mpf) -> mp.mpf:
        return self.n * mp.log(self._size(t)) - t * t / 2

    def _slope(self, t: mp.mpf) -> mp.mpf:
        s = self.root
        return self.n * (s * mp.coth(s * t) if s else 1 / t) - t

    def _reach(self, t: mp.mpf) -> mp.mpf:
        return min(mp.mpf(_STRETCH), _DROP / (abs(self._slope(t)) + mp.mpf("1e-9")))

    def _mode(self) -> mp.mpf:
        """Where the slope, which falls, is 0; the mode is only where the panels meet, so a rough one will do."""
        low, high = mp.sqrt(self.n) / 2, mp.sqrt(self.n) + self.n * self.root + 1
        for _ in range(60):
            t = (low + high) / 2
            low, high = (t, high) if self._slope(t) > 0 else (low, t)
        return low

    def _integral(self, start: mp.mpf, stop: mp.mpf) -> mp.mpf:
        """∫ exp(g(t) − g(mode)) |dt| between two points, the lower one not below 0."""
        total = mp.mpf(0)
        for a, b in pairwise(mp.linspace(start, max(stop, mp.mpf(0)), _PANELS + 1)):
            half, middle = abs(b - a) / 2, (a + b) / 2
            nodes = ((middle + half * x, weight) for x, weight in _rule())
            values = (weight * self._size(t) ** self.n * mp.exp(-t * t / 2 - self.peak) for t, weight in nodes)
            total += half * sum(values)
        return total


@cache
def radius_distribution(d: int, sigma: mp.mpf | float, c: mp.mpf | float) -> RadiusLaw:
    """Kept, since one law serves many quantiles and both dtypes."""
    return RadiusLaw(d, sigma, c)


def _moved(d: int, sigma: float, c: float) -> list[tuple[RadiusLaw, RadiusLaw, mp.mpf]]:
    """The laws a step of σ, and of c, to either side, and twice the step."""
    with mp.workdps(_DIGITS):
        s, k = mp.mpf(sigma), mp.mpf(c)
        h, g = s * _STEP, (k or 1) * _STEP
        return [
            (radius_distribution(d, s + h, k), radius_distribution(d, s - h, k), 2 * h),
            (radius_distribution(d, s, k + g), radius_distribution(d, s, k - g), 2 * g),
        ]


def log_normalizer_gradient(d: int, sigma: float, c: float) -> list[mp.mpf]:
    """∂/∂σ and ∂/∂c of log Z_r."""
    with mp.workdps(_DIGITS):
        return [(a.log_normalizer - b.log_normalizer) / step for a, b, step in _moved(d, sigma, c)]


def radius_gradient(d: int, sigma: float, c: float, r: mp.mpf) -> list[mp.mpf]:
    """∂r/∂σ and ∂r/∂c at fixed F(r): minus the change of F over the density."""
    law = radius_distribution(d, sigma, c)
    with mp.workdps(_DIGITS):
        if r / law.sigma < law.mode:
            changes = [(a.lower(r) - b.lower(r)) / step for a, b, step in _moved(d, sigma, c)]
        else:
            changes = [(b.upper(r) - a.upper(r)) / step for a, b, step in _moved(d, sigma, c)]
        return [-change / law.density(r) for change in changes]
