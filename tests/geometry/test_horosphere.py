from __future__ import annotations

import mpmath as mp
import pytest
import torch

from horoball.geometry import PoincareBall
from tests import oracle

TOLERANCE = {torch.float64: 1e-14, torch.float32: 2e-7}  # relative to the larger of the radius and 1


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("c", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("radius", [0.0, 1e-6, 0.3, 0.99, 1.01, 8.0, 60.0, 400.0])
def test_busemann_is_its_definition(radius: float, c: float, dtype: torch.dtype) -> None:
    # Exact directions, one of them z's own.
    for z, xi in (
        ([0.6, 0.8], [1.0, 0.0]),
        ([1.0, 0.0], [1.0, 0.0]),
        ([-1.0, 0.0], [1.0, 0.0]),
        ([0.6, 0.8], [-3.0, 4.0]),
    ):
        point, direction = (
            (radius / c**0.5 * torch.tensor(z, dtype=torch.float64)).to(dtype),
            torch.tensor(xi).to(dtype),
        )
        with mp.workdps(600):
            p, q = oracle.array(point), oracle.array(direction)
            size = mp.sqrt((p * p).sum())
            a = mp.sqrt(mp.mpf(c)) * size
            cos = (p * q).sum() / (size * mp.sqrt((q * q).sum())) if size else mp.mpf(0)
            truth = float(mp.log(mp.cosh(a) - mp.sinh(a) * cos) / mp.sqrt(mp.mpf(c)))
        got = float(PoincareBall(c).busemann(point, direction))
        assert abs(got - truth) <= TOLERANCE[dtype] * max(1.0, radius / c**0.5) * 4


def test_busemann_is_a_limit_of_distances_and_has_gradients_of_length_one() -> None:
    ball, xi = PoincareBall(1.0), torch.tensor([0.6, -0.8], dtype=torch.float64)
    z = torch.randn(20, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64).mul_(3)
    z[0] = 0
    torch.testing.assert_close(ball.busemann(z, xi), ball.dist(z, 200 * xi) - 200)
    assert torch.autograd.gradcheck(lambda p: ball.busemann(p, xi), z.requires_grad_())
    (slope,) = torch.autograd.grad(ball.busemann(z[:1], xi).sum(), z)
    torch.testing.assert_close(slope[0], -xi)  # at the origin


def test_without_curvature_it_is_a_linear_function() -> None:
    z, xi = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([0.0, 2.0])
    torch.testing.assert_close(PoincareBall(0.0).busemann(z, xi), -z[:, 1])
