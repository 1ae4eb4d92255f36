"""Nested cones, moved until what lies in a cone is what is below its node.

Note [Settling]: cones nest as a tree does, but nodes of a taxonomy may have several parents, and cones of siblings may
overlap. So every node is told by its place in the cone of its parent p in the tree,

    u = (u_p + exp(−r_p) t)/|…|,    r = r_p + exp(δ),    t orthogonal to u_p,

and t and δ are moved by Adam. A step in t is as wide as a fixed part of the parent's cone, however small that is, and
takes along all that lies in the node's own cone; its gradient is the sum of theirs. Steps of single points have
neither: a subtree would have to move node by node, through others.

First, by `rank_cones`, the softmax of minus the detour d(z_i, z_j) + |z_j| − |z_i| is maximized for each ancestor j of
a node i among nodes that are none: it orders them, so that no ancestor is far behind. Then `settle_cones` minimizes
minus the log-likelihood of three kinds of pairs, with the edges a directed model starts from: those of the closure; of
each, the node and a child of the ancestor, which are hard to tell apart; and random pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from horoball.graphs.graph import Graph
from horoball.training.progress import counted

_RANK_STEPS, _RANK_RATE = 150, 0.1
_RANK_TEMPERATURE = 0.15  # of the softmax of detours, about half of what settling learns
_STEPS, _RATE = 60, 0.05
_SCALE_RATE = 0.02  # of the detour at which a pair is as likely related as not, and its temperature
_FAR_STEPS, _FAR_RATE = 300, 0.1  # of distances, whose radii have far to go
_DECAY = 0.05  # rate of the last step in units of the first
_RIVALS = 3  # of each kind that an ancestor is compared with
_AT_ONCE = 1 << 18  # pairs of each kind in a step
_HEAVIEST = 200.0  # what a random pair counts for at most: a rare one would throw all cones about
_PULL = 1e-4  # of r²: directions in float32 tell cones apart to a radius of 16
_DEEPEST = 100  # levels; a step takes them one after the other


def rank_cones(z: Tensor, closure: Graph, parent: np.ndarray, *, seed: int = 0) -> Tensor:
    """Points with ancestors before all other nodes, by their detours, float32, shape (nodes, d); see Note [Settling].

    Of a taxonomy with more than 100 levels, the points are returned as they are.

    Args:
        z: Points of nested cones, in the tangent chart of the ball with c = 1.
        closure: The taxonomy with edges (descendant, ancestor).
        parent: The parent of each node whose cone it lies in; −1 for none.
        seed: Seed of the pairs that are drawn.
    """
    cones = _Cones(z.double(), parent)
    if not 0 < len(cones.levels) <= _DEEPEST:
        return z
    pairs = _PairsOf(closure, parent, seed)
    each = math.log(closure.nodes / _RIVALS)  # a random rival stands for so many nodes

    def loss(direction: Tensor, r: Tensor) -> Tensor:
        def score(asked: Tensor) -> Tensor:
            return -_detour(direction, r, asked) / _RANK_TEMPERATURE

        return _among_rivals(pairs, score, each) + _PULL * r.square().sum()

    return _descend("Ranking ancestors", cones, loss, [{"params": cones.learned, "pace": _RANK_RATE}], _RANK_STEPS)


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
    """
    cones = _Cones(z.double(), parent)
    if not 0 < len(cones.levels) <= _DEEPEST:
        return z
    pairs = _PairsOf(closure, parent, seed)
    scale = torch.tensor([radius, math.log(temperature)], dtype=torch.float64, requires_grad=True)

    def loss(direction: Tensor, r: Tensor) -> Tensor:
        related, others, weight = pairs.draw()
        within, sharpness = scale[0], torch.exp(-scale[1])
        near = pairs.share * softplus((_detour(direction, r, related) - within) * sharpness).sum()
        far = (weight * softplus((within - _detour(direction, r, others)) * sharpness)).sum()
        return near + far + _PULL * r.square().sum()

    groups = [{"params": cones.learned, "pace": _RATE}, {"params": [scale], "pace": _SCALE_RATE}]
    return _descend("Settling cones", cones, loss, groups, _STEPS)


def settle_distances(z: Tensor, closure: Graph, parent: np.ndarray, *, seed: int = 0) -> Tensor:
    """Points whose nearest nodes are their ancestors, float32, shape (nodes, d).

    Two leaves r from the origin whose ways part at s are 2(r − s) apart, and each is r from the root: leaves have to be
    twice as far out as the nodes above them, or their siblings are nearer to them than the root. From there, as in Note
    [Settling], the softmax of minus the distance is maximized for each ancestor of a node among nodes that are none,
    as Nickel and Kiela (2017) have it: children of its ancestors, its own children, and random ones.

    Args:
        z: Points of nested cones, in the tangent chart of the ball with c = 1.
        closure: The taxonomy with edges (descendant, ancestor).
        parent: The parent of each node whose cone it lies in; −1 for none.
        seed: Seed of the pairs that are drawn.
    """
    leaf = (parent >= 0) & (np.bincount(parent[parent >= 0], minlength=len(parent)) == 0)
    radius = torch.linalg.vector_norm(z.double(), dim=1)
    farther = torch.where(torch.from_numpy(leaf), radius[torch.from_numpy(parent)], 0.0)
    cones = _Cones(z.double() * (1 + farther / radius.clamp_min(1e-300)).unsqueeze(1), parent)
    if not 0 < len(cones.levels) <= _DEEPEST:
        return z
    pairs = _PairsOf(closure, parent, seed)

    def loss(direction: Tensor, r: Tensor) -> Tensor:
        return _among_rivals(pairs, lambda asked: -_distance(direction, r, asked))

    return _descend("Settling distances", cones, loss, [{"params": cones.learned, "pace": _FAR_RATE}], _FAR_STEPS)


