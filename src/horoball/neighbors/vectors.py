"""Points as vectors for engines that know inner products, such as vector databases.

The nearest point of a query has the largest inner product of their vectors. See `lift` for the formulas: vectors of
points are (A, h), those of queries (−1, g/cosh √cR_q), with lengths in units of 1/√c.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from horoball.manifolds import PoincareBall
from horoball.neighbors.lift import Lift
from horoball.neighbors.points import in_chart

__all__ = ["query_vectors", "vectors"]


def vectors(z: ArrayLike | Tensor, ball: PoincareBall, *, coordinates: str = "tangent") -> np.ndarray:
    """What to store of points: float32, shape (n, d + 1). They stand for themselves, whatever else is stored.

    Args:
        z: Points, shape (n, d).
        ball: Their ball.
        coordinates: `"tangent"`, as models carry points, or `"ball"`, as estimators, commands and files give them.

    Example:
        >>> vectors([[0.0, 0.0], [0.0, 1.0]], PoincareBall(1.0))
        array([[0.        , 0.        , 0.        ],
               [0.54308...,  0.        , 1.1752...]], dtype=float32)
    """
    return _lift(ball).points(in_chart(z, ball, coordinates, None, "Points"))


def query_vectors(z: ArrayLike | Tensor, ball: PoincareBall, *, coordinates: str = "tangent") -> np.ndarray:
    """What to search for: float32, shape (n, d + 1). See `vectors`.

    Example:
        >>> ball = PoincareBall(1.0)
        >>> stored = vectors([[0.0, 0.0], [0.0, 1.0], [2.0, 0.0]], ball)
        >>> (query_vectors([[1.5, 0.5]], ball) @ stored.T).argmax()
        np.int64(2)
    """
    return _lift(ball).queries(in_chart(z, ball, coordinates, None, "Queries")).rows


def _lift(ball: PoincareBall) -> Lift:
    """One lift for all points of a ball, so that vectors made on different days go together."""
    c = ball.c_value
    return Lift(1.0, 1 / math.sqrt(c), torch.inf) if c > 0 else Lift(0.0, 1.0, torch.inf)
