"""The neighbors of every row, the nearest first, of which one is drawn at a time."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from scipy.sparse import csr_matrix

__all__ = ["Neighborhood"]


class Neighborhood(NamedTuple):
    """Of every row, the numbers of its neighbors.

    Example:
        >>> near = Neighborhood.of_graph(csr_matrix([[0.0, 2.0, 1.0], [2.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
        >>> near.others[near.first[0] :][:2]
        array([2, 1])
    """

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
        """A neighbor of each row; that of rank k is drawn about as often as k^−2/3.

        Example:
            >>> near = Neighborhood.of_graph(csr_matrix([[0.0, 1.0], [1.0, 0.0]]))
            >>> near.drawn(np.random.default_rng(0))
            array([1, 0])
        """
        rank = (rng.random(len(self.size)) ** 3 * self.size).astype(np.int64)
        return self.others[self.first + rank]
