from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from horoball import PoincareBall, WrappedNormal
from horoball.likelihoods import Normal
from horoball.training import elbo, iwae, log_likelihood
from horoball.vae import VAE, ModelConfig, Prior


class LinearEncoder(nn.Module):
    """A posterior with the right mean and a scale that is somewhat off, so that the bounds are not equal."""

    def __init__(self, weight: Tensor, ball: PoincareBall) -> None:
        super().__init__()
        d = weight.shape[1]
        covariance = torch.linalg.inv(weight.T @ weight + torch.eye(d))
        self.map, self.ball = weight @ covariance, ball
        self.scale = 1.3 * covariance.diagonal().mean().sqrt()

    def forward(self, x: Tensor) -> WrappedNormal:
        return WrappedNormal(x @ self.map, self.scale.expand(*x.shape[:-1], 1), self.ball)


def linear_gaussian(features: int = 6, d: int = 2) -> tuple[VAE, torch.distributions.MultivariateNormal]:
    """A model whose log p(x) is known: z ~ N(0, I), x = Wz + noise."""
    torch.manual_seed(0)
    ball = PoincareBall(0.0)
    decoder = nn.Linear(d, features, bias=False)
    weight = decoder.weight.detach()
    model = VAE(LinearEncoder(weight, ball), decoder, Prior(d, ball, kind="wrapped"), Normal(features))
    covariance = weight @ weight.T + torch.eye(features)
    return model, torch.distributions.MultivariateNormal(torch.zeros(features), covariance)


@torch.no_grad()
def test_bounds_rise_to_the_known_log_likelihood() -> None:
    model, truth = linear_gaussian()
    x = truth.sample((2000,))
    exact = truth.log_prob(x)
    bounds = [elbo(model, x, samples=50).value, iwae(model, x, 10), iwae(model, x, 1000)]
    errors = [float((bound - exact).std()) / math.sqrt(len(x)) for bound in bounds]
    gaps = [float((bound - exact).mean()) for bound in bounds]
    assert gaps[0] < gaps[1] < gaps[2] < 3 * errors[2]
    assert abs(gaps[2]) < 0.01


@torch.no_grad()
def test_the_prior_finds_what_a_misplaced_posterior_does_not() -> None:
    model, truth = linear_gaussian()
    x = truth.sample((200,))
    exact = truth.log_prob(x)
    model.encoder.scale = 0.05 * model.encoder.scale
    model.encoder.map = -model.encoder.map
    assert float((iwae(model, x, 2000) - exact).mean()) < -5
    found = iwae(model, x, 2000, prior_share=0.25)
    assert -0.1 < float((found - exact).mean()) < 0.02
    torch.testing.assert_close(log_likelihood(model, x, 2000), exact, rtol=0, atol=1.5)


@torch.no_grad()
@pytest.mark.parametrize("c", [0.0, 1.3])
def test_weights_have_the_likelihood_for_their_mean_whatever_the_proposal(c: float) -> None:
    torch.manual_seed(0)
    model = VAE.from_config(ModelConfig(features=5, d=2, c=c, hidden=(16,)))
    x = torch.randn(3, 5)
    found = [iwae(model, x, 200_000, prior_share=share) for share in (0.0, 0.1, 0.5, 0.9)]
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=0, atol=0.03)


@torch.no_grad()
def test_exact_and_sampled_divergences_agree() -> None:
    torch.manual_seed(0)
    for posterior in ("riemannian", "wrapped"):
        model = VAE.from_config(ModelConfig(features=5, d=3, c=1.3, posterior=posterior, hidden=(16,)))
        x = torch.randn(20, 5)
        exact = elbo(model, x, kl="exact").kl
        sampled = elbo(model, x, samples=20000, kl="sample").kl
        torch.testing.assert_close(exact, sampled, rtol=0.05, atol=0.05)
        assert bool((exact > 0).all())


@torch.no_grad()
def test_beta_weighs_the_divergence() -> None:
    model, truth = linear_gaussian()
    bound = elbo(model, truth.sample((7,)), beta=3.0)
    torch.testing.assert_close(bound.value, bound.log_likelihood - 3 * bound.kl)


@torch.no_grad()
def test_log_likelihood_does_not_depend_on_how_samples_are_chunked() -> None:
    model, truth = linear_gaussian()
    x = truth.sample((10,))
    torch.manual_seed(1)
    once = iwae(model, x, 4000, chunk=4000)
    torch.manual_seed(1)
    often = iwae(model, x, 4000, chunk=100)
    torch.testing.assert_close(once, often, rtol=0.01, atol=0.05)
    assert log_likelihood(model, x, samples=10, batch=3).shape == (10,)


def test_iwae_has_a_gradient() -> None:
    model = VAE.from_config(ModelConfig(features=5, hidden=(16,), learn_c=True))
    iwae(model, torch.randn(4, 5), 8).mean().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())


def test_bad_arguments_are_refused() -> None:
    model, _ = linear_gaussian()
    with pytest.raises(ValueError, match='"auto", "exact" or "sample"'):
        elbo(model, torch.zeros(1, 6), kl="analytic")
    with pytest.raises(ValueError, match="at least one sample"):
        iwae(model, torch.zeros(1, 6), 0)
    with pytest.raises(ValueError, match="prior_share is at least 0 and below 1"):
        iwae(model, torch.zeros(1, 6), 10, prior_share=1.0)
