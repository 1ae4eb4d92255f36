"""The formulas of gyrovector spaces against mpmath, the plane and another library."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from horoball.geometry import gyrovector
from tests import oracle
from tests.geometry.gyropoints import (
    LARGEST_RADIUS,
    TOLERANCE,
    assert_points_close,
    assert_scalars_close,
    curvatures,
    dtypes,
    points,
    vectors,
)


@dtypes
@curvatures
def test_formulas_agree_with_mpmath(dtype: torch.dtype, c: float) -> None:
    tolerance, largest = TOLERANCE["formula"][dtype], LARGEST_RADIUS[dtype]
    x, y = (points(seed, c=c, largest=largest, dtype=dtype) for seed in (1, 2))
    for got, expected in (
        (gyrovector.conformal_factor(x, c=c), oracle.ball_conformal_factor(x, c)),
        (gyrovector.dist(x, y, c=c), oracle.ball_dist(x, y, c)),
    ):
        assert got.dtype == dtype
        assert_scalars_close(got, expected, tolerance)
    v = vectors(3, largest=2.0 / math.sqrt(max(c, 1.0)), dtype=dtype)
    step = v / gyrovector.conformal_factor(x, c=c)[:, None]
    for got, expected in (
        (gyrovector.mobius_add(x, y, c=c), oracle.ball_mobius_add(x, y, c)),
        (gyrovector.exp0(v, c=c), oracle.ball_exp0(v, c)),
        (gyrovector.log0(y, c=c), oracle.ball_log0(y, c)),
        (gyrovector.exp(x, step, c=c), oracle.ball_exp(x, step, c)),
        (gyrovector.log(x, y, c=c), oracle.ball_log(x, y, c)),
    ):
        assert got.dtype == dtype
        assert_points_close(got, expected, tolerance)


@dtypes
@curvatures
def test_gyroplanes_agree_with_mpmath(dtype: torch.dtype, c: float) -> None:
    tolerance = TOLERANCE["formula"][dtype]
    z, p = points(4, c=c, largest=LARGEST_RADIUS[dtype], dtype=dtype), points(5, c=c, dtype=dtype)
    a = vectors(6, largest=2.0, dtype=dtype)[1:]
    z, p = z[1:], p[1:]
    # The floor is for points on the hyperplane, where a distance is a difference of numbers of order 1.
    got = gyrovector.gyroplane_dist(z, point=p, normal=a, c=c)
    assert_scalars_close(got, oracle.ball_gyroplane_dist(z, p, a, c), tolerance, floor=1e-14)
    got = gyrovector.gyroplane(z, point=p, normal=a, c=c)
    assert_scalars_close(got, oracle.ball_gyroplane(z, p, a, c), tolerance, floor=1e-14)


@dtypes
def test_close_points_near_the_boundary_keep_their_distance(dtype: torch.dtype) -> None:
    radius, step = {torch.float64: (9.0, 1e-9), torch.float32: (14.0, 1e-6)}[dtype]
    x = gyrovector.exp0(torch.tensor([0.36, 0.48], dtype=torch.float64) / 1.2 * radius, c=1.0).to(dtype)
    y = x + torch.tensor([-step, 0.5 * step], dtype=dtype)
    assert_scalars_close(
        gyrovector.dist(x, y, c=1.0),
        np.asarray(oracle.ball_dist(x, y, 1.0)),
        {torch.float64: 1e-11, torch.float32: 1e-7}[dtype],
    )


def test_exp_from_near_the_boundary_crosses_the_ball() -> None:
    x = gyrovector.exp0(torch.tensor([4.2, -5.6], dtype=torch.float64), c=1.0).float()
    length = torch.tensor([1.0, 10.0, 13.5, 14.5, 20.0, 27.0])
    v = -length[:, None] * x / gyrovector.conformal_factor(x, c=1.0)
    assert_points_close(gyrovector.exp(x, v, c=1.0), oracle.ball_exp(x, v, 1.0), TOLERANCE["formula"][torch.float32])


def test_exp_past_the_last_point_stays_on_the_boundary_with_a_finite_gradient() -> None:
    x = torch.tensor([[0.9, 0.0], [-0.9, 0.1]], requires_grad=True)
    v = torch.tensor([[1e3, 0.0], [1e6, 1e6]], requires_grad=True)
    z = gyrovector.exp(x, v, c=1.0)
    torch.testing.assert_close(z.norm(dim=-1), torch.ones(2))
    assert all(g.isfinite().all() for g in torch.autograd.grad(z.sum(), (x, v)))


def test_zero_curvature_is_the_plane() -> None:
    x, y, a = (vectors(seed, largest=5.0)[1:] for seed in (36, 37, 38))
    assert torch.equal(gyrovector.conformal_factor(x, c=0.0), torch.full((39,), 2.0, dtype=torch.float64))
    torch.testing.assert_close(gyrovector.mobius_add(x, y, c=0.0), x + y)
    torch.testing.assert_close(gyrovector.dist(x, y, c=0.0), 2 * (x - y).norm(dim=-1))
    torch.testing.assert_close(gyrovector.exp(x, y, c=0.0), x + y)
    torch.testing.assert_close(gyrovector.log(x, y, c=0.0), y - x)
    torch.testing.assert_close(gyrovector.exp0(x, c=0.0), x)
    torch.testing.assert_close(gyrovector.log0(x, c=0.0), x)
    side = (a * (x - y)).sum(-1)
    torch.testing.assert_close(
        gyrovector.gyroplane_dist(x, point=y, normal=a, c=0.0), 2 * side / a.norm(dim=-1), rtol=1e-12, atol=1e-12
    )
    torch.testing.assert_close(gyrovector.gyroplane(x, point=y, normal=a, c=0.0), 4 * side, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("c", [0.3, 1.0, 1.4])
def test_agrees_with_geoopt_at_moderate_radius(c: float) -> None:
    math_ = pytest.importorskip("geoopt.manifolds.stereographic.math")
    k = torch.tensor(-c, dtype=torch.float64)
    x, y = (points(seed, c=c)[1:] for seed in (51, 52))
    v, a = (vectors(seed, largest=0.3)[1:] for seed in (53, 54))
    a = a / a.norm(dim=-1, keepdim=True)  # geoopt adds a margin to the length of a short normal
    for got, expected in (
        (gyrovector.conformal_factor(x, c=c), math_.lambda_x(x, k=k)),
        (gyrovector.mobius_add(x, y, c=c), math_.mobius_add(x, y, k=k)),
        (gyrovector.dist(x, y, c=c), math_.dist(x, y, k=k)),
        (gyrovector.exp0(v, c=c), math_.expmap0(v, k=k)),
        (gyrovector.log0(y, c=c), math_.logmap0(y, k=k)),
        (gyrovector.exp(x, v, c=c), math_.expmap(x, v, k=k)),
        (gyrovector.log(x, y, c=c), math_.logmap(x, y, k=k)),
        (gyrovector.gyroplane_dist(x, point=y, normal=a, c=c), math_.dist2plane(x, y, a, k=k, signed=True)),
        (
            gyrovector.gyroplane(x, point=y, normal=a, c=c) / gyrovector.conformal_factor(y, c=c),
            math_.dist2plane(x, y, a, k=k, signed=True, scaled=True),
        ),
    ):
        torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)
