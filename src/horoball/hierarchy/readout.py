"""What an embedding says about the hierarchy itself: how deep a point is, and what it hangs on."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from horoball.hierarchy.space import Space
from horoball.manifolds import PoincareBall

__all__ = ["depth", "nearest_ancestor"]


def depth(z: Tensor, ball: PoincareBall, *, root: Tensor | None = None) -> np.ndarray:
    """How deep points are: their distance from the origin, or from a root.

    The origin is where the prior puts its mass, not the root of the data: give a root if one is known.

    Args:
        z: Points in the tangent chart, shape (n, d).
        ball: Their ball.
        root: A point in the tangent chart, shape (d,).

    Example:
        >>> depth(torch.tensor([[3.0, 4.0], [0.0, 1.0]]), PoincareBall())
        array([5., 1.])
    """
    z = z.detach().cpu().double()
    with torch.no_grad():
        return ball.dist(z, (torch.zeros_like(z[0]) if root is None else root).to(z)).numpy()


def nearest_ancestor(space: Space, depths: ArrayLike) -> np.ndarray:
    """For each point the nearest of those that are less deep; a point that no other is above has itself.

    Following it leads to the root, so it makes a tree of the points. It is one reading of an embedding, not a
    parent that was learned: the nearest point above may be a sibling's.

    Args:
        space: Distances in the embedding.
        depths: Depth of each point, from `depth`.

    Example:
        >>> z = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 0.1]])
        >>> ball = PoincareBall()
        >>> nearest_ancestor(Space.of_points(z, ball), depth(z, ball))
        array([0, 0, 0, 1])
    """
    deep = np.asarray(depths, np.float64)
    if deep.shape != (space.n,):
        raise ValueError(f"Expected {space.n} depths, one per point, got shape {deep.shape}.")
    everything = np.arange(space.n)
    ancestor = np.empty(space.n, np.int64)
    for rows in space.row_blocks():
        d = np.where(deep < deep[rows, None], space.between(rows, everything), np.inf)
        nearest = d.argmin(1)
        ancestor[rows] = np.where(np.isfinite(d[np.arange(len(rows)), nearest]), nearest, rows)
    return ancestor
