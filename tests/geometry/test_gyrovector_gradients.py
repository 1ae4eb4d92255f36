"""Gradients of the formulas of gyrovector spaces, in the points and in c."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from horoball.geometry import gyrovector
from tests import oracle
from tests.geometry.gyropoints import BINARY, NORMAL, binary, curvatures, dtypes, points, vectors


@curvatures
def test_gradients_agree_with_mpmath(c: float) -> None:
    x, y = (points(seed, c=c, largest=4.0)[7:9] for seed in (1, 2))
    for name in ("dist", "gyroplane_dist"):
        a = NORMAL.double()
        f, g = {
            "dist": (gyrovector.dist, oracle.ball_dist),
            "gyroplane_dist": (BINARY["gyroplane_dist"], lambda z, p, c: oracle.ball_gyroplane_dist(z, p, NORMAL, c)),
        }[name]
        for x1, y1 in zip(x, y, strict=True):
            x1 = x1.clone().requires_grad_()
            (grad,) = torch.autograd.grad(f(x1, y1, c=c), x1)
            expected = oracle.derivative(lambda p, g=g, y1=y1: g(p, y1, c), x1.detach(), a)
            assert (grad @ a).item() == pytest.approx(expected, rel=1e-12, abs=0.0)


@binary
def test_small_curvature_tends_to_the_plane_at_the_rate_of_its_gradient(f: Callable[..., Tensor]) -> None:
    x, y = (0.3 * vectors(seed, largest=1.0, n=6)[2:] for seed in (39, 40))
    small = 1e-7
    zero = torch.zeros((), dtype=torch.float64, requires_grad=True)
    flat = f(x, y, c=zero)
    direction = torch.linspace(0.5, 1.5, flat.numel(), dtype=torch.float64).reshape(flat.shape)
    (rate,) = torch.autograd.grad((flat * direction).sum(), zero)
    difference = ((f(x, y, c=small) - flat) * direction).sum() / small
    assert rate.item() == pytest.approx(difference.item(), rel=1e-5, abs=1e-7)


def test_distance_has_the_known_derivative_in_c_at_zero() -> None:
    x, y = torch.tensor([0.3, -0.2], dtype=torch.float64), torch.tensor([-0.4, 0.5], dtype=torch.float64)
    c = torch.zeros((), dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(gyrovector.dist(x, y, c=c), c)
    step = (x - y).norm()
    torch.testing.assert_close(grad, step * (x @ x + y @ y - step**2 / 3))


@binary
@pytest.mark.parametrize("c", [0.01, 0.3, 1.4])
def test_gradients_agree_with_finite_differences(f: Callable[..., Tensor], c: float) -> None:
    generator = torch.Generator().manual_seed(41)
    x, y = (torch.rand(4, 3, generator=generator, dtype=torch.float64) - 0.5 for _ in range(2))
    x, y = x.requires_grad_(), y.requires_grad_()
    curvature = torch.tensor(c, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, y, c: f(x, y, c=c), (x, y, curvature))


@binary
@dtypes
@pytest.mark.parametrize("c", [0.0, 1.0])
def test_gradients_are_finite_at_the_origin_and_at_coincident_points(
    f: Callable[..., Tensor], dtype: torch.dtype, c: float
) -> None:
    x = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.3, 0.1, -0.2], [0.3, 0.1, -0.2]], dtype=dtype)
    y = torch.tensor([[0.0, 0.0, 0.0], [0.1, 0.2, 0.0], [0.0, 0.0, 0.0], [0.3, 0.1, -0.2]], dtype=dtype)
    curvature = torch.tensor(c, dtype=dtype)
    leaves = tuple(t.requires_grad_() for t in (x, y, curvature))
    for leaf, grad in zip(leaves, torch.autograd.grad(f(x, y, c=curvature).sum(), leaves), strict=True):
        assert grad.dtype == leaf.dtype
        assert grad.isfinite().all()


@curvatures
def test_gradient_of_the_distance_at_coincident_points_is_zero(c: float) -> None:
    x = torch.tensor([[0.3, 0.1], [0.0, 0.0]], requires_grad=True)
    y = x.detach().clone().requires_grad_()
    for grad in torch.autograd.grad(gyrovector.dist(x, y, c=c).sum(), (x, y)):
        assert torch.equal(grad, torch.zeros(2, 2))


def test_gradients_are_finite_close_to_the_boundary() -> None:
    x = torch.tensor([[0.9999999, 0.0, 0.0], [0.0, -0.9999999, 0.0]])
    y = torch.tensor([[-0.9999999, 0.0, 0.0], [0.0, -0.9999998, 1e-4]])
    for name in ("mobius_add", "dist", "log", "gyroplane_dist", "gyroplane", "log0"):
        leaves = (x.clone().requires_grad_(), y.clone().requires_grad_())
        for grad in torch.autograd.grad(BINARY[name](*leaves, c=1.0).sum(), leaves):
            assert grad.isfinite().all(), name
