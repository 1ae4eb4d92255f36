"""The graph of nearest cells by hyperbolic distance, laid out as scanpy has it."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from horoball.cells.embedding_keys import ball_of, coordinates
from horoball.manifolds import PoincareBall
from horoball.neighbors import Index
from horoball.neighbors.search import others

__all__ = ["check_neighborhood", "fuzzy_weights", "nearest", "neighbors"]

_HALVINGS = 60  # of the interval of a width: to the last digit


def neighbors(cells: Any, n_neighbors: int = 15, *, key: str = "poincare") -> None:
    """Write the graph of nearest neighbors of an embedding, for scanpy's `neighbors_key`.

    Distances are exact. Neighbors are found by `horoball.neighbors.Index`: all of them up to 50,000 cells, 99 in a
    hundred beyond. `sc.tl.leiden(cells, neighbors_key="poincare")` and others start from there.

    Args:
        cells: AnnData with an embedding by `fit` or `CellModel.embed`.
        n_neighbors: Size of a neighborhood, the cell itself included, as in scanpy.
        key: Where the embedding is, "poincare" for obsm["X_poincare"]; obsp and uns get names after it.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> _ = fit(cells, max_epochs=1, hidden=(8,))
        >>> neighbors(cells, n_neighbors=5)
        >>> cells.obsp["poincare_distances"].nnz, cells.uns["poincare"]["params"]["n_neighbors"]
        (240, 5)
    """
    check_neighborhood(n_neighbors)
    ball, z = ball_of(cells, key), coordinates(cells, key)
    n = len(z)
    k = min(n_neighbors, n) - 1
    index, distance = nearest(z, ball, k)
    starts = np.arange(0, n * k + 1, k) if k else np.zeros(n + 1, np.int64)
    names = {what: f"{key}_{what}" for what in ("distances", "connectivities")}
    cells.obsp[names["distances"]] = csr_matrix((distance.ravel(), index.ravel(), starts), shape=(n, n))
    cells.obsp[names["connectivities"]] = fuzzy_weights(index, distance)
    params = {"n_neighbors": k + 1, "method": "umap", "metric": "poincare", "use_rep": f"X_{key}"}
    cells.uns[key] |= {f"{what}_key": name for what, name in names.items()}
    cells.uns[key]["params"] = dict(cells.uns[key]["params"]) | params


def check_neighborhood(n_neighbors: int | None) -> None:
    """Refuse a neighborhood without neighbors; None is no graph at all.

    Example:
        >>> check_neighborhood(1)
        Traceback (most recent call last):
        ...
        ValueError: A neighborhood has the cell and at least one other: n_neighbors >= 2, got 1.
    """
    if n_neighbors is not None and (isinstance(n_neighbors, bool) or not isinstance(n_neighbors, Integral)):
        raise ValueError(f"n_neighbors is a whole number, or None for no graph, got {n_neighbors!r}.")
    if n_neighbors is not None and n_neighbors < 2:
        raise ValueError(f"A neighborhood has the cell and at least one other: n_neighbors >= 2, got {n_neighbors}.")


def nearest(z: Tensor, ball: PoincareBall, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the k nearest other points, the nearest first, and their distances; shape (n, k) each.

    Example:
        >>> index, distance = nearest(torch.tensor([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0]]), PoincareBall(1.0), 1)
        >>> index.ravel().tolist(), distance.ravel().tolist()
        ([1, 0, 1], [1.0, 1.0, 2.0])
    """
    n = len(z)
    if not k:
        return np.empty((n, 0), np.int64), np.empty((n, 0))
    distances, ids = Index(ball).add(z).search(z, k + 1)
    kept = others(ids, torch.arange(n), k)
    return ids[kept].reshape(n, k).numpy(), distances[kept].reshape(n, k).numpy()


def fuzzy_weights(index: np.ndarray, distance: np.ndarray) -> csr_matrix:
    """How strongly points are joined, from 0 to 1: UMAP's fuzzy union of local exponentials.

    Point i is joined to its neighbor j by a_ij = exp(−(d_ij − ρ_i)/s_i), where ρ_i is the distance to its nearest
    neighbor and s_i is such that Σ_j a_ij = log₂ k, the point itself not counted among the k. Both directions are put
    together as a + aᵀ − a·aᵀ.

    Args:
        index: Numbers of the neighbors, shape (n, k).
        distance: Their distances, the nearest first, shape (n, k).

    Example:
        >>> fuzzy_weights(np.array([[1, 2], [0, 2], [1, 0]]), np.array([[1.0, 2.0], [1.0, 1.5], [1.5, 2.0]])).nnz
        6
    """
    n, k = index.shape
    if not k:
        return csr_matrix((n, n))
    excess = distance - distance[:, :1]
    target = math.log2(k) if k > 2 else 1.0 + 1e-3  # the nearest alone counts 1: less than that cannot be reached
    low, high = np.zeros((n, 1)), np.full((n, 1), max(float(excess.max()), 1e-12) * 1e3)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        less = np.exp(-excess / np.maximum(middle, 1e-300)).sum(1, keepdims=True) < target
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    weight = np.exp(-excess / np.maximum(high, 1e-300))
    starts = np.arange(0, n * k + 1, k)
    one_way = csr_matrix((weight.ravel(), index.ravel(), starts), shape=(n, n))
    both = one_way.multiply(one_way.T)
    union = (one_way + one_way.T - both).tocsr()
    union.eliminate_zeros()
    return union
