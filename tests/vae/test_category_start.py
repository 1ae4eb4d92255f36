from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.tables.covariates import Covariates
from horoball.tables.table import ArrayTable
from horoball.vae import VAE, ModelConfig
from horoball.vae.encoder import network_input
from horoball.vae.start import start_at_category_means

GENES = 8


def counts() -> ArrayTable:
    """Counts of one profile, multiplied gene by gene for each of two batches and three donors."""
    rng = np.random.default_rng(0)
    batch, donor = rng.integers(2, size=600), rng.integers(3, size=600)
    factor = np.exp(rng.normal(0, 0.5, (2, GENES))[batch] + rng.normal(0, 0.5, (3, GENES))[donor])
    given = Covariates.of({"batch": batch.astype(str), "donor": donor.astype(str)})
    return ArrayTable(rng.poisson(40 * factor), covariates=given)


def spread_of_groups(values: Tensor, x: Tensor) -> float:
    groups = [values[(x[:, GENES] == b) & (x[:, GENES + 1] == d)].mean(0) for b in range(2) for d in range(3)]
    return float(torch.stack(groups).std(0).mean())


@torch.no_grad()
def test_a_model_starts_with_the_means_of_several_categories_taken_out() -> None:
    table = counts()
    options: dict[str, Any] = {"likelihood": "negative_binomial", "library": True, "log_input": True}
    config = ModelConfig(features=GENES, covariates=(2, 3), hidden=(16,), **options)
    model: Any = VAE.from_config(config, generator=torch.Generator().manual_seed(0))
    x = torch.cat(list(table.blocks()))
    first = model.encoder.network[0]
    seen = network_input(x[:, :GENES], log=True, library=True)
    before = spread_of_groups(seen @ first.weight[:, :GENES].T, x)
    start_at_category_means(model, table)
    inside: list[Tensor] = []
    handle = first.register_forward_hook(lambda *parts: inside.append(parts[2]))
    model.posterior(x)
    handle.remove()
    assert spread_of_groups(inside[0], x) < 0.25 * before

    model.decoder.start_at(model.likelihood.start_at(x[:, :GENES].mean(0)))
    torch.nn.init.zeros_(model.decoder.network[2].weight)
    log_mean = model.mean(torch.zeros(600, 2), model.conditioning(x)).log()
    assert spread_of_groups(log_mean - x[:, :GENES].clamp_min(0.5).log(), x) < 0.1 < spread_of_groups(log_mean, x)


@torch.no_grad()
def test_categories_without_rows_add_nothing() -> None:
    table = counts().coded({"batch": ["0", "1", "2"], "donor": ["0", "1", "2"]})
    model: Any = VAE.from_config(ModelConfig(features=GENES, covariates=(3, 3), hidden=(16,)))
    start_at_category_means(model, table)
    assert bool(model.decoder.offset.weight.isfinite().all())
    assert float(model.decoder.offset.weight[:, 2].abs().max()) < 1e-6
