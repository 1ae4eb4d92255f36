"""The neighbors of every row, of which training draws one at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from horoball.data.tables.table import Order

__all__ = ["Neighborhood"]

_PARTNERS = 0x9A127  # makes the draws of partners others than those of the order


@dataclass(frozen=True)
class Neighborhood:
    """Of every row, the numbers of its neighbors in a table.

    Args:
        pool: The table that neighbors are taken from; has a method `take`.
        first: Where the neighbors of each row start in `others`, shape (rows,).
        count: How many there are of each row, shape (rows,); at least 1.
        others: Numbers of rows of the pool.

    Example:
        >>> from horoball.data import ArrayTable
        >>> graph = csr_matrix([[0.0, 1.0, 2.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
        >>> near = Neighborhood.of_graph(graph, ArrayTable(np.eye(3)), np.array([0, 1]))
        >>> near.of_epoch(Order(2), np.array([2, 1]))
        array([0, 0])
    """

    pool: Any
    first: np.ndarray
    count: np.ndarray
    others: np.ndarray

    @classmethod
    def of_graph(cls, graph: csr_matrix, pool: Any, allowed: np.ndarray) -> Neighborhood:
        """The neighbors in a graph that are among some rows; a row without any has itself.

        Args:
            graph: The graph, an edge to each neighbor.
            pool: The table of all rows of the graph.
            allowed: Rows that may be neighbors.
        """
        rows = graph.shape[0]
        may = np.zeros(rows, bool)
        may[allowed] = True
        start = np.repeat(np.arange(rows), np.diff(graph.indptr))
        kept = may[graph.indices]
        alone = np.setdiff1d(np.arange(rows), start[kept])
        start = np.concatenate((start[kept], alone))
        others = np.concatenate((graph.indices[kept], alone))
        order = np.argsort(start, kind="stable")
        count = np.bincount(start, minlength=rows)
        return cls(pool, np.cumsum(count) - count, count, others[order])

    def of_rows(self, index: np.ndarray) -> Neighborhood:
        """The neighborhoods of some of the rows."""
        return replace(self, first=self.first[index], count=self.count[index])

    def of_epoch(self, order: Order, index: np.ndarray) -> np.ndarray:
        """A random neighbor of each row of an epoch, by its number in the pool.

        Args:
            order: The epoch.
            index: Numbers of the rows in their order.
        """
        rng = np.random.default_rng((order.seed or 0, order.epoch, _PARTNERS))
        place = self.first[index] + (rng.random(len(index)) * self.count[index]).astype(np.int64)
        return self.others[place]
