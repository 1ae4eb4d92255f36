from __future__ import annotations

import copy
import math
from collections.abc import Iterator

import mpmath as mp
import numpy as np
import pytest
import torch
from torch import Tensor

from horoball.manifolds import PoincareBall, gyrovector
from tests import oracle

DTYPES = (torch.float64, torch.float32)
CURVATURES = (1e-6, 0.1, 1.0, 10.0)
RADII = (1e-6, 1e-3, 0.1, 1.0, 4.0, 16.0, 80.0)  # √c·d(0, z)

# Values are relative to their norm. A "law" passes through points that are rounded to the dtype, 6e-8·sinh 6 in
# float32, relative to 1/√c; a "chart" is a round trip at √cR ≤ 5, where ball coordinates lose e⁵. The
# dist, exp and log of points at every radius are held against mpmath in test_triangle.
TOLERANCE = {
    "value": {torch.float64: 1e-13, torch.float32: 3e-7},
    "law": {torch.float64: 1e-12, torch.float32: 1e-4},
    "chart": {torch.float64: 1e-13, torch.float32: 3e-5},
}

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
curvatures = pytest.mark.parametrize("c", CURVATURES)
curvatures_and_zero = pytest.mark.parametrize("c", [0.0, *CURVATURES])


def vectors(seed: int, lengths: Tensor, *, dtype: torch.dtype = torch.float64) -> Tensor:
    """One vector of random direction per length."""
    generator = torch.Generator().manual_seed(seed)
    direction = torch.randn(*lengths.shape, 3, generator=generator, dtype=torch.float64)
    return (direction / direction.norm(dim=-1, keepdim=True) * lengths.unsqueeze(-1)).to(dtype)


def points(seed: int, *, c: float, largest: float = 3.0, dtype: torch.dtype = torch.float64, n: int = 30) -> Tensor:
    """Points up to √cR = largest, in no order of radius; the first is 0."""
    lengths = torch.linspace(0, largest, n, dtype=torch.float64) / math.sqrt(c or 1.0)
    order = torch.randperm(n - 1, generator=torch.Generator().manual_seed(seed)) + 1
    return vectors(seed, torch.cat([lengths[:1], lengths[order]]), dtype=dtype)


@pytest.fixture
def warn_always() -> Iterator[None]:
    """Not once per process: warnings are errors here, and a test must not depend on its order."""
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(False)


def assert_close(got: Tensor, expected: object, tolerance: float, scale: object = 0.0) -> None:
    """In norm along the last axis of vectors, relative to the larger of the expected norm and the scale."""
    expected = torch.as_tensor(oracle.floats(expected)) if not isinstance(expected, Tensor) else expected.double()
    assert got.shape == expected.shape
    error, size = ((x.norm(dim=-1) if x.dim() else x.abs()) for x in (got.detach().double() - expected, expected))
    excess = error - tolerance * torch.maximum(size, torch.as_tensor(scale, dtype=torch.float64))
    assert (excess <= 0).all(), f"off by {float(error.max()):.2g}: got {got.tolist()}, expected {expected.tolist()}"


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


@dtypes
@curvatures
def test_charts_agree_with_mpmath(dtype: torch.dtype, c: float) -> None:
    ball, z = PoincareBall(c), vectors(1, torch.tensor(RADII) / math.sqrt(c), dtype=dtype)
    assert_close(ball.to_ball(z), oracle.to_ball(z, c), TOLERANCE["value"][dtype])
    with mp.workdps(60):
        a = [mp.sqrt(mp.mpf(c) * (t * t).sum()) for t in oracle.array(z)]
        time, stretch = [mp.cosh(x) for x in a], [mp.sinh(x) / x for x in a]
        space = oracle.array(z) * np.array(stretch, dtype=object)[:, None]
    h = ball.to_lorentz(z)
    assert_close(h[:, :1], np.array(time, dtype=object)[:, None], TOLERANCE["value"][dtype])
    assert_close(h[:, 1:], space, TOLERANCE["value"][dtype])


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
# Charts
# --------------------------------------------------------------------------------------------------------------------


@dtypes
@curvatures_and_zero
@pytest.mark.parametrize("chart", ["ball", "lorentz"])
def test_a_chart_and_back_is_the_identity(dtype: torch.dtype, c: float, chart: str) -> None:
    ball, z = PoincareBall(c), points(23, c=c, largest=5.0, dtype=dtype)
    there = getattr(ball, f"to_{chart}")(z)
    back = getattr(ball, f"from_{chart}")(there)
    assert there.dtype == back.dtype == dtype
    assert_close(back, z, TOLERANCE["chart"][dtype])


@dtypes
@curvatures
def test_lorentz_coordinates_lie_on_the_hyperboloid(dtype: torch.dtype, c: float) -> None:
    h = PoincareBall(c).to_lorentz(points(24, c=c, dtype=dtype)).double()
    assert h.shape[-1] == 4
    off = -(h[:, 0] ** 2) + c * h[:, 1:].square().sum(-1) + 1
    assert (off.abs() <= 8 * torch.finfo(dtype).eps * h[:, 0] ** 2).all()


@pytest.mark.parametrize("chart", ["to_ball", "from_ball", "to_lorentz"])
@pytest.mark.parametrize("c", [0.0, 0.7])
def test_charts_are_differentiable_at_the_origin(chart: str, c: float) -> None:
    z = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    got = torch.autograd.functional.jacobian(getattr(PoincareBall(torch.tensor(c)), chart), z)
    factor = {"to_ball": 0.5, "from_ball": 2.0, "to_lorentz": 1.0}[chart]
    assert torch.equal(got[-3:], factor * torch.eye(3, dtype=torch.float64))


