"""Densities integrate to one, and samples follow them.

Note [Randomized statistical tests]: each randomized assertion computes one p-value, Bonferroni's over its comparisons,
and fails below FAILURE_RATE, that of a normal variable four standard deviations out. Seeds are fixed, so what passes
keeps passing until the samples change; after such a change a correct sampler fails one of the 200 p-values here once in
80 times. To tell chance from error run `pytest -m slow`, which draws ten times as much: an error's p-value falls.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from itertools import product

import mpmath as mp
import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor

from horoball.distributions import HyperbolicRadius, HypersphericalUniform, RiemannianNormal, WrappedNormal
from horoball.distributions.normal import BallNormal
from horoball.geometry import PoincareBall, gyrovector
from horoball.geometry.quadrature import gauss_legendre
from tests.radius_oracle import radius_distribution

FAILURE_RATE = math.erfc(4 / math.sqrt(2))  # 6e-5
KINDS = ("wrapped isotropic", "wrapped diagonal", "wrapped full", "riemannian")
TOLERANCE = {"integral": 1e-9, "entropy": 1e-9, "cell": 1e-8}

kinds = pytest.mark.parametrize("kind", KINDS)
sizes = pytest.mark.parametrize("n", [10**5, pytest.param(10**6, marks=pytest.mark.slow)])


@pytest.fixture(autouse=True)
def seed(request: pytest.FixtureRequest) -> Iterator[None]:
    """One for each test: radii are drawn by inversion, and one seed for all would be the same draw in every setting."""
    with torch.random.fork_rng():
        torch.manual_seed(zlib.crc32(request.node.name.encode()))
        yield


def law_of(
    kind: str, d: int, c: float, sigma: float, *, dtype: torch.dtype = torch.float64, distance: float = 0.8
) -> BallNormal:
    """A normal whose mean is off the center, and off every axis of its covariance."""
    loc = torch.linspace(1.0, -0.4, d, dtype=torch.float64)
    loc = (loc / loc.norm() * distance / math.sqrt(max(c, 1.0))).to(dtype)
    ball, axes = PoincareBall(c), sigma * torch.linspace(0.6, 1.4, d, dtype=dtype)
    if kind == "riemannian":
        return RiemannianNormal(loc, torch.tensor([sigma], dtype=dtype), ball)
    if kind == "wrapped isotropic":
        return WrappedNormal(loc, torch.tensor([sigma], dtype=dtype), ball)
    if kind == "wrapped diagonal":
        return WrappedNormal(loc, axes, ball)
    return WrappedNormal(
        loc, ball=ball, scale_tril=torch.diag(axes) - sigma / 3 * torch.ones(d, d, dtype=dtype).tril(-1)
    )


def assert_p(p: float, comparisons: int = 1) -> None:
    assert p * comparisons > FAILURE_RATE, f"p = {p:.2g} for one of {comparisons} comparisons"


def assert_mean(samples: Tensor, expected: Tensor | float) -> None:
    """Each column of the samples has the expected mean."""
    samples = samples.double().reshape(len(samples), -1)
    error = (samples.mean(0) - torch.as_tensor(expected, dtype=torch.float64).reshape(-1)).abs()
    z = error / (samples.std(0) / math.sqrt(len(samples)))
    assert_p(math.erfc(z.max().item() / math.sqrt(2)), samples.shape[1])


def assert_distributed(samples: Tensor, cdf: object) -> None:
    """Kolmogorov and Smirnov's test of each column."""
    samples = samples.double().reshape(len(samples), -1)
    p = min(scipy.stats.kstest(column.numpy(), cdf).pvalue for column in samples.T)
    assert_p(p, samples.shape[1])


# --------------------------------------------------------------------------------------------------------------------
# Integrals over the ball
# --------------------------------------------------------------------------------------------------------------------


def legendre(order: int, start: float, stop: float) -> tuple[Tensor, Tensor]:
    x, w = gauss_legendre(order)
    return start + (stop - start) * (x + 1) / 2, w * (stop - start) / 2


