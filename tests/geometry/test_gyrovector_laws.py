"""What gyrovector spaces and their hyperplanes obey."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.optimize import minimize_scalar

from horoball.geometry import gyrovector
from tests import oracle
from tests.geometry.gyropoints import (
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
def test_left_cancellation_law(dtype: torch.dtype, c: float) -> None:
    x, y = (points(seed, c=c, dtype=dtype) for seed in (7, 8))
    total = gyrovector.mobius_add(x, y, c=c)
    back = gyrovector.mobius_add(-x, total, c=c)
    # The sum is rounded relative to its own size, which y may be far below.
    torch.testing.assert_close(back, y, rtol=0, atol=TOLERANCE["law"][dtype])


@dtypes
@curvatures
def test_zero_is_the_identity_and_minus_x_the_inverse(dtype: torch.dtype, c: float) -> None:
    x = points(9, c=c, dtype=dtype)
    zero = torch.zeros_like(x)
    assert_points_close(gyrovector.mobius_add(x, zero, c=c), x, TOLERANCE["formula"][dtype])
    assert torch.equal(gyrovector.mobius_add(zero, x, c=c), x)
    assert torch.equal(gyrovector.mobius_add(x, -x, c=c), zero)


@dtypes
@curvatures
def test_distance_is_symmetric_and_zero_between_equal_points(dtype: torch.dtype, c: float) -> None:
    x, y = (points(seed, c=c, dtype=dtype) for seed in (10, 11))
    assert torch.equal(gyrovector.dist(x, y, c=c), gyrovector.dist(y, x, c=c))
    assert torch.equal(gyrovector.dist(x, x, c=c), torch.zeros(len(x), dtype=dtype))


@curvatures
def test_triangle_inequality(c: float) -> None:
    x, y, z = (points(seed, c=c) for seed in (12, 13, 14))
    x, y, z = x[:, None, None], y[:, None], z
    detour = gyrovector.dist(x, y, c=c) + gyrovector.dist(y, z, c=c)
    assert (gyrovector.dist(x, z, c=c) <= detour * (1 + 1e-14) + 1e-14).all()


@dtypes
@curvatures
def test_translation_is_an_isometry(dtype: torch.dtype, c: float) -> None:
    z, x, y = (points(seed, c=c, dtype=dtype) for seed in (15, 16, 17))
    moved = gyrovector.dist(gyrovector.mobius_add(z, x, c=c), gyrovector.mobius_add(z, y, c=c), c=c)
    assert_scalars_close(moved, gyrovector.dist(x, y, c=c), TOLERANCE["law"][dtype])


@dtypes
@curvatures
def test_log_inverts_exp(dtype: torch.dtype, c: float) -> None:
    x = points(18, c=c, dtype=dtype)
    v = vectors(19, largest=2.0 / math.sqrt(max(c, 1.0)), dtype=dtype)
    v = v / gyrovector.conformal_factor(x, c=c)[:, None]
    back = gyrovector.log(x, gyrovector.exp(x, v, c=c), c=c)
    torch.testing.assert_close(back, v, rtol=0, atol=TOLERANCE["law"][dtype])
    torch.testing.assert_close(
        gyrovector.log0(gyrovector.exp0(v, c=c), c=c), v, rtol=TOLERANCE["law"][dtype], atol=TOLERANCE["law"][dtype]
    )


@curvatures
def test_exp_inverts_log(c: float) -> None:
    x, y = (points(seed, c=c) for seed in (20, 21))
    torch.testing.assert_close(gyrovector.exp(x, gyrovector.log(x, y, c=c), c=c), y, rtol=0, atol=1e-13)


@dtypes
@curvatures
def test_exp_goes_as_far_as_the_vector_is_long(dtype: torch.dtype, c: float) -> None:
    x = points(22, c=c, dtype=dtype)
    v = vectors(23, largest=2.0 / math.sqrt(max(c, 1.0)), dtype=dtype)
    factor = gyrovector.conformal_factor(x, c=c)
    v = v / factor[:, None]
    torch.testing.assert_close(
        gyrovector.dist(x, gyrovector.exp(x, v, c=c), c=c),
        factor * v.norm(dim=-1),
        rtol=TOLERANCE["law"][dtype],
        atol=TOLERANCE["law"][dtype],
    )


@curvatures
def test_log_is_as_long_as_the_distance(c: float) -> None:
    x, y = (points(seed, c=c) for seed in (24, 25))
    length = gyrovector.conformal_factor(x, c=c) * gyrovector.log(x, y, c=c).norm(dim=-1)
    assert_scalars_close(length, gyrovector.dist(x, y, c=c), 1e-13)


@curvatures
def test_maps_at_the_origin_are_the_general_maps_there(c: float) -> None:
    y, v = points(26, c=c), vectors(27, largest=2.0 / math.sqrt(max(c, 1.0)))
    zero = torch.zeros_like(v)
    assert_points_close(gyrovector.exp(zero, v, c=c), gyrovector.exp0(v, c=c), 1e-15)
    assert_points_close(gyrovector.log(zero, y, c=c), gyrovector.log0(y, c=c), 1e-14)


@pytest.mark.parametrize("c", [0.3, 1.0, 1.4])
def test_gyroplane_distance_is_the_least_distance_to_the_hyperplane(c: float) -> None:
    point, normal = torch.tensor([0.2, -0.3], dtype=torch.float64), torch.tensor([1.0, 2.0], dtype=torch.float64)
    along = torch.tensor([2.0, -1.0], dtype=torch.float64)
    for z in points(28, c=c, n=8)[:, :2]:
        least = minimize_scalar(
            lambda s, z=z: float(oracle.ball_dist(z, oracle.ball_exp(point, s * along, c), c)),
            bracket=(-0.5, 0.5),
            tol=1e-9,
        ).fun
        signed = gyrovector.gyroplane_dist(z, point=point, normal=normal, c=c)
        assert abs(signed.item()) == pytest.approx(least, rel=1e-13)


@curvatures
def test_gyroplane_is_positive_on_the_side_of_the_normal(c: float) -> None:
    p, a = points(29, c=c)[1:], vectors(30, largest=1.0)[1:]
    ahead, behind = (gyrovector.exp(p, s * a / a.norm(dim=-1, keepdim=True), c=c) for s in (0.1, -0.1))
    for f in (gyrovector.gyroplane_dist, gyrovector.gyroplane):
        assert (f(ahead, point=p, normal=a, c=c) > 0).all()
        assert (f(behind, point=p, normal=a, c=c) < 0).all()
        assert f(p, point=p, normal=a, c=c).abs().max() == 0


@curvatures
def test_gyroplane_distance_along_the_normal_is_the_length_of_the_way(c: float) -> None:
    p, a = points(31, c=c)[1:], vectors(32, largest=0.2)[1:]
    length = gyrovector.conformal_factor(p, c=c) * a.norm(dim=-1)
    z = gyrovector.exp(p, a, c=c)
    torch.testing.assert_close(gyrovector.gyroplane_dist(z, point=p, normal=a, c=c), length, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(gyrovector.gyroplane(z, point=p, normal=a, c=c), length**2, rtol=1e-12, atol=1e-14)


@curvatures
def test_gyroplane_distance_does_not_depend_on_the_length_of_the_normal(c: float) -> None:
    z, p, a = points(33, c=c)[1:], points(34, c=c)[1:], vectors(35, largest=1.0)[1:]
    short, long = (gyrovector.gyroplane_dist(z, point=p, normal=s * a, c=c) for s in (1.0, 7.0))
    torch.testing.assert_close(short, long, rtol=1e-13, atol=1e-15)
