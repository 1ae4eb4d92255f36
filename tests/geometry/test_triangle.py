"""The triangle behind dist, exp and log: accuracy against mpmath, near pairs, far points and degenerate ones."""

from __future__ import annotations

import math
from collections.abc import Iterator

import mpmath as mp
import numpy as np
import pytest
import torch
from torch import Tensor

from horoball.geometry import PoincareBall
from tests import oracle

DTYPES = (torch.float64, torch.float32)
CURVATURES = (1e-6, 0.1, 1.0, 10.0)
RADII = (1e-6, 1e-3, 0.1, 1.0, 4.0, 16.0, 80.0)  # √c·d(0, z)

# Values are relative to their norm, gradients in a point to the larger of it and 1. A gradient in c is relative to the
# larger of it and of R·min(R², 1/c), the size of what ∂/∂c subtracts; R is the larger radius, or the distance of a near
# pair. Near pairs go to √cR = 8, where log and gradients feel a rounded direction by sinh 8. On the "line" and "far"
# out, exponents as large as the radii are rounded.
TOLERANCE = {
    "value": {torch.float64: 1e-13, torch.float32: 3e-7},
    "gradient": {torch.float64: 1e-12, torch.float32: 1e-5},
    "gradient in c at 0": {torch.float64: 1e-13, torch.float32: 1e-6},
    "near dist": {torch.float64: 1e-14, torch.float32: 5e-6},
    "near log": {torch.float64: 1e-12, torch.float32: 1e-4},
    "near gradient": {torch.float64: 1e-12, torch.float32: 1e-4},
    "near gradient in c": {torch.float64: 1e-9, torch.float32: 1e-4},
    "far": {torch.float64: 1e-11, torch.float32: 3e-7},
    "line": {torch.float64: 1e-13, torch.float32: 2e-5},
}

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
curvatures = pytest.mark.parametrize("c", CURVATURES)
methods = pytest.mark.parametrize("name", ["dist", "exp", "log"])

# Exact in float32: a cotangent of vectors, and a direction in which gradients are compared.
COTANGENT, DIRECTION = [0.75, -0.5, 1.25], [-0.25, 1.0, 0.5]


def vectors(seed: int, *lengths: float, dtype: torch.dtype = torch.float64, d: int = 3) -> Tensor:
    """One vector of random direction per length."""
    generator = torch.Generator().manual_seed(seed)
    direction = torch.randn(len(lengths), d, generator=generator, dtype=torch.float64)
    length = torch.tensor(lengths, dtype=torch.float64)[:, None]
    return (direction / direction.norm(dim=-1, keepdim=True) * length).to(dtype)


def contracted(value: object, weights: object) -> object:
    """A scalar of a distance or of a point, for derivatives; for tensors and for the arrays of the oracle."""
    return value if np.ndim(value) == 0 else (value * weights).sum(-1)  # type: ignore[arg-type,operator]


def value_and_gradients(name: str, z: Tensor, y: Tensor, c: float) -> tuple[Tensor, ...]:
    """The value, its gradients in z, y and c, and c as the dtype has it."""
    z, y = (x.detach().clone().requires_grad_() for x in (z, y))
    c_ = torch.tensor(c, dtype=z.dtype, requires_grad=True)
    value = getattr(PoincareBall(c_), name)(z, y)
    grads = torch.autograd.grad(contracted(value, torch.tensor(COTANGENT[: z.shape[-1]]).to(z)), (z, y, c_))
    assert {x.dtype for x in (value, *grads)} == {z.dtype}
    return value.detach(), *grads, c_.detach()


def exact_gradients(
    name: str, z: Tensor, y: Tensor, c: float, directions: list[list[float]]
) -> tuple[list[float], list[float]]:
    """Derivatives in z and y along the directions."""
    f = getattr(oracle, name)
    return (
        [oracle.derivative(lambda p: contracted(f(p, y, c), oracle.array(COTANGENT)), z, w) for w in directions],
        [oracle.derivative(lambda p: contracted(f(z, p, c), oracle.array(COTANGENT)), y, w) for w in directions],
    )


def exact_gradient_in_c(name: str, z: Tensor, y: Tensor, c: float) -> float:
    f = getattr(oracle, name)
    return oracle.derivative(lambda p: contracted(f(z, y, p[0]), oracle.array(COTANGENT)), [c], [c]) / c


def assert_close(got: Tensor, expected: object, tolerance: float, scale: float = 0.0) -> None:
    """In norm, relative to the larger of the expected norm and the scale."""
    expected = torch.as_tensor(oracle.floats(expected))
    error, size = float((got.double() - expected).norm()), float(expected.norm())
    assert error <= tolerance * max(size, scale), f"{got.tolist()} is off {expected.tolist()} by {error:.2g}"


