"""Steps of an optimizer measured where the points are, not in the chart.

Note [Local steps]: in the tangent chart, a step δ at a point z of radius r = √c|z| is as long as

    |δ_∥ + (sinh r / r) δ_⊥|,

so that a step of 0.02 across, at radius 12, is 135 long. Adam's steps have about one length in every direction of its
coordinates: they would throw whatever is near the rim across the ball. So it is shown gradients in the orthonormal
frame of each point, g_∥ + (r / sinh r) g_⊥, and its step is taken as one in that frame.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from horoball.geometry.ball import PoincareBall

_FLAT = 1e-3  # √c|z| below which r / sinh r is 1 in float32


def take_local_steps(optimizer: torch.optim.Optimizer, points: torch.nn.Parameter, ball: PoincareBall) -> None:
    """Have an optimizer move points by steps in their own frames; see Note [Local steps]."""
    if ball.is_euclidean:
        return
    before: list[Tensor] = []

    def show(*_: Any) -> None:
        before.clear()
        if points.grad is not None:
            before.append(points.detach().clone())
            points.grad.copy_(_shortened(points.grad, before[0], ball))

    @torch.no_grad()
    def take(*_: Any) -> None:
        if before:
            points.copy_(before[0] + _shortened(points - before[0], before[0], ball))
            before.clear()

    optimizer.register_step_pre_hook(show)
    optimizer.register_step_post_hook(take)


@torch.no_grad()
def _shortened(vectors: Tensor, points: Tensor, ball: PoincareBall) -> Tensor:
    """v_∥ + (r / sinh r) v_⊥: gradients in the frames, or the chart's vectors of those in the frames."""
    radius = torch.linalg.vector_norm(points, dim=-1, keepdim=True)
    r = ball.c_value**0.5 * radius
    ratio = torch.where(r < _FLAT, 1.0, r / torch.sinh(r))
    direction = points / radius.clamp_min(torch.finfo(points.dtype).tiny)
    along = (vectors * direction).sum(-1, keepdim=True) * direction
    return along + ratio * (vectors - along)
