"""Distances along the data: shortest paths in the graph of nearest neighbours.

Straight distances cut across the space between branches; the geodesics of a neighbour graph follow the points. The
graph joins every row to its k nearest others, one way or the other, with edges as long as the distance.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components, dijkstra

__all__ = ["geodesics", "neighbour_graph"]

_DENSE = 5000  # rows up to which all pairs are computed unasked: 100 MB in float32
_BLOCK = 64  # sources at a time: scipy answers in float64


def geodesics(x: ArrayLike, neighbours: int = 20, sources: ArrayLike | None = None, *, join: bool = True) -> np.ndarray:
    """Shortest paths in the graph of nearest neighbours.

    Args:
        x: Points, shape (n, d).
        neighbours: k, not counting the point itself.
        sources: Rows to start from, their numbers or a mask; every row if not given, which is for n ≤ 5000.
        join: Whether parts of the graph are linked, see `neighbour_graph`; otherwise they are infinitely far apart.

    Returns:
        Lengths in float32, shape (len(sources), n).

    Example:
        >>> angle = np.linspace(0, 2 * np.pi, 100, endpoint=False)
        >>> around = geodesics(np.stack((np.cos(angle), np.sin(angle)), 1), neighbours=2, sources=[0])
        >>> print(around.shape, f"{around[0, 50]:.3f}")  # half the circle
        (1, 100) 3.141
    """
    x = _points(x)
    if sources is None and len(x) > _DENSE:
        raise ValueError(
            f"geodesics computes all pairs for at most {_DENSE} points, got {len(x)}. Pass sources= with some rows."
        )
    start = np.arange(len(x)) if sources is None else np.asarray(sources)
    start = np.flatnonzero(start) if start.dtype == bool else start.astype(np.int64)
    graph = neighbour_graph(x, neighbours, join=join)
    lengths = np.empty((len(start), len(x)), np.float32)
    for first in range(0, len(start), _BLOCK):
        block = slice(first, first + _BLOCK)
        lengths[block] = dijkstra(graph, indices=start[block])  # symmetric, so it may pass for directed: faster
    return lengths


def neighbour_graph(x: ArrayLike, neighbours: int = 20, *, join: bool = True) -> csr_matrix:
    """The symmetric graph of nearest neighbours, with lengths as weights.

    Args:
        x: Points, shape (n, d).
        neighbours: k, not counting the point itself; an edge is there if either end has the other among its k.
        join: Whether parts of the graph are linked: by the shortest links between them that make it one, the edges of
            the minimum spanning tree.

    Example:
        >>> neighbour_graph([[0.0], [1.0], [2.0], [9.0]], neighbours=1).toarray()
        array([[0., 1., 0., 0.],
               [1., 0., 1., 0.],
               [0., 1., 0., 7.],
               [0., 0., 7., 0.]])
    """
    from sklearn.neighbors import NearestNeighbors  # as large as torch: only who asks for neighbours pays

    x = _points(x)
    n = len(x)
    if neighbours < 1:
        raise ValueError(f"neighbour_graph expects neighbours >= 1, got {neighbours}.")
    k = min(neighbours, n - 1)
    # Measured on 10⁵ points: a tree takes 4 s in 5 dimensions, 66 s in 10; all pairs 32 s in 10, 53 s in 50.
    method = "kd_tree" if x.shape[1] <= 8 else "brute"
    # The search over all pairs expands squares: far from the origin it would lose the digits of close pairs, so points
    # are centred for it, and lengths are computed anew.
    centred = (x - x.mean(0, dtype=np.float64)).astype(x.dtype)
    index = NearestNeighbors(n_neighbors=k, algorithm=method).fit(centred).kneighbors(return_distance=False)
    length = np.stack([_lengths(x, x[other]) for other in index.T], 1)
    graph = _symmetric(np.repeat(np.arange(n), k), index.ravel(), length.ravel(), n)
    return _join(graph, x, centred) if join else graph


def _points(x: ArrayLike) -> np.ndarray:
    x = np.asarray(x)
    x = x if x.dtype == np.float32 else x.astype(np.float64, copy=False)
    if x.ndim != 2 or len(x) < 2:
        raise ValueError(f"Expected at least two points, shape (n, d), got {x.shape}.")
    if not np.isfinite(x).all():
        raise ValueError("Expected finite points, got NaN or infinity. Fill or drop the rows with missing values.")
    return x


def _lengths(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.linalg.norm(x.astype(np.float64) - y, axis=1)


def _symmetric(i: np.ndarray, j: np.ndarray, length: np.ndarray, n: int) -> csr_matrix:
    # An edge of length 0, between equal points, would vanish from a sparse matrix.
    length = np.maximum(length, np.finfo(np.float32).tiny)
    graph = coo_matrix((length, (i, j)), shape=(n, n)).tocsr()
    return graph.maximum(graph.T)


def _join(graph: csr_matrix, x: np.ndarray, centred: np.ndarray) -> csr_matrix:
    """Borůvka's rounds: every part but the largest takes its shortest link out."""
    from sklearn.metrics import pairwise_distances_argmin_min

    while True:
        parts, part = connected_components(graph, directed=False)
        if parts == 1:
            return graph
        links = []
        for number in np.argsort(np.bincount(part), kind="stable")[:-1]:
            inside, outside = np.flatnonzero(part == number), np.flatnonzero(part != number)
            nearest, distance = pairwise_distances_argmin_min(centred[inside], centred[outside])
            best = int(distance.argmin())
            links.append((inside[best], outside[nearest[best]]))
        i, j = np.array(links).T
        graph = graph.maximum(_symmetric(i, j, _lengths(x[i], x[j]), len(x)))
