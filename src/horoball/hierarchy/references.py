"""Spaces that are known, to read δ beside: a tree, a cloud, a sphere, a hyperbolic ball."""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import coo_matrix
from scipy.special import logsumexp

from horoball.hierarchy.delta import Delta, delta
from horoball.hierarchy.space import Space
from horoball.manifolds import PoincareBall

__all__ = ["random_tree", "reference_spaces", "references"]


def references(n: int, d: int, *, neighbors: int | None = 20, landmarks: int = 128, seed: int = 0) -> dict[str, Delta]:
    """δ of known spaces of the same size, so that a relative δ can be read: it depends on n and d.

    Args:
        n: Number of points.
        d: Dimension.
        neighbors: Neighbors of the graph whose geodesics are taken; None for straight distances. The tree and the
            hyperbolic ball have their own distances.
        landmarks: See `delta`.
        seed: Seed of the draws.

    Example:
        >>> for name, known in references(300, 10, landmarks=40).items():
        ...     print(f"{name:10} {known.relative:.2f} {known.conflict.value:.2f}")
        tree       0.00 0.00
        hyperbolic 0.06 0.35
        cloud      0.58 0.39
        sphere     0.72 0.41
    """
    spaces = reference_spaces(n, d, neighbors=neighbors, seed=seed)
    return {name: delta(space, landmarks=landmarks, seed=seed) for name, space in spaces.items()}


def reference_spaces(n: int, d: int, *, neighbors: int | None = 20, seed: int = 0) -> dict[str, Space]:
    """A random tree, points uniform in a hyperbolic ball of radius 2 ln n, a normal cloud, a unit sphere.

    Args:
        n: Number of points.
        d: Dimension of the cloud, of the hyperbolic ball and of the space around the sphere.
        neighbors: See `references`.
        seed: Seed of the draws.

    Example:
        >>> list(reference_spaces(50, 3))
        ['tree', 'hyperbolic', 'cloud', 'sphere']
    """
    if n < 4 or d < 1:
        raise ValueError(f"References need n >= 4 points and a dimension d >= 1, got n = {n}, d = {d}.")
    rng = np.random.default_rng(seed)
    cloud, sphere, direction = rng.standard_normal((3, n, d))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    inside = direction * _hyperbolic_radii(n, d, rng)[:, None]

    def space(x: np.ndarray) -> Space:
        return Space.of_points(x) if neighbors is None else Space.of_neighbors(x, neighbors)

    return {
        "tree": random_tree(n, seed),
        "hyperbolic": Space.of_points(inside, PoincareBall(1.0)),
        "cloud": space(cloud),
        "sphere": space(sphere),
    }


def random_tree(n: int, seed: int = 0) -> Space:
    """A random recursive tree: each node hangs on one of those before it, all edges of length 1.

    Example:
        >>> delta(random_tree(30)).delta
        0.0
    """
    rng = np.random.default_rng(seed)
    child = np.arange(1, n)
    parent = rng.integers(child)
    return Space.of_graph(coo_matrix((np.ones(n - 1), (child, parent)), shape=(n, n)).tocsr())


def _hyperbolic_radii(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Distances from the center of a hyperbolic ball of radius 2 ln n: density ∝ sinh(r)^(d−1), by inversion."""
    r = np.linspace(0, 2 * math.log(n), 4001)[1:]
    log_density = (d - 1) * (r + np.log(-np.expm1(-2 * r)))
    density = np.exp(log_density - logsumexp(log_density))
    return np.interp(rng.random(n), np.cumsum(density), r)
