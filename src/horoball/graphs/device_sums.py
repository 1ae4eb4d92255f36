"""The log-likelihood of pairs of nodes on a GPU: few, large operations, and none that is waited for.

With radius r = √c|z| and direction u of the points, a pair has

    s = sinh²(√c d/2) = sinh²((r − r')/2) + sinh r sinh r' |u − u'|²/4,    d = 2 asinh(√s)/√c,

two squares, so that no pair needs another formula and nothing has to be looked at. As in `pair_sums`, a part of the
pairs gives its part of the sum and of the gradient at once and is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from horoball.geometry.autograd import known
from horoball.geometry.ball import PoincareBall
from horoball.geometry.curvature import root
from horoball.geometry.kernels import asinh, wide
from horoball.graphs.model import Edges
from horoball.graphs.pairs import Block

AT_ONCE = 1 << 20  # pairs; some hundred MiB with all that is made of them
_TOUCHING = 1e-30  # of s: below it two points are one, and their distance has no gradient


class Matrices(NamedTuple):
    """A stack of matrices of pairs; a list of pairs is one of matrices with a single place."""

    rows: Tensor  # (matrices, rows)
    columns: Tensor  # (matrices, columns)
    counts: Tensor  # (matrices, rows, columns): how often each pair counts


def matrices(block: Block, like: Tensor) -> Matrices:
    """A block in this form, on the device and in the dtype of a tensor."""
    block = block.to(like.device)
    rows, columns = block.rows, block.columns
    if block.listed:
        return Matrices(rows[:, None], columns[:, None], like.new_full((len(rows), 1, 1), block.weight))
    counts = block.counts(like.new_empty(*rows.shape, columns.shape[-1]))
    return Matrices(*((rows, columns, counts) if rows.dim() == 2 else (rows[None], columns[None], counts[None])))


def log_prob_of_matrices(
    edges: Edges,
    joined: bool,
    z: Tensor,
    ball: PoincareBall,
    parts: Iterable[Matrices],
    offset: Tensor | None = None,
) -> Tensor:
    """Σ log p(A_ij | z_i, z_j) over matrices of pairs that are all edges, or all none.

    Args:
        edges: The distribution of an edge.
        joined: Whether the pairs are edges.
        z: Points, shape (n, d).
        ball: The ball.
        parts: The pairs.
        offset: Of a directed model, one number a point: a pair (i, j) counts as d + offset_j − offset_i apart.
    """
    learned = [parameter for parameter in edges.parameters() if parameter.requires_grad]
    points: tuple[Tensor, ...] = (wide(z),)
    if not ball.is_euclidean:
        scale = root(ball.c)
        y = points[0] * scale
        r = torch.linalg.vector_norm(y, dim=-1, keepdim=True)
        points = r, y / r.clamp_min(torch.finfo(r.dtype).tiny), torch.as_tensor(scale, dtype=r.dtype, device=r.device)
    distribution = edges.log_edge if joined else edges.log_no_edge
    lifts = () if offset is None else (offset.to(points[0].dtype),)
    return known(lambda wanted: _summed(distribution, parts, points, lifts, learned, wanted), *points, *lifts, *learned)


def _summed(
    distribution: Any,
    parts: Iterable[Matrices],
    points: Sequence[Tensor],
    lifts: Sequence[Tensor],
    learned: Sequence[Tensor],
    wanted: bool,
) -> tuple[Tensor, list[Tensor]]:
    """The sum, and its gradients in all tensors."""
    known_points, known_lifts = ([x.detach().requires_grad_(wanted) for x in each] for each in (points, lifts))
    inputs = *known_points, *known_lifts, *learned
    sums = [torch.zeros_like(x) for x in inputs]
    total = points[0].new_zeros(())
    for part in parts:
        with torch.set_grad_enabled(wanted):
            value = distribution(sum((_lift(part, x) for x in known_lifts), _distances(part, *known_points)))
        total += (value.detach() * part.counts).sum()
        if wanted:
            found = torch.autograd.grad(value, inputs, part.counts.to(value.dtype), materialize_grads=True)
            for sum_, rate in zip(sums, found, strict=True):
                sum_ += rate
    return total, sums


def _distances(part: Matrices, *known: Tensor) -> Tensor:
    """d of the pairs, from the points of a plane or from radius and direction, and √c."""
    apart = known[0 if len(known) == 1 else 1][part.rows].unsqueeze(-2)
    apart = apart - known[0 if len(known) == 1 else 1][part.columns].unsqueeze(-3)
    s = (apart * apart).sum(-1)
    if len(known) == 1:
        return s.clamp_min(_TOUCHING).sqrt()
    r, _, scale = known
    one, two = r[part.rows], r[part.columns].mT
    half = torch.sinh((one - two) / 2)
    s = torch.addcmul(half * half, s, one.sinh() * two.sinh(), value=0.25)
    return asinh(s.clamp_min(_TOUCHING).sqrt()) * (2 / scale)


def _lift(part: Matrices, offset: Tensor) -> Tensor:
    """offset_j − offset_i of the pairs."""
    return offset[part.columns].unsqueeze(-2) - offset[part.rows].unsqueeze(-1)


def stacks(rows: Tensor, columns: Tensor, counts: Tensor) -> Iterator[Matrices]:
    """Some matrices at a time."""
    many = max(1, AT_ONCE // max(1, counts[0].numel()))
    for part in zip(rows.split(many), columns.split(many), counts.split(many), strict=True):
        yield Matrices(*part)
