"""What users give as points: checked, and in the tangent chart."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from horoball.data.tables.number_arrays import check_unmasked
from horoball.manifolds import PoincareBall
from horoball.neighbors.lift import FARTHEST

__all__ = ["check_coordinates", "in_chart"]

_COORDINATES = ("tangent", "ball")


def check_coordinates(coordinates: str) -> None:
    """Refuse a word that names no coordinates.

    Example:
        >>> check_coordinates("Ball")
        Traceback (most recent call last):
        ...
        ValueError: Expected coordinates 'tangent' or 'ball', got 'Ball'.
    """
    if coordinates not in _COORDINATES:
        raise ValueError(f"Expected coordinates {' or '.join(map(repr, _COORDINATES))}, got {coordinates!r}.")


def in_chart(z: ArrayLike | Tensor, ball: PoincareBall, coordinates: str, d: int | None, what: str) -> Tensor:
    """Points in the tangent chart, on the CPU; float32 stays float32, all else becomes float64.

    Args:
        z: Points, shape (n, d).
        ball: Their ball.
        coordinates: `"tangent"` or `"ball"`.
        d: The dimension that is expected, if one is.
        what: What they are, for messages.

    Example:
        >>> in_chart([[0.5, 0.0]], PoincareBall(), "ball", 2, "Queries")
        tensor([[1.0986, 0.0000]], dtype=torch.float64)
    """
    check_coordinates(coordinates)
    points = z.detach().cpu() if isinstance(z, Tensor) else _as_tensor(z, what)
    if points.dtype == torch.bool or points.is_complex():
        raise TypeError(f"{what} are real numbers, got {points.dtype}.")
    if points.dim() != 2 or points.shape[1] == 0 or (d is not None and points.shape[1] != d):
        hint = " Give a single point as z[None]." if points.dim() == 1 else ""
        raise ValueError(f"{what} have shape (n, {d or 'd'}), got {tuple(points.shape)}.{hint}")
    if not bool(points.isfinite().all()):
        row = int((~points.isfinite().all(-1)).nonzero()[0])
        raise ValueError(f"{what} are finite, got NaN or infinity in row {row}.")
    if coordinates == "ball":
        points = ball.from_ball(points.double())
    points = points if points.dtype == torch.float32 else points.double()
    farthest = float(torch.linalg.vector_norm(points, dim=-1, dtype=torch.float64).max()) if len(points) else 0.0
    c = ball.c_value
    if c**0.5 * farthest > FARTHEST:
        raise ValueError(
            f"{what} lie within sqrt(c)·|z| = {FARTHEST:g} of the origin, got {c**0.5 * farthest:.3g}. Farther out the "
            "search by inner products overflows."
        )
    return points.contiguous()


def _as_tensor(z: ArrayLike, what: str) -> Tensor:
    check_unmasked(z, f"The array of {what[0].lower()}{what[1:]}")
    try:
        array = np.array(z)
    except ValueError:  # rows of different lengths
        raise ValueError(f"{what} have shape (n, d), got rows of different lengths.") from None
    if array.dtype.kind in "US" or (array.dtype.kind == "O" and any(isinstance(one, str) for one in array.flat)):
        raise TypeError(
            f"{what} are coordinates, got text. The coordinates of a point of an index are index.points[i], where i "
            "counts points in the order in which they were added."
        )
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{what} are real numbers, got {array.dtype}.")
    return torch.from_numpy(array if array.dtype.itemsize <= 8 else array.astype(np.float64))
