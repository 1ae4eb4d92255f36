"""The laws of hyperbolic geometry, for whatever curvature, dimension, dtype and points."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from horoball.geometry import PoincareBall, gyrovector
from tests.conditioning import curvatures, dimensions, dtypes, points, shapes

# "law": points up to √cR = 3, which a step rounds to the dtype before the next one sees them, e³ times the rounding.
# "far": what is right to rounding wherever the points are.
TOLERANCE = {
    "law": {torch.float64: 1e-12, torch.float32: 5e-5},
    "far": {torch.float64: 1e-14, torch.float32: 5e-7},
}
NEAR = 3.0
FAR = {torch.float64: 300.0, torch.float32: 80.0}  # derivatives of log between far points grow as sinh(√cR)
EVERYWHERE = st.one_of(curvatures, st.just(0.0))


def close(got: Tensor, expected: Tensor | float, tolerance: float, unit: float = 0.0) -> bool:
    """In norm along the last axis, relative to the larger of what is expected and a unit of length."""
    expected = torch.as_tensor(expected, dtype=torch.float64)
    error = torch.linalg.vector_norm(got.detach().double() - expected, dim=-1 if got.dim() else None)
    size = torch.linalg.vector_norm(expected, dim=-1 if got.dim() else None)
    return bool((error <= tolerance * torch.clamp(size, min=unit)).all())


@given(st.data(), dtypes, EVERYWHERE, dimensions)
def test_distance_is_a_metric(data: st.DataObject, dtype: torch.dtype, c: float, d: int) -> None:
    ball, (x, y, z) = PoincareBall(c), (data.draw(points(d, c, FAR[dtype], dtype)) for _ in range(3))
    rounding = TOLERANCE["far"][dtype]
    assert ball.dist(x, x) == 0
    assert ball.dist(x, y) == ball.dist(y, x) >= 0
    assert ball.dist(x, z) <= (ball.dist(x, y) + ball.dist(y, z)) * (1 + rounding)
    radii = x.double().norm(), y.double().norm()
    assert ball.dist(x, y) <= sum(radii) * (1 + rounding)
    assert ball.dist(x, y) >= (radii[0] - radii[1]).abs() * (1 - rounding) - rounding * max(radii)
    assert close(ball.dist(x, torch.zeros_like(x)), x.double().norm(), rounding)


@given(st.data(), dtypes, dimensions)
def test_more_curvature_means_larger_distances(data: st.DataObject, dtype: torch.dtype, d: int) -> None:
    less, more = sorted((data.draw(curvatures), data.draw(curvatures)))
    x, y = (data.draw(points(d, more, FAR[dtype], dtype)) for _ in range(2))
    slack = 1 + TOLERANCE["far"][dtype]
    flat = torch.linalg.vector_norm(x.double() - y.double())
    assert PoincareBall(less).dist(x, y) <= PoincareBall(more).dist(x, y) * slack
    assert flat <= PoincareBall(less).dist(x, y).double() * slack


@given(st.data(), curvatures, dimensions)
def test_a_ball_of_another_curvature_is_the_same_at_another_scale(data: st.DataObject, c: float, d: int) -> None:
    x, y = (data.draw(points(d, c, NEAR)) for _ in range(2))
    unit = PoincareBall(1.0)
    root = math.sqrt(c)
    assert close(PoincareBall(c).dist(x, y) * root, unit.dist(root * x, root * y), 1e-13, unit=1e-13)
    assert close(PoincareBall(c).exp(x, y) * root, unit.exp(root * x, root * y), 1e-13)


@given(st.data(), dtypes, EVERYWHERE, dimensions)
def test_exp_goes_as_far_as_the_vector_is_long_and_log_comes_back(
    data: st.DataObject, dtype: torch.dtype, c: float, d: int
) -> None:
    ball, tolerance, unit = PoincareBall(c), TOLERANCE["law"][dtype], 1 / math.sqrt(c or 1.0)
    z, v = (data.draw(points(d, c, NEAR, dtype)) for _ in range(2))
    y = ball.exp(z, v)
    assert close(ball.dist(z, y), v.double().norm(), tolerance, unit)
    assert close(ball.log(z, y), v, tolerance, unit)
    assert close(ball.exp(z, torch.zeros_like(v)), z, TOLERANCE["far"][dtype])
    assert close(ball.log(z, z), torch.zeros_like(z), TOLERANCE["far"][dtype], float(z.norm()))
    assert close(torch.linalg.vector_norm(ball.log(z, v)), ball.dist(z, v), TOLERANCE["far"][dtype], tolerance * unit)


@given(st.data(), dtypes, EVERYWHERE, dimensions)
def test_translations_and_rotations_move_nothing_apart(
    data: st.DataObject, dtype: torch.dtype, c: float, d: int
) -> None:
    ball, tolerance, unit = PoincareBall(c), TOLERANCE["law"][dtype], 1 / math.sqrt(c or 1.0)
    p, x, y = (data.draw(points(d, c, NEAR, dtype)) for _ in range(3))
    assert close(ball.dist(ball.exp(p, x), ball.exp(p, y)), ball.dist(x, y), 10 * tolerance, unit)
    seed = data.draw(st.integers(0, 2**31))
    turn, _ = torch.linalg.qr(torch.randn(d, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))
    turned = [(turn @ point.double()).to(dtype) for point in (x, y)]
    assert close(ball.dist(*turned), ball.dist(x, y), tolerance, unit)


@given(st.data(), EVERYWHERE, dimensions, st.floats(0.0, 1.0))
def test_a_geodesic_is_as_long_as_its_parts(data: st.DataObject, c: float, d: int, s: float) -> None:
    ball, unit = PoincareBall(c), 1 / math.sqrt(c or 1.0)
    x, y = (data.draw(points(d, c, NEAR)) for _ in range(2))
    middle = ball.geodesic(x, y, s)
    whole = ball.dist(x, y)
    assert close(ball.dist(x, middle), s * whole, 1e-12, unit)
    assert close(ball.dist(middle, y), (1 - s) * whole, 1e-12, unit)


@given(st.data(), dtypes, EVERYWHERE, dimensions, shapes, shapes)
def test_shapes_broadcast_and_dtypes_stay(
    data: st.DataObject, dtype: torch.dtype, c: float, d: int, first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    ball = PoincareBall(c)
    x = data.draw(points(d, c, FAR[dtype], dtype)).expand(*first, d)
    y = data.draw(points(d, c, FAR[dtype], dtype)).expand(*second, d)
    try:
        shape = torch.broadcast_shapes(first, second)
    except RuntimeError:
        with pytest.raises(RuntimeError, match="size"):
            ball.dist(x, y)
        return
    assert ball.dist(x, y).shape == shape
    assert ball.exp(x, y).shape == ball.log(x, y).shape == (*shape, d)
    for point in (x, y):
        assert ball.to_ball(point).shape == point.shape
        assert ball.log_volume(point).shape == point.shape[:-1]
        assert ball.to_lorentz(point).shape == (*point.shape[:-1], d + 1)
    answers = (ball.dist(x, y), ball.exp(x, y), ball.log(x, y), ball.to_ball(x), ball.log_volume(x))
    assert all(answer.dtype == dtype for answer in answers)


@given(st.data(), dtypes, EVERYWHERE, dimensions)
def test_values_and_gradients_are_finite_everywhere(data: st.DataObject, dtype: torch.dtype, c: float, d: int) -> None:
    c_ = torch.tensor(c, dtype=dtype, requires_grad=True)
    x, y = (data.draw(points(d, c, FAR[dtype], dtype)).requires_grad_() for _ in range(2))
    for ball in (PoincareBall(c), PoincareBall(c_)):
        for value in (ball.dist(x, y), ball.exp(x, y), ball.log(x, y), ball.log_volume(x), ball.to_ball(x)):
            if not value.requires_grad:  # the volume of the plane
                continue
            gradients = torch.autograd.grad(value.sum(), (x, y, c_), allow_unused=True)
            assert all(torch.isfinite(t).all() for t in (value, *gradients) if t is not None)


@given(st.data(), dtypes, EVERYWHERE, dimensions)
def test_all_pairs_are_as_far_apart_as_each(data: st.DataObject, dtype: torch.dtype, c: float, d: int) -> None:
    ball = PoincareBall(c)
    x, y = (torch.stack([data.draw(points(d, c, FAR[dtype], dtype)) for _ in range(n)]) for n in (3, 2))
    each = ball.dist(x[:, None], y[None])
    # of points on one ray, a difference of radii; and a square root is kept from 0, where its gradient is not finite
    size = x.norm(dim=-1)[:, None] + y.norm(dim=-1) + 1e-12 / math.sqrt(c or 1.0)
    assert ((ball.cdist(x, y) - each).abs() <= TOLERANCE["far"][dtype] * size).all()


@given(st.data(), dtypes, EVERYWHERE, dimensions)
def test_charts_lead_back(data: st.DataObject, dtype: torch.dtype, c: float, d: int) -> None:
    ball, tolerance = PoincareBall(c), TOLERANCE["law"][dtype]
    z = data.draw(points(d, c, NEAR, dtype))
    assert close(ball.from_ball(ball.to_ball(z)), z, tolerance)
    assert close(ball.from_lorentz(ball.to_lorentz(z)), z, tolerance)
    h = ball.to_lorentz(z).double()
    assert abs(float(-h[0].square() + c * h[1:].square().sum() + 1)) <= tolerance * float(h[0].square())
    far = data.draw(points(d, c, FAR[dtype], dtype))
    assert c * ball.to_ball(far).double().square().sum() <= 1 + TOLERANCE["far"][dtype]


@given(st.data(), curvatures, dimensions)
def test_moebius_addition_is_a_gyrogroup(data: st.DataObject, c: float, d: int) -> None:
    ball, unit = PoincareBall(c), 1 / math.sqrt(c)
    x, y, w = (ball.to_ball(data.draw(points(d, c, 2.0))) for _ in range(3))

    def plus(a: Tensor, b: Tensor) -> Tensor:
        return gyrovector.mobius_add(a, b, c=c)

    assert close(plus(torch.zeros_like(x), y), y, 1e-15)
    assert close(plus(-x, x), torch.zeros_like(x), 1e-14, unit)
    assert close(plus(-x, plus(x, y)), y, 1e-12, unit)

    def gyration(v: Tensor) -> Tensor:
        return plus(-plus(x, y), plus(x, plus(y, v)))

    assert close(torch.linalg.vector_norm(gyration(w)), torch.linalg.vector_norm(w), 1e-11, unit)
    assert close(plus(x, y), gyration(plus(y, x)), 1e-11, unit)
    assert close(gyrovector.dist(x, y, c=c), ball.dist(ball.from_ball(x), ball.from_ball(y)), 1e-12, unit)
    assert close(gyrovector.log0(gyrovector.exp0(w, c=c), c=c), w, 1e-12, unit)


@given(st.data(), curvatures, dimensions)
def test_the_distance_to_a_gyroplane_is_that_to_its_nearest_point(data: st.DataObject, c: float, d: int) -> None:
    ball, unit = PoincareBall(c), 1 / math.sqrt(c)
    z, p = (data.draw(points(d, c, 2.0)) for _ in range(2))
    a = data.draw(points(d, c, 2.0).filter(lambda a: bool(a.norm() > 1e-6 * unit)))
    found = gyrovector.gyroplane_dist(ball.to_ball(z), point=ball.to_ball(p), normal=a, c=c)
    # sinh(√c d) = sinh(√c|v|) cos, with v = log_p(z): the right triangle of z, p and the foot of z
    v = ball.log(p, z)
    sine = torch.sinh(math.sqrt(c) * v.norm()) * torch.nn.functional.cosine_similarity(v, a, 0, 1e-300)
    assert close(found.abs(), torch.asinh(sine).abs() / math.sqrt(c), 1e-11, unit)
