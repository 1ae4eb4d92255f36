"""The log-likelihood of pairs of nodes, summed in bounded memory, gradients included.

A graph of n nodes has n² pairs, so neither their distances nor what autograd would keep of them can be held. A block of
pairs gives its part of the sum and of the gradient at once and is forgotten: what is kept is of the size of the points.

Note [Pairs]: with y = √c z and H = (cosh|y|, sinh|y| y/|y|), a point of the unit hyperboloid, a pair has

    s = sinh²(√c d/2) = (H₀H₀' − H·H' − 1)/2,    d = 2 asinh(√s)/√c,

so the gradient of any sum over pairs is a matrix product with H. Both are taken from such products where that keeps
seven digits. For the few pairs where it does not, which lie close together and far out, and for listed pairs, s is two
squares, as in `geometry.ball`, of radius r = |y| and direction u = y/r, and the gradient is that of

    s = sinh²((r − r')/2) + sinh r sinh r' |u − u'|²/4.

For c = 0, s = d².
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding

from horoball.geometry.autograd import known
from horoball.geometry.ball import PoincareBall
from horoball.graphs.device_sums import AT_ONCE, Matrices, log_prob_of_matrices, matrices, stacks
from horoball.graphs.model import Edges
from horoball.graphs.pairs import Block, Tiles, blocks_of_non_edges, blocks_of_pairs, blocks_of_tiles

_DIGITS = 1e7  # what is asked of s: seven digits


class Curved:
    """Points of the ball.

    Args:
        y: √c z, float64, shape (n, d).
        root: √c.

    Example:
        >>> space = Curved(torch.tensor([[3.0], [1.0]], dtype=torch.float64), root=1.0)
        >>> space.distances(space.squares(Block(torch.tensor([0]), torch.tensor([1]))))
        tensor([2.], dtype=torch.float64)
    """

    def __init__(self, y: Tensor, root: float) -> None:
        self.root = root
        radius = torch.linalg.vector_norm(y, dim=-1, keepdim=True)
        direction = y / radius.clamp_min(1e-300)  # at 0 any will do
        # All that is known of a point in one row, which is fetched at once; and the gradients in radius and direction,
        # the latter by sinh r. A graph of ten million nodes has nothing else of this size.
        self.known = torch.cat((radius, torch.sinh(radius), torch.cosh(radius), direction), -1)
        self.of_radius_direction, self.of_root = y.new_zeros(len(y), y.shape[1] + 1), y.new_zeros(())
        self.sign = torch.cat((y.new_ones(1), -y.new_ones(y.shape[1])))
        self.ends = self.known, self.known  # of the listed, or the few, pairs of the block at hand
        self.squared = radius, radius, radius  # and what their squares are made of
        self.sides = self.known, self.known  # of the block at hand, if it is not listed
        self.products = self.known, self.known  # and their k: H·k' is Lorentz's product with its sign changed
        self.few: tuple[Tensor, ...] = ()  # the places of the few pairs there
        self.slope = radius  # √(s(1 + s)) of the block at hand

    def squares(self, block: Block) -> Tensor:
        """The numbers s of a block."""
        i, j = block.rows, block.columns
        if block.listed:
            self.ends = self.known.index_select(0, i), self.known.index_select(0, j)
            return self._two_squares(*self.ends)
        self.sides = embedding(i, self.known), embedding(j, self.known)
        self.products = rows, columns = _signed(self.sides[0]), _signed(self.sides[1])
        s = ((rows * self.sign) @ columns.mT).sub_(1).div_(2)
        # The product loses as many digits of a pair as its own H₀H₀' is large: one far point makes no other pair slow.
        blurred = (rows[..., :1] * (_DIGITS * torch.finfo(s.dtype).eps)) * columns[..., :1].mT
        self.few = (s < blurred).nonzero(as_tuple=True)
        i, j = self._few_of(block)
        self.ends = self.known[i], self.known[j]
        s[self.few] = self._two_squares(*self.ends)
        return s

    def _few_of(self, block: Block) -> tuple[Tensor, Tensor]:
        """Rows and columns of the few pairs."""
        *matrix, row, column = self.few
        return block.rows[(*matrix, row)], block.columns[(*matrix, column)]

    def _two_squares(self, first: Tensor, second: Tensor) -> Tensor:
        half, across = torch.sinh((first[:, 0] - second[:, 0]) / 2), first[:, 3:] - second[:, 3:]
        chord = across.square().sum(-1) / 4
        self.squared = half, across, chord
        return half * half + first[:, 1] * second[:, 1] * chord

    def distances(self, s: Tensor) -> Tensor:
        """d, from s."""
        sinh, cosh = s.sqrt(), torch.sqrt(1 + s)
        self.slope = sinh * cosh
        return torch.log1p(sinh + s / (1 + cosh)) * (2 / self.root)  # asinh, of numbers that are positive

    def collect(self, block: Block, rate: Tensor, d: Tensor) -> None:
        """Add what a block gives to the gradients, where `rate` is that of its distances."""
        self.of_root -= torch.sum(rate * d, dtype=torch.float64) / self.root
        rate = (rate / self.slope).double() / (2 * self.root)
        i, j = block.rows, block.columns
        if not block.listed:
            close, rate[self.few] = rate[self.few], 0.0
            rows, columns = self.products
            for end, side, of_h in ((i, self.sides[0], rate @ columns), (j, self.sides[1], rate.mT @ rows)):
                of_radius_direction = _by_radius(of_h, side).flatten(0, -2)
                self.of_radius_direction.index_add_(0, end.flatten(), of_radius_direction)  # maybe a row twice
            rate, (i, j) = close, self._few_of(block)
        self._collect_by_radius(i, j, 2 * rate)

    def _collect_by_radius(self, i: Tensor, j: Tensor, rate: Tensor) -> None:
        """The gradients of pairs in radius and direction, where `rate` is that of s."""
        (first, second), (half, across, chord) = self.ends, self.squared
        slope = half * torch.sqrt(1 + half * half)  # sinh(r − r')/2
        of_first, of_second = slope + chord * first[:, 2] * second[:, 1], chord * first[:, 1] * second[:, 2] - slope
        across = across * (rate / 2).unsqueeze(-1)
        for end, of_radius, of_direction in (
            (i, of_first, across * second[:, 1:2]),
            (j, of_second, across * -first[:, 1:2]),
        ):
            self.of_radius_direction.index_add_(0, end, torch.cat(((rate * of_radius).unsqueeze(-1), of_direction), -1))

    def gradients(self) -> tuple[Tensor, Tensor]:
        """In y, and in √c where it divides."""
        of_radius, of_direction = self.of_radius_direction.split((1, self.known.shape[1] - 3), -1)
        radius, sinh, direction = self.known[:, :1], self.known[:, 1:2], self.known[:, 3:]
        across = of_direction - (of_direction * direction).sum(-1, keepdim=True) * direction
        across *= torch.where(radius > 0, sinh / radius.clamp_min(1e-300), 1.0)
        return across.addcmul_(of_radius, direction), self.of_root


def _signed(known: Tensor) -> Tensor:
    """k = (cosh r, −sinh r u) of points."""
    return torch.cat((known[..., 2:3], -known[..., 1:2] * known[..., 3:]), -1)


def _by_radius(of_h: Tensor, known: Tensor) -> Tensor:
    """Gradients in H = (cosh r, sinh r u) as those in r and, by sinh r, in u."""
    of_time, of_space = of_h[..., :1], of_h[..., 1:]
    along = (of_space * known[..., 3:]).sum(-1, keepdim=True)
    return torch.cat((of_time * known[..., 1:2] + along * known[..., 2:3], of_space), -1)


class Flat:
    """Points of the plane, the case c = 0.

    Args:
        y: Points, float64, shape (n, d).

    Example:
        >>> space = Flat(torch.tensor([[3.0], [1.0]], dtype=torch.float64))
        >>> space.distances(space.squares(Block(torch.tensor([0]), torch.tensor([1]))))
        tensor([2.], dtype=torch.float64)
    """

    def __init__(self, y: Tensor) -> None:
        self.y, self.of_y = y.detach(), torch.zeros_like(y)
        self.apart = self.y  # z_i − z_j of the block at hand, if it is listed

    def squares(self, block: Block) -> Tensor:
        """The numbers s of a block."""
        a, b = self.y[block.rows], self.y[block.columns]
        if block.listed:
            self.apart = a - b
            return self.apart.square().sum(-1)
        return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").square()

    def distances(self, s: Tensor) -> Tensor:
        """d, from s."""
        return s.sqrt()

    def collect(self, block: Block, rate: Tensor, d: Tensor) -> None:
        """Add what a block gives to the gradients, where `rate` is that of its distances."""
        i, j = block.rows, block.columns
        rate = (rate / d).double()
        if block.listed:
            part = rate.unsqueeze(-1) * self.apart
            self.of_y.index_add_(0, i, part)
            self.of_y.index_add_(0, j, part, alpha=-1)
        else:
            a, b = self.y[i], self.y[j]
            of_rows = rate.sum(-1, keepdim=True) * a - rate @ b
            of_columns = rate.sum(-2).unsqueeze(-1) * b - rate.mT @ a
            self.of_y.index_add_(0, i.flatten(), of_rows.flatten(0, -2))  # a stack may hold a row twice
            self.of_y.index_add_(0, j.flatten(), of_columns.flatten(0, -2))

    def gradients(self) -> tuple[Tensor, Tensor]:
        """In y; √c is no number here."""
        return self.of_y, self.of_y.new_zeros(())


_FAR = 40.0  # √c·radius up to which all s are numbers of float32
_FARTHEST = 300.0  # and of float64
_FLAT = 1e-12  # of c: below it s, which is c·d²/4 there, would merge points that are not the same
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
        >>> from horoball.graphs.model import TanhEdges
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
        >>> from horoball.graphs.model import TanhEdges
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
        >>> from horoball.graphs.model import TanhEdges
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
        >>> from horoball.graphs.model import TanhEdges
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
    given = [x for x in (z, root, offset, *learned) if x is not None]
    return known(lambda wanted: _summed(edges, blocks, dtype, wanted, z, root, offset, learned), *given)


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


def _summed(
    edges: Edges,
    blocks: Iterable[Block],
    dtype: torch.dtype,
    wanted: bool,
    z: Tensor,
    root: Tensor | None,
    offset: Tensor | None,
    learned: Sequence[Tensor],
) -> tuple[Tensor, list[Tensor]]:
    """The sum, and its gradients in what is given of z, √c, offsets and what is learned."""
    space = Flat(z.double()) if root is None else Curved(root * z.double(), float(root))
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
    if not wanted:
        return total, []
    of_z, of_root = space.gradients()
    if root is not None:  # of y = √c z
        of_root = of_root + torch.sum(of_z * z, dtype=torch.float64)
        of_z *= root
    found = of_z.to(z.dtype), None if root is None else of_root, of_offset, *of_learned
    return total, [part for part in found if part is not None]
