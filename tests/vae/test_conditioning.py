"""Rows that are given categories and a library: who sees them, and what they change."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from horoball.training import elbo, iwae
from horoball.vae import VAE, Conditioning, Decoder, ModelConfig
from horoball.vae.encoder import one_hot

FEATURES = 6
SIZES = (2, 3)


def model_of(**fields: object) -> VAE:
    torch.manual_seed(0)
    options = {"likelihood": "negative_binomial", "library": True, "log_input": True, "covariates": SIZES} | fields
    return VAE.from_config(ModelConfig(features=FEATURES, hidden=(16,), **options))  # type: ignore[arg-type]


def rows(n: int = 8, sizes: tuple[int, ...] = SIZES) -> Tensor:
    draw = torch.Generator().manual_seed(1)
    counts = torch.poisson(3 * torch.rand(n, FEATURES, generator=draw), generator=draw)
    codes = [torch.randint(size, (n, 1), generator=draw) for size in sizes]
    return torch.cat((counts, *codes), 1)


@pytest.mark.parametrize("decoder", ["gyroplane", "log0", "mlp"])
@pytest.mark.parametrize("likelihood", ["normal", "poisson", "negative_binomial", "categorical"])
@pytest.mark.parametrize("sizes", [(), (2,), SIZES])
def test_every_combination_gives_a_finite_bound_and_gradient(
    sizes: tuple[int, ...], likelihood: str, decoder: str
) -> None:
    classes = 20 if likelihood == "categorical" else None
    library = likelihood == "negative_binomial"
    model = model_of(likelihood=likelihood, decoder=decoder, covariates=sizes, library=library, classes=classes)
    x = rows(sizes=sizes)
    elbo(model, x, samples=3).value.mean().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())
    assert iwae(model, x, 5).shape == (8,)
    assert model.reconstruct(x).shape == (8, FEATURES)


def test_the_bound_uses_what_the_rows_hold() -> None:
    model, x = model_of(), rows()
    torch.nn.init.normal_(model.decoder.shift.weight)  # type: ignore[union-attr]
    z = torch.randn(4, 8, 2)
    by_hand = model.decode(z, Conditioning(one_hot(x[:, FEATURES:], SIZES), x[:, :FEATURES].sum(1)))
    assert torch.equal(model.log_prob_of(x, z), by_hand.log_prob(x[:, :FEATURES]))
    other = x.clone()
    other[:, -1] = (other[:, -1] + 1) % 3
    assert not torch.allclose(model.posterior(x).loc, model.posterior(other).loc)
    assert not torch.allclose(model.log_prob_of(x, z), model.log_prob_of(other, z))


def test_the_mean_has_the_row_s_own_sum_and_depth_does_not_move_the_posterior() -> None:
    model, x = model_of(covariates=()), rows(sizes=()) + 1
    assert torch.allclose(model.reconstruct(x).sum(-1), x.sum(-1))
    assert torch.allclose(model.posterior(10 * x).loc, model.posterior(x).loc, atol=1e-6)
    nothing = model.posterior(torch.zeros(1, FEATURES))
    assert bool(nothing.loc.isfinite().all())


def test_a_category_moves_a_linear_first_layer_as_if_it_were_an_input() -> None:
    model = model_of(c=0.0, library=False, likelihood="poisson")
    decoder = model.decoder
    assert isinstance(decoder, Decoder)
    assert decoder.shift is not None
    torch.nn.init.normal_(decoder.shift.weight)
    z, given = torch.randn(8, 2), one_hot(rows()[:, FEATURES:], SIZES)
    first = decoder.network[0]
    joined = torch.nn.functional.linear(
        torch.cat((z, given), 1), torch.cat((first.weight, decoder.shift.weight), 1), first.bias
    )
    assert torch.allclose(decoder(z, given), decoder.network[2](joined.relu()), atol=1e-5)
    single = Decoder(2, 4, model.ball, hidden=(), kind="log0", covariates=5)  # one linear layer
    assert single(z, given).shape == (8, 4)


def test_categories_start_without_a_say() -> None:
    model = model_of()
    z, x = torch.randn(8, 2), rows()
    blind = model.decoder.network(z)  # type: ignore[operator]
    assert torch.equal(model.decoder(z, model.conditioning(x).covariates), blind)


def test_a_configuration_with_covariates_survives_json_and_older_ones_are_read() -> None:
    config = ModelConfig(features=3, likelihood="negative_binomial", covariates=(2, 5), library=True)
    assert ModelConfig.from_dict(config.as_dict()) == config
    older = ModelConfig(features=3).as_dict()
    del older["covariates"], older["library"]
    assert ModelConfig.from_dict(older) == ModelConfig(features=3)
    with pytest.raises(ValueError, match=r"library is for the likelihood negative_binomial or .*, got 'poisson'"):
        ModelConfig(features=3, likelihood="poisson", library=True)
    with pytest.raises(ValueError, match="covariates must be at least 1"):
        ModelConfig(features=3, covariates=(2, 0))


def test_what_is_missing_is_asked_for() -> None:
    z = torch.zeros(1, 2)
    with pytest.raises(ValueError, match=r"needs the rows' covariates: VAE\.decode\(z, VAE\.conditioning\(x\)\)"):
        model_of().decode(z)
    with pytest.raises(ValueError, match="pass library="):
        model_of(covariates=()).decode(z)
    with pytest.raises(ValueError, match="made without covariates"):
        model_of(covariates=()).decode(z, Conditioning(torch.ones(1, 2), torch.ones(1)))
    with pytest.raises(ValueError, match="expects 2 covariates, got 1"):
        one_hot(torch.zeros(3, 1), SIZES)
