from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.distributions import Independent, MultivariateNormal, Normal, kl_divergence

from horoball.distributions import RiemannianNormal, WrappedNormal
from horoball.distributions.normal import BallNormal
from horoball.geometry import PoincareBall
from horoball.geometry.quadrature import gauss_legendre

DTYPES = (torch.float64, torch.float32)
KINDS: dict[str, Callable[..., BallNormal]] = {"wrapped": WrappedNormal, "riemannian": RiemannianNormal}

# "closed" is against torch's or another closed form, relative to the larger of 1 and the truth; "integral" against
# a two-dimensional rule, which the far mean (√cρ = 4) strains most; "rounding" is what a divergence of 0 may be.
TOLERANCE = {
    "closed": {torch.float64: 1e-13, torch.float32: 1e-6},
    "integral": {torch.float64: 1e-10, torch.float32: 1e-6},
    "rounding": {torch.float64: 1e-11, torch.float32: 1e-6},
}

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
pairs = pytest.mark.parametrize(("q_kind", "p_kind"), list(product(KINDS, KINDS)))


@pytest.fixture(autouse=True)
def seed(request: pytest.FixtureRequest) -> Iterator[None]:
    """One for each test: radii are drawn by inversion, and one seed for all would be the same draw in every setting."""
    with torch.random.fork_rng():
        torch.manual_seed(zlib.crc32(request.node.name.encode()))
        yield


def normal(
    kind: str,
    ball: PoincareBall,
    *,
    d: int = 2,
    at: float = 0.0,
    sigma: float = 0.6,
    dtype: torch.dtype = torch.float64,
) -> BallNormal:
    """An isotropic normal whose mean is `at` from the origin."""
    direction = torch.linspace(1.0, -0.4, d, dtype=torch.float64)
    loc = (direction / direction.norm() * at).to(dtype)
    return KINDS[kind](loc, torch.tensor([sigma], dtype=dtype), ball)


def assert_close(got: Tensor, expected: Tensor, kind: str, dtype: torch.dtype = torch.float64) -> None:
    tolerance = TOLERANCE[kind][dtype]
    torch.testing.assert_close(got.double(), expected.double(), rtol=tolerance, atol=tolerance)


# --------------------------------------------------------------------------------------------------------------------
# Values
# --------------------------------------------------------------------------------------------------------------------


@pairs
@pytest.mark.parametrize("d", [2, 5, 20])
@pytest.mark.parametrize("c", [0.0, 1e-3, 1.0, 10.0])
def test_divergence_is_not_negative(q_kind: str, p_kind: str, d: int, c: float) -> None:
    ball, root = PoincareBall(c), math.sqrt(c or 1.0)
    grid = list(product((0.0, 1e-3, 0.5, 4.0, 15.0), (0.05, 1.0, 3.0), (0.05, 1.0, 3.0)))
    at, sigma, other = torch.tensor(grid, dtype=torch.float64).T / root
    direction = normal(q_kind, ball, d=d, at=1.0).loc
    for dtype in DTYPES:
        q = KINDS[q_kind]((at[:, None] * direction).to(dtype), sigma[:, None].to(dtype), ball)
        p = KINDS[p_kind](torch.zeros(d, dtype=dtype), other[:, None].to(dtype), ball)
        divergence = kl_divergence(q, p)
        assert (divergence.shape, divergence.dtype) == (at.shape, dtype)
        assert divergence.isfinite().all()
        assert (divergence >= 0).all()
        assert (divergence[(at * root >= 0.5) | (sigma != other)] > 1e-4).all()


@pytest.mark.parametrize("kind", KINDS)
@dtypes
@pytest.mark.parametrize("c", [0.0, 1.0, 10.0])
def test_divergence_of_a_law_from_itself_is_zero(kind: str, dtype: torch.dtype, c: float) -> None:
    for d, at, sigma in product((2, 5, 100), (0.0, 3.0), (0.01, 1.0, 5.0)):
        q, p = (normal(kind, PoincareBall(c), d=d, at=at, sigma=sigma, dtype=dtype) for _ in range(2))
        # Log densities of n²cσ²/2 nats are subtracted.
        assert kl_divergence(q, p) <= TOLERANCE["rounding"][dtype] * max(1.0, d**2 * c * sigma**2)


