"""The definitions, in as many digits as they need: what the tests compare with.

Points are `(*batch, d)`: lists, numpy arrays, detached tensors (taken exactly) or the object arrays of `mpf` that
these functions return; one scalar per point drops the last axis; c ≥ 0 is a float. `ball_*` work in ball
coordinates and tangent vectors of the paper, the others in the tangent chart, where the point z is carried by the
vector t at the origin with |t| = d(0, z). `floats` rounds an answer to float64.

The formulas are the textbook ones on purpose: they cancel, and digits are added until that does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import mpmath as mp
import numpy as np
from numpy.typing import ArrayLike

__all__ = [
    "array",
    "ball_conformal_factor",
    "ball_dist",
    "ball_exp",
    "ball_exp0",
    "ball_gyroplane",
    "ball_gyroplane_dist",
    "ball_log",
    "ball_log0",
    "ball_mobius_add",
    "derivative",
    "dist",
    "exp",
    "floats",
    "from_ball",
    "gyroplane",
    "log",
    "to_ball",
]


def array(values: ArrayLike) -> np.ndarray:
    """An object array of `mpf`, exact: a float32 or a float64 is a dyadic number."""
    values = np.asarray(values)
    if values.dtype != object:
        values = values.astype(np.float64)
    return _each(mp.mpf)(values)


def floats(values: Any) -> np.ndarray:
    return np.asarray(values).astype(np.float64)


def derivative(f: Callable[[np.ndarray], Any], x: ArrayLike, direction: ArrayLike) -> float:
    """The derivative of a scalar function of an object array along a direction, by a central difference.

    The step 1e-25 leaves an error of 1e-50 in units of the third derivative, and 25 digits go in the difference.
    """
    with _digits():
        x, step = array(x), mp.mpf(10) ** -25 * array(direction)
        return float((_scalar(f(x + step)) - _scalar(f(x - step))) / (2 * mp.mpf(10) ** -25))


# --------------------------------------------------------------------------------------------------------------------
# Ball coordinates
# --------------------------------------------------------------------------------------------------------------------


def ball_conformal_factor(x: ArrayLike, c: float) -> np.ndarray:
    with _digits():
        return 2 / (1 - c * _square(array(x)))


def ball_mobius_add(x: ArrayLike, y: ArrayLike, c: float) -> np.ndarray:
    with _digits():
        x, y, c = array(x), array(y), mp.mpf(c)
        xy, xx, yy = ((p * q).sum(-1, keepdims=True) for p, q in ((x, y), (x, x), (y, y)))
        return ((1 + 2 * c * xy + c * yy) * x + (1 - c * xx) * y) / (1 + 2 * c * xy + c**2 * xx * yy)


def ball_dist(x: ArrayLike, y: ArrayLike, c: float) -> np.ndarray:
    with _digits():
        x, y, s = array(x), array(y), mp.sqrt(c)
        if c == 0:
            return 2 * _norm(x - y)
        return _each(mp.acosh)(1 + 2 * c * _square(x - y) / ((1 - c * _square(x)) * (1 - c * _square(y)))) / s


def ball_exp0(v: ArrayLike, c: float) -> np.ndarray:
    with _digits():
        return _radial(mp.tanh, array(v), c)


def ball_log0(y: ArrayLike, c: float) -> np.ndarray:
    with _digits():
        return _radial(mp.atanh, array(y), c)


def ball_exp(x: ArrayLike, v: ArrayLike, c: float) -> np.ndarray:
    with _digits():
        return ball_mobius_add(x, ball_exp0(array(v) / _gap(array(x), c), c), c)


def ball_log(x: ArrayLike, y: ArrayLike, c: float) -> np.ndarray:
    with _digits():
        return ball_log0(ball_mobius_add(-array(x), y, c), c) * _gap(array(x), c)


def ball_gyroplane_dist(z: ArrayLike, point: ArrayLike, normal: ArrayLike, c: float) -> np.ndarray:
    """Signed, positive on the side of the normal."""
    with _digits():
        normal, s = array(normal), mp.sqrt(c)
        w = ball_mobius_add(-array(point), z, c)
        y = 2 * (w * normal).sum(-1) / ((1 - c * _square(w)) * _norm(normal))
        return _each(mp.asinh)(s * y) / s if c else y


def ball_gyroplane(z: ArrayLike, point: ArrayLike, normal: ArrayLike, c: float) -> np.ndarray:
    with _digits():
        length = ball_conformal_factor(point, c) * _norm(array(normal))
        return length * ball_gyroplane_dist(z, point, normal, c)


# --------------------------------------------------------------------------------------------------------------------
# Tangent chart
# --------------------------------------------------------------------------------------------------------------------


def to_ball(t: ArrayLike, c: float) -> np.ndarray:
    """x = tanh(√c|t|/2)/√c · t/|t|."""
    with _digits(t, c=c):
        return ball_exp0(array(t) / 2, c)


def from_ball(x: ArrayLike, c: float) -> np.ndarray:
    """t = 2 atanh(√c|x|)/√c · x/|x|."""
    with _digits():
        return 2 * ball_log0(x, c)


def dist(t1: ArrayLike, t2: ArrayLike, c: float) -> np.ndarray:
    with _digits(t1, t2, c=c):
        return ball_dist(to_ball(t1, c), to_ball(t2, c), c)


def exp(mu: ArrayLike, v: ArrayLike, c: float) -> np.ndarray:
    """exp_μ of the vector that v at the origin, |v| its length, becomes by transport to μ."""
    with _digits(mu, v, c=c):
        return from_ball(ball_mobius_add(to_ball(mu, c), to_ball(v, c), c), c)


def log(z: ArrayLike, y: ArrayLike, c: float) -> np.ndarray:
    """The inverse of `exp` in its second argument."""
    with _digits(z, y, c=c):
        return from_ball(ball_mobius_add(-to_ball(z, c), to_ball(y, c), c), c)


def gyroplane(t: ArrayLike, weight: ArrayLike, bias: ArrayLike, c: float) -> np.ndarray:
    """The layer, `(*batch, out)` from weights `(out, d)` and biases `(out,)`; `(*batch,)` from `(d,)` and a number.

    (|w|/√c)·asinh(√c Y/|w|) with Y = ⟨h, w⟩cosh(√cρ) + h₀|w|sinh(√cρ)/√c, ρ = b/|w|; its limit at w = 0 is b.
    """
    with _digits(t, c=c):
        t, w, b, s = array(t), array(weight), array(bias), mp.sqrt(c)
        if w.ndim == 2:
            t = t[..., None, :]
        if c == 0:
            return (w * t).sum(-1) + b
        h, h0 = _radial(mp.sinh, t, c), _each(mp.cosh)(s * _norm(t))
        size = np.where(_norm(w) == 0, mp.mpf(1), _norm(w))
        rho = s * b / size
        y = (h * w).sum(-1) * _each(mp.cosh)(rho) + h0 * size * _each(mp.sinh)(rho) / s
        return np.where(_norm(w) == 0, b, size / s * _each(mp.asinh)(s * y / size))


# --------------------------------------------------------------------------------------------------------------------


def _each(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return np.frompyfunc(f, 1, 1)


def _digits(*points: ArrayLike, c: float = 0.0) -> AbstractContextManager[None]:
    """150 digits, or 60 and those that 1 − c|x|² loses at the largest radius a: its size is e^{−a}, products have two.

    Never fewer than the caller has: a chart function sets the digits of the ball functions that it calls.
    """
    a = max((float(np.max(_norm(array(t)), initial=0)) for t in points), default=0.0) * float(mp.sqrt(c))
    return mp.workdps(max(mp.mp.dps, 150, int(60 + 2 * a / 2.3)))


def _scalar(value: Any) -> Any:
    return np.asarray(value, dtype=object).item()


def _square(x: np.ndarray) -> np.ndarray:
    return (x * x).sum(-1)


def _gap(x: np.ndarray, c: float) -> np.ndarray:
    """2/λ_x, to be multiplied with the vectors at x."""
    return 1 - c * (x * x).sum(-1, keepdims=True)


def _norm(x: np.ndarray) -> np.ndarray:
    return _each(mp.sqrt)(_square(x))


def _radial(f: Callable[[Any], Any], x: np.ndarray, c: float) -> np.ndarray:
    """f(√c|x|)/√c · x/|x|, for odd f with f'(0) = 1."""
    s = mp.sqrt(c)
    a = s * np.asarray(_norm(x))[..., None]
    return _each(lambda r: f(r) / r if r else mp.mpf(1))(a) * x
