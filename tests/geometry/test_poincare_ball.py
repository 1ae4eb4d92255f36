from __future__ import annotations

import math

import mpmath as mp
import pytest
import torch
from torch import Tensor

from horoball.geometry import PoincareBall, gyrovector
from tests import oracle
from tests.geometry.ballpoints import (
    DTYPES,
    RADII,
    TOLERANCE,
    assert_close,
    curvatures_and_zero,
    dtypes,
    one_of_each,
    points,
    vectors,
)

# --------------------------------------------------------------------------------------------------------------------
# Against the oracle
# --------------------------------------------------------------------------------------------------------------------


def log_volume(v: object, c: object) -> mp.mpf:
    x = mp.sqrt(c * (v * v).sum())  # type: ignore[operator]
    return 2 * mp.log(mp.sinh(x) / x) if x else mp.mpf(0)


@dtypes
@curvatures_and_zero
def test_log_volume_and_its_gradients_agree_with_mpmath(dtype: torch.dtype, c: float) -> None:
    for seed, radius in enumerate((0.0, *RADII, 1e4)):
        v = vectors(seed, torch.tensor(radius / math.sqrt(c or 1.0)), dtype=dtype).requires_grad_()
        c_ = torch.tensor(c, dtype=dtype, requires_grad=True)
        value = PoincareBall(c_).log_volume(v)
        in_v, in_c = torch.autograd.grad(value, (v, c_))
        exact, k = oracle.array(v.detach()), c_.item()
        square = float((exact * exact).sum())
        with mp.workdps(150):
            # A log density is right to an absolute error.
            assert_close(value, log_volume(exact, k), TOLERANCE["value"][dtype], 1e-2)
        along_v = oracle.derivative(lambda p, k=k: log_volume(p, k), exact, exact) if c and radius else 0.0
        assert_close(in_v.double() @ v.detach().double(), along_v, TOLERANCE["value"][dtype])
        # ∂/∂c at c = 0 is the first term of the series, (d − 1)|v|²/6.
        along_c = oracle.derivative(lambda p, exact=exact: log_volume(exact, p[0]), [k], [k]) / k if c else square / 3
        assert_close(in_c, along_c, TOLERANCE["value"][dtype])


# --------------------------------------------------------------------------------------------------------------------
# The plane: c = 0
# --------------------------------------------------------------------------------------------------------------------


@dtypes
def test_the_number_zero_is_exactly_the_plane(dtype: torch.dtype) -> None:
    ball = PoincareBall(0.0)
    z, y = (points(seed, c=0.0, dtype=dtype) for seed in (1, 2))
    assert ball.is_euclidean
    assert torch.equal(ball.dist(z, y), torch.linalg.vector_norm(z - y, dim=-1))
    assert torch.equal(ball.exp(z, y), z + y)
    assert torch.equal(ball.log(z, y), y - z)
    assert torch.equal(ball.geodesic(z, y, 0.25), z + 0.25 * (y - z))
    assert torch.equal(ball.log_volume(z), torch.zeros(len(z), dtype=dtype))
    assert torch.equal(ball.to_ball(z), z / 2)
    assert torch.equal(ball.from_ball(z), 2 * z)
    assert torch.equal(ball.to_lorentz(z), torch.cat((torch.ones_like(z[:, :1]), z), -1))


@dtypes
def test_a_tensor_zero_is_the_plane_to_two_ulp(dtype: torch.dtype) -> None:
    ball, plane = PoincareBall(torch.zeros((), dtype=dtype)), PoincareBall(0.0)
    assert not ball.is_euclidean  # no value of a tensor is read
    z, y = (points(seed, c=0.0, dtype=dtype) for seed in (3, 4))
    ulp, radius = torch.finfo(dtype).eps, torch.maximum(z.norm(dim=-1), y.norm(dim=-1))
    assert_close(ball.dist(z, y)[:, None], plane.dist(z, y)[:, None], 2 * ulp)
    for name in ("exp", "log"):
        assert_close(getattr(ball, name)(z, y), getattr(plane, name)(z, y), 2 * ulp, radius)
    assert torch.equal(ball.log_volume(z), plane.log_volume(z))


