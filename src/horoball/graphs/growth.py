"""Places of nodes that a model was not fitted to, beside known nodes, which stay where they are.

A new node's posterior maximizes the part of the bound that has the node: its pairs with all known nodes, both ways, at
their means. Beyond some thousand known nodes, a pair counts exactly if the known node is a neighbor or among the
sixty-four that are likeliest to be one by mistake, seen from where the new node starts; of the others some are drawn
at each step and stand for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from horoball.graphs.local_steps import take_local_steps
from horoball.graphs.model import FreeEncoder
from horoball.graphs.run import GraphRun

_ALL = 4096  # known nodes up to which every pair counts at every step
_NEAR = 64  # known nodes beside the neighbors whose pairs count exactly
_DRAWN = 32  # of the others
_PAIRS = 1 << 19  # distances that are held at a time, with all that autograd keeps of them
_LOOKED = 1 << 22  # pairs that are looked through at a time
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
    beside = _Beside(above, below, count, len(z))
    encoder: Any = run.model.encoder
    loc, raw = (torch.empty(count, rows.shape[1]) for rows in (z, encoder.raw_scale))
    with torch.no_grad():
        known = _Known(z, run.model)
    by_degree = beside.degree.argsort(stable=True)  # those of like degrees waste no room
    while len(by_degree):
        widths = beside.degree[by_degree] + (len(z) if known.all_count else _NEAR + _DRAWN)
        many = max(1, int((widths * torch.arange(1, len(widths) + 1) <= _PAIRS).sum()))
        nodes, by_degree = by_degree[:many], by_degree[many:]
        loc[nodes], raw[nodes] = _placed(run, known, *beside.of(nodes), steps, generator)
    return loc, raw


def _placed(
    run: GraphRun, known: _Known, neighbors: Tensor, joined: Tensor, steps: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The same of some new nodes, from their neighbors, shape (new, k), and edges each way, shape (2, new, k)."""
    model, beta = run.model, run.record.training.beta
    encoder: Any = model.encoder
    loc, raw = _start(run, known, neighbors, joined, generator)
    here = FreeEncoder(len(loc), encoder.d, encoder.ball, run.record.model.posterior, generator=generator)
    with torch.no_grad():
        here.loc.copy_(loc)
        here.raw_scale.copy_(raw)
        others = _Others(known, neighbors, joined, loc)
    optimizer = torch.optim.Adam(here.parameters(), 0.05)
    if run.graph.directed:
        take_local_steps(optimizer, here.loc, encoder.ball)
    rate = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.1 ** (1 / max(1, steps)))
    prior = model.prior()
    for _ in range(steps):
        new, log_q = here().rsample_and_log_prob(generator=generator)
        loss = beta * (log_q - prior.log_prob(new)).sum()
        own = model.offset(new)
        for apart, there, is_edge, weight in others.pairs(new, generator):
            up = down = apart
            if there is not None and own is not None:
                lift = there - own.unsqueeze(1)
                up, down = apart + lift, apart - lift
            for way, d in enumerate((up, down)):
                value = model.edges.log_no_edge(d)
                if is_edge is not None:
                    value = torch.where(is_edge[way], model.edges.log_edge(d), value)
                loss = loss - torch.where(weight > 0, weight * value, 0.0).sum()
        optimizer.zero_grad()
        loss.backward(inputs=list(here.parameters()))
        optimizer.step()
        rate.step()
    return here.loc.detach(), here.raw_scale.detach()


