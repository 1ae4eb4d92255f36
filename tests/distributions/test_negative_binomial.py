from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import mpmath as mp
import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor

from horoball.distributions.negative_binomial import NegativeBinomial

# Relative to log p and, for counts in the millions, to a rounding of log Γ in float64.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6}
GRADIENT = {torch.float64: 1e-11, torch.float32: 2e-5}  # relative to the largest term of the sum
TINY = 1e-29  # μ/r of the smallest mean and the largest dispersion is no normal number in float32

COUNTS = (0.0, 1.0, 7.0, 1000.0, 2.0**23)
MEANS = (1e-30, 1e-8, 0.3, 50.0, 1e6)
DISPERSIONS = (1e-4, 0.5, 30.0, 9999.0, 1.01e4, 1e13)

dtypes = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


@pytest.fixture(autouse=True)
def seed() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def corners(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """One feature for each case: log means, log dispersions, counts; shape (1, n), (n,), (1, n)."""
    cases = torch.tensor(list(product(MEANS, DISPERSIONS, COUNTS)), dtype=torch.float64)
    log_mean, log_r = cases[:, 0].log().to(dtype), cases[:, 1].log().to(dtype)
    return log_mean[None], log_r, cases[None, :, 2].to(dtype)


def log_p(log_mean: float, log_r: float, x: float) -> mp.mpf:
    """The definition, in digits enough for any of the cases."""
    mu, r, x = mp.exp(mp.mpf(log_mean)), mp.exp(mp.mpf(log_r)), mp.mpf(x)
    binomial = mp.loggamma(x + r) - mp.loggamma(r) - mp.loggamma(x + 1)
    return binomial + x * mp.log(mu / (mu + r)) + r * mp.log(r / (mu + r))


@dtypes
def test_log_prob_is_the_definition_from_no_counts_to_millions(dtype: torch.dtype) -> None:
    log_mean, log_r, x = corners(dtype)
    got = [float(NegativeBinomial(log_mean[:, [i]], log_r[[i]]).log_prob(x[:, [i]])) for i in range(log_mean.shape[1])]
    assert NegativeBinomial(log_mean, log_r).log_prob(x).dtype == dtype
    with mp.workdps(80):
        wanted = [float(log_p(*map(float, case))) for case in zip(log_mean[0], log_r, x[0], strict=True)]
        gammas = [float(abs(mp.loggamma(v + mp.exp(r)))) for r, v in zip(log_r.tolist(), x[0].tolist(), strict=True)]
    error = np.abs(np.subtract(got, wanted)) / (np.abs(wanted) + 1e-3 * np.array(gammas) + 1e-30)
    assert error.max() < TOLERANCE[dtype], (error.argmax(), error.max())


@dtypes
def test_gradients_are_those_of_the_definition(dtype: torch.dtype) -> None:
    log_mean, log_r, x = corners(dtype)
    log_mean.requires_grad_()
    log_r.requires_grad_()
    got = torch.autograd.grad(NegativeBinomial(log_mean, log_r).log_prob(x).sum(), [log_mean, log_r])
    with mp.workdps(80):
        for i, (m, lr, v) in enumerate(zip(log_mean[0].tolist(), log_r.tolist(), x[0].tolist(), strict=True)):
            mu, r = mp.exp(m), mp.exp(lr)
            by_mean = (v - mu) * r / (mu + r)
            rise = r * (mp.digamma(v + r) - mp.digamma(r))
            by_r = rise - r * mp.log1p(mu / r) - by_mean
            size = float(abs(v * r / (mu + r)) + abs(mu * r / (mu + r)))
            assert abs(float(got[0][0, i]) - float(by_mean)) <= GRADIENT[dtype] * size + TINY, (m, lr, v)
            size = max(size, float(abs(rise)), float(r * mp.log1p(mu / r)))
            assert abs(float(got[1][i]) - float(by_r)) <= GRADIENT[dtype] * size + TINY, (m, lr, v)


def test_gradients_agree_with_differences_for_several_points_of_an_observation() -> None:
    log_mean = torch.randn(3, 4, 5, dtype=torch.float64).requires_grad_()
    log_r = torch.randn(5, dtype=torch.float64).requires_grad_()
    x = torch.poisson(3 * torch.rand(4, 5, dtype=torch.float64))
    assert bool((x == 0).any() and (x > 0).any())
    for mean, value in ((log_mean, x), (log_mean[0], x), (log_mean[0, 0], x), (log_mean, x[:, :1] * torch.ones(5))):
        assert torch.autograd.gradcheck(lambda m, r, v=value: NegativeBinomial(m, r).log_prob(v), (mean, log_r))
        assert torch.autograd.gradgradcheck(lambda m, r, v=value: NegativeBinomial(m, r).log_prob(v), (mean, log_r))


def test_values_broadcast_as_torch_has_it() -> None:
    log_mean, log_r = torch.randn(3, 1, 5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    x = torch.poisson(3 * torch.rand(4, 5, dtype=torch.float64))
    distribution = NegativeBinomial(log_mean, log_r)
    scipys = scipy.stats.nbinom.logpmf(x.numpy(), log_r.exp().numpy(), (1 / (1 + (log_mean - log_r).exp())).numpy())
    np.testing.assert_allclose(distribution.log_prob(x).numpy(), scipys.sum(-1), rtol=1e-12)
    assert distribution.expand((2, 3, 4)).log_prob(x).shape == (2, 3, 4)
    assert distribution.sample((7,)).shape == (7, 3, 1, 5)
    nobody = NegativeBinomial(torch.zeros(0, 5), torch.zeros(5), validate_args=False)
    assert nobody.log_prob(torch.zeros(0, 5)).shape == (0,)


def test_samples_have_the_frequencies_of_the_law() -> None:
    n, log_mean, log_r = 20_000, torch.tensor([1.0, 3.0]).log(), torch.tensor([0.7, 20.0]).log()
    distribution = NegativeBinomial(log_mean, log_r)
    drawn = distribution.sample((n,))
    for feature in range(2):
        r, mu = float(log_r[feature].exp()), float(log_mean[feature].exp())
        most = int(scipy.stats.nbinom.ppf(0.995, r, r / (r + mu)))
        expected = scipy.stats.nbinom.pmf(np.arange(most), r, r / (r + mu)) * n
        observed = np.bincount(drawn[:, feature].numpy().astype(int), minlength=most)[:most]
        both = np.append(observed, n - observed.sum()), np.append(expected, n - expected.sum())
        assert scipy.stats.chisquare(*both).pvalue > 6e-5  # Note [Randomized statistical tests] in test_densities
    assert torch.allclose(distribution.mean, drawn.mean(0), rtol=0.05)
    assert torch.allclose(distribution.variance, drawn.var(0), rtol=0.1)


def test_the_compiled_law_is_the_same() -> None:
    log_mean, log_r = torch.randn(4, 5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    x = torch.poisson(2 * torch.rand(4, 5, dtype=torch.float64))
    compiled = torch.compile(lambda m, r: NegativeBinomial(m, r, validate_args=False).log_prob(x), backend="eager")
    torch.testing.assert_close(compiled(log_mean, log_r), NegativeBinomial(log_mean, log_r).log_prob(x))


def test_what_is_no_count_and_a_wrong_number_of_dispersions_are_refused() -> None:
    distribution = NegativeBinomial(torch.zeros(2), torch.zeros(2), validate_args=True)
    for wrong in ([0.5, 1.0], [-1.0, 0.0]):
        with pytest.raises(ValueError, match="within the support"):
            distribution.log_prob(torch.tensor(wrong))
    with pytest.raises(ValueError, match=r"a dispersion for each of the 2 features, got shape \(3,\)"):
        NegativeBinomial(torch.zeros(2), torch.zeros(3))


def test_gradients_do_not_depend_on_how_observations_are_laid_out() -> None:
    log_mean, x = torch.randn(4, 2, 3, 5, dtype=torch.float64), torch.randint(0, 3, (2, 3, 5)).double()
    weight = torch.rand(4, 2, 3, dtype=torch.float64)
    found = []
    for flat in (False, True):
        leaves = [log_mean.clone().requires_grad_(), torch.zeros(5, dtype=torch.float64, requires_grad=True)]
        shape = (4, 6) if flat else (4, 2, 3)
        distribution = NegativeBinomial(leaves[0].reshape(*shape, 5), leaves[1])
        log_prob = distribution.log_prob(x.reshape(*shape[1:], 5))
        found.append(torch.autograd.grad((log_prob * weight.reshape(shape)).sum(), leaves))
    for apart, together in zip(*found, strict=True):
        torch.testing.assert_close(apart, together, rtol=1e-12, atol=1e-12)


def test_a_mean_may_be_laid_out_otherwise_in_memory() -> None:
    log_mean, log_r = torch.randn(3, 5), torch.randn(3)
    x = torch.poisson(torch.ones(5, 3))
    turned, plain = (NegativeBinomial(mean, log_r).log_prob(x) for mean in (log_mean.T, log_mean.T.contiguous()))
    assert torch.equal(turned, plain)


def test_no_rows_have_no_gradient() -> None:
    log_mean, log_r = torch.zeros(0, 3, requires_grad=True), torch.zeros(3, requires_grad=True)
    NegativeBinomial(log_mean, log_r, validate_args=False).log_prob(torch.zeros(0, 3)).sum().backward()
    assert torch.equal(log_r.grad, torch.zeros(3))