@pytest.mark.parametrize("bad", [1.0, 1.5, math.nan, math.inf])
def test_from_ball_raises_on_the_rim_and_outside_and_says_what_to_do(bad: float) -> None:
    x = torch.tensor([[0.1, 0.0], [bad / 2, 0.0]])
    with pytest.raises(ValueError, match=rf"sqrt\(c\)·\|x\| < 1, got {bad:g}\. .*to_ball.*float64"):
        PoincareBall(4.0).from_ball(x)


@pytest.mark.usefixtures("warn_always")
@pytest.mark.parametrize("c", [4.0, torch.tensor(4.0, requires_grad=True)], ids=["number", "tensor"])
def test_from_lorentz_refuses_another_hyperboloid(c: float | Tensor) -> None:
    ball, z = PoincareBall(c), torch.tensor([0.3, -0.8])
    h = ball.to_lorentz(z).detach()
    scaled = torch.cat((h[:1] / 2, h[1:]))  # time in units of length, as with h₀² = 1/c + |h|²
    for wrong in (scaled, h.flip(-1), PoincareBall(1.0).to_lorentz(z), h * math.nan):
        with pytest.raises(ValueError, match=r"h0 first and -h0² \+ c\|h\|² = -1 for c = 4"):
            ball.from_lorentz(wrong)


# --------------------------------------------------------------------------------------------------------------------
# The curvature
# --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learnable", [False, True])
def test_what_is_not_one_finite_number_above_zero_raises(learnable: bool) -> None:
    with pytest.raises(ValueError, match=r"c >= 0 .* got c = -1\.5\. Pass c = 1\.5\?"):
        PoincareBall(-1.5, learnable=learnable)
    for bad in (math.nan, math.inf, torch.tensor(-1.0), torch.tensor(math.nan)):
        with pytest.raises(ValueError, match="c >= 0"):
            PoincareBall(bad, learnable=learnable)
    with pytest.raises(ValueError, match=r"one curvature, got c of shape \(2,\)"):
        PoincareBall(torch.ones(2), learnable=learnable)
    with pytest.raises(ValueError, match=r"learnable c must start above 0, got 0\. Start it small"):
        PoincareBall(0.0, learnable=True)


@pytest.mark.parametrize("c", [1e-6, 0.1, 1.0, 10.0, 1e3])
def test_a_learnable_curvature_starts_at_its_value_and_has_a_gradient(c: float) -> None:
    ball = PoincareBall(c, learnable=True)
    assert [name for name, _ in ball.named_parameters()] == ["raw_c"]
    assert ball.c.item() == pytest.approx(c, rel=2e-6)
    (grad,) = torch.autograd.grad(ball.dist(*vectors(1, torch.tensor([1.0, 2.0]) / math.sqrt(c))), ball.raw_c)
    assert grad.isfinite()
    assert grad != 0


def test_a_learnable_curvature_survives_state_dict_and_deepcopy() -> None:
    ball, other = PoincareBall(0.3, learnable=True), PoincareBall(2.0, learnable=True)
    other.load_state_dict(ball.state_dict())
    twin = copy.deepcopy(ball)
    assert other.c.item() == twin.c.item() == ball.c.item()
    assert twin.raw_c is not ball.raw_c


def test_a_given_curvature_is_no_state_and_survives_deepcopy() -> None:
    for ball in (PoincareBall(0.5), PoincareBall(torch.tensor(0.5)), PoincareBall(torch.tensor(0.5).requires_grad_())):
        assert not ball.state_dict()
        assert not list(ball.parameters())
        assert float(torch.as_tensor(copy.deepcopy(ball).c).detach()) == 0.5


@pytest.mark.usefixtures("warn_always")
def test_repr_says_the_curvature() -> None:
    assert repr(PoincareBall(0.5)) == "PoincareBall(c=0.5)"
    assert repr(PoincareBall(torch.tensor(2))) == "PoincareBall(c=2)"
    assert repr(PoincareBall(torch.tensor(0.5, requires_grad=True))) == "PoincareBall(c=0.5)"
    assert repr(PoincareBall(0.25, learnable=True)) == "PoincareBall(c=0.25, learnable=True)"


@pytest.mark.parametrize("shape", [(1,), (1, 1)], ids=str)
def test_a_curvature_of_one_element_changes_no_shape(shape: tuple[int, ...]) -> None:
    c = torch.full(shape, 0.7, requires_grad=True)
    ball, plain = PoincareBall(c), PoincareBall(0.7)
    for z in (torch.tensor([0.1, -0.2]), torch.tensor([[0.1, -0.2], [0.3, 0.0], [0.2, 0.2]])):
        for name, arguments in one_of_each(z).items():
            got, expected = (getattr(m, name)(*arguments) for m in (ball, plain))
            torch.testing.assert_close(got, expected)
            (grad,) = torch.autograd.grad(got.sum(), c)
            assert grad.shape == shape


# --------------------------------------------------------------------------------------------------------------------
# Shapes, dtypes, compilation
# --------------------------------------------------------------------------------------------------------------------


def one_of_each(z: Tensor) -> dict[str, tuple[Tensor, ...]]:
    """Arguments of every method, from small points z."""
    y, s = z.flip(-1), torch.full(z.shape[:-1], 0.3)
    one, two = ("log_volume", "to_ball", "from_ball", "to_lorentz"), ("dist", "exp", "log")
    return dict.fromkeys(one, (z,)) | dict.fromkeys(two, (z, y)) | {"geodesic": (z, y, s)}


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