# --------------------------------------------------------------------------------------------------------------------
# Generic points
# --------------------------------------------------------------------------------------------------------------------


def pairs_of_all_radii(c: float, dtype: torch.dtype) -> Iterator[tuple[Tensor, Tensor, float]]:
    """Each radius with two others per curvature, over the curvatures with all; and the larger radius."""
    first, unit = CURVATURES.index(c), 1 / math.sqrt(c)
    for shift in (first, first + 3):
        for i, a in enumerate(RADII):
            b = RADII[(i + shift) % len(RADII)]
            z, y = vectors(100 * shift + i, a * unit, b * unit, dtype=dtype)
            yield z, y, max(a, b) * unit


@methods
@dtypes
@curvatures
def test_value_and_gradients_agree_with_mpmath_at_all_radii(name: str, dtype: torch.dtype, c: float) -> None:
    along = torch.tensor(DIRECTION, dtype=torch.float64)
    for z, y, radius in pairs_of_all_radii(c, dtype):
        value, in_z, in_y, in_c, rounded = value_and_gradients(name, z, y, c)
        k = rounded.item()
        assert_close(value, getattr(oracle, name)(z, y, k), TOLERANCE["value"][dtype])
        (exact_z,), (exact_y,) = exact_gradients(name, z, y, k, [DIRECTION])
        assert_close(in_z.double() @ along, exact_z, TOLERANCE["gradient"][dtype], 1.0)
        assert_close(in_y.double() @ along, exact_y, TOLERANCE["gradient"][dtype], 1.0)
        scale = radius * min(radius**2, 1 / c)
        assert_close(in_c, exact_gradient_in_c(name, z, y, k), TOLERANCE["gradient"][dtype], scale)


@methods
@dtypes
def test_gradient_in_a_zero_curvature_agrees_with_mpmath(name: str, dtype: torch.dtype) -> None:
    small = mp.mpf(10) ** -40
    for seed, (a, b) in enumerate([(1e-3, 2.0), (1.0, 1.0), (0.5, 30.0), (30.0, 0.5), (1e-6, 1e-6), (3.0, 0.0)]):
        z, y = vectors(seed, a, b, dtype=dtype)
        in_c = value_and_gradients(name, z, y, 0.0)[3]
        with mp.workdps(150):  # a forward difference, because c < 0 is another geometry
            flat, near = (contracted(getattr(oracle, name)(z, y, k), oracle.array(COTANGENT)) for k in (0, small))
            expected = oracle.floats((near - flat) / small)  # type: ignore[operator]
        assert_close(in_c, expected, TOLERANCE["gradient in c at 0"][dtype], max(a, b) ** 3)


# --------------------------------------------------------------------------------------------------------------------
# Near pairs
# --------------------------------------------------------------------------------------------------------------------


def near_pairs(c: float, dtype: torch.dtype) -> Iterator[tuple[Tensor, Tensor, float, float]]:
    """Pairs 1, 0.01 and 1e-5 apart in units of 1/√c; and the radius and the distance."""
    unit = 1 / math.sqrt(c)
    for seed, a in enumerate((0.1, 0.9, 2.0, 4.0, 8.0)):
        for gap in (1.0, 1e-2, 1e-5):
            z, v = vectors(seed, a * unit, gap * unit)
            z = z.to(dtype)
            yield z, torch.from_numpy(oracle.floats(oracle.exp(z, v, c))).to(dtype), a * unit, gap * unit


@dtypes
@pytest.mark.parametrize("c", [1e-6, 1.0])
def test_distance_and_log_of_near_pairs_agree_with_mpmath(dtype: torch.dtype, c: float) -> None:
    ball = PoincareBall(torch.tensor(c, dtype=dtype))
    k = ball.c.item()  # type: ignore[union-attr]
    for z, y, radius, _ in near_pairs(c, dtype):
        assert_close(ball.dist(z, y), oracle.dist(z, y, k), TOLERANCE["near dist"][dtype])
        # A point near the origin is rounded relative to its radius, and so is log.
        floor = torch.finfo(dtype).eps * min(radius, 1 / math.sqrt(c)) / TOLERANCE["near log"][dtype]
        assert_close(ball.log(z, y), oracle.log(z, y, k), TOLERANCE["near log"][dtype], floor)


