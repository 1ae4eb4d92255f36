"""Small metric spaces that are well known."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix
from scipy.spatial.distance import cdist

from horoball.hierarchy import Space
from horoball.hierarchy.delta import random_tree


def graph(edges: list[tuple[int, int]]) -> csr_matrix:
    n = 1 + max(max(edge) for edge in edges)
    return coo_matrix((np.ones(len(edges)), tuple(zip(*edges, strict=True))), shape=(n, n)).tocsr()


def grid(side: int, *, periodic: bool = False) -> csr_matrix:
    at = np.arange(side * side).reshape(side, side)
    edges = [*zip(at[:, :-1].flat, at[:, 1:].flat, strict=True), *zip(at[:-1].flat, at[1:].flat, strict=True)]
    if periodic:
        edges += [*zip(at[:, -1], at[:, 0], strict=True), *zip(at[-1], at[0], strict=True)]
    return graph([(int(i), int(j)) for i, j in edges])


def cycle(n: int) -> csr_matrix:
    return graph([(i, (i + 1) % n) for i in range(n)])


def torus(n: int, seed: int) -> np.ndarray:
    around, through = np.random.default_rng(seed).uniform(0, 2 * np.pi, (2, n))
    reach = 2 + np.cos(through)
    return np.stack((reach * np.cos(around), reach * np.sin(around), np.sin(through)), 1)


def small_spaces() -> dict[str, np.ndarray]:
    """Twenty matrices of distances."""
    rng = np.random.default_rng(0)
    spaces = {f"tree {n}": random_tree(n, seed=n).matrix() for n in (4, 9, 16, 25)}
    spaces |= {f"cycle {n}": Space.of_graph(cycle(n)).matrix() for n in (4, 5, 6, 11, 16)}
    spaces |= {f"grid {n}": Space.of_graph(grid(n)).matrix() for n in (2, 3, 4)}
    spaces |= {f"torus {n}": Space.of_graph(grid(n, periodic=True)).matrix() for n in (3, 5)}
    spaces |= {f"clique {n}": np.ones((n, n)) - np.eye(n) for n in (4, 10)}
    for n, d in ((5, 1), (12, 2), (18, 10)):
        x = rng.normal(size=(n, d))
        spaces[f"points {n} {d}"] = cdist(x, x)
    random = rng.uniform(1, 2, (15, 15))  # any numbers between 1 and 2 are distances
    spaces["random"] = np.triu(random, 1) + np.triu(random, 1).T
    return spaces
