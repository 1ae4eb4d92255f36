"""The log-likelihood of pairs of nodes, summed in bounded memory, gradients included.

A graph of n nodes has n² pairs, so neither their distances nor what autograd would keep of them can be held. A block of
pairs gives its part of the sum and of the gradient at once and is forgotten: what is kept is of the size of the points.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from horoball.data.graphs.pair_tiles import Tiles
from horoball.manifolds import PoincareBall
from horoball.models.graph.device_sums import AT_ONCE, Matrices, log_prob_of_matrices, matrices, stacks
from horoball.models.graph.edges import Edges
from horoball.models.graph.pair_blocks import Block, blocks_of_non_edges, blocks_of_pairs, blocks_of_tiles
from horoball.models.graph.pair_space import Curved, Flat
from horoball.numerics.autograd import first_order

__all__ = [
    "log_prob_of_blocks",
    "log_prob_of_non_edges",
    "log_prob_of_pairs",
    "log_prob_of_tiles",
    "matrices_of_non_edges",
]

_FAR = 40.0  # √c·radius up to which all s are numbers of float32
_FARTHEST = 300.0  # and of float64
_FLAT = 1e-12  # of c: below it s, which is c·d²/4 there, would merge points that are not the same
_SETTINGS = 4  # arguments of the sum before its tensors
_TOUCHING = 1e-30  # of s: below it two points are one, and their distance has no gradient


def log_prob_of_pairs(
    edges: Edges, z: Tensor, ball: PoincareBall, pairs: Tensor, *, joined: bool, offset: Tensor | None = None
) -> Tensor:
    """Σ log p(A_ij | z_i, z_j) over listed pairs that are all edges, or all none.

    Args:
        edges: The distribution of an edge.
        z: Points, shape (n, d).
        ball: The ball.
        pairs: Numbers of the points, shape (pairs, 2).
        joined: Whether the pairs are edges.
        offset: Of a directed model, one number a point: a pair (i, j) counts as d + offset_j − offset_i apart.

    Example:
        >>> from horoball.models.graph.edges import TanhEdges
        >>> z = torch.tensor([[3.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
        >>> log_prob_of_pairs(TanhEdges(), z, PoincareBall(1.0), torch.tensor([[0, 1], [1, 2]]), joined=True)
        tensor(-4.7588, dtype=torch.float64)
    """
    if z.device.type != "cpu":
        listed = (matrices(block, z) for block in blocks_of_pairs(pairs, joined=joined, most=AT_ONCE))
        return log_prob_of_matrices(edges, joined, z, ball, listed, offset)
    return log_prob_of_blocks(edges, z, ball, blocks_of_pairs(pairs, joined=joined), offset)


def log_prob_of_non_edges(
    edges: Edges,
    z: Tensor,
    ball: PoincareBall,
    adjacency: Any,
    rank: int = 0,
    ranks: int = 1,
    *,
    offset: Tensor | None = None,
) -> Tensor:
    """Σ log(1 − p(A_ij)) over all ordered pairs i ≠ j that are no edges.

    Args:
        edges: The distribution of an edge.
        z: Points, shape (n, d).
        ball: The ball.
        adjacency: The edges, in both directions unless there are offsets, a scipy CSR matrix.
        rank: Whose share of the pairs is summed.
        ranks: Number of shares.
        offset: As `log_prob_of_pairs` has it.

    Example:
        >>> from scipy.sparse import csr_array
        >>> from horoball.models.graph.edges import TanhEdges
        >>> z = torch.tensor([[3.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
        >>> adjacency = csr_array([[0, 1, 0], [1, 0, 0], [0, 0, 0]])
        >>> log_prob_of_non_edges(TanhEdges(), z, PoincareBall(1.0), adjacency)
        tensor(-0.5546, dtype=torch.float64)
    """
    blocks = blocks_of_non_edges(adjacency, rank, ranks, directed=offset is not None)
    return log_prob_of_blocks(edges, z, ball, blocks, offset)


def log_prob_of_tiles(
    edges: Edges, z: Tensor, ball: PoincareBall, tiles: Tiles, *, offset: Tensor | None = None
) -> Tensor:
    """Σ log(1 − p(A_ij)) over the pairs of tiles that are no edges.

    Args:
        edges: The distribution of an edge.
        z: Points, shape (n, d).
        ball: The ball.
        tiles: The pairs.
        offset: As `log_prob_of_pairs` has it.

    Example:
        >>> from horoball.models.graph.edges import TanhEdges
        >>> z = torch.tensor([[3.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
        >>> tiles = Tiles(torch.tensor([[0], [0]]), torch.tensor([[1], [2]]), torch.tensor([[0, 0, 0]]), total=2)
        >>> log_prob_of_tiles(TanhEdges(), z, PoincareBall(1.0), tiles)
        tensor(-0.0050, dtype=torch.float64)
    """
    if z.device.type == "cpu":
        return log_prob_of_blocks(edges, z, ball, blocks_of_tiles(tiles), offset)
    counts = z.new_ones(*tiles.rows.shape, tiles.columns.shape[1])
    counts[tiles.edges.unbind(1)] = 0.0
    parts = stacks(tiles.rows, tiles.columns, counts) if len(counts) else ()
    return log_prob_of_matrices(edges, False, z, ball, parts, offset)


def matrices_of_non_edges(
    adjacency: Any, like: Tensor, rank: int = 0, ranks: int = 1, *, directed: bool = False
) -> list[Matrices]:
    """The pairs of `log_prob_of_non_edges` for a GPU, where they stay from step to step.

    Example:
        >>> from scipy.sparse import csr_array
        >>> matrices_of_non_edges(csr_array([[0, 1], [1, 0]]), torch.zeros(1))[0].counts
        tensor([[[0., 0.],
                 [0., 0.]]])
    """
    rows = max(1, AT_ONCE // adjacency.shape[0])
    blocks = blocks_of_non_edges(adjacency, rank, ranks, directed=directed, rows=rows)
    return [matrices(block, like) for block in blocks]


def log_prob_of_blocks(
    edges: Edges, z: Tensor, ball: PoincareBall, blocks: Iterable[Block], offset: Tensor | None = None
) -> Tensor:
    """Σ log p(A_ij | z_i, z_j) over blocks of pairs, each as often as it counts, on the CPU.

    Args:
        edges: The distribution of an edge.
        z: Points, shape (n, d).
        ball: The ball.
        blocks: The pairs, taken one after the other.
        offset: As `log_prob_of_pairs` has it.

    Example:
        >>> from horoball.models.graph.edges import TanhEdges
        >>> z = torch.tensor([[3.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
        >>> pair = Block(torch.tensor([0]), torch.tensor([1]), joined=True)
        >>> log_prob_of_blocks(TanhEdges(), z, PoincareBall(1.0), [pair, pair._replace(joined=False, weight=2.0)])
        tensor(-3.3983, dtype=torch.float64)
    """
    root: Tensor | None = None
    dtype = z.dtype
    if not ball.is_euclidean:
        if ball.c_value < _FLAT:
            return _summed_by_distance(edges, z, ball, blocks, offset)
        root = torch.as_tensor(ball.c).double().sqrt()
        farthest = ball.c_value**0.5 * float(torch.linalg.vector_norm(z.detach(), dim=-1).amax()) if len(z) else 0.0
        if farthest > _FARTHEST:
            return _summed_by_distance(edges, z, ball, blocks, offset)
        if farthest > _FAR:
            dtype = torch.float64
    learned = [parameter for parameter in edges.parameters() if parameter.requires_grad]
    return _Sum.apply(edges, blocks, dtype, torch.is_grad_enabled(), z, root, offset, *learned)


def _summed_by_distance(
    edges: Edges, z: Tensor, ball: PoincareBall, blocks: Iterable[Block], offset: Tensor | None
) -> Tensor:
    """The same by the ball's own distance and all that autograd keeps of it, for points that few models place."""
    total = z.new_zeros((), dtype=torch.float64)
    for block in blocks:
        a, b = z[block.rows], z[block.columns]
        d = (ball.dist(a, b) if block.listed else ball.cdist(a, b)).clamp_min(2 * _TOUCHING**0.5)
        if offset is not None:
            d = d + _lift(offset, block)
        counts = block.counts(d)
        value = edges.log_edge(d) if block.joined else edges.log_no_edge(d)
        total = total + torch.where(counts > 0, counts * value, 0.0).sum(dtype=torch.float64)
    return total


def _lift(offset: Tensor, block: Block) -> Tensor:
    """offset_j − offset_i of the pairs of a block."""
    of_rows, of_columns = offset[block.rows], offset[block.columns]
    return of_columns - of_rows if block.listed else of_columns.unsqueeze(-2) - of_rows.unsqueeze(-1)


def _collect_lift(of_offset: Tensor, block: Block, rate: Tensor) -> None:
    """Add the gradient of the pairs of a block to that of the offsets."""
    of_rows, of_columns = (rate, rate) if block.listed else (rate.sum(-1), rate.sum(-2))
    of_offset.index_add_(0, block.columns.flatten(), of_columns.flatten().to(of_offset.dtype))
    of_offset.index_add_(0, block.rows.flatten(), of_rows.flatten().to(of_offset.dtype), alpha=-1)


class _Sum(torch.autograd.Function):
    """The sum. Its gradient is known as soon as the sum is, and kept for `backward`."""

    @staticmethod
    def forward(
        ctx: Any,
        edges: Edges,
        blocks: Iterable[Block],
        dtype: torch.dtype,
        recording: bool,
        z: Tensor,
        root: Tensor | None,
        offset: Tensor | None,
        *learned: Tensor,
    ) -> Tensor:
        space = Flat(z.double()) if root is None else Curved(root * z.double(), float(root))
        wanted = recording and any(ctx.needs_input_grad)
        total = z.new_zeros((), dtype=torch.float64)
        of_offset = total.new_zeros(len(z)) if offset is not None else None
        of_learned = [torch.zeros_like(parameter) for parameter in learned]
        for block in blocks:
            s = space.squares(block).to(dtype)
            if block.left_out is not None:
                s[block.left_out] = 1.0  # anything whose distribution is finite
            touching = bool(s.amin() < _TOUCHING)
            d = space.distances(s.clamp_min_(_TOUCHING) if touching else s)
            counts = block.counts(d)
            apart = d if offset is None else d + _lift(offset, block).to(dtype)
            distribution = edges.log_edge if block.joined else edges.log_no_edge
            with torch.enable_grad():
                value = distribution(apart.requires_grad_(wanted))
            total += torch.sum(value.detach() * counts, dtype=torch.float64)
            if wanted:
                rate, *rates = torch.autograd.grad(value, (apart, *learned), counts)
                if of_offset is not None:
                    _collect_lift(of_offset, block, rate)
                space.collect(block, rate.masked_fill_(s <= _TOUCHING, 0.0) if touching else rate, d.detach())
                for sum_, part in zip(of_learned, rates, strict=True):
                    sum_ += part
        if wanted:
            of_z, of_root = space.gradients()
            if root is not None:  # of y = √c z
                of_root = of_root + torch.sum(of_z * z, dtype=torch.float64)
                of_z *= root
            given = (each for each in (root, offset) if each is not None)
            lifted = total.new_zeros(()) if of_offset is None else of_offset
            # what was given is there for `first_order`
            ctx.save_for_backward(of_z.to(z.dtype), of_root, lifted, *of_learned, z, *given, *learned)
        return total

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        count = len(ctx.needs_input_grad) - _SETTINGS  # z, √c, offsets and what is learned
        of_z, of_root, of_offset, *of_learned = (grad.to(part.dtype) * part for part in ctx.saved_tensors[:count])
        asked = ctx.needs_input_grad[_SETTINGS + 1 : _SETTINGS + 3]
        of_both = (part if wanted else None for part, wanted in zip((of_root, of_offset), asked, strict=True))
        return (None,) * _SETTINGS + (of_z, *of_both, *of_learned)