# --------------------------------------------------------------------------------------------------------------------
# Laws
# --------------------------------------------------------------------------------------------------------------------


@dtypes
@curvatures_and_zero
def test_log_inverts_exp_and_exp_inverts_log(dtype: torch.dtype, c: float) -> None:
    ball, unit = PoincareBall(c), 1 / math.sqrt(c or 1.0)
    z, v = (points(seed, c=c, dtype=dtype) for seed in (7, 8))
    assert_close(ball.log(z, ball.exp(z, v)), v, TOLERANCE["law"][dtype], unit)
    assert_close(ball.exp(z, ball.log(z, v)), v, TOLERANCE["law"][dtype], unit)


@dtypes
@curvatures_and_zero
def test_distance_is_symmetric_and_zero_between_equal_points(dtype: torch.dtype, c: float) -> None:
    ball = PoincareBall(c)
    z, y = (points(seed, c=c, dtype=dtype) for seed in (9, 10))
    torch.testing.assert_close(ball.dist(z, y), ball.dist(y, z), rtol=4 * torch.finfo(dtype).eps, atol=0)
    assert torch.equal(ball.dist(z, z), torch.zeros(len(z), dtype=dtype))
    assert (ball.log(z, z).norm(dim=-1) <= 2 * torch.finfo(dtype).eps * z.norm(dim=-1)).all()
    torch.testing.assert_close(ball.dist(torch.zeros_like(z), z), z.norm(dim=-1))


@dtypes
@curvatures_and_zero
def test_triangle_inequality(dtype: torch.dtype, c: float) -> None:
    ball, few = PoincareBall(c), 8 * torch.finfo(dtype).eps
    x, y, z = (points(seed, c=c, dtype=dtype) for seed in (11, 12, 13))
    x, y, z = x[:, None, None], y[:, None], z
    assert (ball.dist(x, z) <= (ball.dist(x, y) + ball.dist(y, z)) * (1 + few)).all()


@dtypes
@curvatures_and_zero
def test_a_tangent_vector_is_as_long_as_the_way(dtype: torch.dtype, c: float) -> None:
    ball, unit = PoincareBall(c), 1 / math.sqrt(c or 1.0)
    z, y = (points(seed, c=c, dtype=dtype) for seed in (14, 15))
    torch.testing.assert_close(ball.log(z, y).norm(dim=-1), ball.dist(z, y), rtol=TOLERANCE["value"][dtype], atol=0)
    assert_close(ball.dist(z, ball.exp(z, y))[:, None], y.norm(dim=-1)[:, None], TOLERANCE["law"][dtype], unit)


@dtypes
@curvatures_and_zero
def test_translation_is_an_isometry(dtype: torch.dtype, c: float) -> None:
    ball, unit = PoincareBall(c), 1 / math.sqrt(c or 1.0)
    m, x, y = (points(seed, c=c, dtype=dtype) for seed in (16, 17, 18))
    moved = ball.dist(ball.exp(m, x), ball.exp(m, y))
    assert_close(moved[:, None], ball.dist(x, y)[:, None], TOLERANCE["law"][dtype], unit)


@dtypes
@pytest.mark.parametrize("radius", [1e-3, 1.0, 16.0, 40.0, 200.0])
@pytest.mark.parametrize("s", [0.1, 0.5, 1.0, 1.5])
def test_geodesics_are_those_of_the_hyperboloid(dtype: torch.dtype, radius: float, s: float) -> None:
    z = (radius * torch.tensor([0.6, -0.64, 0.48])).to(dtype)
    y = (radius * torch.tensor([-0.15, 0.5, 0.8])).to(dtype)
    with mp.workdps(400):
        (z0, hz), (y0, hy) = (
            (mp.cosh(r), x * (mp.sinh(r) / r)) for x in map(oracle.array, (z, y)) for r in [mp.sqrt((x * x).sum())]
        )
        D, t = mp.acosh(z0 * y0 - (hz * hy).sum()), mp.mpf(s)
        h = (mp.sinh((1 - t) * D) * hz + mp.sinh(t * D) * hy) / mp.sinh(D)
        size = mp.sqrt((h * h).sum())
        truth = oracle.floats(h * (mp.asinh(size) / size))
    # Exponents as large as the radii are rounded.
    assert_close(PoincareBall(1.0).geodesic(z, y, s), truth, TOLERANCE["value"][dtype], max(1.0, radius))


