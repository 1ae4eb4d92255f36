"""Distances along the data: shortest paths in the graph of nearest neighbors.

Straight distances cut across the space between branches; the geodesics of a neighbor graph follow the points. The graph
joins every row to its k nearest others, one way or the other, with edges as long as the distance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components, dijkstra
from torch import Tensor

from horoball.tables.table import ArrayTable


class Neighborhood(NamedTuple):
    """Of every row, the numbers of its neighbors."""

    first: np.ndarray  # where the neighbors of each row start in `others`
    size: np.ndarray  # how many there are of each row, at least 1
    others: np.ndarray  # numbers of rows, those of a row by their distance

    @classmethod
    def of_graph(cls, graph: csr_matrix) -> Self:
        """The neighbors in a graph with lengths; a row without any has itself."""
        rows = np.arange(graph.shape[0])
        alone = np.flatnonzero(np.diff(graph.indptr) == 0)
        start = np.concatenate((np.repeat(rows, np.diff(graph.indptr)), alone))
        others = np.concatenate((graph.indices, alone))
        order = np.lexsort((np.concatenate((graph.data, np.zeros(len(alone)))), start))
        count = np.bincount(start, minlength=len(rows))
        return cls(np.cumsum(count) - count, count, others[order].astype(np.int64))

    def drawn(self, rng: np.random.Generator) -> np.ndarray:
        """A neighbor of each row; that of rank k is drawn about as often as k^−2/3."""
        rank = (rng.random(len(self.size)) ** 3 * self.size).astype(np.int64)
        return self.others[self.first + rank]


_DENSE = 5000  # rows up to which all pairs are computed unasked: 100 MB in float32
_FEW = 2048  # points whose neighbors are found in one matrix: 34 MB
_BLOCK = 64  # sources at a time: scipy answers in float64
WORK = 50_000  # sources × rows at a time: some tenths of a second, for which scipy keeps Python's lock; Note [Ctrl-C]


def geodesics(x: ArrayLike, neighbors: int = 20, sources: ArrayLike | None = None, *, join: bool = True) -> np.ndarray:
    """Shortest paths in the graph of nearest neighbors.

    Args:
        x: Points, shape (n, d).
        neighbors: k, not counting the point itself.
        sources: Rows to start from, their numbers or a mask; every row if not given, which is for n ≤ 5000.
        join: Whether parts of the graph are linked, see `neighbor_graph`; otherwise they are infinitely far apart.

    Returns:
        Lengths in float32, shape (len(sources), n).

    Example:
        >>> angle = np.linspace(0, 2 * np.pi, 100, endpoint=False)
        >>> around = geodesics(np.stack((np.cos(angle), np.sin(angle)), 1), neighbors=2, sources=[0])
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
    return shortest_paths(neighbor_graph(x, neighbors, join=join), start)


