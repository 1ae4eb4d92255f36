"""Edges and non-edges of a graph with sampled neighbours around them, for graphs too large to propagate through.

Note [Sampled neighbours]: a step takes b edges, k pairs that are uniform and independent, and around their ends some
neighbours, and neighbours of these, at most a given number each. With f_j = degree/neighbours taken, the matrix

    Â_ji = f_j/√(d_j d_i) for the neighbours i that j has got,    Â_jj = 1/d_j,    d = degree + 1 of the whole graph,

has the row of the full Â as its expectation. The sums over pairs and over nodes are unbiased too, for the nodes' given
posteriors. The posteriors are not: there is a ReLU between the two products with Â, and two laws behind them, so that
the mean over neighbourhoods is not that of the whole graph. With all neighbours taken everything is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.data.graphs import Graph
from horoball.data.pairs import PairSource
from horoball.data.table import Order
from horoball.geometric import geometric
from horoball.noise import seeded

__all__ = ["NeighbourSource", "SubgraphBatch"]


class SubgraphBatch(NamedTuple):
    """Pairs of one step of one rank, and the part of the graph that their ends' posteriors are made from.

    Example:
        >>> none = torch.empty(0, 2, dtype=torch.int64)
        >>> SubgraphBatch(torch.arange(3), torch.eye(3), none, none, none, (1.0, 1.0, 1.0), nodes=10).total
        10
    """

    known: Tensor  # of the part's nodes: their features, or their numbers
    matrix: Tensor  # Â of the part, sparse
    edges: Tensor  # (edges, 2), numbers within the part
    non_edges: Tensor  # (pairs, 2)
    drawn: Tensor  # (pairs, 2), the non-edges with what was drawn and is none: all nodes are as likely here
    weights: tuple[float, float, float]  # of an edge, a non-edge, and the divergence of an end of a drawn pair
    nodes: int

    @property
    def inputs(self) -> tuple[Any, ...]:
        """What the loss is called with."""
        return self.known, self.matrix, self.edges, self.non_edges, self.drawn, self.weights

    @property
    def rows(self) -> int:
        """Pairs of this rank; never 0, for every rank draws some."""
        return max(1, len(self.edges))

    @property
    def total(self) -> int:
        """The nodes: a loss is given by node."""
        return self.nodes

    @property
    def noise(self) -> str:
        """Every rank has pairs, and nodes, of its own."""
        return "own"

    def describe(self) -> str:
        """How many pairs and nodes there are."""
        return f"{len(self.edges)} edges and {len(self.known)} of {self.nodes} nodes"


class NeighbourSource(PairSource):
    """The pairs of a graph with sampled neighbours, by PyTorch Geometric's `LinkNeighborLoader`, which needs pyg-lib.

    Trained by `SubgraphObjective` in `run_loop`. A step's work and memory do not grow with the graph if its nodes have
    features; without any, a model has as many weights as nodes. The edges themselves are held in memory.

    Args:
        graph: The graph.
        neighbours: Most neighbours of a node that are taken, for each of the encoder's convolutions; −1 for all.
        non_edges: Pairs drawn for every edge of a step.
        loader: A `LinkLoader` of your own over the same edges, with "binary" negative sampling, in place of that.

    Raises:
        ImportError: Without pyg-lib, if no loader is given.

    Example:
        >>> source = NeighbourSource(graph, neighbours=(10, 10))  # doctest: +SKIP
        >>> state = run_loop(SubgraphObjective(model, config), source, config)  # doctest: +SKIP
    """

    def __init__(
        self, graph: Graph, neighbours: tuple[int, ...] = (10, 10), non_edges: int = 10, loader: Any = None
    ) -> None:
        super().__init__(graph, non_edges)
        self.loader = loader or _loader(graph, neighbours, non_edges)
        self.scale = 1 + graph.degrees()

    def batches(self, order: Order) -> Iterator[SubgraphBatch]:  # type: ignore[override]
        """Slices of a permutation of the edges, dealt out in turn, pairs and neighbours drawn anew for each."""
        m, n, steps = len(self.graph.edges), self.graph.nodes, self.steps(order)
        seed = order.seed or 0
        index = torch.arange(m)
        if order.seed is not None:
            index = torch.from_numpy(np.random.default_rng((seed, order.epoch)).permutation(m))
        for step in range(order.start, steps):
            whole = index[step * order.batch_size : (step + 1) * order.batch_size]
            mine = whole[order.rank :: order.ranks]
            # A rank that got no edge of a short last step takes one that does not count, so as to draw pairs.
            counted = len(mine)
            numbers = np.random.SeedSequence((seed, order.epoch, step, order.rank)).generate_state(1, np.uint64)
            with seeded(int(numbers[0]) >> 1):
                part = self.loader(mine if counted else whole[:1])
            yield self._batch(part, counted, len(whole), order.ranks, m, n)

    def _batch(self, part: Any, counted: int, edges: int, ranks: int, m: int, n: int) -> SubgraphBatch:
        joined, pairs, nodes = part.edge_label > 0, part.edge_label_index.T, part.n_id
        drawn = pairs[~joined]
        there = nodes[drawn]
        free = (there[:, 0] != there[:, 1]) & ~self.graph.holds(there)
        # Ranks with an edge more draw more pairs; each rank's own mean, by its share of the ranks, is unbiased.
        share = 1 / (max(1, len(drawn)) * ranks)
        weights = 2 * m / edges, n * n * share, n * share / 2
        known = nodes if self.graph.features is None else self.graph.features[nodes]
        matrix = _matrix(part.edge_index, self.scale[nodes])
        return SubgraphBatch(known, matrix, pairs[joined][:counted], drawn[free], drawn, weights, n)


def _matrix(edge_index: Tensor, d: Tensor) -> Tensor:
    """Â of a part of a graph, see Note [Sampled neighbours]; edges lead to the node that has got a neighbour."""
    i, j = edge_index
    got = torch.bincount(j, minlength=len(d))
    values = (d - 1)[j] / got[j] / torch.sqrt(d[i] * d[j])
    itself = torch.arange(len(d))
    places = torch.cat((torch.stack((j, i)), itself.expand(2, -1)), 1)
    return torch.sparse_coo_tensor(places, torch.cat((values, 1 / d)).float(), (len(d), len(d)), check_invariants=False)


def _loader(graph: Graph, neighbours: tuple[int, ...], non_edges: int) -> Any:
    if not geometric("typing").WITH_PYG_LIB:
        release = torch.__version__.split("+")[0]
        raise ImportError(
            "Sampling of neighbours needs pyg-lib, which does not come with PyTorch Geometric. Install it with: "
            f"pip install pyg-lib -f https://data.pyg.org/whl/torch-{release}+cpu.html. Or train without sampling of "
            "neighbours, by fit_graph(..., non_edges=10), which needs memory for the nodes and edges only."
        )
    edge_index = torch.cat((graph.edges, graph.edges.flip(1))).T.contiguous()
    data = geometric("data").Data(edge_index=edge_index, num_nodes=graph.nodes)
    drawn = geometric("sampler").NegativeSampling("binary", non_edges)
    loader = geometric("loader").LinkNeighborLoader
    return loader(data, list(neighbours), edge_label_index=graph.edges.T, neg_sampling=drawn)
