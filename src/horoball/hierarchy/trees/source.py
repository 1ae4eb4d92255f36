"""What a tree is made from: points, and replicates of them that say how sure they are.

Note [Replicates]: a replicate is what the data might have been. Columns are drawn again with replacement, as
Felsenstein (1985) does with the sites of an alignment: a branch that rests on a few columns does not come back. With a
fitted model, every row is moved as well by a draw from its posterior, decoded: x_i + x̂(z) − x̂(E z), z ~ q(z | x_i), so
that a branch made by noise does not come back either. Fewer than ten columns say little when they are drawn again (two
columns are then often copies of one), so each replicate has a random 70 % of the rows as well. Points of a latent
space have no columns to draw; there a replicate is a draw of every row's posterior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from horoball.manifolds import PoincareBall

__all__ = ["Draw", "Source", "distance_matrix"]

_ELEMENTS = 8_000_000  # distances in float64 at a time
_FEW = 10  # columns below which replicates draw rows as well

Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]  # generator, row numbers -> what is added to these rows


@dataclass(frozen=True)
class Source:
    """Points of rows, and how to draw others that might have been; see Note [Replicates].

    Example:
        >>> source = Source("columns", np.arange(6.0).reshape(3, 2))
        >>> source.replicate(np.random.default_rng(0), np.array([0, 2])).shape
        (2, 2)
    """

    name: str
    points: np.ndarray  # (rows, columns), NaN where a value is missing; or in the ball's tangent chart
    noise: Draw | None = None  # what a replicate adds to rows
    weight: np.ndarray | None = None  # of the columns; 1 if not given
    c: float | None = None  # minus the curvature of a latent space; None for columns, whose root is their center

    @property
    def few_columns(self) -> bool:
        """Whether replicates have to draw rows, as there are too few columns to draw."""
        return self.c is None and self.points.shape[1] < _FEW

    def weighted(self, rows: np.ndarray) -> np.ndarray:
        """The points of rows, as distances are taken between them."""
        return self.points[rows] if self.weight is None else self.points[rows] * self.weight

    def replicate(self, rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        """The points of rows as they might have been."""
        moved = self.points[rows] if self.noise is None else self.points[rows] + self.noise(rng, rows)
        if self.weight is not None:
            moved = moved * self.weight
        if self.c is not None:
            return moved
        # A column that is drawn k times counts k times in squared distances.
        columns = moved.shape[1]
        return moved * np.sqrt(np.bincount(rng.integers(0, columns, columns), minlength=columns))


def distance_matrix(points: np.ndarray, c: float | None = None) -> np.ndarray:
    """All distances between points, float32: straight, or of the ball with curvature −c in its tangent chart.

    They are computed in float64, so that near points far from the origin keep their distance. Between rows with gaps
    it is the distance over the columns that both have, scaled up to all columns (Gower, 1971); rows without a column in
    common get the mean of all.

    Example:
        >>> distance_matrix(np.array([[0.0, 0.0], [3.0, 4.0]]))
        array([[0., 5.],
               [5., 0.]], dtype=float32)
        >>> distance_matrix(np.array([[0.0, 0.0], [3.0, np.nan]]))[0, 1] == np.float32(18**0.5)
        np.True_
    """
    if np.isnan(points).any():
        return _shared_distances(points)
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


def _shared_distances(x: np.ndarray) -> np.ndarray:
    """Distances over the columns that two rows have, scaled up to all columns."""
    known = (~np.isnan(x)).astype(np.float64)
    value = np.where(known > 0, x, 0.0)
    shared = known @ known.T
    square = (value**2) @ known.T
    square = square + square.T - 2 * value @ value.T
    with np.errstate(invalid="ignore", divide="ignore"):
        d = np.sqrt(np.maximum(square, 0.0) * (x.shape[1] / shared))
    d[shared == 0] = d[shared > 0].mean()
    np.fill_diagonal(d, 0.0)
    return d.astype(np.float32)
