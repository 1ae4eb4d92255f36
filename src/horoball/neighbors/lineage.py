"""Above and below: which points a hierarchy that hangs from the origin puts over others.

A point x is above y if, seen from x, the way to y leads away from the origin: the angle at x between the ray that comes
from the origin and the geodesic to y is at most φ. With φ = 90° the points below x are those beyond the hyperplane
through x that stands upright on the ray. The origin is above everything, and no point is above itself. A point above is
nearer to the origin, and x is above y exactly if y is below x. Any point may stand for the origin, as the root of the
hierarchy.

In the tangent chart the angle is that of log_x(y) with x: the frame at x is carried there along the ray itself.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from horoball.manifolds import PoincareBall

__all__ = ["above", "below"]

_BLOCK = 65_536


def above(
    z: Tensor, i: int, ball: PoincareBall, *, k: int | None = None, angle: float = 90.0, root: int | None = None
) -> tuple[Tensor, Tensor]:
    """The points above point i, nearest first.

    Args:
        z: Points in the tangent chart, shape (n, d).
        i: Which.
        ball: Their ball.
        k: How many at most.
        angle: φ in degrees, in (0, 90].
        root: The point that stands for the origin.

    Returns:
        Distances from i, float64, and ids, int64.

    Example:
        >>> z = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 0.1]])
        >>> above(z, 3, PoincareBall())[1]
        tensor([1, 0])
    """
    return _related(z, i, ball, k, angle, root, upwards=True)


def below(
    z: Tensor, i: int, ball: PoincareBall, *, k: int | None = None, angle: float = 90.0, root: int | None = None
) -> tuple[Tensor, Tensor]:
    """The points below point i, nearest first; see `above`.

    Example:
        >>> z = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 0.1]])
        >>> below(z, 1, PoincareBall())[1]
        tensor([3])
    """
    return _related(z, i, ball, k, angle, root, upwards=False)


@torch.no_grad()
def _related(
    z: Tensor, i: int, ball: PoincareBall, k: int | None, angle: float, root: int | None, *, upwards: bool
) -> tuple[Tensor, Tensor]:
    if not 0 < angle <= 90:
        raise ValueError(f"Expected an angle above 0 and up to 90 degrees, got {angle:g}.")
    if k is not None and k < 1:
        raise ValueError(f"Expected k of at least 1, or None for all, got {k}.")
    if root is not None:  # a translation of the ball, which carries the root to the origin
        z = torch.cat([ball.log(z[root].double(), block.double()) for block in z.split(_BLOCK)])
    radius = torch.linalg.vector_norm(z, dim=-1, dtype=torch.float64)
    ids = (radius < radius[i] if upwards else radius > radius[i]).nonzero().flatten()
    one, found = z[i].double(), []
    for block in ids.split(_BLOCK):
        other = z[block].double()
        x, y = (other, one) if upwards else (one, other)
        v = ball.log(x, y)
        length = torch.linalg.vector_norm(v, dim=-1)
        # of angles up to 90° the sine of half the angle says as much, and keeps small angles
        apart = v / length.unsqueeze(-1) - torch.nn.functional.normalize(x, dim=-1, eps=1e-300)
        half = torch.linalg.vector_norm(apart, dim=-1) / 2
        at_origin = torch.linalg.vector_norm(x, dim=-1) == 0
        kept = (half <= math.sin(math.radians(angle) / 2)) | at_origin
        found.append(torch.stack((length[kept], block[kept].double())))
    distances, kept_ids = torch.cat(found, -1) if found else torch.empty(2, 0, dtype=torch.float64)
    order = torch.argsort(distances, stable=True)[:k]
    return distances[order], kept_ids[order].long()
