"""`cdist` against `dist`, which is held against mpmath in test_triangle."""

from __future__ import annotations

import math

import pytest
import torch

from horoball.geometry import PoincareBall
from tests.geometry.ballpoints import points


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("c", [0.0, 1e-14, 1e-6, 0.5, 10.0])
@pytest.mark.parametrize("largest", [1e-3, 3.0, 80.0, 400.0])
def test_distances_of_all_pairs_are_those_of_each(dtype: torch.dtype, c: float, largest: float) -> None:
    ball = PoincareBall(c)
    z, y = (points(seed, c=c, largest=largest, dtype=dtype, n=n).requires_grad_() for seed, n in ((0, 12), (1, 7)))
    pairs, each = ball.cdist(z, y), ball.dist(z.unsqueeze(1), y)
    rounding = torch.finfo(dtype).eps
    scale = largest / math.sqrt(c or 1.0)
    torch.testing.assert_close(pairs, each, rtol=8 * rounding, atol=8 * rounding * scale)
    weight = torch.rand(each.shape, dtype=dtype)
    got, expected = (torch.autograd.grad((d * weight).sum(), (z, y)) for d in (pairs, each))
    torch.testing.assert_close(got, expected, rtol=2e4 * rounding, atol=1e3 * rounding)


def test_a_point_and_itself_have_no_distance_and_no_gradient() -> None:
    for c in (0.0, 1.0):
        z = points(0, c=1.0, n=5).requires_grad_()
        distance = PoincareBall(c).cdist(z, z)
        assert distance.diagonal().max() < 1e-12
        (grad,) = torch.autograd.grad(distance.diagonal().sum(), z)
        assert grad.abs().max() < 1e-6


def test_the_curvature_may_be_learned_and_batches_are_kept() -> None:
    ball = PoincareBall(0.7, learnable=True)
    z, y = torch.randn(2, 4, 3), torch.randn(2, 5, 3)
    got, expected = ball.cdist(z, y), ball.dist(z.unsqueeze(-2), y.unsqueeze(-3))
    torch.testing.assert_close(got, expected)
    rates = [torch.autograd.grad(d.square().sum(), ball.raw_c)[0] for d in (got, expected)]
    torch.testing.assert_close(rates[0], rates[1], rtol=1e-4, atol=0)