@pytest.mark.parametrize("name", ["dist", "log"])
@dtypes
@pytest.mark.parametrize("c", [1e-6, 1.0])
def test_gradients_of_near_pairs_agree_with_mpmath(name: str, dtype: torch.dtype, c: float) -> None:
    for z, y, _, _ in near_pairs(c, dtype):
        _, in_z, in_y, _, rounded = value_and_gradients(name, z, y, c)
        exact_z, exact_y = exact_gradients(name, z, y, rounded.item(), torch.eye(3).tolist())
        assert_close(in_z, exact_z, TOLERANCE["near gradient"][dtype])
        assert_close(in_y, exact_y, TOLERANCE["near gradient"][dtype])


@dtypes
@pytest.mark.parametrize("c", [1e-6, 1.0])
def test_gradients_of_log_at_coincident_points_agree_with_mpmath(dtype: torch.dtype, c: float) -> None:
    for seed, a in enumerate((1e-3, 0.9, 4.0, 16.0)):
        (z,) = vectors(seed, a / math.sqrt(c), dtype=dtype)
        _, in_z, in_y, in_c, rounded = value_and_gradients("log", z, z, c)
        exact_z, exact_y = exact_gradients("log", z, z, rounded.item(), torch.eye(3).tolist())
        assert_close(in_z, exact_z, TOLERANCE["gradient"][dtype])
        assert_close(in_y, exact_y, TOLERANCE["gradient"][dtype])
        assert in_c == 0


@pytest.mark.parametrize("name", ["dist", "log"])
@dtypes
@pytest.mark.parametrize("c", [1e-6, 1.0])
def test_gradients_in_c_of_near_pairs_agree_with_mpmath(name: str, dtype: torch.dtype, c: float) -> None:
    for z, y, radius, gap in near_pairs(c, dtype):
        *_, in_c, rounded = value_and_gradients(name, z, y, c)
        scale = gap * min(max(radius, gap) ** 2, 1 / c)
        exact = exact_gradient_in_c(name, z, y, rounded.item())
        assert_close(in_c, exact, TOLERANCE["near gradient in c"][dtype], scale)


# --------------------------------------------------------------------------------------------------------------------
# One dimension: the line, whatever c
# --------------------------------------------------------------------------------------------------------------------


@dtypes
@curvatures
def test_in_one_dimension_the_ball_is_the_line(dtype: torch.dtype, c: float) -> None:
    unit = 1 / math.sqrt(c)
    for a, b in [(1.0, 2.0), (-1.0, 2.0), (20.0, 19.0), (40.0, 39.0), (80.0, 79.0), (79.0, -80.0), (1e-3, 80.0)]:
        z, y = (torch.tensor([x * unit], dtype=dtype) for x in (a, b))
        away = torch.sign(z - y).squeeze()
        for name, expected, slope in (("dist", (z - y).abs(), away), ("log", y - z, -COTANGENT[0])):
            value, in_z, in_y, in_c, _ = value_and_gradients(name, z, y, c)
            assert_close(value.reshape(1), expected, TOLERANCE["line"][dtype], max(abs(a), abs(b)) * unit)
            assert_close(in_z, [float(slope)], TOLERANCE["line"][dtype])
            assert_close(in_y, [-float(slope)], TOLERANCE["line"][dtype])
            assert_close(in_c, 0.0, TOLERANCE["line"][dtype], max(abs(a), abs(b)) * unit / c)


# --------------------------------------------------------------------------------------------------------------------
# Degenerate and far points
# --------------------------------------------------------------------------------------------------------------------

Z, FAR = [0.6, -0.8, 0.0], [6e3, -8e3, 0.0]
DEGENERATE = {
    "both at the origin": ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
    "the first at the origin": ([0.0, 0.0, 0.0], Z),
    "the second at the origin": (Z, [0.0, 0.0, 0.0]),
    "coincident": (Z, Z),
    "antipodal": (Z, [-0.6, 0.8, 0.0]),
    "on a ray": (Z, [3.0, -4.0, 0.0]),
    "coincident at 80": ([48.0, -64.0, 0.0], [48.0, -64.0, 0.0]),
    "antipodal at 80": ([48.0, -64.0, 0.0], [-48.0, 64.0, 0.0]),
    "far": (FAR, [0.0, 1e4, 0.0]),
    "far and antipodal": (FAR, [-6e3, 8e3, 0.0]),
    "far and at the origin": (FAR, [0.0, 0.0, 0.0]),
    "far and near the origin": (FAR, [1e-3, 0.0, 1e-3]),
    "at the origin and far": ([0.0, 0.0, 0.0], FAR),
}
degenerate = pytest.mark.parametrize("pair", DEGENERATE.values(), ids=DEGENERATE.keys())