@dtypes
@curvatures_and_zero
def test_geodesic_has_constant_speed_and_the_right_ends(dtype: torch.dtype, c: float) -> None:
    ball, unit = PoincareBall(c), 1 / math.sqrt(c or 1.0)
    z, y = (points(seed, c=c, dtype=dtype) for seed in (19, 20))
    assert_close(ball.geodesic(z, y, 0.0), z, TOLERANCE["value"][dtype])
    assert_close(ball.geodesic(z, y, 1.0), y, TOLERANCE["law"][dtype], unit)
    s = torch.linspace(0, 1, len(z), dtype=dtype)
    on_the_way = ball.geodesic(z, y, s)
    for got, share in ((ball.dist(z, on_the_way), s), (ball.dist(on_the_way, y), 1 - s)):
        assert_close(got[:, None], (share * ball.dist(z, y))[:, None], TOLERANCE["law"][dtype], unit)


@dtypes
@curvatures_and_zero
def test_ball_coordinates_obey_the_gyrovector_formulas(dtype: torch.dtype, c: float) -> None:
    ball, unit = PoincareBall(c), 1 / math.sqrt(c or 1.0)
    z, v = (points(seed, c=c, dtype=dtype) for seed in (21, 22))
    x, y = ball.to_ball(z), ball.to_ball(v)
    assert_close(ball.to_ball(ball.exp(z, v)), gyrovector.mobius_add(x, y, c=c), TOLERANCE["law"][dtype], unit)
    assert_close(ball.dist(z, v)[:, None], gyrovector.dist(x, y, c=c)[:, None], TOLERANCE["law"][dtype], unit)


# --------------------------------------------------------------------------------------------------------------------
# Shapes, dtypes, compilation
# --------------------------------------------------------------------------------------------------------------------


@curvatures_and_zero
def test_batch_shapes_broadcast(c: float) -> None:
    ball = PoincareBall(c)
    z, y, s = vectors(25, torch.linspace(0, 1, 4)[:, None]), vectors(26, torch.linspace(0, 2, 5)), torch.ones(4, 5)
    assert ball.dist(z, y).shape == (4, 5)
    assert ball.exp(z, y).shape == ball.log(z, y).shape == ball.geodesic(z, y, s).shape == (4, 5, 3)
    for name in ("dist", "exp", "log"):
        method = getattr(ball, name)
        each = torch.stack([torch.stack([method(p, q) for q in y]) for p in z[:, 0]])
        torch.testing.assert_close(method(z, y), each, rtol=1e-14, atol=1e-14)


@curvatures_and_zero
@pytest.mark.parametrize("batch", [(), (0,), (2, 0, 3)], ids=str)
def test_every_method_takes_one_point_and_none(c: float, batch: tuple[int, ...]) -> None:
    event = {"dist": (), "log_volume": (), "to_lorentz": (4,)}
    for name, arguments in one_of_each(torch.full((*batch, 3), 0.1)).items():
        assert getattr(PoincareBall(c), name)(*arguments).shape == batch + event.get(name, (3,))


@pytest.mark.parametrize("c", [0.0, 1.0])
def test_points_of_two_dimensions_raise(c: float) -> None:
    for name in ("dist", "exp", "log"):
        for wrong in ((2,), (1,), (3, 1), ()):
            with pytest.raises(ValueError, match=rf"{name} expects two points of one dimension.*got \(4, 3\) and"):
                getattr(PoincareBall(c), name)(torch.zeros(4, 3), torch.zeros(wrong))