def directions(d: int) -> tuple[Tensor, Tensor]:
    """Unit vectors and weights that sum to the area of the sphere: trapezoidal in the angle, Gauss's in the height."""
    turns = 160 if d == 2 else 80
    phi = torch.arange(turns, dtype=torch.float64) * (2 * math.pi / turns)
    circle = torch.stack((phi.cos(), phi.sin()), -1)
    if d == 2:
        return circle, torch.full((turns,), 2 * math.pi / turns, dtype=torch.float64)
    height, w = gauss_legendre(56)
    ring = (1 - height**2).sqrt()[:, None, None] * circle
    sphere = torch.cat((ring, height[:, None, None].expand(-1, turns, 1)), -1).reshape(-1, 3)
    return sphere, (w * 2 * math.pi / turns).repeat_interleave(turns)


def ball_rule(distribution: BallNormal, sigma: float) -> tuple[Tensor, Tensor]:
    """Points and weights for the Riemannian measure, in polar coordinates around the origin, not around the mean."""
    d, c = distribution.event_shape[0], distribution.ball.c
    farthest = distribution.loc.norm().item() + 1.6 * (d - 1) * math.sqrt(c) * sigma**2 + 12.5 * sigma
    R, w = legendre(110, 0.0, farthest)
    growth = torch.sinh(math.sqrt(c) * R) / math.sqrt(c) if c else R
    u, area = directions(d)
    return R[:, None, None] * u, (w * growth ** (d - 1))[:, None] * area


@kinds
@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize(("c", "sigma"), [(0.0, 0.7), (0.3, 0.4), (0.3, 1.0), (1.0, 0.3), (1.0, 1.0), (3.0, 0.6)])
def test_density_integrates_to_one_and_its_logarithm_to_minus_the_entropy(
    kind: str, d: int, c: float, sigma: float
) -> None:
    distribution = law_of(kind, d, c, sigma)
    z, weight = ball_rule(distribution, sigma)
    log_q = distribution.log_prob(z)
    mass = weight * log_q.exp()
    assert mass.sum().item() == pytest.approx(1, abs=TOLERANCE["integral"])
    assert distribution.entropy().item() == pytest.approx(-(mass * log_q).sum().item(), abs=TOLERANCE["entropy"])


@pytest.mark.parametrize("d", [2, 3, 20])
@pytest.mark.parametrize("root", [0.0, 0.3, 3.0])
def test_entropies_of_the_radius_and_of_the_normal_around_it_agree_with_mpmath(d: int, root: float) -> None:
    sigma = torch.tensor([0.75], dtype=torch.float64)
    c = (root / 0.75) ** 2
    truth = radius_distribution(d, 0.75, c)
    with mp.workdps(40):
        radial = truth.mean(lambda r: -mp.log(truth.density(r)))
        area = 2 * mp.pi ** (mp.mpf(d) / 2) / mp.gamma(mp.mpf(d) / 2)
        energy = truth.mean(lambda r: r * r / 2) / mp.mpf(0.75) ** 2
    distribution = RiemannianNormal(torch.zeros(d, dtype=torch.float64), sigma, PoincareBall(c))
    expected = float(truth.log_normalizer + mp.log(area) + energy)
    assert distribution.entropy().item() == pytest.approx(expected, rel=1e-12)
    assert distribution.radius.entropy().item() == pytest.approx(float(radial), abs=TOLERANCE["entropy"])


@pytest.mark.parametrize("d", [2, 5, 20])
@pytest.mark.parametrize("root", [0.1, 1.0, 5.0])
def test_wrapped_entropy_agrees_with_mpmath_however_it_is_parametrized(d: int, root: float) -> None:
    with mp.workdps(30):  # (d − 1) E[log(sinh x/x)] with x/√c from the chi distribution
        volume = (d - 1) * radius_distribution(d, 1.0, 0.0).mean(lambda t: mp.log(mp.sinh(root * t) / (root * t)))
        expected = float(d * mp.log(2 * mp.pi * mp.e) / 2 + volume)
    ball, loc = PoincareBall(root**2), torch.zeros(d, dtype=torch.float64)
    one, eye = torch.ones(1, dtype=torch.float64), torch.eye(d, dtype=torch.float64)
    for given in ({"scale": one}, {"scale": one.expand(d)}, {"scale_tril": eye}):
        distribution = WrappedNormal(loc, ball=ball, **given)
        assert distribution.entropy().item() == pytest.approx(expected, abs=TOLERANCE["entropy"])


