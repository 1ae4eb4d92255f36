"""Priors and likelihoods that are not the package's own: mixtures, and torch's, which take no generator."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import (
    Categorical,
    Distribution,
    Independent,
    Laplace,
    MixtureSameFamily,
    MultivariateNormal,
    Normal,
)

from horoball import PoincareBall, WrappedNormal
from horoball.distributions import BallMixture
from horoball.distributions.base import drawn_from
from horoball.geometry.random import generator_for
from horoball.likelihoods import Likelihood
from horoball.training import TrainConfig, elbo, iwae, log_likelihood
from horoball.vae import VAE, ModelConfig, Prior
from horoball.vae.options import TableRecord
from horoball.vae.run import Run

FEATURES, D = 5, 2


class Given(nn.Module):
    """A prior module around a function that makes the distribution."""

    def __init__(self, make: Callable[[PoincareBall], Distribution], ball: PoincareBall) -> None:
        super().__init__()
        self.make, self.ball = make, ball

    def forward(self) -> Distribution:
        return self.make(self.ball)


class PlainLaplace(Likelihood):
    """A likelihood that returns torch's own distribution."""

    name = "plain laplace"

    def forward(self, h: Tensor) -> Distribution:
        return Independent(Laplace(h, torch.ones_like(h)), 1)


def mixture(ball: PoincareBall, kind: type[MixtureSameFamily] = BallMixture) -> MixtureSameFamily:
    loc = torch.tensor([[1.0, 0.0], [-0.5, 1.0], [0.0, -1.5]])
    return kind(Categorical(torch.tensor([1.0, 2.0, 3.0])), WrappedNormal(loc, torch.full((3, 1), 0.7), ball))


PRIORS: dict[str, Callable[[PoincareBall], Distribution]] = {
    "mixture": mixture,
    "torch's mixture": lambda ball: mixture(ball, MixtureSameFamily),
    "normal": lambda ball: Independent(Normal(torch.zeros(D), 1.3), 1),
    "multivariate": lambda ball: MultivariateNormal(torch.zeros(D), 1.69 * torch.eye(D)),
    "laplace": lambda ball: Independent(Laplace(torch.zeros(D), 1.0), 1),
}


def model_with(prior: Callable[[PoincareBall], Distribution] | None, c: float = 1.0, posterior: str = "wrapped") -> VAE:
    config = ModelConfig(FEATURES, D, c, posterior=posterior, hidden=(16,), prior_scale=1.3)
    model = VAE.from_config(config, generator=generator_for(0))
    if prior is not None:
        model.prior = Given(prior, model.ball)  # type: ignore[assignment]
    return model


X = torch.randn(7, FEATURES, generator=generator_for(1))


@pytest.mark.parametrize("posterior", ["wrapped", "riemannian"])
@pytest.mark.parametrize("name", PRIORS)
def test_any_prior_serves_in_every_objective(name: str, posterior: str) -> None:
    model = model_with(PRIORS[name], posterior=posterior)
    bound = elbo(model, X, samples=4, generator=generator_for(0)).value
    bound.mean().backward()
    assert bool(bound.isfinite().all())
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())
    estimate = log_likelihood(model, X, 3000, generator=generator_for(0))
    assert torch.equal(estimate, log_likelihood(model, X, 3000, generator=generator_for(0)))
    # The proposal is a matter of variance only: half of it from the prior comes to the same.
    torch.testing.assert_close(
        estimate, log_likelihood(model, X, 3000, prior_share=0.5, generator=generator_for(2)), rtol=0, atol=0.15
    )
    assert log_likelihood(model, X, 5).shape == (7,)  # from torch's global generator


@pytest.mark.parametrize("name", PRIORS)
def test_rows_are_generated_from_any_prior_and_a_seed_holds(name: str) -> None:
    model = model_with(PRIORS[name])
    before = torch.get_rng_state()
    one, two = (model.generate(6, generator=generator_for(3)) for _ in range(2))
    assert torch.equal(one, two)
    assert one.shape == (6, FEATURES)
    assert not torch.equal(one, model.generate(6, generator=generator_for(4)))
    assert torch.equal(torch.get_rng_state(), before)
    assert model.generate(3).shape == (3, FEATURES)


@pytest.mark.parametrize("c", [0.0, 1.0, 2.3])
@pytest.mark.parametrize("name", ["normal", "multivariate"])
def test_a_normal_of_torch_is_the_wrapped_normal_around_the_origin(name: str, c: float) -> None:
    """torch's densities are of the coordinates, ours of the ball: the volume between the two is taken into account."""
    ours, theirs = model_with(None, c), model_with(PRIORS[name], c)
    assert isinstance(ours.prior, Prior)
    for bound in (
        lambda model: elbo(model, X, samples=3, generator=generator_for(0)).value,
        lambda model: iwae(model, X, 50, generator=generator_for(0)),
    ):
        torch.testing.assert_close(bound(theirs), bound(ours), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(
        log_likelihood(theirs, X, 20_000, generator=generator_for(0)),
        log_likelihood(ours, X, 20_000, generator=generator_for(0)),
        rtol=0,
        atol=0.1,
    )


def test_a_mixture_of_one_component_is_the_component() -> None:
    one = model_with(None)
    many = model_with(
        lambda ball: BallMixture(
            Categorical(torch.ones(2)), WrappedNormal(torch.zeros(2, D), torch.full((2, 1), 1.3), ball)
        )
    )
    got, expected = (elbo(model, X, samples=3, generator=generator_for(0)).value for model in (many, one))
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-4)