class _Beside:
    """The neighbors of new nodes: pairs (new, known), each once, and which ways they are joined."""

    def __init__(self, above: Tensor, below: Tensor, count: int, known: int) -> None:
        ways = [pairs[:, 0] * known + pairs[:, 1] for pairs in (above, below)]
        pairs = torch.cat(ways).unique()
        self.known = pairs % known
        self.joined = torch.stack([torch.isin(pairs, way) for way in ways])
        self.degree = torch.bincount(pairs // known, minlength=count)
        self.first = self.degree.cumsum(0) - self.degree

    def of(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Neighbors of some of the new nodes, shape (new, k), and edges each way, (2, new, k); none is no neighbor."""
        nth = torch.arange(int(self.degree[nodes].max()))
        used = nth < self.degree[nodes].unsqueeze(1)
        at = torch.where(used, self.first[nodes].unsqueeze(1) + nth, 0)
        return self.known[at], self.joined[:, at] & used


class _Others:
    """The known nodes that new ones are compared with: neighbors, those likely to be taken for some, and the rest."""

    def __init__(self, known: _Known, neighbors: Tensor, joined: Tensor, loc: Tensor) -> None:
        self.known, self.neighbors, self.joined = known, neighbors, joined
        self.is_neighbor = joined.any(0)
        self.count = len(known.z)
        if known.all_count:
            self.rest = torch.ones(len(loc), self.count)
            self.rest[self.is_neighbor.nonzero()[:, 0], neighbors[self.is_neighbor]] = 0.0
            self.near = neighbors.new_empty(len(loc), 0)
        else:
            self.near = known.likely(loc, neighbors, self.is_neighbor)
        at_hand = torch.cat((torch.where(self.is_neighbor, neighbors, self.count), self.near), 1)
        self.at_hand = at_hand.sort(1).values  # neighbors that are none come last

    def pairs(
        self, new: Tensor, generator: torch.Generator
    ) -> Iterator[tuple[Tensor, Tensor | None, Tensor | None, Tensor]]:
        """Distances, offsets of the known nodes, edges each way if there are some, and weights, part by part."""
        known, ball = self.known, self.known.model.ball
        z, offset = known.z, known.offset
        for nodes, edges, weight in (
            (self.neighbors, self.joined, self.is_neighbor.float()),
            (self.near, None, torch.ones(())),
        ):
            if nodes.shape[1]:
                yield ball.dist(new.unsqueeze(1), z[nodes]), None if offset is None else offset[nodes], edges, weight
        if known.all_count:
            yield ball.cdist(new, z), offset, None, self.rest
            return
        drawn = torch.randint(self.count, (_DRAWN,), generator=generator)
        place = torch.searchsorted(self.at_hand, drawn.expand(len(new), -1).contiguous())
        held = self.at_hand.gather(1, place.clamp_max(self.at_hand.shape[1] - 1)) == drawn
        weight = (~held).float() * (self.count / _DRAWN)
        yield ball.cdist(new, z[drawn]), None if offset is None else offset[drawn], None, weight


class _Known:
    """Known nodes, in the order in which they are likely to be taken for neighbors of new ones, roughly.

    In the ball it is that of s exp(−|γ(r − r')|) with s of Note [Pairs], which for pairs far apart is the exponential
    of their distance with its offset, the likelier way. It is the lesser of two products, one for each way.
    """

    def __init__(self, z: Tensor, model: Any) -> None:
        self.model, self.z, self.offset = model, z, model.offset(z)
        self.all_count = len(z) <= _ALL
        if not (self.all_count or model.ball.is_euclidean):
            lifted = self._lifted(z)
            self.ways = [lifted.T.contiguous()]
            if self.offset is not None:
                tilt = self._tilt(self.offset)
                self.ways = [(lifted * tilt).T.contiguous(), (lifted / tilt).T.contiguous()]

    def likely(self, loc: Tensor, neighbors: Tensor, is_neighbor: Tensor) -> Tensor:
        """Those likeliest to be taken for neighbors of some places, shape (new, _NEAR), without the neighbors."""
        many, found = min(len(self.z) - neighbors.shape[1], _NEAR), []
        rows = max(1, _LOOKED // len(self.z))
        for at, own, real in zip(loc.split(rows), neighbors.split(rows), is_neighbor.split(rows), strict=True):
            key = self._keys(at)
            key[real.nonzero()[:, 0], own[real]] = torch.inf
            found.append(key.topk(many, largest=False, sorted=False).indices)
        return torch.cat(found)

    def _keys(self, loc: Tensor) -> Tensor:
        """Smaller ones are likelier; shape (new, known)."""
        offset = self.model.offset(loc)
        if self.model.ball.is_euclidean:
            d = torch.cdist(loc, self.z)
            return d if self.offset is None else d - (self.offset - offset.unsqueeze(1)).abs()
        new = self._lifted(loc) * self._signs()
        if offset is None:
            return new @ self.ways[0]
        tilt = self._tilt(offset)
        key = (new / tilt) @ self.ways[0]
        return torch.minimum(key, (new * tilt) @ self.ways[1], out=key)

    def _lifted(self, z: Tensor) -> Tensor:
        """(1, cosh r, u sinh r), so that s is a product of two of them with signs."""
        y = z.double() * self.model.ball.c_value**0.5
        r = torch.linalg.vector_norm(y, dim=-1, keepdim=True)
        capped = r.clamp(max=_FARTHEST)
        return torch.cat((torch.ones_like(r), torch.cosh(capped), torch.sinh(capped) * y / r.clamp_min(1e-300)), -1)

    def _signs(self) -> Tensor:
        signs = torch.full((self.z.shape[1] + 2,), -1.0, dtype=torch.float64)
        signs[1] = 1.0
        return signs

    def _tilt(self, offset: Tensor) -> Tensor:
        return torch.exp((offset.double() * self.model.ball.c_value**0.5).clamp(max=_FARTHEST)).unsqueeze(1)


def _start(
    run: GraphRun, known: _Known, neighbors: Tensor, joined: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Beside the neighbor that is farthest from the origin, and behind it: that is the parent in a taxonomy."""
    radii = torch.linalg.vector_norm(known.z[neighbors], dim=-1)
    radius, nth = torch.where(joined.any(0), radii, -1.0).max(1)
    beside = neighbors.gather(1, nth.unsqueeze(1))[:, 0]
    noise = torch.randn(len(beside), known.z.shape[1], generator=generator)
    start = known.z[beside] * (1 + _BESIDE / radius.clamp_min(_BESIDE)).unsqueeze(1)
    loc = start + 0.1 * noise * torch.exp(-radius).unsqueeze(1)
    encoder: Any = run.model.encoder
    return loc, encoder.raw_scale.detach()[beside]
