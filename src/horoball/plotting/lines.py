"""Geodesics: edges, trees and the hyperplanes of a layer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from horoball.manifolds import PoincareBall
from horoball.nn import Gyroplane
from horoball.plotting.frame import annotate, on_disc, prepared

__all__ = ["edges", "gyroplanes", "tree_edges"]

_ARC = 48  # points of a geodesic


def edges(
    x: ArrayLike, pairs: ArrayLike, *, c: float = 1.0, ax: Any = None, color: str = "#999999", width: float = 0.7
) -> Any:
    """Geodesics between pairs of points.

    Args:
        x: Ball coordinates, shape (n, d). Of more than two dimensions give the same points as to `points`: another set
            would be projected by itself, otherwise.
        pairs: Numbers of the points to join, shape (m, 2).
        c: Minus the curvature.
        ax: Where to draw.
        color: Of the lines.
        width: Of the lines, in points.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> edges([[0.1, 0.2], [0.5, 0.0]], [[0, 1]]).collections[0].get_paths()[0].vertices.shape
        (48, 2)
    """
    from matplotlib.collections import LineCollection

    ax = prepared(ax, c)
    flat, note = on_disc(x, c)
    z = torch.from_numpy(flat)
    ball, index = PoincareBall(c), np.asarray(pairs, np.int64).reshape(-1, 2)
    z = ball.from_ball(z)
    s = torch.linspace(0, 1, _ARC, dtype=torch.float64)
    arcs = ball.to_ball(ball.geodesic(z[index[:, :1]], z[index[:, 1:]], s.expand(len(index), _ARC)))
    ax.add_collection(LineCollection(list(arcs.numpy()), colors=color, linewidths=width, zorder=2))
    annotate(ax, note)
    return ax


def tree_edges(x: ArrayLike, parents: ArrayLike, *, c: float = 1.0, ax: Any = None, **style: Any) -> Any:
    """The edges of a tree over its points: a geodesic from each point to its parent; a root is its own.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> len(tree_edges([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5]], [0, 0, 0]).collections[0].get_paths())
        2
    """
    parent = np.asarray(parents)
    child = np.flatnonzero(parent != np.arange(len(parent)))
    return edges(x, np.stack((child, parent[child]), 1), c=c, ax=ax, **style)


def gyroplanes(layer: Gyroplane, *, ax: Any = None, color: str = "#d55e00", width: float = 1.0) -> Any:
    """The hyperplanes of a layer on the disc, which are geodesics.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> len(gyroplanes(Gyroplane(2, 5, PoincareBall(1.0))).lines)
        5
    """
    c = layer.ball.c_value
    ax = prepared(ax, c)
    with torch.no_grad():
        w = layer.weight.double()
        b = layer.bias.double() if layer.bias is not None else w.new_zeros(len(w))
        length = w.norm(dim=-1, keepdim=True).clamp_min(1e-30)
        foot = -(b.unsqueeze(-1) / length) * w / length  # the point of the hyperplane that is nearest to the origin
        along = torch.stack((-w[:, 1], w[:, 0]), -1) / length
        reach = torch.linspace(-12, 12, 200, dtype=torch.float64) / math.sqrt(c or 1.0)
        line = layer.ball.exp(foot.unsqueeze(1), along.unsqueeze(1) * reach.unsqueeze(-1))
        for arc in layer.ball.to_ball(line).numpy():
            ax.plot(*arc.T, color=color, linewidth=width, zorder=3)
    return ax