def test_samples_of_a_mixture_have_its_shares_and_come_from_the_generator() -> None:
    narrow = WrappedNormal(torch.tensor([[2.0, 0.0], [-2.0, 0.0]]), torch.full((2, 1), 0.01), PoincareBall(1.0))
    p = BallMixture(Categorical(torch.tensor([0.25, 0.75])), narrow)
    z = p.sample((4000,), generator=generator_for(0))
    assert torch.equal(z, p.sample((4000,), generator=generator_for(0)))
    assert z.shape == (4000, 2)
    assert float((z[:, 0] > 0).float().mean()) == pytest.approx(0.25, abs=0.025)  # 3.7 standard deviations
    batch = BallMixture(
        Categorical(torch.ones(3, 2)), WrappedNormal(torch.zeros(3, 2, 4), torch.ones(3, 2, 1), PoincareBall(1.0))
    )
    assert batch.sample((5, 6), generator=generator_for(0)).shape == (5, 6, 3, 4)
    assert batch.sample().shape == (3, 4)


def test_a_prior_of_single_numbers_is_refused_with_what_to_do() -> None:
    model = model_with(lambda ball: Normal(torch.zeros(D), 1.0))
    for bound in (lambda: elbo(model, X), lambda: iwae(model, X, 3)):
        with pytest.raises(ValueError, match=r"prior of vectors.*got event shape \(\).*Independent\(prior, 1\)"):
            bound()


def test_gradients_through_points_of_a_prior_that_has_none_are_refused() -> None:
    weights = torch.ones(3, requires_grad=True)
    model = model_with(lambda ball: BallMixture(Categorical(logits=weights), mixture(ball).component_distribution))
    with pytest.raises(ValueError, match=r"prior_share=0.*torch\.no_grad"):
        iwae(model, X, 10, prior_share=0.5)
    iwae(model, X, 10).mean().backward()
    assert weights.grad is not None
    assert bool((weights.grad != 0).all())


def run_with_laplace() -> Run:
    model = model_with(None)
    model.likelihood = PlainLaplace(FEATURES)
    model.decoder = nn.Linear(D, FEATURES)
    names = [f"x{i}" for i in range(FEATURES)]
    record = TableRecord(model=model.config, training=TrainConfig(), columns=names, rows=7, data="0f")  # type: ignore[arg-type]
    return Run(model.eval(), record, None, None, [], "")


def test_rows_are_drawn_from_a_likelihood_of_torch_and_a_seed_holds() -> None:
    run = run_with_laplace()
    assert torch.equal(run.sample(4, seed=1), run.sample(4, seed=1))
    assert not torch.equal(run.sample(4, seed=1), run.sample(4, seed=2))


def test_the_bound_and_training_have_one_default_for_the_divergence() -> None:
    assert TrainConfig().kl == "sample"
    model = model_with(None)
    default = elbo(model, X, generator=generator_for(0)).kl
    sampled, exact = (elbo(model, X, generator=generator_for(0), kl=kl).kl for kl in (TrainConfig().kl, "exact"))
    assert torch.equal(default, sampled)
    assert not torch.equal(default, exact)


@pytest.mark.parametrize("kind", ["mixture", "vamp"])
@pytest.mark.parametrize("posterior", ["riemannian", "wrapped"])
def test_a_learned_prior_is_a_density_of_the_ball(kind: str, posterior: str) -> None:
    """∫ p(z) exp(log_volume(z)) dz over the chart is 1, by the trapezoidal rule, and samples have its mean radius."""
    config = ModelConfig(features=3, c=0.8, posterior=posterior, prior=f'{kind}:{{"components": 4}}', hidden=(8,))
    model = VAE.from_config(config, generator=generator_for(0)).double()
    if kind == "vamp":
        model.prior.start_from_rows(torch.randn(20, 3, dtype=torch.float64, generator=generator_for(1)))
    p, step = model.prior(), 0.1
    line = torch.arange(-14.0, 14.0, step, dtype=torch.float64)
    z = torch.cartesian_prod(line, line)
    with torch.no_grad():
        mass = torch.exp(p.log_prob(z) + model.ball.log_volume(z)) * step**2
        assert float(mass.sum()) == pytest.approx(1.0, abs=1e-4)
        radius = torch.linalg.vector_norm(drawn_from(p, (20_000,), generator_for(2)), dim=-1)
        expected = float((mass * torch.linalg.vector_norm(z, dim=-1)).sum())
        assert float(radius.mean()) == pytest.approx(expected, abs=5 * float(radius.std()) / 20_000**0.5)
