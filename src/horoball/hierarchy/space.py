"""A finite metric space: n points and a way to ask for distances, a block at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial.distance import cdist
from torch import Tensor

from horoball.geometry.ball import PoincareBall
from horoball.tables.geodesics import WORK, neighbor_graph
from horoball.tables.numbers import check_unmasked

_ELEMENTS = 4_000_000  # distances held at a time, 32 MB
_EQUAL = 1e-20  # far below the rounding of any distance here


@dataclass(frozen=True)
class Space:
    """Points and the distances between them, never all at once.

    Made by `of_points` (straight, or a ball's), `of_neighbors` (geodesics), `of_matrix` or `of_graph`.

    Example:
        >>> space = Space.of_points([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
        >>> space.between(np.array([1]), np.array([0, 1, 2]))
        array([[3., 0., 5.]])
    """

    n: int
    between: Callable[[np.ndarray, np.ndarray], np.ndarray]  # rows, columns -> float64 (rows, columns)

    @classmethod
    def of_points(cls, x: ArrayLike | Tensor, ball: PoincareBall | None = None) -> Space:
        """Straight distances, or the ball's between points in its tangent chart."""
        z = _matrix(x, "points")
        if ball is None or getattr(ball, "is_euclidean", False):
            return cls(len(z), lambda rows, columns: cdist(z[rows], z[columns]))
        points = torch.from_numpy(z)

        def distances(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                near = getattr(ball, "cdist", None)
                z, y = points[rows], points[columns]
                d = (ball.dist(z.unsqueeze(1), y) if near is None else near(z, y)).numpy()
            d[d < _EQUAL] = 0  # cdist keeps equal points apart by a hair, for the sake of gradients
            return d

        return cls(len(z), distances)

    @classmethod
    def of_matrix(cls, distances: ArrayLike | Tensor) -> Space:
        """A matrix of distances."""
        d = _matrix(distances, "distances")
        if d.shape[0] != d.shape[1] or not np.allclose(d, d.T) or np.diagonal(d).any() or (d < 0).any():
            raise ValueError(
                f"Expected a square symmetric matrix of distances with a diagonal of zeros, got shape {d.shape}. "
                "For points use Space.of_points."
            )
        return cls(len(d), lambda rows, columns: d[np.ix_(rows, columns)])

    @classmethod
    def of_graph(cls, adjacency: csr_matrix, *, weighted: bool = False, allow_parts: bool = False) -> Space:
        """Shortest paths in an undirected graph; an edge has length 1, or its weight.

        The graph has to be connected, unless parts that no path joins are allowed: they are infinitely far apart.
        """
        graph = csr_matrix(adjacency, dtype=np.float64)
        if graph.shape[0] != graph.shape[1] or (weighted and (graph.data < 0).any()):
            raise ValueError(f"Expected a square adjacency matrix without negative weights, got shape {graph.shape}.")
        graph = graph.maximum(graph.T)
        parts = 1 if allow_parts else connected_components(graph, directed=False)[0]
        if parts != 1:
            raise ValueError(
                f"Expected a connected graph, got {parts} parts. Take the largest "
                "(scipy.sparse.csgraph.connected_components labels them), or pass allow_parts=True."
            )
        return cls._of_paths(graph, weighted)

    @classmethod
    def of_neighbors(cls, x: ArrayLike | Tensor, neighbors: int = 20, *, join: bool = True) -> Space:
        """Geodesics of the graph of nearest neighbors, made one by the shortest links unless told otherwise."""
        check_unmasked(x, "x")
        points = x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)
        return cls._of_paths(neighbor_graph(points, neighbors, join=join), weighted=True)

    @classmethod
    def _of_paths(cls, graph: csr_matrix, weighted: bool) -> Space:
        n = graph.shape[0]

        def distances(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            d = np.empty((len(rows), len(columns)))
            size = max(1, WORK // n)  # scipy answers for all columns, of which few may be asked
            for first in range(0, len(rows), size):
                block = slice(first, first + size)
                # Symmetric, so it may pass for directed: faster.
                d[block] = dijkstra(graph, indices=rows[block], unweighted=not weighted)[:, columns]
            return d

        return cls(n, distances)

    def matrix(self, index: np.ndarray | None = None) -> np.ndarray:
        """All distances among some points, or among all."""
        index = np.arange(self.n) if index is None else index
        return np.concatenate([self.between(rows, index) for rows in self.row_blocks(index)])

    def take(self, index: np.ndarray) -> Space:
        """The subspace of some points, with the distances that they have here."""
        return Space(len(index), lambda rows, columns: self.between(index[rows], index[columns]))

    def row_blocks(self, index: np.ndarray | None = None) -> Iterator[np.ndarray]:
        """The points in blocks, such that a block's distances to all points fit in memory."""
        index = np.arange(self.n) if index is None else index
        size = max(1, _ELEMENTS // self.n)
        return (index[first : first + size] for first in range(0, len(index), size))


def _matrix(x: ArrayLike | Tensor, what: str) -> np.ndarray:
    check_unmasked(x, "x")
    values = x.detach().cpu().double().numpy() if isinstance(x, Tensor) else np.asarray(x, np.float64)
    if values.ndim != 2 or len(values) < 2:
        raise ValueError(f"Expected {what} in two axes and at least two rows, got shape {values.shape}.")
    if not np.isfinite(values).all():
        raise ValueError(f"Expected finite {what}, got NaN or infinity.")
    return values
