"""Quadrature rules, as tensors that a compiled graph may hold as constants."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from horoball.compiling import constant_when_compiled

__all__ = ["gauss_gegenbauer", "gauss_legendre", "sphere_rule"]


@lru_cache(maxsize=64)
def _legendre(order: int) -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(order)


@lru_cache(maxsize=64)
def _gegenbauer(order: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Golub and Welsch: nodes are the eigenvalues of the Jacobi matrix, weights the squared first components."""
    k = np.arange(1, order, dtype=np.float64)
    nu = (d - 2) / 2
    ratio = np.ones_like(k)  # (k + 2ν − 1)/(k + ν − 1), whose limit at k = 1, ν → 0 is 2
    ratio[:1] = 2.0
    ratio[1:] = (k[1:] + 2 * nu - 1) / (k[1:] + nu - 1)
    beta = np.sqrt(k * ratio / (4 * (k + nu)))
    nodes, vectors = np.linalg.eigh(np.diag(beta, 1) + np.diag(beta, -1))
    return nodes, vectors[0] ** 2


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
    nodes, weights = _legendre(order)
    return torch.tensor(nodes, dtype=dtype, device=device), torch.tensor(weights, dtype=dtype, device=device)


@constant_when_compiled
def gauss_gegenbauer(
    order: int, d: int, dtype: torch.dtype = torch.float64, device: torch.device | None = None
) -> tuple[Tensor, Tensor]:
    """Nodes and weights for E[f(⟨û, e⟩)], û uniform on the unit sphere of ℝᵈ, d ≥ 2; the weights sum to 1.

    Example:
        >>> x, w = gauss_gegenbauer(4, d=3)  # E[x²] = 1/d
        >>> (w * x**2).sum()
        tensor(0.3333, dtype=torch.float64)
    """
    nodes, weights = _gegenbauer(order, d)
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
    nodes, weights = _sphere(d)
    return torch.tensor(nodes, device=device), torch.tensor(weights, device=device)