def shortest_paths(graph: csr_matrix, sources: np.ndarray) -> np.ndarray:
    """Lengths of the shortest paths in a symmetric graph, float32, shape (len(sources), n).

    Args:
        graph: The graph; see `neighbor_graph`.
        sources: Numbers of the rows to start from.

    Example:
        >>> shortest_paths(neighbor_graph([[0.0], [1.0], [2.0], [9.0]], neighbors=1), np.array([0]))
        array([[0., 1., 2., 9.]], dtype=float32)
    """
    rows = graph.shape[0]
    lengths = np.empty((len(sources), rows), np.float32)
    size = max(1, min(_BLOCK, WORK // rows))
    for first in range(0, len(sources), size):
        block = slice(first, first + size)
        lengths[block] = dijkstra(graph, indices=sources[block])  # symmetric, so it may pass for directed: faster
    return lengths


def neighbor_graph(x: ArrayLike, neighbors: int = 20, *, join: bool = True) -> csr_matrix:
    """The symmetric graph of nearest neighbors, with lengths as weights.

    Args:
        x: Points, shape (n, d).
        neighbors: k, not counting the point itself; an edge is there if either end has the other among its k.
        join: Whether parts of the graph are linked: by the shortest links between them that make it one, the edges of
            the minimum spanning tree.

    Example:
        >>> neighbor_graph([[0.0], [1.0], [2.0], [9.0]], neighbors=1).toarray()
        array([[0., 1., 0., 0.],
               [1., 0., 1., 0.],
               [0., 1., 0., 7.],
               [0., 0., 7., 0.]])
    """
    x = _points(x)
    n = len(x)
    if neighbors < 1:
        raise ValueError(f"neighbor_graph expects neighbors >= 1, got {neighbors}.")
    k = min(neighbors, n - 1)
    # The search over all pairs expands squares: far from the origin it would lose the digits of close pairs, so points
    # are centered for it, and lengths are computed anew.
    centered = (x - x.mean(0, dtype=np.float64)).astype(x.dtype)
    index = _nearest_of_few(centered, k) if n <= _FEW else _nearest(centered, k)
    length = np.stack([_lengths(x, x[other]) for other in index.T], 1)
    graph = _symmetric(np.repeat(np.arange(n), k), index.ravel(), length.ravel(), n)
    return _join(graph, x, centered) if join else graph


def _nearest(x: np.ndarray, k: int) -> np.ndarray:
    from sklearn.neighbors import NearestNeighbors  # as large as torch: only who asks for neighbors of many pays

    # Measured on 10⁵ points: a tree takes 4 s in 5 dimensions, 66 s in 10; all pairs 32 s in 10, 53 s in 50.
    method = "kd_tree" if x.shape[1] <= 8 else "brute"
    found: np.ndarray = NearestNeighbors(n_neighbors=k, algorithm=method).fit(x).kneighbors(return_distance=False)
    return found


def _nearest_of_few(x: np.ndarray, k: int) -> np.ndarray:
    """The same of a few points, sooner than scikit-learn is imported."""
    x = x.astype(np.float64)
    square = np.einsum("ij,ij->i", x, x)
    apart = square[:, None] + square - 2 * x @ x.T
    np.fill_diagonal(apart, np.inf)
    index = np.argpartition(apart, k - 1, axis=1)[:, :k]
    order = np.argsort(np.take_along_axis(apart, index, 1), axis=1, kind="stable")
    return np.take_along_axis(index, order, 1)


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


def _join(graph: csr_matrix, x: np.ndarray, centered: np.ndarray) -> csr_matrix:
    """Borůvka's rounds: every part but the largest takes its shortest link out."""
    while True:
        parts, part = connected_components(graph, directed=False)
        if parts == 1:
            return graph
        from sklearn.metrics import pairwise_distances_argmin_min  # few graphs have parts

        links = []
        for number in np.argsort(np.bincount(part), kind="stable")[:-1]:
            inside, outside = np.flatnonzero(part == number), np.flatnonzero(part != number)
            nearest, distance = pairwise_distances_argmin_min(centered[inside], centered[outside])
            best = int(distance.argmin())
            links.append((inside[best], outside[nearest[best]]))
        i, j = np.array(links).T
        graph = graph.maximum(_symmetric(i, j, _lengths(x[i], x[j]), len(x)))


AXES = 50  # as is common for cells


_PROJECTED = 16_384  # rows at a time


def count_axes(table: ArrayTable, axes: int = AXES, *, found_on: np.ndarray | None = None) -> np.ndarray:
    """Coordinates along the main axes of log(1 + x·features/Σx), shape (rows, axes); sparse rows stay sparse.

    A table with no more rows or features than axes is not turned, and has as many columns as features.

    Args:
        table: Rows of counts.
        axes: Number of main axes; a table with fewer features keeps them all.
        found_on: Numbers of rows that the axes are found on, of a table of very many; all if not given.

    Example:
        >>> count_axes(ArrayTable(np.random.default_rng(0).poisson(1.0, (100, 80)))).shape
        (100, 50)
    """
    held = table.matrix()
    if min(table.rows, table.features) <= axes + 1:
        return _logs(held).toarray()
    if found_on is None:
        return _main_axes(axes).fit_transform(_logs(held))
    turned, blocks = axes_of_some(held[found_on], axes), range(0, table.rows, _PROJECTED)
    return np.concatenate([turned(held[a : a + _PROJECTED]).numpy() for a in blocks])


def axes_of_some(counts: Any, axes: int = AXES) -> Callable[[Any], Tensor]:
    """What turns rows of counts as `count_axes` does, by the main axes of some of them.

    Example:
        >>> some = torch.from_numpy(np.random.default_rng(0).poisson(1.0, (100, 80)))
        >>> axes_of_some(some)(some[:3]).shape
        torch.Size([3, 50])
    """
    if min(counts.shape) <= axes + 1:
        return lambda x: torch.from_numpy(_logs(x).toarray()).float()
    turned = _main_axes(axes).fit(_logs(counts))
    return lambda x: torch.from_numpy(turned.transform(_logs(x))).float()


def _main_axes(axes: int) -> Any:
    from sklearn.decomposition import PCA  # as large as torch: only who asks for axes pays

    return PCA(axes, svd_solver="arpack", random_state=0)


def _logs(counts: Any) -> csr_matrix:
    """log(1 + x·features/Σx), in float64."""
    # Dense counts become sparse as well: both then give the same numbers to the last digit.
    part = counts.astype(np.float64) if hasattr(counts, "tocsr") else csr_matrix(counts.numpy().astype(np.float64))
    total = np.maximum(np.asarray(part.sum(1)).ravel(), 1.0)
    part.data = np.log1p(part.data * np.repeat(part.shape[1] / total, np.diff(part.indptr)))
    return part
