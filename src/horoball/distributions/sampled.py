"""A point z of each posterior and log q(z) − log p(z) for a prior around the origin, on a CPU, in one function.

z = exp_μ(r ŵ) is the point at the end of a ray whose direction ŵ is noise: it depends on μ and r alone. With a = √c|μ|,
b = √c r, k = ⟨μ̂, ŵ⟩ and q = cosh(a_z) − 1, a_z = √c|z|,

    q = (cosh a − 1) + (cosh b − 1) cosh a + k sinh a sinh b,
    z = (P μ̂ + sinh b ŵ)·|z|/sinh a_z,    P = sinh a cosh b + k sinh b (cosh a − 1).

This is the hot path of training. At a batch of some hundred points the time goes into starting operations, not into
numbers. NumPy starts one in a third of torch's time; so all of it is NumPy's, in float64, with points along the last
axis. Vectors that all but undo μ, radii beyond 280/√c, several samples of a row, float64, a learned c or prior go the
general way.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.distributions.radius_functions import EPSILON_CELLS, EPSILON_MAX, ORDER, radius_table
from horoball.geometry.autograd import again
from horoball.geometry.curvature import CurvedSpace
from horoball.geometry.kernels import columns, dots, looks_ahead

Array = np.ndarray
TINY = 1e-30  # floor of a length: sinh(a)/a is 1 and a direction 0 there
_MOST = 1e120  # of q: products of two such numbers are still float64
_UNDONE = 2e-7  # least q/(sinh a sinh b): float64's rounding over it is well below float32's


class Ray(NamedTuple):
    """The point at the end of a ray from μ, and what gradients are made of."""

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
        """z, shape (d, points)."""
        factor = self.az * self.inverse
        factor /= self.s
        return self.u * (self.P * factor) + self.w * (self.sinh[1] * factor)

    def gradients(self, g: Array, h: Array) -> tuple[Array, Array]:
        """Those in μ and r, from those in z, g, and in |z|, h."""
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


class Noise(ABC):
    """What a family of normals makes of a scale, for noise that has been drawn.

    Its methods are called in their order, once.
    """

    direction: Array  # ŵ, shape (d, points)

    @abstractmethod
    def radius(self, sigma: Array, c: float) -> Array | None:
        """r, of shape (points,); None when it is not for this way."""

    @abstractmethod
    def divergence(self, ray: Ray) -> Array:
        """log q(z) − log p(z)."""

    @abstractmethod
    def rate(self) -> Array:
        """How that changes with |z|."""

    @abstractmethod
    def to_scale(self, by_r: Array, g: Array) -> Array:
        """The gradient in σ, from that in r through z and that in the divergence."""


class WrappedNoise(Noise):
    """v = σ ε with ε standard normal, under a wrapped prior of scale σ₀.

    Args:
        epsilon: ε, shape (*batch, d).
        prior_scale: σ₀.
    """

    def __init__(self, epsilon: Tensor, prior_scale: float) -> None:
        self.prior_scale = prior_scale
        x = columns(epsilon)
        self.n, self.square = len(x) - 1, dots(x, x)
        self.length = np.sqrt(self.square)
        np.maximum(self.length, TINY, out=self.length)
        self.direction = np.divide(x, self.length, out=x)

    def radius(self, sigma: Array, c: float) -> Array | None:
        """σ|ε|."""
        self.sigma, self.s = sigma, math.sqrt(c)
        self.r: Array = sigma * self.length
        return self.r

    def divergence(self, ray: Ray) -> Array:
        """−|ε|²/2 − d log σ + |z|²/2σ₀² + d log σ₀ + (d − 1) log(sinhc(√c|z|)/sinhc(√c|v|))."""
        self.az, n = ray.az, self.n
        volume = np.log(self.r * self.s / (ray.sinh[1] * ray.inverse * ray.az))
        energy = (ray.az / (self.s * self.prior_scale)) ** 2 - self.square
        return energy / 2 + n * volume - (n + 1) * np.log(self.sigma / self.prior_scale)

    def rate(self) -> Array:
        """(log sinhc)' is coth x − 1/x; a plain quotient does, with x/3 below 1e-3, right to 2e-8."""
        x = np.array((self.az, self.r * self.s))
        floored = np.maximum(x, 1e-3)
        rates = (floored / np.tanh(floored) - 1) / (floored * floored) * x * (self.n * self.s)
        self.by_radius = rates[1]
        return rates[0] + self.az / (self.s * self.prior_scale**2)

    def to_scale(self, by_r: Array, g: Array) -> Array:
        """r is a multiple of σ."""
        return (by_r - g * self.by_radius) * self.length - g * (self.n + 1) / self.sigma


