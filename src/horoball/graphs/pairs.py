"""Edges and non-edges of a graph, handed out in steps, and in blocks of bounded size.

Note [Sampled pairs]: the log-likelihood of a graph is a sum over its m edges and over the pairs that are no edges, both
ways. A step takes b edges of a permutation and k pairs i ≠ j at random, each as likely, and forgets those that are
edges:

    2 (m/b) Σ_edges log p + (n(n − 1)/k) Σ_drawn, no edge log(1 − p)

has the full sum as its expectation, whatever b and k. An edge of a directed graph is one ordered pair and counts once,
not twice. How the pairs are drawn is in Note [Tiles].

Note [Tiles]: the nodes are shuffled and cut into groups of q, and all nodes of a group are paired with all nodes of the
next, or of the next few. Where a pair stands is fixed and who stands there is random, so that each place holds every
pair i ≠ j with the same probability, and a sum over places is unbiased as it is for independent pairs. It varies no
more than theirs: two places hold independent pairs but for the nodes that they share, and since every node is in as
many pairs as any other, what a node adds to all of its pairs alike does not vary at all. And a tile is a product of two
small matrices: a node is fetched once for q pairs, and edges among the pairs are found by looking at each edge once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.graphs.graph import Graph
from horoball.tables.table import Order

_SIDE = 256  # largest q: a tile stays in the cache


class Tiles(NamedTuple):
    """Tiles of pairs, each of some rows × as many columns."""

    rows: Tensor  # (tiles, q)
    columns: Tensor  # (tiles, q)
    edges: Tensor  # (edges among the pairs, 3): tile, row and column, in the order of tiles
    total: int  # pairs over all ranks, edges included

    def pairs(self) -> Tensor:
        """The pairs that are no edges, one by one, shape (pairs, 2)."""
        shape = *self.rows.shape, self.columns.shape[1]
        free = torch.ones(shape, dtype=torch.bool)
        free[tuple(self.edges.T)] = False
        ends = self.rows.unsqueeze(2).expand(shape), self.columns.unsqueeze(1).expand(shape)
        return torch.stack([end[free] for end in ends], 1)


def draw_tiles(graph: Graph, pairs: int, generator: np.random.Generator, rank: int = 0, ranks: int = 1) -> Tiles:
    """About as many random pairs i ≠ j of a graph as asked for; see Note [Tiles].

    Args:
        graph: The graph.
        pairs: Number of pairs, over all ranks.
        generator: Where randomness comes from, the same on all ranks.
        rank: Whose share of the tiles is returned.
        ranks: Number of shares.

    Example:
        >>> tiles = draw_tiles(Graph.of([(0, 1), (1, 2)], nodes=9), 18, np.random.default_rng(0))
        >>> tiles.rows.shape, tiles.total
        (torch.Size([4, 2]), 16)
    """
    n = graph.nodes
    strides = -(-pairs // (n * _SIDE))  # how many groups each group is paired with
    side = max(1, min(round(pairs / (n * strides)), n // (strides + 2)))
    groups = n // side
    strides = min(strides, groups - 1)
    count = min(strides * groups, -(-pairs // side**2))
    order = generator.permutation(n)
    members = torch.from_numpy(order[: groups * side]).view(groups, side)
    tile = torch.arange(rank, count, ranks)
    group = tile % groups
    rows, columns = members[group], members[(group + 1 + tile // groups) % groups]
    found = _edges(graph, order, side, strides)
    found = found[(found[:, 0] < count) & (found[:, 0] % ranks == rank)]
    found[:, 0] //= ranks
    return Tiles(rows, columns, found, count * side**2)


def _edges(graph: Graph, order: np.ndarray, side: int, strides: int) -> Tensor:
    """The places of all edges that are in tiles, shape (edges, 3), in the order of tiles."""
    n, groups = graph.nodes, graph.nodes // side
    place = torch.empty(n, dtype=torch.int32 if n < 1 << 31 else torch.int64)
    place[torch.from_numpy(order)] = torch.arange(n, dtype=place.dtype)
    group = place // side
    # Few edges are in tiles: what is looked at for all of them is as little as tells.
    i, j = (group[end] for end in graph.edges.unbind(1))
    apart = (j - i).abs()
    near = graph.edges[(apart <= strides) | (apart >= groups - strides)]
    found = []
    for first, second in (near.unbind(1),) if graph.directed else (near.unbind(1), near.flip(1).unbind(1)):
        a, b = group[first].long(), group[second].long()
        stride = (b - a) % groups
        kept = (a < groups) & (b < groups) & (stride >= 1) & (stride <= strides)
        tile = (stride - 1) * groups + a
        found.append(torch.stack([tile, place[first] % side, place[second] % side], 1)[kept])
    places = torch.cat(found)
    return places[places[:, 0].argsort()]


class PairBatch(NamedTuple):
    """Pairs of one step of one rank."""

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


_ROWS = 128  # of a matrix of pairs: what is made of it stays in the cache
_LISTED = 1 << 16  # pairs of a list, or of a stack of tiles


class Block(NamedTuple):
    """Pairs: a matrix, rows × columns, a stack of matrices, or a list of (row, column)."""

    rows: Tensor  # (rows,), or (matrices, rows)
    columns: Tensor
    listed: bool = True
    weight: float = 1.0  # how often each pair counts
    left_out: tuple[Tensor, ...] | None = None  # places of the matrices that do not count
    joined: bool = False  # whether the pairs are edges

    def to(self, device: torch.device) -> Block:
        """The same with its numbers on a device."""
        left_out = None if self.left_out is None else tuple(place.to(device) for place in self.left_out)
        return self._replace(rows=self.rows.to(device), columns=self.columns.to(device), left_out=left_out)

    def counts(self, like: Tensor) -> Tensor:
        """How often each place counts."""
        counts = torch.full_like(like, self.weight)
        if self.left_out is not None:
            counts[self.left_out] = 0.0
        return counts


def blocks_of_pairs(pairs: Tensor, *, joined: bool, weight: float = 1.0, most: int = 0) -> Iterator[Block]:
    """Listed pairs, shape (pairs, 2), that are all edges, or all none; at most so many at a time, if it is said."""
    for part in pairs.split(most or _LISTED) if len(pairs) else ():  # a small step may have no pair
        i, j = part.T.contiguous()
        yield Block(i, j, weight=weight, joined=joined)


def blocks_of_tiles(tiles: Tiles, weight: float = 1.0) -> Iterator[Block]:
    """The pairs of tiles that are no edges, some tiles at a time."""
    if not len(tiles.rows):
        return
    many = max(1, _LISTED // tiles.rows.shape[1] ** 2)
    starts = torch.arange(0, len(tiles.rows) + many, many)
    parts = zip(tiles.rows.split(many), tiles.columns.split(many), strict=True)
    ends = torch.searchsorted(tiles.edges[:, 0].contiguous(), starts).tolist()
    for number, (rows, columns) in enumerate(parts):
        tile, row, column = tiles.edges[ends[number] : ends[number + 1]].T
        yield Block(rows, columns, False, weight, (tile - number * many, row, column))


def blocks_of_non_edges(
    adjacency: Any, rank: int = 0, ranks: int = 1, *, directed: bool = False, weight: float = 1.0, rows: int = 0
) -> Iterator[Block]:
    """All ordered pairs i ≠ j that are no edges, some rows at a time.

    Args:
        adjacency: The edges, in both directions unless directed, a scipy CSR matrix.
        rank: Whose share of the rows is given.
        ranks: Number of shares.
        directed: Whether (i, j) is another pair than (j, i).
        weight: How often a pair counts.
        rows: How many rows make a block, if it is said.
    """
    everything = torch.arange(adjacency.shape[0])
    for start, stop, i, j in _row_edges(adjacency, rank, ranks, rows or _ROWS):
        own = torch.arange(stop - start)
        if directed:
            left_out = torch.cat((i, own)), torch.cat((j, own + start))
            yield Block(everything[start:stop], everything, False, weight, left_out)
            continue
        # Of some rows, their own square once, and what lies right of it twice.
        within, right = (j >= start) & (j < stop), j >= stop
        square = torch.cat((i[within], own)), torch.cat((j[within] - start, own))
        yield Block(everything[start:stop], everything[start:stop], False, weight, square)
        if stop < len(everything):
            yield Block(everything[start:stop], everything[stop:], False, 2 * weight, (i[right], j[right] - stop))


def _row_edges(adjacency: Any, rank: int, ranks: int, count: int) -> Iterator[tuple[int, int, Tensor, Tensor]]:
    """Some rows at a time, from start to stop, and their edges: rows counted from start, and columns."""
    n = adjacency.shape[0]
    for start in range(rank * count, n, ranks * count):
        stop = min(start + count, n)
        first, last = adjacency.indptr[start], adjacency.indptr[stop]
        degrees = torch.from_numpy(adjacency.indptr[start : stop + 1]).diff()
        i = torch.arange(stop - start).repeat_interleave(degrees)
        yield start, stop, i, torch.from_numpy(adjacency.indices[first:last]).long()