@pytest.mark.parametrize("c", [0.0, 0.5, torch.tensor(0.5), torch.tensor(0.5, dtype=torch.float64)], ids=repr)
def test_the_dtype_is_that_of_the_points_which_promote(c: float | Tensor) -> None:
    ball = PoincareBall(c)
    z = torch.tensor([0.3, -0.2])
    for dtype in DTYPES:
        for name, (*tensors, last) in one_of_each(z).items():
            assert getattr(ball, name)(*(t.to(dtype) for t in (*tensors, last))).dtype == dtype
    for name in ("dist", "exp", "log"):
        for pair in ((z, z.flip(-1).double()), (z.double(), z.flip(-1))):
            expected = getattr(ball, name)(*(p.double() for p in pair))
            torch.testing.assert_close(getattr(ball, name)(*pair), expected, rtol=0, atol=0)


# Dynamo itself instantiates the autograd.Function that it traces.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("learnable", [False, True])
def test_compiled_without_a_graph_break_it_equals_eager(learnable: bool) -> None:
    ball = PoincareBall(0.7, learnable=learnable)

    def everything(z: Tensor, y: Tensor) -> Tensor:
        return ball.exp(z, y).square().sum() + ball.dist(z, y).sum() + ball.log_volume(ball.from_ball(y)).sum()

    z, y = (points(seed, c=0.7, largest=0.9, dtype=torch.float32)[1:].requires_grad_() for seed in (27, 28))
    wanted = [z, y, *ball.parameters()]
    got, expected = torch.compile(everything, fullgraph=True, backend="aot_eager")(z, y), everything(z, y)
    torch.testing.assert_close(got, expected)
    for g, e in zip(torch.autograd.grad(got, wanted), torch.autograd.grad(expected, wanted), strict=True):
        torch.testing.assert_close(g, e)


def test_far_points_that_undo_each_other_have_a_finite_rate_in_c() -> None:
    for length in (700.0, 710.0, 2000.0):
        c = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
        z = torch.tensor([length, 0.0], dtype=torch.float64)
        ball = PoincareBall(c)
        value = ball.log(z, z).sum() + ball.exp(z, torch.tensor([1 - length, 0.0], dtype=torch.float64)).sum()
        (rate,) = torch.autograd.grad(value, c)
        assert rate.isfinite()


@pytest.mark.parametrize(
    ("z", "y", "expected"),
    [
        ([2e19, 0.0], [0.0, 1.0], 2e19),
        ([1e-25, 0.0], [3e-25, 0.0], 2e-25),
        ([1e-25, 0.0], [0.0, 1e-25], math.sqrt(2) * 1e-25),
    ],
)
def test_squares_beyond_float32_do_no_harm(z: list[float], y: list[float], expected: float) -> None:
    assert float(PoincareBall(1.0).dist(torch.tensor(z), torch.tensor(y))) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("c", [0.0, 1e-13, 1.0])
def test_cdist_is_dist_of_all_pairs_in_dtype_and_on_the_diagonal(c: float) -> None:
    ball, x = PoincareBall(c), points(1, c=1.0, dtype=torch.float32)
    assert torch.equal(ball.cdist(x, x).diagonal(), torch.zeros(len(x)))
    assert ball.cdist(x, x.double()).dtype == ball.dist(x, x.double()).dtype == torch.float64


@pytest.mark.parametrize("c", [0.0, 1.0, torch.tensor(1.0)], ids=str)
def test_whole_numbers_are_points_like_others(c: float | Tensor) -> None:
    ball = PoincareBall(c)
    for name, arguments in one_of_each(torch.tensor([[2, 0], [0, 1]])).items():
        if name != "from_ball":  # whose points are all outside but the origin
            got = getattr(ball, name)(*arguments)
            torch.testing.assert_close(got, getattr(ball, name)(*(x.float() for x in arguments)))
    z = torch.tensor([[2, 0], [0, 1]])
    assert torch.equal(ball.cdist(z, z), ball.cdist(z.float(), z.float()))
    assert torch.equal(ball.from_ball(torch.tensor([0, 0])), torch.zeros(2))
