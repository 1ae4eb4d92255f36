"""Edges and non-edges of a graph, handed out in steps.

Note [Sampled pairs]: the log-likelihood of a graph is a sum over its m edges and over the pairs that are no edges, both
ways. A step takes b edges of a permutation and k pairs i ≠ j at random, each as likely, and forgets those that are
edges:

    2 (m/b) Σ_edges log p + (n(n − 1)/k) Σ_drawn, no edge log(1 − p)

has the full sum as its expectation, whatever b and k. An edge of a directed graph is one ordered pair and counts once,
not twice. How the pairs are drawn is in Note [Tiles].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.data.graphs.graph import Graph
from horoball.data.graphs.pair_tiles import Tiles, draw_tiles
from horoball.data.tables.table import Order

__all__ = ["PairBatch", "PairSource"]


class PairBatch(NamedTuple):
    """Pairs of one step of one rank.

    Example:
        >>> PairBatch(torch.zeros(3, 2), None, 1.0, 1.0, nodes=10, share=(0, 1)).total
        10
    """

    edges: Tensor  # (edges, 2)
    non_edges: Tiles | None  # None for all there are
    edge_weight: float
    non_edge_weight: float
    nodes: int
    share: tuple[int, int]  # the rank and how many there are

    @property
    def inputs(self) -> tuple[Tensor, Tiles | None, float, float, tuple[int, int]]:
        """What the loss is called with."""
        return self.edges, self.non_edges, self.edge_weight, self.non_edge_weight, self.share

    @property
    def rows(self) -> int:
        """Pairs of this rank; never 0, for its nodes have a divergence."""
        return max(1, len(self.edges))

    @property
    def total(self) -> int:
        """The nodes: a loss is given by node."""
        return self.nodes

    @property
    def noise(self) -> str:
        """All ranks place all nodes, alike."""
        return "same"

    def describe(self) -> str:
        """How many pairs there are."""
        return f"{len(self.edges)} edges of a graph of {self.nodes} nodes"


class PairSource:
    """The pairs of a graph.

    Args:
        graph: The graph.
        non_edges: Pairs drawn for every edge of a step, about; None, or more than there are, for all pairs, exactly.

    Example:
        >>> source = PairSource(Graph.of([(0, 1), (1, 2), (2, 3)]), non_edges=2)
        >>> [len(batch.edges) for batch in source.batches(Order(batch_size=2))]
        [2, 1]
    """

    def __init__(self, graph: Graph, non_edges: int | None = None) -> None:
        if graph.nodes < 2:
            raise ValueError(f"A graph needs two nodes or more to be learned, got {graph.nodes}.")
        if not len(graph.edges):
            raise ValueError(f"A graph needs edges to be learned; this one has {graph.nodes} nodes and no edge.")
        if non_edges is not None and non_edges < 1:
            raise ValueError(f"non_edges must be at least 1 for every edge, or None for all pairs, got {non_edges}.")
        self.graph, self.non_edges = graph, non_edges

    def steps(self, order: Order) -> int:
        """Number of steps of an epoch, which visits every edge once."""
        return -(-len(self.graph.edges) // order.batch_size)

    def batches(self, order: Order) -> Iterator[PairBatch]:
        """Slices of a permutation of the edges, dealt out in turn, and pairs drawn anew for each."""
        edges, n = self.graph.edges, self.graph.nodes
        m, steps = len(edges), self.steps(order)
        rank, ranks = order.rank, order.ranks
        index = None  # as they are
        if order.seed is not None and steps > 1:
            index = torch.from_numpy(np.random.default_rng((order.seed, order.epoch)).permutation(m))
        for step in range(order.start, steps):
            start = step * order.batch_size
            taken, drawn, weight = min(order.batch_size, m - start), None, 1.0
            share = slice(start + rank, start + taken, ranks)
            mine = edges[share] if index is None else edges[index[share]]
            k = n * (n - 1) if self.non_edges is None else self.non_edges * taken
            if k < n * (n - 1):
                # All ranks draw the same, and take turns at the tiles: n of them do what one would. Steps count from 1
                # here, for to numpy (seed, epoch, 0) is (seed, epoch), which the permutation is drawn from.
                generator = np.random.default_rng((order.seed or 0, order.epoch, step + 1))
                drawn = draw_tiles(self.graph, k, generator, rank, ranks)
                weight = n * (n - 1) / drawn.total
            ways = 1 if self.graph.directed else 2
            yield PairBatch(mine, drawn, ways * m / taken, weight, n, (rank, ranks))
