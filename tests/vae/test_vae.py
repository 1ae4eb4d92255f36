from __future__ import annotations

import itertools

import pytest
import torch

from horoball.likelihoods import LIKELIHOODS
from horoball.training import elbo
from horoball.vae import VAE, Decoder, Encoder, ModelConfig


@pytest.mark.parametrize("decoder", ["gyroplane", "log0", "mlp"])
@pytest.mark.parametrize("posterior", ["riemannian", "wrapped"])
@pytest.mark.parametrize("likelihood", list(LIKELIHOODS))
def test_every_combination_gives_a_finite_bound_and_gradient(likelihood: str, posterior: str, decoder: str) -> None:
    torch.manual_seed(0)
    classes = 3 if "classes" in LIKELIHOODS[likelihood].options else None
    config = ModelConfig(
        features=6,
        posterior=posterior,
        likelihood=likelihood,
        classes=classes,
        decoder=decoder,
        hidden=(16,),
        learn_c=True,
    )
    model = VAE.from_config(config)
    x = torch.randint(0, 2, (8, 6)).float() + (likelihood == "log_normal")
    elbo(model, x).value.mean().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())
    assert model.generate(5).shape == model.reconstruct(x)[:5].shape == (5, 6)


def test_without_curvature_the_three_decoders_see_the_plane() -> None:
    config = ModelConfig(features=4, c=0.0, hidden=(8,))
    z = torch.randn(5, 2)
    decoders = {}
    for kind in ("gyroplane", "log0", "mlp"):
        torch.manual_seed(0)
        decoders[kind] = VAE.from_config(config.replace(decoder=kind)).decoder
    assert torch.equal(decoders["gyroplane"](z), decoders["log0"](z))
    torch.testing.assert_close(decoders["mlp"](2 * z), decoders["log0"](z))  # ball coordinates are z/2 as c → 0


def test_a_tiny_curvature_and_none_give_the_same_bound_and_gradient() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 5)
    for posterior in ("riemannian", "wrapped"):
        results = []
        for c in (0.0, 1e-10):
            torch.manual_seed(1)
            model = VAE.from_config(ModelConfig(features=5, c=c, posterior=posterior, hidden=(16,)))
            torch.manual_seed(2)
            loss = elbo(model, x, kl="sample").value.mean()
            loss.backward()
            results.append((loss.detach(), *(p.grad for p in model.parameters())))
        for flat, curved in zip(*results, strict=True):
            torch.testing.assert_close(flat, curved, rtol=1e-4, atol=1e-5)


def test_on_a_line_both_posteriors_are_the_plain_normal() -> None:
    for posterior, c in itertools.product(("riemannian", "wrapped"), (0.0, 1.0)):
        model = VAE.from_config(ModelConfig(features=3, d=1, c=c, posterior=posterior, hidden=(8,)))
        assert bool(elbo(model, torch.randn(4, 3)).value.isfinite().all())


def test_a_configuration_survives_json_and_refuses_nonsense() -> None:
    config = ModelConfig(features=3, hidden=(4, 5))
    assert ModelConfig.from_dict(config.as_dict()) == config
    for wrong in (
        {"posterior": "cauchy"},
        {"likelihood": "cauchy"},
        {"decoder": "cnn"},
        {"d": 0},
        {"prior_scale": 0.0},
    ):
        with pytest.raises(ValueError, match=r"Unknown|needs|must be"):
            config.replace(**wrong)
    with pytest.raises(ValueError, match="needs a hidden layer"):
        Decoder(2, 3, VAE.from_config(config).ball, hidden=())
    with pytest.raises(ValueError, match="Choose one of"):
        Encoder(2, 3, VAE.from_config(config).ball, (8,), posterior="cauchy")


def test_the_mean_starts_where_it_is_told() -> None:
    torch.manual_seed(0)
    model = VAE.from_config(ModelConfig(features=4, likelihood="bernoulli", hidden=(8,)))
    mean = torch.tensor([0.1, 0.5, 0.9, 0.3])
    assert isinstance(model.decoder, Decoder)
    model.decoder.network[-1].weight.data.zero_()
    model.decoder.start_at(model.likelihood.start_at(mean))
    torch.testing.assert_close(model.mean(torch.zeros(1, 2))[0], mean)


def test_a_call_is_a_reconstruction_from_a_drawn_point() -> None:
    model, x = VAE.from_config(ModelConfig(features=4, hidden=(8,))), torch.randn(5, 4)
    one, two = (model(x, torch.Generator().manual_seed(seed)).mean for seed in (0, 1))
    assert one.shape == x.shape
    assert not torch.equal(one, two)
    q = model.posterior(x).rsample(generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(one, model.decode(q).mean)
