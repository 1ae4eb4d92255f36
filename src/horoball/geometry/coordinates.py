"""Ball coordinates that can always be read back, and points of any dimension on the disc.

Coordinates crowd at the rim: beyond √c·d(0, z) ≈ 37 float64 has none left below 1, and what rounds to the rim has lost
its point. Points farther out than 34 are shown at 34, in their direction, and whoever asked for them is warned.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.geometry.ball import PoincareBall
from horoball.geometry.kernels import may_hold, wide
from horoball.geometry.manifold import curvatures
from horoball.geometry.product import ProductSpace

FARTHEST = 34.0  # of √c·d(0, z): 1 − tanh(17) is 15 roundings, enough for a norm of any dimension to stay below 1
_NAMED = 5  # points that a report names


class RimWarning(UserWarning):
    """Some points lie farther out than ball coordinates can hold."""


def frozen(space: Any) -> Any:
    """The space on the CPU with the curvature that it has now, without gradients."""
    if isinstance(space, PoincareBall):
        return PoincareBall(space.c_value)
    return copy.deepcopy(space).cpu().requires_grad_(False) if isinstance(space, torch.nn.Module) else space


def in_ball(z: Tensor, ball: PoincareBall) -> Tensor:
    """Ball coordinates in float64 that `PoincareBall.from_ball` takes: points beyond √c·|z| = 34 are shown there.

    Args:
        z: Points in the tangent chart, shape (*batch, d).
        ball: The ball.
    """
    z = z.double()
    if not isinstance(ball, PoincareBall):  # another manifold has what coordinates it has
        if isinstance(ball, ProductSpace):
            parts = zip(ball.split(z), ball.balls, strict=True)
            return torch.cat([in_ball(part, factor) for part, factor in parts], -1)
        return z
    if ball.is_euclidean:
        return ball.to_ball(z)
    radius = _radius(torch.linalg.vector_norm(z, dim=-1, keepdim=True), ball)
    far = radius > FARTHEST
    if may_hold(far):
        z = torch.where(far, z * (FARTHEST / radius), z)
    return ball.to_ball(z)


@contextmanager
def rim_report(ball: PoincareBall, what: str = "row", first: int = 0) -> Iterator[Callable[[Tensor], None]]:
    """Collect distances from the origin, block by block, and warn once of the points that `in_ball` has moved."""
    seen, count = first, 0
    named: list[int] = []
    farthest = 0.0

    def note(distance: Tensor) -> None:
        nonlocal seen, count, farthest
        if not isinstance(ball, PoincareBall):
            seen += len(distance)
            return
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


_STEPS = 100  # steps to the mean; points of ordinary spread need about twenty


class Projection(NamedTuple):
    """Points on the disc, and what was done to them."""

    points: np.ndarray  # (n, 2), float64, in the tangent chart
    note: str  # for the page's caption; empty where nothing was done


@torch.no_grad()
def project(z: Tensor, ball: PoincareBall) -> Projection:
    """Two dimensions of an embedding: itself for d = 2, tangent-space PCA at the Fréchet mean for d > 2.

    The logarithms of the points at their mean are turned to their two main axes and shown around the disc's center.
    Distances from the mean are shortened to the part that the two axes keep; the note says how much that is.

    Args:
        z: Points, shape (n, d), in the tangent chart.
        ball: The ball.

    Example:
        >>> flat = project(torch.randn(50, 5, dtype=torch.float64), PoincareBall(1.0))
        >>> flat.points.shape, flat.note[:43]
        ((50, 2), 'The 5-dimensional embedding is projected: t')
    """
    n, d = z.shape
    if d == 1:
        line = torch.cat((z, torch.zeros_like(z)), -1)
        return Projection(line.double().numpy(), "The embedding has one dimension: it lies on a line of the disc.")
    if d == 2 and isinstance(ball, PoincareBall):
        return Projection(z.double().numpy(), "")
    z = z.double()
    v = ball.log(frechet_mean(z, ball).expand_as(z), z)
    values, axes = torch.linalg.eigh(v.T @ v / n)
    axes = axes[:, -2:].flip(-1)
    # An eigenvector's sign is chance: the largest entry is made positive, so that a map looks the same every time.
    largest = axes.gather(0, axes.abs().argmax(0, keepdim=True))
    kept = float(values[-2:].sum() / values.sum().clamp_min(torch.finfo(values.dtype).tiny))
    way = (
        "PCA"
        if getattr(ball, "is_euclidean", False)
        else "tangent-space PCA at the Fréchet mean, which is the disc's center"
    )
    note = (
        f"The {d}-dimensional embedding is projected: {way}. The two axes keep {100 * kept:.0f} % of the squared "
        "distances from the mean."
    )
    return Projection((v @ (axes * largest.sign())).numpy(), note)


@torch.no_grad()
def frechet_mean(z: Tensor, ball: PoincareBall) -> Tensor:
    """The point with the least sum of squared distances to all points.

    Args:
        z: Points, shape (n, d), in the tangent chart.
        ball: The ball.

    Example:
        >>> frechet_mean(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), PoincareBall(1.0)).norm() < 1e-6
        tensor(True)
    """
    # Of another space how far it curves is not known, so that steps are whole ones.
    mu, root = torch.zeros_like(z[0]), math.sqrt(max(curvatures(ball).values(), default=0.0))
    for _ in range(_STEPS):
        v = ball.log(mu.expand_as(z), z)
        # The squared distance curves by as much as r·coth r across its direction: a whole step would go too far.
        r = (root * v.norm(dim=-1)).clamp_min(1e-6)
        step = v.mean(0) / (r / torch.tanh(r)).mean()
        mu = ball.exp(mu, step)
        if float(step.norm()) < 1e-9:  # far below a pixel
            break
    return mu
