"""Places of nodes that a model was not fitted to, beside known nodes, which stay where they are.

A new node's posterior maximizes the part of the bound that has the node: its pairs with all known nodes, both ways, at
their means. Beyond some thousand known nodes, a pair counts exactly if the known node is a neighbor or among the
hundred that are likeliest to be one by mistake, seen from where the new node is; of the others some are drawn at each
step and stand for all.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from horoball.graphs.local_steps import take_local_steps
from horoball.graphs.model import FreeEncoder
from horoball.graphs.run import GraphRun

_ALL = 4096  # known nodes up to which every pair counts at every step
_NEAR = 128  # known nodes beside the neighbors whose pairs count exactly
_DRAWN = 64  # of the others
_PAIRS = 1 << 19  # distances that are held at a time, with all that autograd keeps of them
_HELD = 1 << 26  # marks of known nodes that are held at a time, one byte each
_LOOKED = 1 << 23  # pairs that are looked through at a time
_FARTHEST = 300.0  # √c·radius up to which products are numbers of float64
_BESIDE = 0.5  # how far from its neighbors, and outward, a node starts


def place_beside(
    run: GraphRun, above: Tensor, below: Tensor, count: int, *, steps: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Locations and raw scales of new nodes.

    Args:
        run: A fitted model with the encoder "free".
        above: Pairs (new, known) of edges from a new node; of an undirected model, of all edges.
        below: Pairs (new, known) of edges to a new node; of an undirected model, the same.
        count: How many nodes are new; all have an edge.
        steps: Steps of Adam.
        generator: Where noise and draws come from.
    """
    z = run.points().float()
    size = max(1, (_PAIRS if len(z) <= _ALL else _HELD) // len(z))
    placed = []
    for first in range(0, count, size):
        many = min(size, count - first)
        joined = torch.zeros(2, many, len(z), dtype=torch.bool)
        for way, pairs in enumerate((above, below)):
            mine = pairs[(pairs[:, 0] >= first) & (pairs[:, 0] < first + many)]
            joined[way, mine[:, 0] - first, mine[:, 1]] = True
        placed.append(_placed(run, z, joined, steps, generator))
    loc, raw = zip(*placed, strict=True)
    return torch.cat(loc), torch.cat(raw)


def _placed(run: GraphRun, z: Tensor, joined: Tensor, steps: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The same of some new nodes; joined has shape (2, new, known)."""
    model, beta = run.model, run.record.training.beta
    encoder: Any = model.encoder
    loc, raw = _start(run, z, joined, generator)
    here = FreeEncoder(len(loc), encoder.d, encoder.ball, run.record.model.posterior, generator=generator)
    with torch.no_grad():
        here.loc.copy_(loc)
        here.raw_scale.copy_(raw)
        offset = model.offset(z)
    optimizer = torch.optim.Adam(here.parameters(), 0.05)
    if run.graph.directed:
        take_local_steps(optimizer, here.loc, encoder.ball)
    rate = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.1 ** (1 / max(1, steps)))
    prior = model.prior()
    exact = len(z) <= _ALL
    near = _Near(joined, z, offset)
    if not exact:
        near.look(loc, model)
    for _ in range(steps):
        new, log_q = here().rsample_and_log_prob(generator=generator)
        loss = beta * (log_q - prior.log_prob(new)).sum()
        own = model.offset(new)
        for apart, there, is_edge, weight in near.pairs(new, model, generator, exact=exact):
            up = down = apart
            if there is not None and own is not None:
                lift = there - own.unsqueeze(1)
                up, down = apart + lift, apart - lift
            for d, edge in zip((up, down), is_edge, strict=True):
                value = torch.where(edge, model.edges.log_edge(d), model.edges.log_no_edge(d))
                loss = loss - (value if weight is None else torch.where(weight > 0, weight * value, 0.0)).sum()
        optimizer.zero_grad()
        loss.backward(inputs=list(here.parameters()))
        optimizer.step()
        rate.step()
    return here.loc.detach(), here.raw_scale.detach()


class _Near:
    """The known nodes that new ones are compared with: all, or those at hand and some that are drawn."""

    def __init__(self, joined: Tensor, z: Tensor, offset: Tensor | None) -> None:
        self.joined, self.z, self.offset = joined, z, offset
        self.near = torch.empty(0, dtype=torch.int64)  # (new, near ones)
        self.at_hand = joined.new_zeros(0)  # (new, known)
        self.points, self.there, self.edges = z, offset, joined  # of the near ones

    @torch.no_grad()
    def look(self, loc: Tensor, model: Any) -> None:
        """Find the neighbors and the known nodes likeliest to be taken for some."""
        neighbors = self.joined.any(0)
        many = min(len(self.z), int(neighbors.sum(1).max()) + _NEAR)
        known, at = _Likely(self.z, self.offset, model), []
        for first in range(0, len(loc), rows := max(1, _LOOKED // len(self.z))):
            key = known.keys(loc[first : first + rows])
            key[neighbors[first : first + rows]] = -torch.inf
            at.append(key.topk(many, largest=False, sorted=False).indices)
        self.near = torch.cat(at)
        self.at_hand = torch.zeros_like(neighbors).scatter_(1, self.near, True)
        self.points, self.edges = self.z[self.near], self.joined.gather(2, self.near.expand(2, -1, -1))
        self.there = None if self.offset is None else self.offset[self.near]

    def pairs(self, new: Tensor, model: Any, generator: torch.Generator, *, exact: bool) -> Any:
        """Distances, offsets of the known nodes, which pairs are edges each way, and weights, part by part."""
        if exact:
            yield model.ball.cdist(new, self.z), self.offset, self.joined, None
            return
        yield model.ball.dist(new.unsqueeze(1), self.points), self.there, self.edges, None
        drawn = torch.randint(len(self.z), (_DRAWN,), generator=generator)
        weight = (~self.at_hand[:, drawn]).float() * (len(self.z) / _DRAWN)
        there = None if self.offset is None else self.offset[drawn]
        yield model.ball.cdist(new, self.z[drawn]), there, torch.zeros_like(self.edges[..., :1]), weight


class _Likely:
    """Numbers in the order in which known nodes are likely to be neighbors of new ones, roughly.

    In the ball it is s exp(−|γ(r − r')|) with s of Note [Pairs], which for pairs far apart is the exponential of their
    distance with its offset, the likelier way; all of it are products.
    """

    def __init__(self, z: Tensor, offset: Tensor | None, model: Any) -> None:
        self.model, self.z, self.offset, self.flat = model, z, offset, model.ball.is_euclidean
        if not self.flat:
            self.known = self._lifted(z)
            self.tilt = None if offset is None else self._tilt(offset)
            self.untilt = None if self.tilt is None else 1 / self.tilt

    def _lifted(self, z: Tensor) -> Tensor:
        y = z.double() * self.model.ball.c_value**0.5
        r = torch.linalg.vector_norm(y, dim=-1, keepdim=True)
        capped = r.clamp(max=_FARTHEST)
        return torch.cat((torch.cosh(capped), torch.sinh(capped) * y / r.clamp_min(1e-300)), -1)

    def _tilt(self, offset: Tensor) -> Tensor:
        return torch.exp((offset.double() * self.model.ball.c_value**0.5).clamp(max=_FARTHEST))

    def keys(self, loc: Tensor) -> Tensor:
        """Smaller ones are likelier; shape (new, known)."""
        offset = self.model.offset(loc)
        if self.flat:
            d = torch.cdist(loc, self.z)
            return d if self.offset is None else d - (self.offset - offset.unsqueeze(1)).abs()
        new = self._lifted(loc)
        new[:, 1:] *= -1
        s = torch.addmm(new.new_full((), -1.0), new, self.known.T).clamp_min_(0)
        if self.tilt is None or self.untilt is None:
            return s
        tilt = self._tilt(offset).unsqueeze(1)
        return s.mul_(torch.minimum(self.tilt / tilt, tilt * self.untilt))


def _start(run: GraphRun, z: Tensor, joined: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Beside the neighbor that is farthest from the origin, and behind it: that is the parent in a taxonomy."""
    radius = torch.linalg.vector_norm(z, dim=-1)
    beside = torch.where(joined.any(0), radius, -1.0).argmax(1)
    noise = torch.randn(len(beside), z.shape[1], generator=generator)
    start = z[beside] * (1 + _BESIDE / radius[beside].clamp_min(_BESIDE)).unsqueeze(1)
    loc = start + 0.1 * noise * torch.exp(-radius[beside]).unsqueeze(1)
    encoder: Any = run.model.encoder
    return loc, encoder.raw_scale.detach()[beside]
