from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from horoball.manifolds import gyrovector
from tests import oracle

DTYPES = (torch.float64, torch.float32)
CURVATURES = (0.0, 1e-9, 0.3, 1.0, 1.4)

# Relative to the size of a point or of a scalar. A formula is compared with the oracle on the very same numbers:
# float32 is computed in float64 and rounded once, float64 loses 1/(1 − c|x|²), which is e⁸/4 at the largest radius
# used. A law passes through a point that is rounded to the dtype.
TOLERANCE = {
    "formula": {torch.float64: 1e-12, torch.float32: 1e-7},
    "law": {torch.float64: 1e-12, torch.float32: 1e-4},
}
LARGEST_RADIUS = {torch.float64: 8.0, torch.float32: 14.0}  # √c·d(0, x) of a formula's points; a law's is 3

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
curvatures = pytest.mark.parametrize("c", CURVATURES)

# Name → function of two vectors, for properties that all share. The second argument of exp is a tangent vector.
BINARY: dict[str, Callable[..., Tensor]] = {
    "mobius_add": gyrovector.mobius_add,
    "dist": gyrovector.dist,
    "log": gyrovector.log,
    "exp": gyrovector.exp,
    "log0": lambda x, y, c: gyrovector.log0(x, c=c) + y,
    "exp0": lambda x, y, c: gyrovector.exp0(x, c=c) + y,
    "conformal_factor": lambda x, y, c: gyrovector.conformal_factor(x, c=c) + 0 * y.sum(-1),
    "gyroplane_dist": lambda x, y, c: gyrovector.gyroplane_dist(x, point=y, normal=NORMAL.to(x), c=c),
    "gyroplane": lambda x, y, c: gyrovector.gyroplane(x, point=y, normal=NORMAL.to(x), c=c),
}
NORMAL = torch.tensor([0.3, -1.2, 0.5])
binary = pytest.mark.parametrize("f", BINARY.values(), ids=BINARY.keys())


def vectors(seed: int, *, largest: float, dtype: torch.dtype = torch.float64, n: int = 40, d: int = 3) -> Tensor:
    """Vectors of random direction whose lengths go from tiny to the largest; the first is 0."""
    generator = torch.Generator().manual_seed(seed)
    direction = torch.randn(n, d, generator=generator, dtype=torch.float64)
    length = torch.cat([torch.tensor([1e-12, 1e-6, 1e-3]), torch.linspace(0.05, 1.0, n - 4)]) * largest
    length = torch.cat([torch.zeros(1), length[torch.randperm(n - 1, generator=generator)]])
    return (direction / direction.norm(dim=-1, keepdim=True) * length[:, None]).to(dtype)


def points(seed: int, *, c: float, largest: float = 3.0, dtype: torch.dtype = torch.float64, n: int = 40) -> Tensor:
    """Points whose distance to the origin goes up to largest/√c, or to largest at c < 1."""
    t = vectors(seed, largest=largest / math.sqrt(max(c, 1.0)), n=n)
    return gyrovector.exp0(t / 2, c=c).to(dtype)


def assert_points_close(got: Tensor, expected: Tensor | np.ndarray, tolerance: float) -> None:
    """In norm, relative to the norm of each point."""
    if isinstance(expected, np.ndarray):
        expected = torch.from_numpy(oracle.floats(expected))
    got, expected = torch.broadcast_tensors(got.double(), expected.double())
    excess = (got - expected).norm(dim=-1) - tolerance * expected.norm(dim=-1)
    worst = int(excess.argmax())
    assert (excess <= 0).all(), f"at {worst}: got {got[worst].tolist()}, expected {expected[worst].tolist()}"


def assert_scalars_close(got: Tensor, expected: Tensor | np.ndarray, tolerance: float, floor: float = 0.0) -> None:
    if isinstance(expected, np.ndarray):
        expected = torch.from_numpy(oracle.floats(expected))
    torch.testing.assert_close(got.double(), expected.double(), rtol=tolerance, atol=floor)


# --------------------------------------------------------------------------------------------------------------------
# Against the oracle
# --------------------------------------------------------------------------------------------------------------------


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


# --------------------------------------------------------------------------------------------------------------------
# Laws
# --------------------------------------------------------------------------------------------------------------------


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


# --------------------------------------------------------------------------------------------------------------------
# Gyroplanes
# --------------------------------------------------------------------------------------------------------------------


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


def test_gyroplane_has_keyword_only_point_and_normal() -> None:
    z = torch.zeros(2)
    for f in (gyrovector.gyroplane_dist, gyrovector.gyroplane):
        with pytest.raises(TypeError, match="positional"):
            f(z, z, z, c=1.0)  # type: ignore[misc]


