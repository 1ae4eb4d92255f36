from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import torch
from torch import Tensor

from horoball.distributions.negative_binomial import NegativeBinomial, ZeroInflatedGamma, ZeroInflatedNegativeBinomial
from tests.distributions.test_densities import FAILURE_RATE  # see Note [Randomized statistical tests]

KINDS = (ZeroInflatedNegativeBinomial, ZeroInflatedGamma)
CASES = [(-1.0, 0.5, -2.0), (1.5, -0.7, 0.3), (0.3, 1.5, 4.0)]  # log μ, log r or log a, logit of π
DRAWS = 20_000

kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
cases = pytest.mark.parametrize("case", CASES)


def of_one(kind: Any, case: tuple[float, float, float]) -> Any:
    return kind(*(torch.tensor([value], dtype=torch.float64) for value in case))


def density(distribution: Any, x: np.ndarray) -> np.ndarray:
    return distribution.log_prob(torch.from_numpy(x)[..., None]).exp().numpy()


@cases
def test_probabilities_of_counts_sum_to_one_with_the_moments_they_promise(case: tuple[float, float, float]) -> None:
    distribution, x = of_one(ZeroInflatedNegativeBinomial, case), np.arange(5000.0)
    p = density(distribution, x)
    mean = (p * x).sum()
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert float(distribution.mean) == pytest.approx(mean, rel=1e-10)
    assert float(distribution.variance) == pytest.approx((p * (x - mean) ** 2).sum(), rel=1e-9)


@cases
def test_a_density_with_a_mass_at_zero_integrates_to_one(case: tuple[float, float, float]) -> None:
    distribution = of_one(ZeroInflatedGamma, case)

    def moment(power: int) -> float:  # in log x, where a shape below 1 has no pole
        found = scipy.integrate.quad(
            lambda t: float(density(distribution, np.exp([t]))[0] * np.exp((power + 1) * t)), -80, 6, limit=400
        )
        return float(found[0])

    assert moment(0) + float(density(distribution, np.zeros(1))[0]) == pytest.approx(1, abs=1e-8)
    assert float(distribution.mean) == pytest.approx(moment(1), rel=1e-7)
    assert float(distribution.variance) == pytest.approx(moment(2) - moment(1) ** 2, rel=1e-6)


@kinds
@cases
def test_samples_fit_the_density(kind: Any, case: tuple[float, float, float]) -> None:
    distribution = of_one(kind, case)
    x = distribution.sample((DRAWS,), torch.Generator().manual_seed(0))[:, 0].numpy()
    zeros = float(density(distribution, np.zeros(1))[0])
    p_values = [scipy.stats.binomtest(int((x == 0).sum()), DRAWS, zeros).pvalue]
    if kind is ZeroInflatedGamma:
        a = np.exp(case[1])
        p_values.append(scipy.stats.kstest(x[x > 0], scipy.stats.gamma(a, scale=np.exp(case[0]) / a).cdf).pvalue)
    else:
        expected = DRAWS * density(distribution, np.arange(200.0))
        many = int((expected >= 10).sum())
        counts = np.bincount(x.astype(np.int64), minlength=many)
        rest = DRAWS - expected[:many].sum()
        observed, hoped = np.append(counts[:many], counts[many:].sum()), np.append(expected[:many], rest)
        p_values.append(scipy.stats.chisquare(observed, hoped * observed.sum() / hoped.sum()).pvalue)
    assert min(p_values) * len(p_values) > FAILURE_RATE, p_values


@kinds
def test_gradients_agree_with_differences_for_several_points_of_an_observation(kind: Any) -> None:
    draw = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64).requires_grad_()

    x = torch.tensor([[0.0, 1.0, 7.0], [2.0, 0.0, 0.0]], dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda *values: kind(*values).log_prob(x), (normal(4, 2, 3), normal(3), normal(4, 2, 3))
    )


@kinds
def test_shapes_that_do_not_belong_together_are_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"logits of the shape of the means, \(2, 3\)"):
        kind(torch.zeros(2, 3), torch.zeros(3), torch.zeros(3))
    with pytest.raises(ValueError, match="within the support"):
        kind(torch.zeros(1), torch.zeros(1), torch.zeros(1), validate_args=True).log_prob(torch.tensor([-1.0]))
    wide = kind(torch.zeros(3), torch.zeros(3), torch.zeros(3)).expand((4,))
    assert wide.sample((2,)).shape == (2, 4, 3)


def test_the_limit_of_no_extra_zeros_is_the_negative_binomial() -> None:
    log_mean, log_r, x = torch.tensor([0.5, 2.0]), torch.tensor([1.0, -1.0]), torch.tensor([0.0, 3.0])
    inflated = ZeroInflatedNegativeBinomial(log_mean, log_r, torch.full((2,), -60.0)).log_prob(x)
    torch.testing.assert_close(inflated, NegativeBinomial(log_mean, log_r).log_prob(x))