class RiemannianNoise(Noise):
    """v = r α with a uniform direction α and r from its distribution, by the table, under a Riemannian prior.

    Args:
        epsilon: Standard normal numbers that r is the quantile of, shape (*batch).
        x: Vectors along α, shape (*batch, d).
        prior_scale: σ₀.
        constant: log Z of the prior, less the log area of the sphere.
    """

    def __init__(self, epsilon: Tensor, x: Tensor, prior_scale: float, constant: float) -> None:
        self.epsilon, self.prior_scale, self.constant = epsilon.reshape(-1).numpy(), prior_scale, constant
        along = columns(x)
        self.d = len(along)
        self.direction = np.divide(along, np.maximum(np.sqrt(dots(along, along)), TINY), out=along)

    def radius(self, sigma: Array, c: float) -> Array | None:
        """σ t, where t and Y = ∂t/∂λ, λ = cσ², are those of `radius_table.lookup`."""
        n, table = self.d - 1, radius_table(self.d, torch.device("cpu"))
        alpha = sigma * sigma * (n * c)
        X = np.sqrt(alpha + table.shift)
        at = np.array((X, self.epsilon))
        at[0] -= math.sqrt(table.shift)
        at[0] *= table.scale
        at[1] += EPSILON_MAX
        at[1] *= EPSILON_CELLS / (2 * EPSILON_MAX)
        if not (at.min() >= 0 and at[1].max() < EPSILON_CELLS):
            return None
        last, beyond = table.cells - 1.0, at[0] > table.cells
        cells = np.floor(at)
        np.minimum(cells[0], last, out=cells[0])
        powers = np.ones((ORDER, *at.shape))
        powers[1:] = (at - cells) * 2 - 1
        px, pe = np.multiply.accumulate(powers, out=powers).transpose(1, 2, 0)
        cell, cell_e = cells.astype(np.intp)
        rows = table.radius.numpy().take(cell * EPSILON_CELLS + cell_e, 0).reshape(-1, ORDER, ORDER)
        along_x = np.einsum("bij,bi->bj", rows, pe)
        value = (along_x * px).sum(1)
        slope = (along_x[:, 1:] * px[:, :-1]) @ np.arange(1.0, ORDER)
        whole = alpha + 1
        self.t = np.exp(value) * np.sqrt(whole * n)
        self.Y = self.t * (n / 2 / whole + slope / X * (n * table.scale))
        numbers = table.numbers.numpy().take(cell, 0).reshape(-1, ORDER, 2)
        J, self.M = np.einsum("bik,bi->kb", numbers, px)
        self.J = J + (alpha - np.log1p(alpha)) * (n / 2)
        self.sigma, self.c = sigma, c
        if beyond.any():
            self._go_beyond(beyond, alpha)
        return sigma * self.t

    def _go_beyond(self, beyond: Array, alpha: Array) -> None:
        """Where the table ends sinh is exp/2, and t = n√λ + ε."""
        n, far = self.d - 1, alpha[beyond]
        root = np.sqrt(far * n)
        self.t[beyond], self.Y[beyond] = root + self.epsilon[beyond], n * n / 2 / root
        self.J[beyond] = (far - np.log(far)) * (n / 2) + (math.log(2 * math.pi) - n * math.log(4 / n)) / 2
        self.M[beyond] = n - n / far

    def divergence(self, ray: Ray) -> Array:
        """−t²/2 − log Z(σ) + |z|²/2σ₀² + log Z(σ₀)."""
        self.z = ray.az / ray.s
        energy = (self.z / self.prior_scale) ** 2 - self.t * self.t
        return energy / 2 - self.J - np.log(self.sigma) * self.d + self.constant

    def rate(self) -> Array:
        """That of |z|²/2σ₀²."""
        return self.z / self.prior_scale**2

    def to_scale(self, by_r: Array, g: Array) -> Array:
        """∂r/∂σ = t + 2λY at a fixed quantile [eq:implicit_gradient], and ∂ log Z/∂σ = (d + nλM)/σ."""
        by_lam = (by_r * self.sigma - g * self.t) * self.Y - g * self.M * ((self.d - 1) / 2)
        return by_r * self.t - g * self.d / self.sigma + 2 * self.c * self.sigma * by_lam


