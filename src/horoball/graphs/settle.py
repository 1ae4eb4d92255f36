"""Nested cones, moved until what lies in a cone is what is below its node.

Note [Settling]: cones nest as a tree does, but nodes of a taxonomy may have several parents, and cones of siblings may
overlap. So every node is told by its place in the cone of its parent p in the tree,

    u = (u_p + exp(−r_p) t)/|…|,    r = r_p + exp(δ),    t orthogonal to u_p,

and t and δ are moved by Adam. A step in t is as wide as a fixed part of the parent's cone, however small that is, and
takes along all that lies in the node's own cone; its gradient is the sum of theirs. Steps of single points have
neither: a subtree would have to move node by node, through others.

What is minimized is minus the log-likelihood of three kinds of pairs, with the edges a directed model starts from:
those of the closure; of each, the node and a child of the ancestor, which are hard to tell apart; and random pairs.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from horoball.graphs.graph import Graph

__all__ = ["settle_cones"]

_STEPS = 150
_SCALE_RATE = 0.02  # of the detour at which a pair is as likely related as not, and its temperature
_RATE, _DECAY = 0.05, 0.05  # of the first step, and of the last in its units
_AT_ONCE = 1 << 18  # pairs of each kind in a step
_HEAVIEST = 200.0  # what a random pair counts for at most: a rare one would throw all cones about
_PULL = 1e-4  # of r²: directions in float32 tell cones apart to a radius of 16
_DEEPEST = 100  # levels; a step takes them one after the other


def settle_cones(
    z: Tensor, closure: Graph, parent: np.ndarray, radius: float, temperature: float, *, seed: int = 0
) -> Tensor:
    """Points of the nodes after settling, float32, shape (nodes, d); see Note [Settling].

    Of a taxonomy with more than 100 levels, the points are returned as they are.

    Args:
        z: Points of nested cones, in the tangent chart of the ball with c = 1.
        closure: The taxonomy with edges (descendant, ancestor).
        parent: The parent of each node whose cone it lies in; −1 for none.
        radius: The detour at which a pair is as likely related as not.
        temperature: How fast that changes with the detour.
        seed: Seed of the pairs that are drawn.

    Example:
        >>> from horoball.graphs.start import nested_cones
        >>> chain = Graph.of([(1, 0), (2, 0), (2, 1), (3, 0)], directed=True)
        >>> z = settle_cones(nested_cones(chain, 2), chain, np.array([-1, 0, 1, 0]), 1.5, 0.25)
        >>> bool(z[0].norm() < z[1].norm() < z[2].norm())
        True
    """
    cones = _Cones(z.double(), parent)
    if not 0 < len(cones.levels) <= _DEEPEST:
        return z
    pairs = _PairsOf(closure, parent, seed)
    scale = torch.tensor([radius, math.log(temperature)], dtype=torch.float64, requires_grad=True)
    learned = [{"params": cones.learned, "pace": _RATE}, {"params": [scale], "pace": _SCALE_RATE}]
    optimizer = torch.optim.Adam(learned, betas=(0.9, 0.99), fused=True)
    for step in range(_STEPS):
        for group in optimizer.param_groups:
            group["lr"] = group["pace"] * _DECAY ** (step / _STEPS)
        direction, r = cones.places()
        related, others, weight = pairs.draw()
        within, sharpness = scale[0], torch.exp(-scale[1])
        loss = pairs.share * softplus((_detour(direction, r, related) - within) * sharpness).sum()
        loss = loss + (weight * softplus((within - _detour(direction, r, others)) * sharpness)).sum()
        optimizer.zero_grad()
        ((loss + _PULL * r.square().sum()) / len(z)).backward()
        optimizer.step()
    with torch.no_grad():
        direction, r = cones.places()
        return (direction * r.unsqueeze(1)).float()


class _Cones:
    """Nodes by their places in the cones of their parents: t and δ, level by level from the tops."""

    def __init__(self, z: Tensor, parent: np.ndarray) -> None:
        n, d = z.shape
        r = torch.linalg.vector_norm(z, dim=1)
        direction = z / r.clamp_min(1e-300).unsqueeze(1)
        # A node at the origin is above all others and has no direction; those below it are the tops.
        held = np.where((parent >= 0) & (r.numpy()[parent] > 0), parent, -1)
        self.fixed = torch.from_numpy(np.flatnonzero(r.numpy() == 0))
        depth = np.full(n, -1)
        depth[(held < 0) & (r.numpy() > 0)] = 0
        waiting = np.flatnonzero(held >= 0)
        level = 0
        while len(waiting):
            found = depth[held[waiting]] == level
            level += 1
            depth[waiting[found]] = level
            waiting = waiting[~found]
        count = level + 1 if (depth == 0).any() else 0
        members = [torch.from_numpy(np.flatnonzero(depth == level)) for level in range(count)]
        where = torch.empty(n, dtype=torch.int64)  # of each node in its level
        for nodes in members:
            where[nodes] = torch.arange(len(nodes))
        order = torch.cat([*members, self.fixed])
        self.rank = torch.empty_like(order)
        self.rank[order] = torch.arange(n)
        self.levels: list[Tensor] = []  # places of the parents in the level before
        self.learned: list[Tensor] = []  # t and δ of each level
        self.d = d
        for level, nodes in enumerate(members):
            p = torch.from_numpy(held)[nodes]
            self.levels.append(where[p] if level else nodes)
            t, grown = direction[nodes], r[nodes]
            if level:
                cosine = (direction[nodes] * direction[p]).sum(1, keepdim=True).clamp_min(0.05)
                t = (direction[nodes] / cosine - direction[p]) * r[p].exp().unsqueeze(1)
                grown = (grown - r[p]).clamp_min(0.05)
            self.learned += [t.clone().requires_grad_(), grown.log().requires_grad_()]

    def places(self) -> tuple[Tensor, Tensor]:
        """Directions, shape (nodes, d), and radii of all nodes."""
        directions: list[Tensor] = []
        radii: list[Tensor] = []
        for level, above in enumerate(self.levels):
            t, grown = self.learned[2 * level], self.learned[2 * level + 1].exp()
            if level:
                u, r = directions[-1][above], radii[-1][above]
                t = u + (t - (t * u).sum(1, keepdim=True) * u) * torch.exp(-r).unsqueeze(1)
                grown = r + grown
            directions.append(t / torch.linalg.vector_norm(t, dim=1, keepdim=True))
            radii.append(grown)
        origin = torch.zeros(len(self.fixed), self.d, dtype=torch.float64)
        return torch.cat([*directions, origin])[self.rank], torch.cat([*radii, origin[:, 0]])[self.rank]


class _PairsOf:
    """Pairs of a closure, and others that are near or random."""

    def __init__(self, closure: Graph, parent: np.ndarray, seed: int) -> None:
        self.closure, self.n = closure, closure.nodes
        self.generator = torch.Generator().manual_seed(seed)
        above = torch.from_numpy(parent)
        self.children = above.argsort(stable=True)[int((above < 0).sum()) :]  # by parent
        self.count = torch.bincount(above[above >= 0], minlength=self.n)
        self.first = self.count.cumsum(0) - self.count
        m = len(closure.edges)
        self.many = min(m, _AT_ONCE)
        self.share = m / self.many  # pairs that each of those drawn stands for

    def draw(self) -> tuple[Tensor, Tensor, Tensor]:
        """Related pairs, others, and what each of the others counts for."""
        many, edges, generator = self.many, self.closure.edges, self.generator
        related = edges if many == len(edges) else edges[torch.randint(len(edges), (many,), generator=generator)]
        node, ancestor = related.T
        siblings = self.count[ancestor]
        nth = (torch.rand(many, generator=generator, dtype=torch.float64) * siblings).long()
        last = len(self.children) - 1
        beside = torch.stack((node, self.children[(self.first[ancestor] + nth).clamp(max=last)]), 1)
        anywhere = torch.randint(self.n, (many, 2), generator=generator)
        heavy = min(_HEAVIEST, self.n * (self.n - 1) / many)
        others = torch.cat((beside, anywhere))
        weight = torch.cat((self.share * siblings.double(), torch.full((many,), heavy, dtype=torch.float64)))
        kept = (weight > 0) & (others[:, 0] != others[:, 1]) & ~self.closure.holds(others)
        return related, others[kept], weight[kept]


def _detour(direction: Tensor, r: Tensor, pairs: Tensor) -> Tensor:
    """d + |z_j| − |z_i| of pairs (i, j) in the ball with c = 1."""
    i, j = pairs.T
    chord = (direction[i] - direction[j]).square().sum(1)
    s = torch.sinh((r[i] - r[j]) / 2).square() + torch.sinh(r[i]) * torch.sinh(r[j]) * chord / 4
    return 2 * torch.asinh(torch.sqrt(s + math.ulp(1.0))) + r[j] - r[i]