@pairs
@pytest.mark.parametrize(
    ("d", "c", "at", "sigma"), [(2, 1.0, 1.0, 0.5), (3, 0.2, 2.0, 1.0), (5, 2.0, 0.5, 1.0), (20, 1.0, 3.0, 0.4)]
)
def test_divergence_is_the_mean_of_the_log_ratio(
    q_kind: str, p_kind: str, d: int, c: float, at: float, sigma: float
) -> None:
    ball = PoincareBall(c)
    q, p = normal(q_kind, ball, d=d, at=at, sigma=sigma), normal(p_kind, ball, d=d, at=-0.3, sigma=0.9)
    z, log_q = q.rsample_and_log_prob((10**5,))
    ratio = log_q - p.log_prob(z)
    error = (ratio.mean() - kl_divergence(q, p)).abs()
    assert error <= 4 * ratio.std() / math.sqrt(len(ratio))  # see Note [Randomized statistical tests]


@pairs
@pytest.mark.parametrize(("c", "at"), [(0.0, 0.7), (0.3, 0.7), (1.0, 1e-4), (1.0, 2.0), (4.0, 2.0)])
def test_divergence_agrees_with_an_integral_over_the_disc(q_kind: str, p_kind: str, c: float, at: float) -> None:
    ball, root = PoincareBall(c), math.sqrt(c)
    q, p = normal(q_kind, ball, at=at, sigma=0.6), normal(p_kind, ball, at=-0.1, sigma=0.8)
    # Polar coordinates around q's mean
    farthest = 14 * 0.6
    x, w = gauss_legendre(160)
    r, w = farthest * (x + 1) / 2, w * farthest / 2
    phi = torch.arange(1024, dtype=torch.float64) * (2 * math.pi / 1024)
    z = ball.exp(q.loc, r[:, None, None] * torch.stack((phi.cos(), phi.sin()), -1))
    mass = (w * (torch.sinh(root * r) / root if c else r))[:, None] * (2 * math.pi / 1024)
    log_q = q.log_prob(z)
    expected = (mass * log_q.exp() * (log_q - p.log_prob(z))).sum()
    for dtype in DTYPES:
        pair = (
            type(distribution)(distribution.loc.to(dtype), distribution.scale.to(dtype), ball)
            for distribution in (q, p)
        )
        assert_close(kl_divergence(*pair), expected, "integral", dtype)


@pairs
@pytest.mark.parametrize("d", [2, 5, 20])
@pytest.mark.parametrize("c", [0.1, 1.0, torch.tensor(2.0, dtype=torch.float64)], ids=repr)
def test_around_one_mean_the_closed_form_is_the_limit_of_the_integral(
    q_kind: str, p_kind: str, d: int, c: float | Tensor
) -> None:
    ball = PoincareBall(c)
    q, p = normal(q_kind, ball, d=d, at=1.0, sigma=0.5), normal(p_kind, ball, d=d, at=1.0, sigma=0.8)
    near = normal(p_kind, ball, d=d, at=1.0 + 1e-6, sigma=0.8)  # a shift of ρ changes a divergence by some ρ²
    torch.testing.assert_close(kl_divergence(q, p), kl_divergence(q, near), rtol=1e-9, atol=1e-9)


# --------------------------------------------------------------------------------------------------------------------
# Where torch's normal knows the answer
# --------------------------------------------------------------------------------------------------------------------


def wrapped(shape: str, ball: PoincareBall, loc: Tensor, seed: int) -> WrappedNormal:
    generator, d = torch.Generator().manual_seed(seed), loc.shape[-1]
    x = 0.3 + torch.rand(4, d, d, generator=generator, dtype=torch.float64).to(loc.dtype)
    if shape == "full":
        return WrappedNormal(loc, ball=ball, scale_tril=x.tril())
    return WrappedNormal(loc, x[:, 0, :1] if shape == "isotropic" else x[:, 0], ball)


def plain(distribution: WrappedNormal) -> MultivariateNormal:
    d = distribution.event_shape[0]
    tril = (
        distribution.scale_tril
        if distribution.scale is None
        else torch.diag_embed(distribution.scale.expand(*distribution.batch_shape, d))
    )
    return MultivariateNormal(distribution.loc.double(), scale_tril=tril.double())


SHAPES = ("isotropic", "diagonal", "full")


@pytest.mark.parametrize(("q_shape", "p_shape"), list(product(SHAPES, SHAPES)))
@dtypes
def test_wrapped_normals_without_curvature_or_around_one_mean_have_the_divergence_of_torch(
    q_shape: str, p_shape: str, dtype: torch.dtype
) -> None:
    loc, other = torch.randn(2, 4, 3, dtype=dtype)
    for c, mean in ((0.0, other), (0.0, loc), (1.3, loc)):
        ball = PoincareBall(c)
        q, p = wrapped(q_shape, ball, loc, 1), wrapped(p_shape, ball, mean, 2)
        assert_close(kl_divergence(q, p), kl_divergence(plain(q), plain(p)), "closed", dtype)