@degenerate
@dtypes
@pytest.mark.parametrize("c", [0.0, 1.0])
def test_gradients_are_finite_where_formulas_degenerate(
    pair: tuple[list[float], list[float]], dtype: torch.dtype, c: float
) -> None:
    z, y = (torch.tensor(x, dtype=dtype) for x in pair)
    for name, second in (("dist", y), ("log", y), ("exp", -y)):
        for x in value_and_gradients(name, z, second, c)[:4]:
            assert x.isfinite().all(), name


@dtypes
@pytest.mark.parametrize("c", [0.0, 0.5, torch.tensor(0.0), torch.tensor(0.5)], ids=str)
@pytest.mark.parametrize("radius", [0.0, 1e-3, 1.0, 80.0, 200.0, 1e4])
def test_distance_of_a_point_to_itself_is_zero_with_zero_gradient(
    dtype: torch.dtype, c: float | Tensor, radius: float
) -> None:
    z, y = (vectors(1, radius, dtype=dtype)[0].requires_grad_() for _ in range(2))
    distance = PoincareBall(c).dist(z, y)
    assert distance.item() == 0
    for grad in torch.autograd.grad(distance, (z, y)):
        assert torch.equal(grad, torch.zeros(3, dtype=dtype))


@dtypes
def test_far_points_are_as_far_as_the_ideal_triangle_says(dtype: torch.dtype) -> None:
    a, b, angle = 1e4, 7e3, 2.0
    z = torch.tensor([a, 0.0], dtype=dtype)
    y = torch.tensor([b * math.cos(angle), b * math.sin(angle)], dtype=dtype)
    value, in_z, in_y, _, _ = value_and_gradients("dist", z, y, 1.0)
    # cosh d = sinh a sinh b (1 − cos φ) up to e^{−2b}: d = a + b + 2 log sin(φ/2), whose slope in φ is cot(φ/2)
    cot = 1 / math.tan(angle / 2)
    ray, across = [math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]
    assert_close(value, a + b + 2 * math.log(math.sin(angle / 2)), TOLERANCE["far"][dtype])
    assert_close(in_z, [1.0, -cot / a], TOLERANCE["far"][dtype])
    assert_close(in_y, [r + cot / b * s for r, s in zip(ray, across, strict=True)], TOLERANCE["far"][dtype])


@dtypes
@pytest.mark.parametrize("radius", [40.0, 80.0, 200.0, 400.0, 1e4])
def test_distance_and_log_on_a_ray_are_those_of_the_line(dtype: torch.dtype, radius: float) -> None:
    # On an axis no direction is rounded: the triangle is exactly flat, and has no gradient across the ray.
    for end in (radius + 1, radius - 1, radius / 2):
        z, y = (torch.tensor([x, 0.0], dtype=dtype) for x in (radius, end))
        value, in_z, in_y, _, _ = value_and_gradients("dist", z, y, 1.0)
        ray = (z - y) / (z - y).norm()
        assert_close(value, (z - y).norm(), TOLERANCE["value"][dtype])
        assert_close(in_z, ray, TOLERANCE["value"][dtype])
        assert_close(in_y, -ray, TOLERANCE["value"][dtype])
        assert_close(PoincareBall(1.0).log(z, y), y - z, TOLERANCE["value"][dtype])


@methods
@pytest.mark.parametrize(
    ("mu", "v"),
    [
        ([0.0, 0.0, 0.0], [0.7, -0.2, 0.4]),
        ([0.7, -0.2, 0.4], [0.0, 0.0, 0.0]),
        ([1e-7, 0.0, 0.0], [0.5, 1.0, 2.0]),
        ([0.7, -0.2, 0.4], [1e-7, 0.0, 0.0]),
        ([0.3, 0.1, -0.2], [1.0, 0.4, 0.2]),
        ([2.0, -1.0, 1.0], [0.3, 0.2, 0.1]),
        ([0.6, 0.8, 0.0], [0.61, 0.79, 0.01]),
        ([0.6, 0.8, 0.0], [-0.61, -0.79, 0.01]),
        ([1.8, 2.4, 0.0], [1.81, 2.38, 0.02]),
        ([1.8, 2.4, 0.0], [-1.81, -2.38, 0.02]),
        ([0.6, 0.8, 0.0], [1.2, 1.6, 0.0]),
        ([0.6, 0.8, 0.0], [-1.2, -1.6, 0.0]),
    ],
)
@pytest.mark.parametrize("c", [0.2, 1.0])
def test_gradients_agree_with_differences(name: str, mu: list[float], v: list[float], c: float) -> None:
    z, y, c_ = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (mu, v, c))
    assert torch.autograd.gradcheck(lambda z, y, c: getattr(PoincareBall(c), name)(z, y), (z, y, c_), atol=1e-7)
