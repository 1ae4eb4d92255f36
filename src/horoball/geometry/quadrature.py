"""Quadrature rules, as tensors that a compiled graph may hold as constants."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from horoball.geometry.autograd import constant_when_compiled


@lru_cache(maxsize=64)
def _legendre(order: int) -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(order)


@lru_cache(maxsize=64)
def _gegenbauer(order: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for E[f(⟨û, e⟩)], û uniform on the unit sphere of ℝᵈ, d ≥ 2; the weights sum to 1.

    Golub and Welsch: nodes are the eigenvalues of the Jacobi matrix, weights the squared first components.
    """
    k = np.arange(1, order, dtype=np.float64)
    nu = (d - 2) / 2
    ratio = np.ones_like(k)  # (k + 2ν − 1)/(k + ν − 1), whose limit at k = 1, ν → 0 is 2
    ratio[:1] = 2.0
    ratio[1:] = (k[1:] + 2 * nu - 1) / (k[1:] + nu - 1)
    beta = np.sqrt(k * ratio / (4 * (k + nu)))
    nodes, vectors = np.linalg.eigh(np.diag(beta, 1) + np.diag(beta, -1))
    return nodes, vectors[0] ** 2


@lru_cache(maxsize=64)
def _held(rule: str, order: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """A rule on another device, which is sent there once."""
    numbers = {"legendre": _legendre, "sphere": _sphere, "directions": _directions}[rule](order)
    with torch.inference_mode(False):
        nodes, weights = (torch.tensor(part, dtype=dtype).to(device) for part in numbers)
        return nodes, weights


# Marked constant, a rule becomes a constant of a compiled graph; Dynamo would trace through a cache of tensors, and a
# cached tensor would remember the inference mode and the default device of its first caller.
@constant_when_compiled
def gauss_legendre(
    order: int, dtype: torch.dtype = torch.float64, device: torch.device | None = None
) -> tuple[Tensor, Tensor]:
    """Nodes and weights on [−1, 1] for ∫ f(x) dx, exact for polynomials of degree 2·order − 1.

    Example:
        >>> x, w = gauss_legendre(4)
        >>> (w * x**6).sum()
        tensor(0.2857, dtype=torch.float64)
    """
    if device is not None and device.type != "cpu":
        return _held("legendre", order, dtype, device)
    nodes, weights = _legendre(order)
    return torch.tensor(nodes, dtype=dtype, device=device), torch.tensor(weights, dtype=dtype, device=device)


@lru_cache(maxsize=64)
def _sphere(d: int) -> tuple[np.ndarray, np.ndarray]:
    if d > 8:  # the density sin^(d−2) φ hides the logarithm at φ = π from Gauss's rule
        nodes, weights = _gegenbauer(24, d)
        return (1 + nodes) / 2, weights
    # Tanh-sinh in s = π − φ, whose nodes crowd at s = 0 at every scale; sin s by the nearer end
    x, step = np.linspace(-3.2, 3.2, 48, retstep=True)
    u = np.pi / 2 * np.sinh(x)
    s, end = np.pi / (1 + np.exp(-2 * u)), np.pi / (1 + np.exp(2 * np.abs(u)))
    weights = step * np.cosh(x) / np.cosh(u) ** 2 * np.sin(end) ** (d - 2)
    return np.sin(s / 2) ** 2, weights / weights.sum()


@constant_when_compiled
def sphere_rule(d: int, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Nodes P and weights for E[f(cos²(φ/2))], φ the angle from a fixed direction to a uniform one in ℝᵈ, d ≥ 2.

    Good to 1e-8 also for functions with a logarithm at φ = π, as distances to far points are.

    Example:
        >>> P, w = sphere_rule(2)
        >>> torch.allclose((w * P.log()).sum(), torch.tensor(0.25).log().double())
        True
    """
    if device is not None and device.type != "cpu":
        return _held("sphere", d, torch.float64, device)
    nodes, weights = _sphere(d)
    return torch.tensor(nodes, device=device), torch.tensor(weights, device=device)


@lru_cache(maxsize=4)
def _directions(d: int) -> tuple[np.ndarray, np.ndarray]:
    angles = 128 if d == 2 else 48
    phi = np.arange(angles) * (2 * np.pi / angles)
    circle = np.stack((np.cos(phi), np.sin(phi)), -1)
    if d == 2:
        return circle, np.full(angles, 1 / angles)
    heights, weights = _legendre(24)  # on a sphere heights are uniform
    ring = np.sqrt(1 - heights**2)[:, None, None] * circle
    nodes = np.concatenate((ring, np.broadcast_to(heights[:, None, None], (24, angles, 1))), -1)
    return nodes.reshape(-1, 3), np.repeat(weights / (2 * angles), angles)


@constant_when_compiled
def direction_rule(d: int, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Directions in the plane or in space, d = 2 or 3, and weights for the mean of a function over all of them.

    Example:
        >>> u, w = direction_rule(3)
        >>> torch.allclose((w * u[:, 0] ** 4).sum(), torch.tensor(0.2).double())
        True
    """
    if d not in (2, 3):
        raise NotImplementedError(f"There is a rule of directions for d = 2 and d = 3, got d = {d}.")
    if device is not None and device.type != "cpu":
        return _held("directions", d, torch.float64, device)
    nodes, weights = _directions(d)
    return torch.tensor(nodes, device=device), torch.tensor(weights, device=device)