def _among_rivals(pairs: _PairsOf, score: Callable[[Tensor], Tensor], each: float = 0.0) -> Tensor:
    """Minus the log of the softmax of each ancestor's score among rivals, to whose random ones `each` is added."""
    related, rivals, wrong = pairs.draw_rivals()
    among = [near := score(related)]
    for nth, (rival, none) in enumerate(zip(rivals, wrong, strict=True), 1):
        far = score(torch.stack((related[:, 0], rival), 1)) + each * (nth > len(rivals) - _RIVALS)
        among.append(torch.where(none, far, -torch.inf))
    return pairs.share * (torch.logsumexp(torch.stack(among), 0) - near).sum()


def _descend(
    what: str, cones: _Cones, loss: Callable[[Tensor, Tensor], Tensor], groups: list[dict[str, Any]], steps: int
) -> Tensor:
    """Points after so many steps down a loss of directions and radii; `what` they are is told with the time left."""
    optimizer = torch.optim.Adam(groups, betas=(0.9, 0.99), fused=True)
    for step in counted(what, steps):
        for group in optimizer.param_groups:
            group["lr"] = group["pace"] * _DECAY ** (step / steps)
        direction, r = cones.places()
        optimizer.zero_grad()
        (loss(direction, r) / len(r)).backward()
        optimizer.step()
    with torch.no_grad():
        direction, r = cones.places()
    z = (direction * r.unsqueeze(1)).float()
    if not bool(torch.isfinite(z).all()):
        raise FloatingPointError(
            f"The cones of {len(z)} nodes on {len(cones.levels)} levels do not settle: their radii grow "
            "without bound. Start from `nested_cones`."
        )
    return z


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

    def draw_rivals(self) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Related pairs; nodes to compare the ancestor of each with; and which of them are no ancestors."""
        related = self._related()
        node, ancestor = related.T
        rivals = [self._child(ancestor) for _ in range(_RIVALS)] + [self._child(node)]
        rivals += [torch.randint(self.n, (self.many,), generator=self.generator) for _ in range(_RIVALS)]
        wrong = [(rival != node) & ~self.closure.holds(torch.stack((node, rival), 1)) for rival in rivals]
        return related, rivals, wrong

    def _related(self) -> Tensor:
        edges, many = self.closure.edges, self.many
        return edges if many == len(edges) else edges[torch.randint(len(edges), (many,), generator=self.generator)]

    def _child(self, nodes: Tensor) -> Tensor:
        """A child of each node; of one that has none, any node."""
        nth = (torch.rand(len(nodes), generator=self.generator, dtype=torch.float64) * self.count[nodes]).long()
        return self.children[(self.first[nodes] + nth).clamp(max=len(self.children) - 1)]

    def draw(self) -> tuple[Tensor, Tensor, Tensor]:
        """Related pairs, others, and what each of the others counts for."""
        many, generator = self.many, self.generator
        related = self._related()
        node, ancestor = related.T
        siblings = self.count[ancestor]
        beside = torch.stack((node, self._child(ancestor)), 1)
        anywhere = torch.randint(self.n, (many, 2), generator=generator)
        heavy = min(_HEAVIEST, self.n * (self.n - 1) / many)
        others = torch.cat((beside, anywhere))
        weight = torch.cat((self.share * siblings.double(), torch.full((many,), heavy, dtype=torch.float64)))
        kept = (weight > 0) & (others[:, 0] != others[:, 1]) & ~self.closure.holds(others)
        return related, others[kept], weight[kept]


def _distance(direction: Tensor, r: Tensor, pairs: Tensor) -> Tensor:
    """d of pairs (i, j) in the ball with c = 1."""
    i, j = pairs.T
    chord = (direction[i] - direction[j]).square().sum(1)
    s = torch.sinh((r[i] - r[j]) / 2).square() + torch.sinh(r[i]) * torch.sinh(r[j]) * chord / 4
    return 2 * torch.asinh(torch.sqrt(s + math.ulp(1.0)))


def _detour(direction: Tensor, r: Tensor, pairs: Tensor) -> Tensor:
    """d + |z_j| − |z_i|."""
    return _distance(direction, r, pairs) + r[pairs[:, 1]] - r[pairs[:, 0]]