# --------------------------------------------------------------------------------------------------------------------
# Goodness of fit: see Note [Randomized statistical tests]
# --------------------------------------------------------------------------------------------------------------------


@sizes
@kinds
@pytest.mark.parametrize(("c", "sigma"), [(0.4, 0.5), (1.0, 1.0)])
def test_samples_fall_into_cells_of_the_disc_as_the_density_says(kind: str, c: float, sigma: float, n: int) -> None:
    distribution = law_of(kind, 2, c, sigma)
    root = math.sqrt(c)
    rings = [0.0, *torch.linspace(0.3, 2.5, 7).tolist(), 3.0 + 12 * sigma]
    sectors = 12
    expected = torch.empty(len(rings) - 1, sectors)
    for i, j in product(range(len(rings) - 1), range(sectors)):
        R, w = legendre(60 if i == len(rings) - 2 else 16, rings[i], rings[i + 1])
        phi, v = legendre(16, 2 * math.pi * j / sectors, 2 * math.pi * (j + 1) / sectors)
        z = R[:, None, None] * torch.stack((phi.cos(), phi.sin()), -1)
        expected[i, j] = ((w * torch.sinh(root * R) / root)[:, None] * v * distribution.log_prob(z).exp()).sum()
    assert expected.sum().item() == pytest.approx(1, abs=1e-6)  # float32 sums
    z = distribution.sample((n,))
    ring = torch.bucketize(z.norm(dim=-1), torch.tensor(rings[1:-1], dtype=z.dtype))
    sector = (torch.atan2(z[:, 1], z[:, 0]) % (2 * math.pi) * (sectors / (2 * math.pi))).long().clamp_max(sectors - 1)
    counts = torch.bincount(ring * sectors + sector, minlength=expected.numel())
    few = expected.flatten() * n < 10
    observed, hoped = (
        np.append(x[~few].double().numpy(), x[few].double().sum().item()) for x in (counts, expected.flatten() * n)
    )
    observed, hoped = observed[hoped > 0], hoped[hoped > 0]
    assert_p(scipy.stats.chisquare(observed, hoped * (observed.sum() / hoped.sum())).pvalue)


@sizes
@pytest.mark.parametrize("d", [2, 3, 5, 20])
@pytest.mark.parametrize(("c", "sigma"), list(product((0.1, 1.0, 3.0), (0.3, 1.0))))
def test_radius_of_riemannian_samples_follows_its_cdf(d: int, c: float, sigma: float, n: int) -> None:
    distribution = law_of("riemannian", d, c, sigma, dtype=torch.float64 if d == 2 else torch.float32)
    assert isinstance(distribution, RiemannianNormal)
    r = distribution.ball.dist(distribution.loc, distribution.sample((n,))).double().sort().values
    # The cdf of 1000 points in float64, which test_radius holds against mpmath, and lines between them: within 1e-5
    points = torch.linspace(0.9 * r[0].item(), 1.1 * r[-1].item(), 1000, dtype=torch.float64)
    cdf = HyperbolicRadius(d, distribution.scale.squeeze(-1).double(), distribution.ball).cdf(points).numpy()
    assert_distributed(r, lambda x: np.interp(x, points.numpy(), cdf))


@sizes
@pytest.mark.parametrize("d", [2, 3, 20])
@pytest.mark.parametrize(("c", "sigma"), [(0.1, 0.3), (1.0, 1.0), (3.0, 1.0)])
def test_radius_of_wrapped_samples_follows_the_chi_law(d: int, c: float, sigma: float, n: int) -> None:
    distribution = law_of("wrapped isotropic", d, c, sigma, dtype=torch.float32)
    r = distribution.ball.dist(distribution.loc, distribution.sample((n,)))
    assert_distributed(r, scipy.stats.chi(float(d), scale=distribution.scale.item()).cdf)


