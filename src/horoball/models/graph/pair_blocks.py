"""Pairs of nodes in blocks of bounded size: listed ones, those of tiles, and all that are no edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from horoball.data.graphs.pair_tiles import Tiles

__all__ = ["Block", "blocks_of_non_edges", "blocks_of_pairs", "blocks_of_tiles"]

_ROWS = 128  # of a matrix of pairs: what is made of it stays in the cache
_LISTED = 1 << 16  # pairs of a list, or of a stack of tiles


class Block(NamedTuple):
    """Pairs: a matrix, rows × columns, a stack of matrices, or a list of (row, column).

    Example:
        >>> Block(torch.tensor([0, 1]), torch.tensor([2, 2])).listed
        True
    """

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
    """Listed pairs, shape (pairs, 2), that are all edges, or all none; at most so many at a time, if it is said.

    Example:
        >>> [len(block.rows) for block in blocks_of_pairs(torch.zeros(5, 2, dtype=torch.int64), joined=True, most=3)]
        [3, 2]
    """
    for part in pairs.split(most or _LISTED) if len(pairs) else ():  # a small step may have no pair
        i, j = part.T.contiguous()
        yield Block(i, j, weight=weight, joined=joined)


def blocks_of_tiles(tiles: Tiles, weight: float = 1.0) -> Iterator[Block]:
    """The pairs of tiles that are no edges, some tiles at a time.

    Example:
        >>> tiles = Tiles(torch.tensor([[0], [0]]), torch.tensor([[1], [2]]), torch.tensor([[0, 0, 0]]), total=2)
        >>> [block.rows.shape for block in blocks_of_tiles(tiles)]
        [torch.Size([2, 1])]
    """
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

    Example:
        >>> from scipy.sparse import csr_array
        >>> [float(block.counts(torch.ones(2, 2)).sum()) for block in blocks_of_non_edges(csr_array([[0, 0], [0, 0]]))]
        [2.0]
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
