"""Tables whose structure is known, for the error rates of the verdict: flat, blobs, loops, nested, branching.

Sizes, dimensions and noise vary from table to table.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
from scipy.spatial.distance import pdist

from experiments.branch_support import TREES
from horoball.datasets import branching_diffusion

__all__ = ["FAMILIES", "GRID", "simulated"]

Random = np.random.Generator


def simulated(kind: str, seed: int) -> np.ndarray:
    """One table of a kind, 200 or 300 rows (a branching diffusion as many as its tree has, the grid of blobs 150).

    Example:
        >>> simulated("uniform", 0).shape[0] in (200, 300)
        True
    """
    rng = np.random.default_rng((seed, zlib.crc32(kind.encode())))
    if kind in GRID:
        return GRID[kind](rng, 150)
    makers = {name: maker for family in FAMILIES.values() for name, maker in family.items()}
    return makers[kind](rng, int(rng.choice((200, 300))))


def _normal(rng: Random, n: int) -> np.ndarray:
    return rng.normal(size=(n, int(rng.choice((2, 5, 10, 30)))))


def _correlated(rng: Random, n: int) -> np.ndarray:
    d = int(rng.choice((5, 10, 30)))
    return rng.normal(size=(n, d)) @ (rng.normal(size=(d, d)) / np.arange(1, d + 1)[:, None])


def _uniform(rng: Random, n: int) -> np.ndarray:
    return rng.uniform(size=(n, int(rng.choice((2, 3, 5)))))


def _coins(rng: Random, n: int) -> np.ndarray:
    return np.hstack((rng.normal(size=(n, 4)), rng.integers(0, 2, size=(n, 2))))


def _heavy(rng: Random, n: int) -> np.ndarray:
    return rng.standard_t(3, size=(n, int(rng.choice((2, 5, 10)))))


def _sizes(rng: Random, n: int, k: int) -> np.ndarray:
    """Unequal sizes of k groups; a group has at least 12 rows."""
    return np.repeat(np.arange(k), np.maximum(12, np.round(rng.dirichlet(np.full(k, 3.0)) * n)).astype(int))


def _blobs(k: int) -> Callable[[Random, int], np.ndarray]:
    """Normal blobs of unequal size and width; centers independent, normal or uniform, 4, 8 or 20 widths apart."""

    def make(rng: Random, n: int) -> np.ndarray:
        d, apart = int(rng.choice((2, 5, 10, 30))), rng.choice((4.0, 8.0, 20.0))
        centers = rng.normal(size=(k, d)) if rng.random() < 0.5 else rng.uniform(-1.7, 1.7, size=(k, d))
        label, width = _sizes(rng, n, k), rng.uniform(0.5, 1.5, size=k)
        return apart * centers[label] + rng.normal(size=(len(label), d)) * width[label][:, None]

    return make


def _cell(k: int, apart: float, d: int, *, equidistant: bool) -> Callable[[Random, int], np.ndarray]:
    """Normal blobs of one size, whose centers have a median distance of so many standard deviations."""

    def make(rng: Random, n: int) -> np.ndarray:
        centers = np.linalg.qr(rng.normal(size=(d, d)))[0][:k] if equidistant else rng.normal(size=(k, d))
        return apart / np.median(pdist(centers)) * centers[np.arange(n) % k] + rng.normal(size=(n, d))

    return make


def _tips(kind: str) -> Callable[[Random, int], np.ndarray]:
    return lambda rng, n: TREES[kind](300, rng)[0]


def _noisy(rng: Random, x: np.ndarray) -> np.ndarray:
    return x + rng.normal(size=x.shape) * rng.choice((0.02, 0.1, 0.2))


def _ring(rng: Random, n: int) -> np.ndarray:
    angle = rng.uniform(0, 2 * np.pi, n)
    return _noisy(rng, np.stack((np.cos(angle), np.sin(angle)), 1))


def _figure_eight(rng: Random, n: int) -> np.ndarray:
    angle, side = rng.uniform(0, 2 * np.pi, n), rng.choice((-1, 1), n)
    return _noisy(rng, np.stack((side * (1 - np.cos(angle)), np.sin(angle)), 1))


def _torus(rng: Random, n: int) -> np.ndarray:
    around, through = rng.uniform(0, 2 * np.pi, (2, n))
    reach = 2 + np.cos(through)
    return np.stack((reach * np.cos(around), reach * np.sin(around), np.sin(through)), 1)


def _arc(rng: Random, n: int) -> np.ndarray:
    angle = rng.uniform(0, rng.choice((0.5, 1.0, 1.5)) * np.pi, n)
    return _noisy(rng, np.stack((np.cos(angle), np.sin(angle)), 1))


def _swiss_roll(rng: Random, n: int) -> np.ndarray:
    angle = 1.5 * np.pi * (1 + 2 * rng.uniform(size=n))
    return np.stack((angle * np.cos(angle), 21 * rng.uniform(size=n), angle * np.sin(angle)), 1)


def _nested(
    levels: int, children: int, noise: int = 0, ratios: tuple[float, ...] = (3.0, 4.0, 6.0)
) -> Callable[..., np.ndarray]:
    """Normal blobs 8 widths apart, in groups that are a ratio farther apart, and so on; sizes are unequal."""

    def make(rng: Random, n: int) -> np.ndarray:
        d, ratio = int(rng.choice((3, 5, 10))), rng.choice(ratios)
        centers, apart = np.zeros((1, d)), 8 * ratio ** (levels - 1)
        for _ in range(levels):
            centers = np.repeat(centers, rng.integers(children - 1, children + 2, len(centers)), 0)
            centers = centers + apart * rng.normal(size=centers.shape)
            apart /= ratio
        label = _sizes(rng, n, len(centers))
        x = centers[label] + rng.normal(size=(len(label), d))
        return np.hstack((x, rng.normal(size=(len(x), noise))))

    return make


def _diffusion(depth: int, copies: int = 5, features: int = 50, noise: float = 0.0) -> Callable[..., np.ndarray]:
    def make(rng: Random, n: int) -> np.ndarray:
        tree = branching_diffusion(depth, copies=copies, features=features, seed=int(rng.integers(1 << 30)))
        return tree.x.double().numpy() + noise * rng.normal(size=tree.x.shape)

    return make


def _arms(rng: Random, n: int) -> np.ndarray:
    """Three arms that meet in one point, as trajectories of cells do."""
    directions = np.linalg.qr(rng.normal(size=(5, 5)))[0][:3]
    x = directions[rng.integers(0, 3, n)] * rng.uniform(size=(n, 1))
    return x + 0.05 * rng.normal(size=x.shape)


FAMILIES: dict[str, dict[str, Callable[[Random, int], np.ndarray]]] = {
    "flat": {
        "normal": _normal,
        "correlated columns": _correlated,
        "uniform": _uniform,
        "normal and two coin flips": _coins,
        "heavy tails (t, 3 degrees)": _heavy,
    },
    "blobs": {f"{k} blobs": _blobs(k) for k in (2, 3, 6, 10, 20)} | {"latent classes": _tips("latent classes")},
    "loops": {
        "ring": _ring,
        "figure eight": _figure_eight,
        "torus": _torus,
        "arc": _arc,
        "Swiss roll": _swiss_roll,
    },
    "seen at the tips": {
        kind: _tips(kind)
        for kind in ("Brownian motion, Yule tree", "Brownian motion, Kingman's tree", "binary columns, evolved")
    },
    "nested": {
        "2 levels, 3 to 5 children": _nested(2, 4),
        "2 levels and 10 noise columns": _nested(2, 4, noise=10),
        "2 levels, 6 times apart": _nested(2, 4, ratios=(6.0,)),
        "3 levels, 2 to 4 children": _nested(3, 3),
    },
    "branching": {
        "diffusion, depth 4": _diffusion(4),
        "diffusion, depth 5": _diffusion(5),
        "diffusion, depth 5, noise 0.5": _diffusion(5, noise=0.5),
        "diffusion, depth 6, 2 copies": _diffusion(6, copies=2),
        "three arms": _arms,
    },
}
# Blobs, none of them nested: how many, how far apart, in how many columns, with independent or equidistant centers.
GRID: dict[str, Callable[[Random, int], np.ndarray]] = {
    f"{k} blobs {apart} apart, {d} columns, {'equidistant' if equidistant else 'independent'}": _cell(
        k, apart, d, equidistant=equidistant
    )
    for k in (2, 3, 6, 12)
    for apart in (3, 8, 20, 40)
    for d in (2, 5, 20, 50)
    for equidistant in (False, True)
    if not equidistant or d >= k
}
