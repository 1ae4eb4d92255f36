"""Random pairs of nodes in square tiles.

Note [Tiles]: the nodes are shuffled and cut into groups of q, and all nodes of a group are paired with all nodes of the
next, or of the next few. Where a pair stands is fixed and who stands there is random, so that each place holds every
pair i ≠ j with the same probability, and a sum over places is unbiased as it is for independent pairs. It varies no
more than theirs: two places hold independent pairs but for the nodes that they share, and since every node is in as
many pairs as any other, what a node adds to all of its pairs alike does not vary at all. And a tile is a product of two
small matrices: a node is fetched once for q pairs, and edges among the pairs are found by looking at each edge once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.data.graphs.graph import Graph

__all__ = ["Tiles", "draw_tiles"]

_SIDE = 256  # largest q: a tile stays in the cache


class Tiles(NamedTuple):
    """Tiles of pairs, each of some rows × as many columns.

    Example:
        >>> nobody = torch.empty(0, 3, dtype=torch.int64)
        >>> Tiles(torch.tensor([[0, 1]]), torch.tensor([[2, 3]]), nobody, total=4).pairs().tolist()
        [[0, 2], [0, 3], [1, 2], [1, 3]]
    """

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
