from __future__ import annotations

import math
from collections.abc import Iterator

import mpmath as mp
import numpy as np
import pytest
import scipy.stats
import torch

from horoball.distributions.sphere import VonMisesFisher

TOLERANCE = {torch.float64: 1e-13, torch.float32: 1e-6}  # relative to κ + p, the size of the terms
FAILURE_RATE = math.erfc(4 / math.sqrt(2))  # see Note [Randomized statistical tests] in test_densities
CASES = ((2, 0.0), (2, 3.0), (3, 1e-6), (3, 40.0), (10, 5.0), (256, 0.0), (256, 90.0), (3072, 800.0))

dtypes = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


@pytest.fixture(autouse=True)
def seed() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def log_density(p: int, kappa: float, cosine: float) -> float:
    """The definition, in 40 digits."""
    with mp.workdps(40):
        nu, k = mp.mpf(p) / 2 - 1, mp.mpf(kappa)
        log_f = -nu * mp.log(2) - mp.loggamma(nu + 1) + mp.log(mp.hyp0f1(nu + 1, k**2 / 4))
        return float(k * mp.mpf(cosine) - log_f - mp.mpf(p) / 2 * mp.log(2 * mp.pi))


@dtypes
@pytest.mark.parametrize(("p", "kappa"), CASES)
def test_log_prob_is_the_definition(p: int, kappa: float, dtype: torch.dtype) -> None:
    natural = torch.zeros(p, dtype=dtype)
    natural[1] = kappa
    for cosine in (1.0, 0.5, 0.0, -1.0):
        x = torch.zeros(p, dtype=dtype)
        x[1], x[0] = 7 * cosine, 7 * math.sqrt(1 - cosine**2)  # a length other than 1 does not matter
        got = VonMisesFisher(natural).log_prob(x)
        assert got.dtype == dtype
        exact = log_density(p, float(natural[1]), float(x[1].double() / x.double().norm()))
        assert abs(float(got) - exact) < TOLERANCE[dtype] * (kappa + p)


@pytest.mark.parametrize(("p", "kappa"), [(3, 2.0), (10, 5.0), (256, 90.0)])
def test_the_density_integrates_to_one_over_the_sphere(p: int, kappa: float) -> None:
    natural = torch.zeros(p, dtype=torch.float64)
    natural[0] = kappa
    node, weight = np.polynomial.legendre.leggauss(400)
    w = torch.from_numpy(node)
    x = torch.zeros(len(w), p, dtype=torch.float64)
    x[:, 0], x[:, 1] = w, (1 - w**2).sqrt()
    log_area = math.log(2) + (p - 1) / 2 * math.log(math.pi) - math.lgamma((p - 1) / 2)  # of the sphere beside it
    log_p = VonMisesFisher(natural).log_prob(x) + log_area + (p - 3) / 2 * torch.log1p(-(w**2))
    assert float(log_p.exp() @ torch.from_numpy(weight)) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize(("p", "kappa"), [(2, 3.0), (3, 0.0), (10, 5.0), (256, 90.0)])
def test_samples_follow_the_density(p: int, kappa: float) -> None:
    natural = torch.randn(p, dtype=torch.float64)
    natural *= kappa / natural.norm()
    law = VonMisesFisher(natural)
    x = law.sample((4000,), torch.Generator().manual_seed(1))
    torch.testing.assert_close(x.norm(dim=-1), torch.ones(4000, dtype=torch.float64))
    error = (x.mean(0) - law.mean) / (x.std(0) / math.sqrt(4000))
    assert math.erfc(float(error.abs().max()) / math.sqrt(2)) * p > FAILURE_RATE
    # The cosine to the mean direction, by numerical integration of its density on a grid of angles.
    axis = natural / kappa if kappa else torch.eye(p, dtype=torch.float64)[0]
    angle = np.linspace(0, math.pi, 200_001)[1:-1]
    log_p = kappa * np.cos(angle) + (p - 2) * np.log(np.sin(angle))
    mass = np.exp(log_p - log_p.max()).cumsum()
    test = scipy.stats.kstest((x @ axis).clamp(-1, 1).arccos().numpy(), lambda a: np.interp(a, angle, mass / mass[-1]))
    assert test.pvalue > FAILURE_RATE


@dtypes
def test_gradients_are_finite_and_right_also_where_nothing_is_known(dtype: torch.dtype) -> None:
    for scale in (0.0, 1e-20, 1.0, 1e4):
        natural = (scale * torch.ones(2, 5, dtype=dtype)).requires_grad_()
        x = torch.tensor([[1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0]], dtype=dtype)
        law = VonMisesFisher(natural)
        (gradient,) = torch.autograd.grad(law.log_prob(x).sum(), natural)
        unit = x  # of length 1, or without a direction
        torch.testing.assert_close(gradient, unit - law.mean.detach(), rtol=1e-5, atol=1e-6)


def test_its_shapes_are_those_of_torch() -> None:
    law = VonMisesFisher(torch.randn(4, 3))
    assert (law.batch_shape, law.event_shape) == ((4,), (3,))
    assert law.expand((2, 4)).sample((5,)).shape == (5, 2, 4, 3)
    assert law.log_prob(torch.randn(6, 1, 3)).shape == (6, 4)
    with pytest.raises(ValueError, match="two numbers or more"):
        VonMisesFisher(torch.zeros(4, 1))
