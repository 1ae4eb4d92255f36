from __future__ import annotations

import pytest
import torch
from torch import Tensor

from horoball.manifolds import PoincareBall, gyrovector


def drawn(seed: int, scale: float = 1.5) -> tuple[Tensor, Tensor, Tensor]:
    z, y, v = torch.randn(3, 50, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return scale * z, scale * y, v


@pytest.mark.parametrize("c", [0.2, 1.0, 3.0])
def test_transport_is_the_gyration_of_the_ends(c: float) -> None:
    ball = PoincareBall(c)
    z, y, v = drawn(0, 0.5)
    a, b = ball.to_ball(y), -ball.to_ball(z)
    small = 1e-3 * v  # a gyration is linear, but takes points of the ball
    add = lambda p, q: gyrovector.mobius_add(p, q, c=c)  # noqa: E731
    gyration = add(-add(a, b), add(a, add(b, small))) * 1e3
    torch.testing.assert_close(ball.transport(z, y, v), gyration, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("scale", [0.01, 1.5, 10.0])
def test_transport_keeps_lengths_and_the_geodesic(scale: float) -> None:
    ball = PoincareBall(1.0)
    z, y, v = drawn(1, scale)
    moved = ball.transport(z, y, v)
    torch.testing.assert_close(moved.norm(dim=-1), v.norm(dim=-1))
    torch.testing.assert_close(ball.transport(y, z, moved), v, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(ball.transport(z, y, ball.log(z, y)), -ball.log(y, z))


def test_nothing_turns_on_the_spot_from_the_origin_or_in_the_plane() -> None:
    z, y, v = drawn(2)
    origin = torch.zeros_like(z)
    for ball, start, end in ((PoincareBall(1.0), z, z), (PoincareBall(1.0), origin, z), (PoincareBall(0.0), z, y)):
        torch.testing.assert_close(ball.transport(start, end, v), v)
