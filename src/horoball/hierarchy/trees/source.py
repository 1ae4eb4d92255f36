"""What a tree is made from: points, and replicates of them that say how sure they are.

Note [Replicates]: a replicate is what the data might have been. Columns are drawn again with replacement, as
Felsenstein (1985) does with the sites of an alignment: a branch that rests on a few columns does not come back. With a
fitted model, every row is moved as well by a draw from its posterior, decoded: x_i + x̂(z) − x̂(E z), z ~ q(z | x_i), so
that a branch made by noise does not come back either. Points of a latent space have no columns to draw; there a
replicate is a draw of every row's posterior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from horoball.manifolds import PoincareBall

__all__ = ["Source", "distance_matrix"]

_ELEMENTS = 8_000_000  # distances in float64 at a time


Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]  # generator, row numbers -> points of these rows


@dataclass(frozen=True)
class Source:
    """Points of rows, and how to draw others that might have been.

    Example:
        >>> source = Source.of_columns("columns", np.arange(6.0).reshape(3, 2))
        >>> source.replicate(np.random.default_rng(0), np.array([0, 2])).shape
        (2, 2)
    """

    name: str
    points: np.ndarray  # (rows, columns), or in the ball's tangent chart
    replicate: Draw
    c: float | None = None  # minus the curvature; None for columns, whose root is their center

    @classmethod
    def of_columns(
        cls, name: str, x: np.ndarray, weight: np.ndarray | None = None, shift: Draw | None = None
    ) -> Source:
        """Columns, each with a weight, and how posterior draws move the rows; see Note [Replicates]."""
        columns = x.shape[1]

        def replicate(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
            # A column that is drawn k times counts k times in squared distances.
            times = np.bincount(rng.integers(0, columns, columns), minlength=columns)
            moved = x[rows] if shift is None else x[rows] + shift(rng, rows)
            return moved * (np.sqrt(times) if weight is None else weight * np.sqrt(times))

        return cls(name, x if weight is None else x * weight, replicate)


def distance_matrix(points: np.ndarray, c: float | None = None) -> np.ndarray:
    """All distances between points, float32: straight, or of the ball with curvature −c in its tangent chart.

    They are computed in float64, so that near points far from the origin keep their distance.

    Example:
        >>> distance_matrix(np.array([[0.0, 0.0], [3.0, 4.0]]))
        array([[0., 5.],
               [5., 0.]], dtype=float32)
    """
    z = torch.from_numpy(np.ascontiguousarray(points, np.float64))
    n = len(z)
    ball = None if c is None or c == 0 else PoincareBall(c)
    out = np.empty((n, n), np.float32)
    block = max(1, _ELEMENTS // n)
    with torch.no_grad():
        for first in range(0, n, block):
            rows = z[first : first + block]
            if ball is None:
                d = torch.cdist(rows, z, compute_mode="use_mm_for_euclid_dist")
            else:
                d = ball.cdist(rows, z)
            out[first : first + block] = d.numpy()
    np.fill_diagonal(out, 0)
    return out