@pytest.mark.parametrize(("q_shape", "p_shape"), list(product(SHAPES, SHAPES)))
@pytest.mark.parametrize("c", [0.0, 2.0])
def test_on_a_line_it_is_the_divergence_of_torch_for_every_curvature(q_shape: str, p_shape: str, c: float) -> None:
    ball = PoincareBall(c)
    loc, other = torch.randn(2, 4, 1, dtype=torch.float64)
    q, p = wrapped(q_shape, ball, loc, 3), wrapped(p_shape, ball, other, 4)
    assert_close(kl_divergence(q, p), kl_divergence(plain(q), plain(p)), "closed")


@pairs
@dtypes
@pytest.mark.parametrize("tensor", [False, True], ids=["number", "tensor"])
def test_without_curvature_every_pair_has_the_divergence_of_torch(
    q_kind: str, p_kind: str, dtype: torch.dtype, tensor: bool
) -> None:
    ball = PoincareBall(torch.tensor(0.0) if tensor else 0.0)
    for d, at in product((2, 3, 20), (0.0, 1.5)):
        q, p = (normal(k, ball, d=d, at=x, sigma=s, dtype=dtype) for k, x, s in ((q_kind, at, 0.5), (p_kind, 0.0, 0.9)))
        expected = kl_divergence(*(Independent(Normal(x.loc.double(), x.scale.double().expand(d)), 1) for x in (q, p)))
        assert_close(kl_divergence(q, p), expected, "integral", dtype)


# --------------------------------------------------------------------------------------------------------------------
# Shapes and gradients
# --------------------------------------------------------------------------------------------------------------------


@pairs
def test_batches_broadcast_against_a_single_prior_and_against_each_other(q_kind: str, p_kind: str) -> None:
    ball, d = PoincareBall(0.8), 3
    loc, scale = torch.randn(5, 1, d, dtype=torch.float64), 0.3 + torch.rand(5, 1, 1, dtype=torch.float64)
    prior_loc, prior_scale = torch.randn(4, d, dtype=torch.float64), 0.3 + torch.rand(4, 1, dtype=torch.float64)
    together = kl_divergence(KINDS[q_kind](loc, scale, ball), KINDS[p_kind](prior_loc, prior_scale, ball))
    assert together.shape == (5, 4)
    for i, j in product(range(5), range(4)):
        q, p = KINDS[q_kind](loc[i, 0], scale[i, 0], ball), KINDS[p_kind](prior_loc[j], prior_scale[j], ball)
        torch.testing.assert_close(kl_divergence(q, p), together[i, j], rtol=1e-10, atol=1e-12)
    single = KINDS[p_kind](prior_loc[0], prior_scale[0], ball)
    torch.testing.assert_close(kl_divergence(KINDS[q_kind](loc, scale, ball), single), together[:, :1])
    same = KINDS[p_kind](loc, scale + 0.1, ball)  # the closed form keeps the shape
    assert kl_divergence(KINDS[q_kind](loc, scale, ball), same).shape == (5, 1)


@pairs
@pytest.mark.parametrize("at", ["apart", "same"])
@pytest.mark.parametrize("d", [2, 3])
def test_divergence_passes_gradcheck_in_loc_scale_and_c(q_kind: str, p_kind: str, at: str, d: int) -> None:
    shift = 0.0 if at == "same" else 0.4
    loc = torch.linspace(0.5, -0.2, d, dtype=torch.float64, requires_grad=True)
    tensors = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in ([0.5], [0.8], 0.7)]

    def divergence(loc: Tensor, sigma: Tensor, prior: Tensor, c: Tensor) -> Tensor:
        ball = PoincareBall(c)
        # A difference in one mean alone would leave the closed form.
        mean = loc if at == "same" else loc.detach() * 0 + shift
        return kl_divergence(KINDS[q_kind](loc, sigma, ball), KINDS[p_kind](mean, prior, ball))

    inputs = (loc.detach() if at == "same" else loc, *tensors)
    assert torch.autograd.gradcheck(divergence, inputs, atol=1e-7)


@pytest.mark.parametrize("shape", ["diagonal", "full"])
def test_the_closed_form_passes_gradcheck_in_the_covariances(shape: str) -> None:
    loc, ball = torch.zeros(4, 2, dtype=torch.float64), PoincareBall(1.0)
    given = [wrapped(shape, ball, loc, seed) for seed in (5, 6)]
    name = "scale" if shape == "diagonal" else "scale_tril"

    def divergence(a: Tensor, b: Tensor) -> Tensor:
        distributions = (WrappedNormal(loc, ball=ball, validate_args=False, **{name: x}) for x in (a, b))
        return kl_divergence(*distributions)

    assert torch.autograd.gradcheck(divergence, tuple(getattr(q, name).clone().requires_grad_() for q in given))


