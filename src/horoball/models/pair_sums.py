"""The log-likelihood of pairs of nodes, summed in bounded memory, gradients included.

A graph of n nodes has n² pairs, so neither their distances nor what autograd would keep of them can be held. A block of
pairs gives its part of the sum and of the gradient at once and is forgotten: what is kept is of the size of the points.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from horoball.autograd import first_order
from horoball.data.pair_tiles import Tiles
from horoball.manifolds import PoincareBall
from horoball.models.edges import Edges
from horoball.models.pair_space import Block, Curved, Flat

__all__ = ["log_prob_of_non_edges", "log_prob_of_pairs", "log_prob_of_tiles"]

_ROWS = 128  # of a matrix of pairs: what is made of it stays in the cache
_LISTED = 1 << 16  # pairs of a list, or of a stack of tiles
_FAR = 40.0  # √c·radius up to which all s are numbers of float32
_FARTHEST = 300.0  # and of float64
_FLAT = 1e-12  # of c: below it s, which is c·d²/4 there, would merge points that are not the same
_TOUCHING = 1e-30  # of s: below it two points are one, and their distance has no gradient


def log_prob_of_pairs(edges: Edges, z: Tensor, ball: PoincareBall, pairs: Tensor, *, joined: bool) -> Tensor:
    """Σ log p(A_ij | z_i, z_j) over listed pairs that are all edges, or all none.

    Args:
        edges: The law of an edge.
        z: Points, shape (n, d).
        ball: The ball.
        pairs: Numbers of the points, shape (pairs, 2).
        joined: Whether the pairs are edges.

    Example:
        >>> from horoball.models.edges import TanhEdges
        >>> z = torch.tensor([[3.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
        >>> log_prob_of_pairs(TanhEdges(), z, PoincareBall(1.0), torch.tensor([[0, 1], [1, 2]]), joined=True)
        tensor(-4.7588, dtype=torch.float64)
    """
    parts = pairs.split(_LISTED) if len(pairs) else ()  # a rank may have no pair of a small step
    return _summed(edges, joined, z, ball, (Block(*part.T.contiguous()) for part in parts))


def log_prob_of_non_edges(
    edges: Edges, z: Tensor, ball: PoincareBall, adjacency: Any, rank: int = 0, ranks: int = 1
) -> Tensor:
    """Σ log(1 − p(A_ij)) over all ordered pairs i ≠ j that are no edges.

    Args:
        edges: The law of an edge.
        z: Points, shape (n, d).
        ball: The ball.
        adjacency: The edges, in both directions, a scipy CSR matrix.
        rank: Whose share of the pairs is summed.
        ranks: Number of shares.

    Example:
        >>> from scipy.sparse import csr_array
        >>> from horoball.models.edges import TanhEdges
        >>> z = torch.tensor([[3.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
        >>> adjacency = csr_array([[0, 1, 0], [1, 0, 0], [0, 0, 0]])
        >>> log_prob_of_non_edges(TanhEdges(), z, PoincareBall(1.0), adjacency)
        tensor(-0.5546, dtype=torch.float64)
    """
    return _summed(edges, False, z, ball, _all_but(adjacency, rank, ranks))


def log_prob_of_tiles(edges: Edges, z: Tensor, ball: PoincareBall, tiles: Tiles) -> Tensor:
    """Σ log(1 − p(A_ij)) over the pairs of tiles that are no edges.

    Args:
        edges: The law of an edge.
        z: Points, shape (n, d).
        ball: The ball.
        tiles: The pairs.

    Example:
        >>> from horoball.models.edges import TanhEdges
        >>> z = torch.tensor([[3.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
        >>> tiles = Tiles(torch.tensor([[0], [0]]), torch.tensor([[1], [2]]), torch.tensor([[0, 0, 0]]), total=2)
        >>> log_prob_of_tiles(TanhEdges(), z, PoincareBall(1.0), tiles)
        tensor(-0.0050, dtype=torch.float64)
    """
    return _summed(edges, False, z, ball, _stacks(tiles))


def _stacks(tiles: Tiles) -> Iterator[Block]:
    """Some tiles at a time; of none, no block."""
    if not len(tiles.rows):
        return
    many = max(1, _LISTED // tiles.rows.shape[1] ** 2)
    starts = torch.arange(0, len(tiles.rows) + many, many)
    parts = zip(tiles.rows.split(many), tiles.columns.split(many), strict=True)
    ends = torch.searchsorted(tiles.edges[:, 0].contiguous(), starts).tolist()
    for number, (rows, columns) in enumerate(parts):
        tile, row, column = tiles.edges[ends[number] : ends[number + 1]].T
        yield Block(rows, columns, False, 1.0, (tile - number * many, row, column))


def _all_but(adjacency: Any, rank: int, ranks: int) -> Iterator[Block]:
    """All ordered pairs without the edges: of some rows, their own square once, and what lies right of it twice."""
    n = adjacency.shape[0]
    everything = torch.arange(n)
    for start in range(rank * _ROWS, n, ranks * _ROWS):
        stop = min(start + _ROWS, n)
        first, last = adjacency.indptr[start], adjacency.indptr[stop]
        degrees = torch.from_numpy(adjacency.indptr[start : stop + 1]).diff()
        diagonal = torch.arange(stop - start)
        i = diagonal.repeat_interleave(degrees)
        j = torch.from_numpy(adjacency.indices[first:last]).long()
        own, right = (j >= start) & (j < stop), j >= stop
        square = torch.cat((i[own], diagonal)), torch.cat((j[own] - start, diagonal))
        rows = everything[start:stop]
        yield Block(rows, rows, False, 1.0, square)
        if stop < n:
            yield Block(rows, everything[stop:], False, 2.0, (i[right], j[right] - stop))


def _summed(edges: Edges, joined: bool, z: Tensor, ball: PoincareBall, blocks: Iterable[Block]) -> Tensor:
    root: Tensor | None = None
    y, dtype = z.double(), z.dtype
    if not ball.is_euclidean and ball.c_value < _FLAT:
        return _summed_by_distance(edges, joined, z, ball, blocks)
    if not ball.is_euclidean:
        root = torch.as_tensor(ball.c, device=z.device).double().sqrt()
        y = root * y
        farthest = float(torch.linalg.vector_norm(y.detach(), dim=-1).amax()) if len(y) else 0.0
        if farthest > _FARTHEST:
            return _summed_by_distance(edges, joined, z, ball, blocks)
        if farthest > _FAR:
            dtype = torch.float64
    learnt = [parameter for parameter in edges.parameters() if parameter.requires_grad]
    return _Sum.apply(edges, joined, blocks, dtype, torch.is_grad_enabled(), y, root, *learnt)


def _summed_by_distance(edges: Edges, joined: bool, z: Tensor, ball: PoincareBall, blocks: Iterable[Block]) -> Tensor:
    """The same by the ball's own distance and all that autograd keeps of it, for points that few models place."""
    total = z.new_zeros((), dtype=torch.float64)
    for block in blocks:
        a, b = z[block.rows], z[block.columns]
        d = (ball.dist(a, b) if block.listed else ball.cdist(a, b)).clamp_min(2 * _TOUCHING**0.5)
        counts = block.counts(d)
        value = edges.log_edge(d) if joined else edges.log_no_edge(d)
        total = total + torch.where(counts > 0, counts * value, 0.0).sum(dtype=torch.float64)
    return total


class _Sum(torch.autograd.Function):
    """The sum. Its gradient is known as soon as the sum is, and kept for `backward`."""

    @staticmethod
    def forward(
        ctx: Any,
        edges: Edges,
        joined: bool,
        blocks: Iterable[Block],
        dtype: torch.dtype,
        recording: bool,
        y: Tensor,
        root: Tensor | None,
        *learnt: Tensor,
    ) -> Tensor:
        law = edges.log_edge if joined else edges.log_no_edge
        space = Flat(y) if root is None else Curved(y, root)
        wanted = recording and any(ctx.needs_input_grad)
        total = y.new_zeros(())
        of_learnt = [torch.zeros_like(parameter) for parameter in learnt]
        for block in blocks:
            s = space.squares(block).to(dtype)
            if block.left_out is not None:
                s[block.left_out] = 1.0  # anything whose law is finite
            touching = bool(s.amin() < _TOUCHING)
            d = space.distances(s.clamp_min_(_TOUCHING) if touching else s)
            counts = block.counts(d)
            with torch.enable_grad():
                value = law(d.requires_grad_(wanted))
            total += torch.sum(value.detach() * counts, dtype=torch.float64)
            if wanted:
                rate, *rates = torch.autograd.grad(value, (d, *learnt), counts)
                space.collect(block, rate.masked_fill_(s <= _TOUCHING, 0.0) if touching else rate, d.detach())
                for sum_, part in zip(of_learnt, rates, strict=True):
                    sum_ += part
        if wanted:
            ctx.save_for_backward(*space.gradients(), *of_learnt)
        return total

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        of_y, of_root, *of_learnt = (grad.to(part.dtype) * part for part in ctx.saved_tensors)
        return (None, None, None, None, None, of_y, of_root if ctx.needs_input_grad[6] else None, *of_learnt)
