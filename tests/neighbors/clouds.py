"""Points that are hard to search in different ways."""

from __future__ import annotations

import math

import torch
from torch import Tensor

import horoball as hb


def points(n: int = 200, d: int = 3, seed: int = 0) -> Tensor:
    """Points like any others."""
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def prior(n: int, d: int, ball: hb.PoincareBall, scale: float = 1.0) -> Tensor:
    """Points that fill the ball as its own measure does: all far apart, the inner ones neighbors of everybody."""
    q = hb.RiemannianNormal(torch.zeros(d).double(), torch.full((1,), scale).double(), ball)
    return q.sample((n,))


def shell(n: int, d: int, ball: hb.PoincareBall, radius: float) -> Tensor:
    """Points spread over directions, at √cR up to a radius."""
    u = torch.nn.functional.normalize(torch.randn(n, d).double(), dim=-1)
    return u * radius * torch.rand(n, 1).double().pow(0.2) / math.sqrt(float(ball.c) or 1.0)


def clusters(n: int, d: int, ball: hb.PoincareBall, radius: float, spread: float = 0.5) -> Tensor:
    """Twelve tight clusters, of which float32 cannot tell the points of the outer ones apart."""
    unit = 1 / math.sqrt(float(ball.c) or 1.0)
    centers = shell(12, d, ball, radius)
    return ball.exp(centers[torch.randint(12, (n,))], spread * unit * torch.randn(n, d).double())


def deep_tree(n: int, d: int, ball: hb.PoincareBall, step: float = 0.6) -> Tensor:
    """Narrow clusters at the leaves of a tree, so far out that products in float32 cannot tell partitions apart."""
    leaves = torch.zeros(1, d).double()
    for _ in range(10):
        leaves = torch.cat([ball.exp(leaves, step * torch.randn_like(leaves)) for _ in range(2)])
    return ball.exp(leaves[torch.randint(len(leaves), (n,))], 1e-4 * torch.randn(n, d).double())


def binary_tree(depth: int, step: float, ball: hb.PoincareBall) -> tuple[Tensor, list[int]]:
    """A tree in the plane whose edges have one length and meet at 120°, and the parent of each node."""
    z, parents, level = [torch.zeros(2).double()], [-1], [0]
    for _ in range(depth):
        born = []
        for node in level:
            outwards = math.atan2(z[node][1], z[node][0])
            for turn in (-60, 60) if node else (0, 120, 240):
                angle = outwards + math.radians(turn)
                v = step * torch.tensor([math.cos(angle), math.sin(angle)]).double()
                z.append(ball.exp(z[node], v))
                parents.append(node)
                born.append(len(z) - 1)
        level = born
    return torch.stack(z), parents


def true_neighbors(ball: hb.PoincareBall, z: Tensor, q: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """By all distances in float64."""
    z, q = z.double(), q.double()
    if len(z) > 10_000:  # faster, and as good where the order of nearly equal distances does not matter
        d = torch.cat([ball.cdist(some, z) for some in q.split(10)])
    else:
        d = torch.stack([ball.dist(one, z) for one in q])
    found = d.sort(dim=-1, stable=True)
    return found.values[:, :k], found.indices[:, :k]


def recall(found: Tensor, true: Tensor) -> float:
    """The share of true neighbors that were found."""
    shares = [torch.isin(one, other).double().mean() for one, other in zip(true, found, strict=True)]
    return torch.stack(shares).mean().item()