@pairs
def test_gradients_are_finite_where_some_means_of_a_batch_coincide(q_kind: str, p_kind: str) -> None:
    loc = torch.tensor([[0.0, 0.0], [0.3, 0.1]], dtype=torch.float64, requires_grad=True)
    sigma = torch.full((2, 1), 0.5, dtype=torch.float64, requires_grad=True)
    c = torch.tensor(0.9, dtype=torch.float64, requires_grad=True)
    ball = PoincareBall(c)
    divergence = kl_divergence(KINDS[q_kind](loc, sigma, ball), normal(p_kind, ball, sigma=0.8))
    grads = torch.autograd.grad(divergence.sum(), (loc, sigma, c))
    assert all(grad.isfinite().all() for grad in grads)
    assert torch.equal(grads[0][0], torch.zeros(2, dtype=torch.float64))  # the least divergence is at equal means
    alone = kl_divergence(normal(q_kind, ball, sigma=0.5), normal(p_kind, ball, sigma=0.8))
    torch.testing.assert_close(divergence[0], alone, rtol=1e-10, atol=1e-12)


# --------------------------------------------------------------------------------------------------------------------
# Diagonal and full covariances, different means
# --------------------------------------------------------------------------------------------------------------------


@pairs
@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize(("c", "at"), [(0.3, 0.7), (1.0, 2.0), (4.0, 1.0)])
def test_all_directions_agree_with_one_angle_where_the_scales_are_equal(
    q_kind: str, p_kind: str, d: int, c: float, at: float
) -> None:
    ball = PoincareBall(c)
    q, p = normal(q_kind, ball, d=d, at=at, sigma=0.6), normal(p_kind, ball, d=d, at=-0.1, sigma=0.8)
    if q_kind == "wrapped":
        q_by_axis, p_by_axis = WrappedNormal(q.loc, q.scale.expand(d), ball), p
    elif p_kind == "wrapped":
        q_by_axis, p_by_axis = q, WrappedNormal(p.loc, ball=ball, scale_tril=torch.eye(d).double() * p.scale)
    else:
        pytest.skip("a Riemannian normal has one scale")
    torch.testing.assert_close(kl_divergence(q_by_axis, p_by_axis), kl_divergence(q, p), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(("q_shape", "p_shape"), [("diagonal", "full"), ("full", "isotropic"), ("isotropic", "full")])
@pytest.mark.parametrize("d", [2, 3])
def test_the_divergence_of_any_covariances_is_the_mean_of_the_log_ratio(q_shape: str, p_shape: str, d: int) -> None:
    ball = PoincareBall(1.0)
    q = wrapped(q_shape, ball, torch.randn(4, d, dtype=torch.float64), 1)
    p = wrapped(p_shape, ball, torch.randn(d, dtype=torch.float64) / 2, 2)
    z, log_q = q.rsample_and_log_prob((20_000,))
    ratio = log_q - p.log_prob(z)
    error = (ratio.mean(0) - kl_divergence(q, p)).abs()
    assert (error <= 4 * ratio.std(0) / math.sqrt(len(ratio))).all()  # see Note [Randomized statistical tests]


def test_the_divergence_of_any_covariances_passes_gradcheck() -> None:
    loc = torch.tensor([0.4, -0.2], dtype=torch.float64, requires_grad=True)
    tril = torch.tensor([[0.5, 0.0], [0.2, 0.7]], dtype=torch.float64, requires_grad=True)
    c = torch.tensor(0.9, dtype=torch.float64, requires_grad=True)

    def divergence(loc: Tensor, tril: Tensor, c: Tensor) -> Tensor:
        ball = PoincareBall(c)
        q = WrappedNormal(loc, ball=ball, scale_tril=tril.tril(), validate_args=False)
        return kl_divergence(q, RiemannianNormal(torch.zeros(2).double(), torch.ones(1).double(), ball))

    assert torch.autograd.gradcheck(divergence, (loc, tril, c), atol=1e-6)


# --------------------------------------------------------------------------------------------------------------------
# What it refuses
# --------------------------------------------------------------------------------------------------------------------


@pairs
def test_two_balls_and_two_dimensions_raise(q_kind: str, p_kind: str) -> None:
    with pytest.raises(ValueError, match=r"one ball are expected, got c = 1\.0 and c = 2\.0"):
        kl_divergence(normal(q_kind, PoincareBall(1.0)), normal(p_kind, PoincareBall(2.0)))
    with pytest.raises(ValueError, match="one dimension are expected, got 3 and 2"):
        kl_divergence(normal(q_kind, PoincareBall(1.0), d=3), normal(p_kind, PoincareBall(1.0), d=2))
    assert kl_divergence(normal(q_kind, PoincareBall(1.0)), normal(p_kind, PoincareBall(torch.tensor(1.0)))).isfinite()


def test_anisotropic_normals_of_many_dimensions_raise_and_say_how_to_estimate() -> None:
    ball = PoincareBall(1.0)
    q = wrapped("diagonal", ball, torch.randn(4, 4, dtype=torch.float64), 7)
    for p in (normal("wrapped", ball, d=4), normal("riemannian", ball, d=4)):
        for pair in ((q, p), (p, q)):
            with pytest.raises(NotImplementedError, match=r"d = 2 and 3, got d = 4.*rsample_and_log_prob"):
                kl_divergence(*pair)


@pytest.mark.parametrize("distribution", [WrappedNormal, RiemannianNormal])
def test_at_one_mean_the_gradient_in_it_is_zero(distribution: type) -> None:
    ball, loc = PoincareBall(1.0), torch.zeros(4, 2, requires_grad=True)
    q, p = distribution(loc, torch.ones(4, 1), ball), distribution(torch.zeros(2), torch.ones(1), ball)
    kl_divergence(q, p).sum().backward()
    assert torch.equal(loc.grad, torch.zeros(4, 2))


def isotropic(kind: str, at: Tensor) -> BallNormal:
    """From one vector of parameters: the mean, and the scale before its softplus."""
    return KINDS[kind](at[:-1], torch.nn.functional.softplus(at[-1:]), PoincareBall(1.3))


# torch loads its decompositions for forward mode, which are scripts, at the first call.
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pairs
@pytest.mark.parametrize("d", [2, 5])
def test_transforms_of_torch_give_the_derivatives_of_autograd(q_kind: str, p_kind: str, d: int) -> None:
    p = normal(p_kind, PoincareBall(1.3), d=d, at=0.7, sigma=1.1)
    rows = torch.randn(3, d + 1, dtype=torch.float64)

    def divergence(at: Tensor) -> Tensor:
        return kl_divergence(isotropic(q_kind, at), p)

    assert_close(torch.func.vmap(divergence)(rows), torch.stack([divergence(at) for at in rows]), "integral")
    leaf = rows.clone().requires_grad_()
    expected = torch.autograd.grad(torch.stack([divergence(at) for at in leaf]).sum(), leaf)[0]
    for transform in (torch.func.grad, torch.func.jacrev, torch.func.jacfwd):
        assert_close(torch.func.vmap(transform(divergence))(rows), expected, "integral")
        assert_close(transform(divergence)(rows[0]), expected[0], "integral")
    step = 1e-5 * torch.eye(d + 1, dtype=torch.float64)
    slope = torch.func.grad(divergence)
    differences = torch.stack([(slope(rows[0] + each) - slope(rows[0] - each)) / 2e-5 for each in step])
    hessian = torch.func.hessian(divergence)(rows[0])
    torch.testing.assert_close(hessian, differences, rtol=1e-7, atol=1e-7)
    assert_close(torch.autograd.functional.hessian(divergence, rows[0]), hessian, "integral")


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_transforms_go_through_cubature(kind: str) -> None:
    p = normal("riemannian", PoincareBall(1.0), at=0.7)

    def divergence(at: Tensor) -> Tensor:
        diagonal = torch.diag_embed(at[2:4].exp())
        below = at[4] * torch.tensor([[0.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
        scale = {"scale": at[2:4].exp()} if kind == "diagonal" else {"scale_tril": diagonal + below}
        return kl_divergence(WrappedNormal(at[:2], ball=PoincareBall(1.0), **scale), p)

    rows = 0.5 * torch.randn(3, 5, dtype=torch.float64)
    leaf = rows.clone().requires_grad_()
    expected = torch.autograd.grad(torch.stack([divergence(at) for at in leaf]).sum(), leaf)[0]
    assert_close(torch.func.vmap(torch.func.grad(divergence))(rows), expected, "integral")
    assert_close(torch.func.jacfwd(divergence)(rows[0]), expected[0], "integral")
    assert bool(torch.func.hessian(divergence)(rows[0]).isfinite().all())
