"""Ball coordinates that can always be read back.

Coordinates crowd at the rim: beyond √c·d(0, z) ≈ 37 float64 has none left below 1, and what rounds to the rim has lost
its point. Points farther out than 34 are shown at 34, in their direction, and whoever asked for them is warned.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from horoball.manifolds.poincare_ball import PoincareBall
from horoball.numerics.kernels import may_hold, wide

__all__ = ["FARTHEST", "RimWarning", "in_ball", "rim_report"]

FARTHEST = 34.0  # of √c·d(0, z): 1 − tanh(17) is 15 roundings, enough for a norm of any dimension to stay below 1
_NAMED = 5  # points that a report names


class RimWarning(UserWarning):
    """Some points lie farther out than ball coordinates can hold.

    Example:
        >>> issubclass(RimWarning, UserWarning)
        True
    """


def in_ball(z: Tensor, ball: PoincareBall) -> Tensor:
    """Ball coordinates in float64 that `PoincareBall.from_ball` takes: points beyond √c·|z| = 34 are shown there.

    Args:
        z: Points in the tangent chart, shape (*batch, d).
        ball: The ball.

    Example:
        >>> ball = PoincareBall(1.0)
        >>> ball.from_ball(in_ball(torch.tensor([[2.0, 0.0], [1e20, 0.0]]), ball)).round(decimals=1)
        tensor([[ 2.,  0.],
                [34.,  0.]], dtype=torch.float64)
    """
    z = z.double()
    if ball.is_euclidean:
        return ball.to_ball(z)
    radius = _radius(torch.linalg.vector_norm(z, dim=-1, keepdim=True), ball)
    far = radius > FARTHEST
    if may_hold(far):
        z = torch.where(far, z * (FARTHEST / radius), z)
    return ball.to_ball(z)


@contextmanager
def rim_report(ball: PoincareBall, what: str = "row", first: int = 0) -> Iterator[Callable[[Tensor], None]]:
    """Collect distances from the origin, block by block, and warn once of the points that `in_ball` has moved.

    Args:
        ball: The ball.
        what: What a point stands for.
        first: Number of the first one.

    Example:
        >>> with warnings.catch_warnings(record=True, action="always") as caught, rim_report(PoincareBall(1.0)) as note:
        ...     note(torch.tensor([1.0, 2.0]))
        ...     note(torch.tensor([3.0, 50.0]))
        >>> str(caught[0].message)[:72]
        '1 row lies farther from the origin than ball coordinates can hold: row 3'
    """
    seen, count = first, 0
    named: list[int] = []
    farthest = 0.0

    def note(distance: Tensor) -> None:
        nonlocal seen, count, farthest
        radius = _radius(distance.double(), ball)
        far = (radius > FARTHEST).nonzero().ravel()
        if not ball.is_euclidean and len(far):
            count += len(far)
            named.extend((seen + far[: _NAMED - len(named)]).tolist())
            farthest = max(farthest, float(radius.max()))
        seen += len(distance)

    yield note
    if count:
        rows, lie = (f"{count:,} {what}s", "lie") if count > 1 else (f"1 {what}", "lies")
        shown = ", ".join(map(str, named)) + (" …" if count > _NAMED else "")
        warnings.warn(
            f"{rows} {lie} farther from the origin than ball coordinates can hold: {what} {shown}, the farthest at "
            f"sqrt(c)·distance = {farthest:.4g}. Coordinates put them at {FARTHEST:g}, in their direction. Either they "
            "are far from what the model was fitted to, or it did not converge: lower the learning rate, or lower c.",
            RimWarning,
            stacklevel=4,
        )


def _radius(distance: Tensor, ball: PoincareBall) -> Tensor:
    """√c·distance."""
    c = ball.c
    return distance * (wide(c).sqrt() if isinstance(c, Tensor) else math.sqrt(c))
