"""The point at the end of a ray, z = exp_μ(r ŵ), for a direction ŵ that is noise: z depends on μ and r alone.

With a = √c|μ|, b = √c r, k = ⟨μ̂, ŵ⟩ and q = cosh(a_z) − 1, a_z = √c|z|,

    q = (cosh a − 1) + (cosh b − 1) cosh a + k sinh a sinh b,
    z = (P μ̂ + sinh b ŵ)·|z|/sinh a_z,    P = sinh a cosh b + k sinh b (cosh a − 1).

Arrays are NumPy's, in float64, with points along the last axis, where a number for each of them meets all coordinates
at once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from horoball.numerics.columns import dots

__all__ = ["TINY", "Array", "Ray", "follow"]

Array = np.ndarray
TINY = 1e-30  # floor of a length: sinh(a)/a is 1 and a direction 0 there
_MOST = 1e120  # of q: products of two such numbers are still float64
_UNDONE = 2e-7  # least q/(sinh a sinh b): float64's rounding over it is well below float32's


class Ray(NamedTuple):
    """The point at the end of a ray from μ, and what gradients are made of.

    Example:
        >>> ray = follow(np.array([[1.0], [0.0]]), np.array([[1.0], [0.0]]), np.array([2.0]), 1.0)
        >>> ray.az  # on one line the lengths add
        array([3.])
    """

    s: float  # √c
    m: Array  # |μ|
    u: Array  # μ̂
    w: Array
    k: Array
    sinh: Array  # of a and b, shape (2, points)
    lift: Array  # cosh − 1 of both
    q: Array
    inverse: Array  # 1/sinh a_z
    az: Array
    P: Array

    @property
    def point(self) -> Array:
        """z, shape (d, points).

        Example:
            >>> follow(np.array([[1.0], [0.0]]), np.array([[1.0], [0.0]]), np.array([2.0]), 1.0).point.ravel()
            array([3., 0.])
        """
        factor = self.az * self.inverse
        factor /= self.s
        return self.u * (self.P * factor) + self.w * (self.sinh[1] * factor)

    def gradients(self, g: Array, h: Array) -> tuple[Array, Array]:
        """Those in μ and r, from those in z, g, and in |z|, h.

        Example:
            >>> ray = follow(np.array([[1.0], [0.0]]), np.array([[1.0], [0.0]]), np.array([2.0]), 1.0)
            >>> ray.gradients(np.zeros((2, 1)), np.ones(1))[1]  # on one line the lengths add
            array([1.])
        """
        s, m, u, w, k, (sinh_a, sinh_b), lift, q, inverse, az, P = self
        (cosh_a, cosh_b), lift_a = lift + 1, lift[0]
        g_u, g_w = dots(g, u), dots(g, w)
        out, back = sinh_a * cosh_b, cosh_a * sinh_b
        factor = az * inverse
        coth = factor * (q + 1)  # a_z coth a_z
        core = (P * g_u + sinh_b * g_w) * inverse * (1 - coth) + h
        by_r = core * inverse * (back + k * out) + factor * (
            (sinh_a * sinh_b + k * cosh_b * lift_a) * g_u + cosh_b * g_w
        )
        by_m = core * inverse * (out + k * back) + coth * g_u
        across = sinh_b / (s * m) * (core * inverse * sinh_a + factor * lift_a * g_u)
        plane = P * factor / (s * m)
        return plane * g + (by_m - plane * g_u - across * k) * u + across * w, by_r


def follow(mu: Array, w: Array, r: Array, c: float) -> Ray | None:
    """The ray from μ in the direction ŵ, unless float64 has too few digits for it.

    Args:
        mu: μ, shape (d, points).
        w: ŵ, shape (d, points).
        r: Its length, shape (points,).
        c: The curvature parameter.

    Example:
        >>> follow(np.array([[1.0], [0.0]]), np.array([[-1.0], [0.0]]), np.array([1.0]), 1.0) is None  # back to 0
        True
    """
    s = math.sqrt(c)
    m = np.sqrt(dots(mu, mu))
    np.maximum(m, TINY, out=m)
    u = mu / m
    k = dots(u, w)
    ab = np.array((m, r))
    ab *= s
    e = np.expm1(ab)
    t = e / (e + 1)
    sinh, lift = (e + t) / 2, e * t / 2
    product = sinh[0] * sinh[1]
    q = lift[0] + lift[1] + lift[0] * lift[1] + k * product
    if not (q.max() < _MOST and (q - _UNDONE * product).min() > 0):
        return None
    S = np.sqrt(q * (q + 2))
    P = sinh[0] * (lift[1] + 1) + k * sinh[1] * lift[0]
    return Ray(s, m, u, w, k, sinh, lift, q, 1 / S, np.log1p(q + S), P)