@sizes
@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("c", [0.5, 2.0])
def test_whitened_wrapped_noise_is_standard_normal_in_the_transported_frame(
    kind: str, d: int, c: float, n: int
) -> None:
    distribution = law_of(kind, d, c, 0.5, distance=1.5)
    # By the paper's formulas in ball coordinates: v at the origin is carried to μ by the Möbius sum.
    x, mu = distribution.ball.to_ball(distribution.sample((n,))), distribution.ball.to_ball(distribution.loc)
    v = distribution.ball.from_ball(gyrovector.mobius_add(-mu, x, c=c))
    tril = distribution.scale_tril if distribution.scale is None else torch.diag(distribution.scale.expand(d))
    white = torch.linalg.solve_triangular(tril, v.mT, upper=False).mT
    assert_distributed(white, "norm")
    # Radius and angle jointly, in cells of equal probability: a turned frame shows here.
    rings, sectors = 6, 16
    square, angle = white[:, :2].square().sum(-1), torch.atan2(white[:, 1], white[:, 0]) / (2 * math.pi)
    ring = (-torch.expm1(-square / 2) * rings).long().clamp_max(rings - 1)
    sector = ((angle % 1) * sectors).long().clamp_max(sectors - 1)
    counts = torch.bincount(ring * sectors + sector, minlength=rings * sectors)
    assert_p(scipy.stats.chisquare(counts.numpy()).pvalue)


@sizes
@pytest.mark.parametrize("d", [2, 3, 20])
def test_directions_are_uniform(d: int, n: int) -> None:
    u = HypersphericalUniform(d, dtype=torch.float64).sample((n,))
    # A squared coordinate has the Beta(½, (d − 1)/2) distribution, and each sign is as likely as the other.
    assert_distributed(u.square(), scipy.stats.beta(0.5, (d - 1) / 2).cdf)
    assert_mean(u.sign(), torch.zeros(d))
    assert_mean((u[:, :1] * u[:, 1:]).sign(), torch.zeros(d - 1))


# --------------------------------------------------------------------------------------------------------------------
# Moments and entropies
# --------------------------------------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize("c", [0.0, 0.3, 2.0])
def test_samples_have_the_mean_the_covariance_and_the_entropy_of_the_law(kind: str, d: int, c: float) -> None:
    distribution = law_of(kind, d, c, 0.5)
    z, log_q = distribution.rsample_and_log_prob((10**5,))
    v = distribution.ball.log(distribution.loc, z)
    assert_mean(v, torch.zeros(d))  # the Fréchet mean
    if isinstance(distribution, RiemannianNormal):
        covariance = (
            (distribution.radius.mean**2 + distribution.radius.variance) / d * torch.eye(d, dtype=torch.float64)
        )
    else:
        tril = distribution.scale_tril if distribution.scale is None else torch.diag(distribution.scale.expand(d))
        covariance = tril @ tril.mT
    assert_mean(v[:, :, None] * v[:, None, :], covariance)
    assert_mean(-log_q, distribution.entropy())
    assert_mean(-distribution.log_prob(z), distribution.entropy())


@pytest.mark.parametrize("d", [2, 20])
@pytest.mark.parametrize("root", [0.0, 0.3, 3.0])
def test_radii_have_the_mean_the_variance_and_the_entropy_of_the_law(d: int, root: float) -> None:
    distribution = HyperbolicRadius(d, torch.tensor(0.5, dtype=torch.float64), PoincareBall((root / 0.5) ** 2))
    r = distribution.sample((10**5,))
    assert_mean(r, distribution.mean)
    assert_mean((r - distribution.mean) ** 2, distribution.variance)
    assert_mean(-distribution.log_prob(r), distribution.entropy())


@pytest.mark.parametrize("kind", ["wrapped diagonal", "wrapped full", "riemannian"])
@pytest.mark.parametrize("root", [1e-3, 0.3, 3.0])
def test_entropy_in_high_dimension_is_the_mean_of_minus_the_log_density(kind: str, root: float) -> None:
    distribution = law_of(kind, 50, (root / 0.5) ** 2, 0.5)
    _, log_q = distribution.rsample_and_log_prob((3 * 10**4,))
    assert_mean(-log_q, distribution.entropy())
