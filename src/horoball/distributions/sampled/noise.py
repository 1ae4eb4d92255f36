"""What a family of normals makes of a scale, for noise that has been drawn: radii, divergences and their slopes.

Arrays are NumPy's, in float64, of shape (points,).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor

from horoball.distributions.radius_table import EPSILON_CELLS, EPSILON_MAX, ORDER, radius_table
from horoball.distributions.sampled.ray import TINY, Array, Ray
from horoball.numerics.columns import columns, dots

__all__ = ["Noise", "RiemannianNoise", "WrappedNoise"]


class Noise(ABC):
    """What a family of normals makes of a scale, for noise that has been drawn.

    Its methods are called in their order, once.

    Example:
        >>> noise: Noise = WrappedNoise(torch.tensor([[3.0, 4.0]]), 1.0)
        >>> noise.direction.ravel()
        array([0.6, 0.8])
    """

    direction: Array  # ŵ, shape (d, points)

    @abstractmethod
    def radius(self, sigma: Array, c: float) -> Array | None:
        """r, of shape (points,); None when it is not for this way.

        Example:
            >>> WrappedNoise(torch.tensor([[3.0, 4.0]]), 1.0).radius(np.full(1, 0.5), 1.0)
            array([2.5])
        """

    @abstractmethod
    def divergence(self, ray: Ray) -> Array:
        """log q(z) − log p(z).

        Example:
            >>> from horoball.distributions.sampled.ray import follow
            >>> noise = WrappedNoise(torch.tensor([[3.0, 4.0]]), 1.0)
            >>> r = noise.radius(np.full(1, 0.5), 1.0)
            >>> ray = follow(np.zeros((2, 1)), noise.direction, r, 1.0)
            >>> noise.divergence(ray).round(4)  # |v|²/2 − |ε|²/2 − 2 log σ
            array([-7.9887])
        """

    @abstractmethod
    def rate(self) -> Array:
        """How that changes with |z|.

        Example:
            >>> from horoball.distributions.sampled.ray import follow
            >>> noise = WrappedNoise(torch.tensor([[3.0, 4.0]]), 1.0)
            >>> r = noise.radius(np.full(1, 0.5), 1.0)
            >>> _ = noise.divergence(follow(np.zeros((2, 1)), noise.direction, r, 1.0))
            >>> noise.rate().round(4)  # |z| + coth|z| − 1/|z|
            array([3.1136])
        """

    @abstractmethod
    def to_scale(self, by_r: Array, g: Array) -> Array:
        """The gradient in σ, from that in r through z and that in the divergence.

        Example:
            >>> from horoball.distributions.sampled.ray import follow
            >>> noise = WrappedNoise(torch.tensor([[3.0, 4.0]]), 1.0)
            >>> r = noise.radius(np.full(1, 0.5), 1.0)
            >>> _ = noise.divergence(follow(np.zeros((2, 1)), noise.direction, r, 1.0)), noise.rate()
            >>> noise.to_scale(np.ones(1), np.zeros(1))  # |ε|
            array([5.])
        """


class WrappedNoise(Noise):
    """v = σ ε with ε standard normal, under a wrapped prior of scale σ₀.

    Args:
        epsilon: ε, shape (*batch, d).
        prior_scale: σ₀.

    Example:
        >>> WrappedNoise(torch.tensor([[3.0, 4.0]]), 1.0).radius(np.full(1, 0.5), 1.0)
        array([2.5])
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

    Example:
        >>> RiemannianNoise(torch.zeros(1), torch.ones(1, 2), 1.0, 0.0).radius(np.full(1, 0.5), 1.0).round(4)
        array([0.6137])
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
