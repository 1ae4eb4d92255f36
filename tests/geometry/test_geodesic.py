from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import torch
from torch import Tensor

from horoball.geometry import PoincareBall, gyrovector
from horoball.geometry.exponential import plain_transport
from horoball.geometry.translation import transport
from tests import oracle


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


def gyration(z: Tensor, y: Tensor, v: Tensor, c: float) -> Tensor:
    """From the Möbius sum alone, in 200 digits; it is linear in v, but takes points of the ball."""
    rows = []
    for ends in zip(z, y, v, strict=True):
        with mp.workdps(200):
            a, b = (oracle.to_ball(oracle.array(end), c) for end in ends[:2])
            small = mp.mpf(10) ** -60
            w = small * oracle.array(ends[2])
            add = lambda p, q: oracle.ball_mobius_add(p, q, c)  # noqa: E731
            rows.append(oracle.floats(add(-add(b, -a), add(b, add(-a, w))) / small))
    return torch.tensor(np.array(rows))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("c", [0.3, 1.0])
@pytest.mark.parametrize(
    ("radius", "apart"), [(1e-3, 1e-3), (1.0, 1.0), (6.0, 1.0), (6.0, None), (12.0, None), (30.0, None)]
)
def test_transport_is_right_for_near_pairs_and_far_ones(
    radius: float, apart: float | None, c: float, dtype: torch.dtype
) -> None:
    z, y, v = drawn(3)
    z, y, v = (radius * z / z.norm(dim=-1, keepdim=True))[:6], y[:6], v[:6]
    ball = PoincareBall(c)
    y = (
        radius * y / y.norm(dim=-1, keepdim=True)
        if apart is None
        else ball.exp(z, apart * v / v.norm(dim=-1, keepdim=True))
    )
    z, y, v = z.to(dtype), y.to(dtype), v.to(dtype)
    truth = gyration(z, y, v, c)
    # The rounding of a direction turns a near pair by exp(√c r) times as much, whoever computes; inside it is float64.
    spread = torch.finfo(dtype).eps if apart is None else torch.finfo(torch.float64).eps * 2.718 ** (c**0.5 * radius)
    tolerance = 50 * max(torch.finfo(dtype).eps, spread)
    torch.testing.assert_close(ball.transport(z, y, v).double(), truth, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(plain_transport(z, y, v, c).double(), truth, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("radius", [0.0, 1e-9, 0.7, 5.0])
def test_gradients_of_transport_are_those_of_the_plain_formula(radius: float) -> None:
    z, y, v = (part[:4] for part in drawn(4))
    z = radius * z / z.norm(dim=-1, keepdim=True)
    for c in (0.4, 1.0):
        inputs = tuple(part.clone().requires_grad_() for part in (z, y, v))
        weights = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        got, expected = (
            torch.autograd.grad(carried(*inputs, c), inputs, weights) for carried in (transport, plain_transport)
        )
        for mine, plain in zip(got, expected, strict=True):
            torch.testing.assert_close(mine, plain, rtol=1e-9, atol=1e-12)
        for only in range(3):  # one input at a time
            alone = [part.detach().requires_grad_(i == only) for i, part in enumerate(inputs)]
            (mine,) = torch.autograd.grad(transport(*alone, c), alone[only], weights)
            torch.testing.assert_close(mine, got[only])


def test_transport_has_second_derivatives_transforms_and_a_gradient_in_c() -> None:
    z, y, v = (part[:2, :3].clone().requires_grad_() for part in drawn(5, 0.7))
    c = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *given: transport(*given, 0.8), (z, y, v))
    assert torch.autograd.gradgradcheck(lambda *given: transport(*given, 0.8), (z, y, v))
    assert torch.autograd.gradcheck(lambda curvature: transport(z.detach(), y.detach(), v.detach(), curvature), (c,))
    ball, parts = PoincareBall(0.8), tuple(part.detach() for part in (z, y, v))
    torch.testing.assert_close(torch.func.vmap(ball.transport)(*parts), ball.transport(*parts))
    jacobian = torch.func.jacrev(lambda start: ball.transport(start, parts[1], parts[2]).sum())(parts[0])
    start = parts[0].clone().requires_grad_()
    torch.testing.assert_close(jacobian, torch.autograd.grad(ball.transport(start, *parts[1:]).sum(), start)[0])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_transport_holds_at_any_radius(dtype: torch.dtype) -> None:
    z, y, v = (part.to(dtype).requires_grad_() for part in drawn(6, 1e4))
    moved = PoincareBall(1.0).transport(z, y, v)
    torch.testing.assert_close(moved.norm(dim=-1), v.norm(dim=-1))
    assert all(bool(part.isfinite().all()) for part in torch.autograd.grad(moved.sum(), (z, y, v)))
    z, v = z.detach(), v.detach()
    torch.testing.assert_close(PoincareBall(1.0).transport(z, 2 * z, v), v)  # on one ray, to the last digit
