"""Steps in the frames of points."""

from __future__ import annotations

import pytest
import torch

from horoball.geometry import PoincareBall
from horoball.graphs.local_steps import take_local_steps

BALL = PoincareBall(2.0)


def _moved(radius: float, gradient: torch.Tensor, rate: float, ball: PoincareBall = BALL) -> tuple[torch.Tensor, ...]:
    direction = torch.tensor([0.6, 0.8, 0.0], dtype=torch.float64)
    points = torch.nn.Parameter((radius * direction).unsqueeze(0))
    before = points.detach().clone()
    optimizer = torch.optim.Adam([points], rate, fused=True)
    take_local_steps(optimizer, points, ball)
    points.grad = gradient.double().unsqueeze(0)
    optimizer.step()
    return before, points.detach()


@pytest.mark.parametrize("radius", [0.0, 1e-5, 0.3, 4.0, 9.0])
def test_a_step_is_as_long_near_the_rim_as_at_the_origin(radius: float) -> None:
    before, after = _moved(radius, torch.tensor([0.3, -2.0, 1.0]), 1e-4)
    # Adam's first step is the rate in each of three directions
    torch.testing.assert_close(
        BALL.dist(before, after), torch.tensor([3**0.5 * 1e-4], dtype=torch.float64), rtol=1e-3, atol=1e-9
    )


def test_a_step_across_keeps_the_radius() -> None:
    before, after = _moved(9.0, torch.tensor([0.0, 0.0, 1.0]), 1e-2)
    torch.testing.assert_close(before.norm(dim=1), after.norm(dim=1), rtol=1e-6, atol=0.0)
    assert after[0, 2] < 0


def test_flat_space_has_the_steps_of_its_chart() -> None:
    before, after = _moved(9.0, torch.tensor([1.0, -1.0, 1.0]), 0.1, PoincareBall(0.0))
    torch.testing.assert_close(after - before, torch.tensor([[-0.1, 0.1, -0.1]], dtype=torch.float64))


def test_points_without_a_gradient_stay() -> None:
    points, other = torch.nn.Parameter(torch.ones(2, 2)), torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.Adam([points, other], 0.1)
    take_local_steps(optimizer, points, BALL)
    other.grad = torch.ones(1)
    optimizer.step()
    assert torch.equal(points.detach(), torch.ones(2, 2))
    assert other.item() < 1
