"""Ball coordinates can be read back, however far out their points are."""

from __future__ import annotations

import pytest
import torch

from horoball.geometry import PoincareBall
from horoball.geometry.coordinates import FARTHEST, RimWarning, in_ball, rim_report


@pytest.mark.parametrize("c", [1e-6, 0.3, 1.0, 7.7, 1000.0])
@pytest.mark.parametrize("d", [1, 2, 10, 1000])
@pytest.mark.parametrize("learnable", [False, True])
def test_coordinates_of_any_point_can_be_read_back(c: float, d: int, learnable: bool) -> None:
    ball = PoincareBall(c, learnable=learnable)
    generator = torch.Generator().manual_seed(0)
    direction = torch.nn.functional.normalize(torch.randn(200, d, generator=generator, dtype=torch.float64), dim=-1)
    radius = torch.logspace(-3, 30, 200, dtype=torch.float64).unsqueeze(-1)
    with torch.no_grad():
        back = ball.from_ball(in_ball(direction * radius / c**0.5, ball))
    found = c**0.5 * back.norm(dim=-1)
    expected = radius.ravel().clamp_max(FARTHEST)
    assert torch.allclose(found, expected, rtol=1e-2)
    assert torch.allclose(torch.nn.functional.normalize(back, dim=-1), direction, atol=1e-6)


def test_near_points_have_the_very_coordinates_of_the_ball() -> None:
    z, ball = torch.randn(100, 3, dtype=torch.float64), PoincareBall(0.7)
    assert torch.equal(in_ball(z, ball), ball.to_ball(z))


def test_a_report_counts_over_blocks_and_is_silent_where_nothing_was_moved() -> None:
    ball = PoincareBall(4.0)
    with rim_report(ball) as note:
        note(torch.tensor([1.0, 16.9]))
    noted = rim_report(ball, "node", first=100)
    note = noted.__enter__()
    note(torch.tensor([1.0, 18.0]))
    note(torch.tensor([2.0, 100.0]))
    with pytest.warns(RimWarning, match=r"^2 nodes lie farther .*: node 101, 103, the farthest at .* = 200\."):
        noted.__exit__(None, None, None)


def test_the_euclidean_model_has_no_rim() -> None:
    with rim_report(PoincareBall(0.0)) as note:
        note(torch.tensor([1e30]))
    assert in_ball(torch.tensor([[1e30]]), PoincareBall(0.0)).item() == pytest.approx(5e29)