# --------------------------------------------------------------------------------------------------------------------
# The plane: c = 0
# --------------------------------------------------------------------------------------------------------------------


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


# --------------------------------------------------------------------------------------------------------------------
# Gradients
# --------------------------------------------------------------------------------------------------------------------


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


# --------------------------------------------------------------------------------------------------------------------
# Shapes, dtypes, compilation, errors
# --------------------------------------------------------------------------------------------------------------------


@binary
def test_batches_broadcast(f: Callable[..., Tensor]) -> None:
    x, y = points(43, c=1.0, n=5)[:, None], points(44, c=1.0, n=6)[2:]
    whole = f(x, y, c=1.0)
    assert whole.shape[:2] == (5, 4)
    torch.testing.assert_close(whole[3, 2], f(x[3, 0], y[2], c=1.0), rtol=1e-13, atol=1e-15)


@binary
def test_curvature_may_differ_from_point_to_point(f: Callable[..., Tensor]) -> None:
    x, y = (points(seed, c=1.4, n=6)[1:] for seed in (45, 46))
    c = torch.tensor([0.0, 0.1, 0.5, 1.0, 1.4], dtype=torch.float64)
    each = torch.stack([f(x1, y1, c=c1.item()) for x1, y1, c1 in zip(x, y, c, strict=True)])
    torch.testing.assert_close(f(x, y, c=c[:, None]), each, rtol=1e-13, atol=1e-15)


@binary
@dtypes
def test_answers_have_the_dtype_of_the_points_whatever_that_of_the_curvature(
    f: Callable[..., Tensor], dtype: torch.dtype
) -> None:
    x, y = (points(seed, c=1.0, dtype=dtype) for seed in (47, 48))
    for c in (1.0, *(torch.tensor(1.0, dtype=other) for other in DTYPES)):
        assert f(x, y, c=c).dtype == dtype


def test_integer_vectors_are_not_truncated() -> None:
    torch.testing.assert_close(gyrovector.exp0(torch.tensor([1, 0]), c=1.0), torch.tensor([math.tanh(1.0), 0.0]))


# Dynamo itself instantiates the autograd.Function that it traces.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_all_compile_without_a_graph_break() -> None:
    def everything(x: Tensor, y: Tensor, c: Tensor) -> Tensor:
        return sum(f(x, y, c=c).sum() for f in BINARY.values())

    x, y = (points(seed, c=0.7, dtype=torch.float32) for seed in (49, 50))
    c = torch.tensor(0.7)
    compiled = torch.compile(everything, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x, y, c), everything(x, y, c))


@pytest.mark.parametrize("bad", [1.0, 1.5, math.nan, math.inf])
def test_a_point_on_or_outside_the_ball_raises_and_says_what_to_do(bad: float) -> None:
    outside, inside = torch.tensor([[0.1, 0.0], [bad / 2, 0.0]]), torch.tensor([0.1, 0.2])
    got = rf"inside the ball, √c\|x\| < 1, got √c\|x\| up to {bad:g}\. .*PoincareBall\.from_ball.*PoincareBall\.to_ball"
    normal = torch.ones(2)
    for call in (
        lambda: gyrovector.conformal_factor(outside, c=4.0),
        lambda: gyrovector.mobius_add(outside, inside, c=4.0),
        lambda: gyrovector.mobius_add(inside, outside, c=4.0),
        lambda: gyrovector.dist(outside, inside, c=4.0),
        lambda: gyrovector.dist(inside, outside, c=4.0),
        lambda: gyrovector.log0(outside, c=4.0),
        lambda: gyrovector.log(outside, inside, c=4.0),
        lambda: gyrovector.log(inside, outside, c=4.0),
        lambda: gyrovector.exp(outside, inside, c=4.0),
        lambda: gyrovector.gyroplane_dist(outside, point=inside, normal=normal, c=4.0),
        lambda: gyrovector.gyroplane_dist(inside, point=outside, normal=normal, c=4.0),
        lambda: gyrovector.gyroplane(outside, point=inside, normal=normal, c=4.0),
    ):
        with pytest.raises(ValueError, match=got):
            call()


def test_negative_curvature_parameter_raises() -> None:
    for c in (-1.0, torch.tensor(-1.0)):
        with pytest.raises(ValueError, match="c ≥ 0"):
            gyrovector.exp0(torch.zeros(2), c=c)


def test_a_normal_of_length_zero_raises() -> None:
    z = torch.zeros(2)
    for f in (gyrovector.gyroplane_dist, gyrovector.gyroplane):
        with pytest.raises(ValueError, match="normal of length 0"):
            f(z, point=z, normal=z, c=1.0)


# --------------------------------------------------------------------------------------------------------------------
# Against another library
# --------------------------------------------------------------------------------------------------------------------


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
