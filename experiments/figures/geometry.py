"""The disc itself: a tree in it, geodesics and the exponential map (§1, §2), and gyroplanes (§3.2)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from experiments.figures.canvas import GRAY, panels
from horoball import plotting
from horoball.geometry import PoincareBall
from horoball.nn import Gyroplane
from horoball.plotting.marks import color_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["geodesics", "gyroplanes", "tree"]

LENGTH = 1.12  # of an edge: above 2 acosh(2/√3) = 1.10 the branches of a tree of degree 3 never meet
PLANES = ((0.0, 1.6), (0.9, 0.9), (2.2, 1.2), (3.3, 0.6), (4.4, 0.0), (5.3, 1.9))  # angle of the normal, distance


def tree(depth: int = 7) -> Figure:
    """A tree of degree 3 whose edges have one length and whose angles are 120°; a path from end to end in red."""
    ball = PoincareBall(1.0)
    z, parents = regular_tree(depth, ball)
    x = ball.to_ball(z).numpy()
    figure, axes = panels(1, 1, 4.6)
    ax = plotting.tree_edges(x, parents, ax=axes[0, 0], color=GRAY, width=0.8)
    path = [(k, parents[k]) for start in (1, 3) for k in _path(start, parents)]
    plotting.edges(x, path, ax=ax, color=color_of(1), width=2.0)
    plotting.points(x, ax=ax, color="#333333", size=5)
    ax.set_title("A regular tree: every edge has the same length")
    return figure


def regular_tree(depth: int, ball: PoincareBall) -> tuple[Tensor, list[int]]:
    """Nodes in the tangent chart, and their parents; each has three neighbors, but for the leaves.

    Example:
        >>> z, parents = regular_tree(2, PoincareBall(1.0))
        >>> parents
        [0, 0, 0, 0, 1, 1, 2, 2, 3, 3]
        >>> ball = PoincareBall(1.0)
        >>> bool((ball.dist(z[4:], z[parents[4:]]) - LENGTH).abs().max() < 1e-9)
        True
    """
    angles = torch.arange(3, dtype=torch.float64) * 2 * math.pi / 3 + math.pi / 2
    z = torch.cat((torch.zeros(1, 2, dtype=torch.float64), LENGTH * _unit(angles)))
    parents, level = [0] * 4, [1, 2, 3]
    for _ in range(depth - 1):
        back = ball.log(z[level], z[[parents[k] for k in level]]) / LENGTH
        turned = torch.stack([back @ _rotation(s * 2 * math.pi / 3) for s in (1, -1)], 1)
        children = ball.exp(z[level].repeat_interleave(2, 0), LENGTH * turned.reshape(-1, 2))
        parents += [k for k in level for _ in range(2)]
        level = list(range(len(z), len(z) + len(children)))
        z = torch.cat((z, children))
    return z, parents


def geodesics() -> Figure:
    """Geodesics between points, and what the exponential map makes of rays and circles around a point."""
    ball = PoincareBall(1.0)
    figure, axes = panels(1, 2, 3.8)
    left, right = axes[0]
    ends = torch.tensor([[0.15, 0.8], [-0.8, 0.25], [-0.45, -0.65], [0.35, -0.8], [0.82, -0.1]]).double()
    pairs = [(a, b) for a in range(5) for b in range(a)]
    plotting.edges(ends.numpy(), pairs, ax=left, color=color_of(0), width=1.4)
    plotting.points(ends.numpy(), ax=left, color="#222222", size=30)
    left.set_title("Geodesics between points")
    z = ball.from_ball(torch.tensor([0.45, 0.2]).double())
    angles = torch.linspace(0, 2 * math.pi, 181, dtype=torch.float64)
    steps = torch.linspace(0, 3.0, 100, dtype=torch.float64)
    for angle in angles[:-1:15]:
        ray = ball.to_ball(ball.exp(z.expand(100, 2), steps[:, None] * _unit(angle)))
        right.plot(*ray.T, color=color_of(0), linewidth=1.2, zorder=2)
    for radius in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0):
        ring = ball.to_ball(ball.exp(z.expand(181, 2), radius * _unit(angles)))
        right.plot(*ring.T, color=color_of(1), linewidth=0.8, zorder=2)
    plotting.disc(right, title="exp of rays and circles")
    plotting.points(ball.to_ball(z)[None].numpy(), ax=right, color="#222222", size=30)
    return figure


def gyroplanes() -> Figure:
    """Gyroplanes with a point and a normal each; orthogonal projections on one in the disc, and in the plane."""
    figure, axes = panels(1, 3, 3.6)
    ball = PoincareBall(1.0)
    layer = _layer(ball, PLANES)
    ax = plotting.gyroplanes(layer, ax=axes[0, 0], color=color_of(0), width=1.4)
    foot, normal = _feet(layer)
    tip = ball.to_ball(ball.exp(foot, 0.7 * normal)).numpy()
    start = ball.to_ball(foot).numpy()
    for a, b in zip(start, tip, strict=True):
        ax.annotate("", b, a, arrowprops={"arrowstyle": "-|>", "color": color_of(1), "shrinkA": 0, "shrinkB": 0})
    plotting.points(start, ax=ax, color="#222222", size=22)
    ax.set_title("Gyroplanes, points p, normals a")
    x = np.array([[0.55, 0.55], [-0.35, 0.65], [0.1, -0.75], [0.75, -0.25], [-0.6, -0.3]])
    for ax, c, name in ((axes[0, 1], 1.0, "in the disc"), (axes[0, 2], 0.0, "in the plane")):
        _projections(x, _layer(PoincareBall(c), ((0.7, -0.45),)), ax)
        ax.set_title(f"Orthogonal projections {name}")
    return figure


def _projections(x: np.ndarray, layer: Gyroplane, ax: Any) -> None:
    """Points, their nearest points on the hyperplane, and the ways between them."""
    ball = layer.ball
    c = ball.c_value
    plotting.gyroplanes(layer, ax=ax, color=color_of(0), width=1.8)
    foot, normal = _feet(layer)
    t = torch.linspace(-6, 6, 12_001, dtype=torch.float64)
    along = t[:, None] * (normal @ _rotation(math.pi / 2))
    line = ball.exp(foot.expand_as(along), along)
    z = ball.from_ball(torch.from_numpy(x))
    nearest = line[ball.cdist(z, line).argmin(1)]
    both = np.concatenate((x, ball.to_ball(nearest).numpy()))
    plotting.edges(both, [(k, k + len(x)) for k in range(len(x))], c=c, ax=ax, color=color_of(1), width=1.4)
    plotting.points(both[: len(x)], c=c, ax=ax, color="#222222", size=26)
    plotting.points(both[len(x) :], c=c, ax=ax, color=color_of(1), size=26)
    ax.set_xlim(-1.02, 1.02)
    ax.set_ylim(-1.02, 1.02)


def _layer(ball: PoincareBall, planes: tuple[tuple[float, float], ...]) -> Gyroplane:
    """Hyperplanes by the angles of their normals and their signed distances from the origin."""
    layer = Gyroplane(2, len(planes), ball).double().requires_grad_(False)
    angle, distance = torch.tensor(planes, dtype=torch.float64).T
    assert layer.bias is not None
    layer.weight.copy_(_unit(angle))
    layer.bias.copy_(-distance)
    return layer


def _feet(layer: Gyroplane) -> tuple[Tensor, Tensor]:
    """The point of each hyperplane that is nearest to the origin, and the unit normal there."""
    assert layer.bias is not None
    return -layer.bias[:, None] * layer.weight, layer.weight


def _path(node: int, parents: list[int]) -> list[int]:
    """Nodes from one down to a leaf, by turns to the left and to the right."""
    path = [node]
    while children := [k for k, parent in enumerate(parents) if parent == path[-1] and k]:
        path.append(children[len(path) % 2])
    return path


def _unit(angle: Tensor) -> Tensor:
    return torch.stack((angle.cos(), angle.sin()), -1)


def _rotation(angle: float) -> Tensor:
    return torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]], dtype=torch.float64)