class _SampledDivergence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, loc: Tensor, scale: Tensor, c: float, noise: Noise, general: Any
    ) -> tuple[Tensor, Tensor, bool]:
        with np.errstate(all="ignore"):
            r = noise.radius(columns(scale)[0], c)
            ray = None if r is None else follow(columns(loc), noise.direction, r, c)
            if ray is None:
                return loc, scale, False
            z, divergence = ray.point, noise.divergence(ray)
        ctx.save_for_backward(loc, scale)
        ctx.made = ray, noise, general
        points = torch.from_numpy(np.ascontiguousarray(z.T, np.float32))
        return points.view_as(loc), torch.from_numpy(divergence.astype(np.float32)).view(loc.shape[:-1]), True

    @staticmethod
    def backward(ctx: Any, grad: Tensor, grad_divergence: Tensor, _: None) -> tuple[Tensor | None, ...]:
        loc, scale = ctx.saved_tensors
        ray, noise, general = ctx.made
        if torch.is_grad_enabled():
            return again(general, (loc, scale), ctx.needs_input_grad, grad, grad_divergence)
        g = grad_divergence.numpy().reshape(-1).astype(np.float64)
        by_loc, by_r = ray.gradients(columns(grad), g * noise.rate())
        of_loc = torch.from_numpy(np.ascontiguousarray(by_loc.T, np.float32))
        of_scale = torch.from_numpy(noise.to_scale(by_r, g).astype(np.float32))
        return of_loc.view_as(loc), of_scale.view_as(scale), None, None, None


def is_suited(q: Any, prior: Any, shape: torch.Size) -> bool:
    """Whether a point of each posterior goes this way: of float32 on a CPU, c and a prior around the origin fixed."""
    c = q.ball.c if isinstance(q.ball, CurvedSpace) else 0.0
    return (
        type(prior) is type(q)
        and prior.centered
        and prior.ball is q.ball
        and not isinstance(c, Tensor)
        and c > 0
        and q.loc.dtype == q.scale.dtype == torch.float32
        and 0 < q.loc.numel() == shape.numel()
        and q.scale.shape[-1] == prior.scale.numel() == 1
        and not prior.scale.requires_grad
        and looks_ahead(q.loc)
    )


def sampled_divergence(
    q: Any, noise: Noise, shape: torch.Size, general: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """A point of each posterior, of shape (*sample, *batch, d), and log q − log p there.

    Args:
        q: The posteriors, which are suited.
        noise: Their noise.
        shape: Shape of the points.
        general: The same as a function of loc and scale by the general way: for what has to go there, and for second
            derivatives.
    """
    z, divergence, done = _SampledDivergence.apply(q.loc, q.scale, float(q.ball.c), noise, general)
    if not done:
        z, divergence = general(q.loc, q.scale)
    return z.reshape(shape), divergence.reshape(shape[:-1])
