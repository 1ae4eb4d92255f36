"""Posteriors of each kind and shape, from a network's numbers."""

from __future__ import annotations

import pytest
import torch

from horoball import PoincareBall, WrappedNormal
from horoball.training import elbo
from horoball.vae import VAE, ModelConfig

SCALES = WrappedNormal.scales


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("c", [0.0, 1.0])
def test_a_posterior_has_the_covariance_that_its_numbers_say(scale: str, c: float) -> None:
    d, ball = 3, PoincareBall(c)
    outputs = torch.randn(
        WrappedNormal.network_size(d, scale), dtype=torch.double, generator=torch.Generator().manual_seed(1)
    )
    q = WrappedNormal.from_network(outputs, d, ball, scale)
    torch.manual_seed(0)
    v = ball.log(q.loc, q.sample((100_000,)))  # normal, whatever c is
    factor = q.scale_tril if q.scale_tril is not None else torch.diag(q.scale.expand(d))
    assert torch.allclose(v.T @ v / len(v), factor @ factor.T, atol=0.03 * float(factor.norm() ** 2))
    assert torch.allclose(q.mean_scale, v.square().mean(0).sqrt().mean(), rtol=0.02)


@pytest.mark.parametrize("scale", SCALES)
def test_every_number_of_the_network_gets_a_gradient(scale: str) -> None:
    outputs = torch.randn(4, WrappedNormal.network_size(3, scale), requires_grad=True)
    z, log_q = WrappedNormal.from_network(outputs, 3, PoincareBall(1.0), scale).rsample_and_log_prob()
    (z.square().sum() + log_q.sum()).backward()
    assert outputs.grad is not None
    assert bool((outputs.grad != 0).all())


def test_a_full_covariance_with_nothing_below_its_diagonal_is_a_diagonal_one() -> None:
    outputs = torch.randn(5, 6)
    full = WrappedNormal.from_network(torch.cat((outputs, torch.zeros(5, 3)), -1), 3, PoincareBall(1.0), "full")
    diagonal = WrappedNormal.from_network(outputs, 3, PoincareBall(1.0), "diagonal")
    z = diagonal.sample()
    assert torch.allclose(full.log_prob(z), diagonal.log_prob(z), atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "scale", "said"),
    [
        ("riemannian", "full", "has the scale isotropic, got"),
        ("gaussian", "full", "Unknown posterior"),
        ("wrapped", "x", "isotropic or diagonal"),
    ],
)
def test_a_posterior_that_does_not_exist_is_refused(kind: str, scale: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ModelConfig(features=3, posterior=kind, scale=scale)


@pytest.mark.parametrize("scale", SCALES)
def test_a_model_is_made_with_each_shape(scale: str) -> None:
    config = ModelConfig(features=5, d=2, posterior="wrapped", scale=scale, learn_prior=True, hidden=(8,))
    model = VAE.from_config(ModelConfig.from_dict(config.as_dict()))
    elbo(model, torch.randn(6, 5)).value.mean().backward()
    assert all(p.grad is not None for p in model.parameters())
