"""Ground truth by mpmath: the geometry in the tangent chart, the radius distribution and the densities of both normals.

A point is a one-dimensional object array of `mpf`, made by `exact`. The geometry goes through the hyperboloid
h = sinh(√c|t|)/√c · t/|t|, h₀ = cosh(√c|t|): translations are its Lorentz boosts. Every kernel is an even function of
√c|t|, also for c ≤ 0, so that central differences in c may be taken at c = 0. The formulas cancel, and `digits` adds
as many digits as that takes; gradients are central differences with a step of 1e-25.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

import mpmath as mp
import numpy as np
from mpmath.calculus.quadrature import GaussLegendre
from numpy.typing import NDArray
from torch import Tensor

__all__ = [
    "Point",
    "RadiusLaw",
    "digits",
    "dist",
    "exact",
    "exp",
    "gradient",
    "gyroplane",
    "log",
    "log_area",
    "log_riemannian_normal",
    "log_volume",
    "log_wrapped_normal",
    "radius_distribution",
]

Point = NDArray[Any]
_STEP = mp.mpf(10) ** -25
_RADIUS_DIGITS = 36


def exact(values: Tensor) -> Point:
    """The very numbers of a float32 or float64 tensor, as an object array of the same shape."""
    return np.frompyfunc(mp.mpf, 1, 1)(values.detach().double().numpy())


def digits(reach: float) -> AbstractContextManager[None]:
    """Precision for points whose √c·radii add up to reach: h is of size exp(reach), and squares of it cancel."""
    return mp.workdps(80 + int(0.87 * reach))


def gradient(f: Callable[..., Any], *at: Any) -> list[Any]:
    """The gradient of a scalar function of points and numbers, in each of them."""
    return [_partial(f, at, i) for i in range(len(at))]


def _partial(f: Callable[..., Any], at: tuple[Any, ...], i: int) -> Any:
    def along(step: Any) -> Any:
        ends = (f(*at[:i], at[i] + sign * step, *at[i + 1 :]) for sign in (1, -1))
        return (next(ends) - next(ends)) / (2 * _STEP)

    if not isinstance(at[i], np.ndarray):
        return along(_STEP)
    return np.array([along(_STEP * axis) for axis in np.eye(len(at[i]), dtype=int).astype(object)], dtype=object)


# --------------------------------------------------------------------------------------------------------------------
# Geometry
# --------------------------------------------------------------------------------------------------------------------


def _even(u: Any, above: Callable[[Any], Any], below: Callable[[Any], Any]) -> Any:
    """above(√u)/√u for u > 0, its continuation below(√−u)/√−u for u < 0, 1 at 0."""
    root = mp.sqrt(abs(u))
    return mp.mpf(1) if u == 0 else (above if u > 0 else below)(root) / root


def _sinhc(u: Any) -> Any:
    return _even(u, mp.sinh, mp.sin)


def _asinhc(u: Any) -> Any:
    return _even(u, mp.asinh, mp.asin)


def _lift(t: Point, c: Any) -> tuple[Any, Point]:
    """(h₀, h); cosh x = 1 + 2 sinh²(x/2)."""
    u = c * (t @ t)
    return 1 + u / 2 * _sinhc(u / 4) ** 2, _sinhc(u) * t


def _boost(mu: Point, z: Point, c: Any) -> Point:
    """h of exp_μ(z): the boost that takes the origin to μ along the geodesic, applied to z."""
    (m0, m), (z0, h) = _lift(mu, c), _lift(z, c)
    return h + (z0 + c * (m @ h) / (1 + m0)) * m


def dist(z: Point, y: Point, c: Any) -> Any:
    """d(z, y) from the chord: sinh²(√c d/2)/c = (|h − k|² − (h₀ − k₀)²/c)/4, with h₀ − 1 = c|h|²/(1 + h₀)."""
    (z0, h), (y0, k) = _lift(z, c), _lift(y, c)
    rise = (h @ h) / (1 + z0) - (k @ k) / (1 + y0)
    chord = ((h - k) @ (h - k) - c * rise**2) / 4
    return 2 * mp.sqrt(chord) * _asinhc(c * chord)


def exp(mu: Point, v: Point, c: Any) -> Point:
    h = _boost(mu, v, c)
    return _asinhc(c * (h @ h)) * h


def log(z: Point, y: Point, c: Any) -> Point:
    return exp(-z, y, c)


def log_volume(v: Point, c: Any) -> Any:
    return (len(v) - 1) * mp.log(_sinhc(c * (v @ v)))


def gyroplane(t: Point, weight: Point, bias: Any, c: Any) -> Any:
    """|w| times the signed distance from the hyperplane: moved by its offset it goes through the origin."""
    length = mp.sqrt(weight @ weight)
    y = (_boost(bias / length**2 * weight, t, c) @ weight) / length
    return length * y * _asinhc(c * y**2)


# --------------------------------------------------------------------------------------------------------------------
# Radius distribution
# --------------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _rule() -> list[tuple[Any, Any]]:
    return GaussLegendre(mp.mp).calc_nodes(4, int(_RADIUS_DIGITS * 3.4))  # 24 nodes


class RadiusLaw:
    """The distribution of t = r/σ with density ∝ exp g(t), g = n log(sinh(st)/s) − t²/2, n = d − 1, s = √λ, λ = cσ².

    Integrands are entire functions with a peak of width 0.7 to 1, taken by Gauss's rule on panels of length 2.
    """

    def __init__(self, d: int, lam: Any) -> None:
        self.n, self.lam, self.s = mp.mpf(d - 1), lam, mp.sqrt(lam)
        self.mode = self._mode()
        self.peak = self._g(self.mode)
        low, high = self._window(self.mode, self.mode)
        self.mass, weight = self._integral(lambda t: np.array([mp.mpf(1), self._weight(t)]), low, high)
        self.J = self.peak + mp.log(self.mass)  # log Z_r = d log σ + J
        self.M = weight / self.mass  # dJ/dλ = nM/2

    def _mode(self) -> Any:
        """Near enough: x tanh x = nλ for x = st, by Newton."""
        alpha = self.n * self.lam
        if alpha < mp.mpf(10) ** -20:
            return mp.sqrt(self.n)
        x = mp.sqrt(alpha + alpha**2)
        for _ in range(8):
            th = mp.tanh(x)
            x -= (x * th - alpha) / (th + x * (1 - th**2))
        return x / self.s

    def _g(self, t: Any) -> Any:
        x = self.s * t
        if x < mp.mpf(10) ** -3:
            growth = mp.log(t * _sinhc(x**2))
        else:
            growth = x + mp.log1p(-mp.exp(-2 * x)) - mp.log(2 * self.s)
        return self.n * growth - t**2 / 2

    def _weight(self, t: Any) -> Any:
        """t² K(λt²), K(x²) = (x coth x − 1)/x²."""
        u = self.lam * t**2
        if u < mp.mpf(10) ** -6:
            return t**2 * (mp.mpf(1) / 3 - u / 45 + 2 * u**2 / 945 - u**3 / 4725)
        x = self.s * t
        return t**2 * (x * mp.coth(x) - 1) / u

    @staticmethod
    def _window(low: Any, high: Any) -> tuple[Any, Any]:
        return max(mp.mpf(0), low - 12), high + 12

    def _integral(self, f: Callable[[Any], Any], low: Any, high: Any, peak: Any = None) -> Any:
        """∫ f(t) exp(g(t) − peak) dt."""
        peak = self.peak if peak is None else peak
        panels = int((high - low) / 2) + 1
        half = (high - low) / (2 * panels)
        total = mp.mpf(0)
        for k in range(panels):
            middle = low + (2 * k + 1) * half
            total += sum(w * f(t) * mp.exp(self._g(t) - peak) for t, w in ((middle + half * x, w) for x, w in _rule()))
        return half * total

    def tails(self, t: Any) -> tuple[Any, Any]:
        """F(t) and 1 − F(t), the smaller one by integration."""
        low, high = self._window(t, t)
        if t < self.mode:
            part = self._integral(lambda x: mp.mpf(1), low, t) / self.mass
            return part, 1 - part
        part = self._integral(lambda x: mp.mpf(1), t, high) / self.mass
        return 1 - part, part

    def quantile(self, epsilon: float, guess: float) -> Any:
        """t with F(t) = Φ(ε), by Newton's steps in log F or log(1 − F) from a guess."""
        target = mp.ncdf(mp.mpf(-abs(epsilon)))
        t = mp.mpf(guess)
        for _ in range(60):
            tail = self.tails(t)[0 if epsilon < 0 else 1]
            density = mp.exp(self._g(t) - self.peak) / self.mass
            step = (mp.log(target) - mp.log(tail)) * tail / density * (1 if epsilon < 0 else -1)
            t = max(t + step, t / 2)
            if abs(step) < mp.mpf(10) ** -14 * t:  # the next would be its square
                return t
        raise ArithmeticError(f"No quantile at {epsilon} for n = {self.n}, λ = {self.lam}.")

    def rate(self, t: Any) -> Any:
        """Y = ∂t/∂λ at fixed F(t)."""
        low, high = self._window(t, t)
        left = t < self.mode
        ends = (low, t) if left else (t, high)
        moved = self._integral(lambda x: self.M - self._weight(x), *ends, peak=self._g(t))
        return (self.n / 2) * (moved if left else -moved)


@lru_cache(maxsize=4096)
def radius_distribution(d: int, sigma: float, c: float) -> RadiusLaw:
    with mp.workdps(_RADIUS_DIGITS):
        return RadiusLaw(d, mp.mpf(c) * mp.mpf(sigma) ** 2)


# --------------------------------------------------------------------------------------------------------------------
# Densities
# --------------------------------------------------------------------------------------------------------------------


def log_area(d: int) -> Any:
    return mp.log(2) + mp.mpf(d) / 2 * mp.log(mp.pi) - mp.loggamma(mp.mpf(d) / 2)


def log_wrapped_normal(v: Point, sigma: Any, c: Any) -> Any:
    """Log density at exp_μ(v), Σ = σ²I."""
    d = len(v)
    return -(v @ v) / (2 * sigma**2) - d * mp.log(sigma * mp.sqrt(2 * mp.pi)) - log_volume(v, c)


def log_riemannian_normal(r: Any, d: int, sigma: float, c: float) -> Any:
    """Log density at distance r from the mean."""
    distribution = radius_distribution(d, sigma, c)
    return -((r / sigma) ** 2) / 2 - d * mp.log(sigma) - distribution.J - log_area(d)
