"""Where a model of rows in categories starts: with what categories differ by on average taken out.

Note [Category means]: a batch multiplies the counts of every gene by a factor of its own. If training starts without
knowing, two rows of different batches are far apart, the latent space is the first to explain it, and in two
dimensions it never gives the room back. So training starts where a linear model would end: the encoder sees rows less
the mean of their categories, and the decoder's output is moved by the logarithm of each category's share. Both are
weights like the others from then on, for the means also differ where categories hold other rows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from horoball.data.tables.table import Table
from horoball.models.table.conditioning import one_hot
from horoball.models.table.decoder import Decoder
from horoball.models.table.encoder import Encoder, network_input
from horoball.models.table.vae import VAE

__all__ = ["start_at_category_means"]

_ROWS = 1.0  # with the mean of all, added to each category: a gene that few rows do not show is not impossible there


@torch.no_grad()
def start_at_category_means(model: VAE, table: Table) -> None:
    """Set the weights of categories so that their means are taken out; see Note [Category means].

    Args:
        model: A model with covariates that was not trained yet.
        table: Rows as the model sees them, followed by the codes of their categories.

    Example:
        >>> from horoball.data.tables.array_table import ArrayTable
        >>> from horoball.data.tables.covariates import Covariates
        >>> from horoball.models import ModelConfig
        >>> model = VAE.from_config(ModelConfig(features=2, covariates=(2,), hidden=(8,)))
        >>> batches = Covariates.of({"batch": ["a", "b"]})
        >>> start_at_category_means(model, ArrayTable([[0.0, 3.0], [2.0, 1.0]], covariates=batches))
        >>> model.decoder.offset.weight.data
        tensor([[-0.5000,  0.5000],
                [ 0.5000, -0.5000]])
    """
    encoder, decoder = model.encoder, model.decoder
    codes = None if table.covariates is None else torch.from_numpy(table.covariates.codes)
    if (
        codes is None
        or not isinstance(encoder, Encoder)
        or not isinstance(decoder, Decoder)
        or encoder.view is not None
    ):
        return  # rows of mixed tables have gaps, and no mean of their own
    features = model.likelihood.features
    grouped = torch.tensor([float(size > 1) for size in model.covariates], dtype=torch.float64)  # numbers are not
    codes = codes.double() * grouped
    together, count = codes.unique(dim=0, return_counts=True)
    sizes = torch.tensor([1, *reversed(model.covariates[1:])], dtype=torch.float64)
    radix = sizes.cumprod(0).flip(0)  # a number for each group, in the order of `unique`
    keys = together @ radix
    seen, raw = (torch.zeros(len(together), features, dtype=torch.float64) for _ in range(2))
    for block in table.blocks():
        # Blocks of a streamed table need not come in the order of its covariates: rows say themselves what they are of.
        x, index = block[:, :features], torch.searchsorted(keys, (block[:, features:].double() * grouped) @ radix)
        network = network_input(x, log=encoder.log_input, library=encoder.library, limit=encoder.input_limit)
        seen.index_add_(0, index, network.double())
        raw.index_add_(0, index, (x / x.sum(-1, keepdim=True).clamp_min(1.0) if encoder.library else x).double())
    given, weight = one_hot(together, model.covariates), count.double().unsqueeze(-1)
    layer: Any = encoder.network[0]
    moved = _additive(seen / weight - seen.sum(0) / weight.sum(), given, weight).to(layer.weight)
    layer.weight[:, features:] = -(layer.weight[:, :features] @ moved.T)
    start, overall = model.likelihood.start_at, raw.sum(0) / weight.sum()
    drawn = ((raw + _ROWS * overall) / (weight + _ROWS)).float()
    outputs = torch.stack([start(mean) for mean in drawn]) - start(overall.float())
    if decoder.offset is not None and bool(outputs.isfinite().all()):
        decoder.offset.weight.copy_(_additive(outputs.double(), given, weight).T)


def _additive(values: Tensor, given: Tensor, weight: Tensor) -> Tensor:
    """What each category adds to a value, by least squares over groups of rows; the shortest solution if many do.

    Args:
        values: A row for each group, shape (groups, features).
        given: Categories of the groups, one-hot, shape (groups, categories).
        weight: Rows of the groups, shape (groups, 1).
    """
    root = weight.sqrt()
    return torch.linalg.lstsq(root * given, root * values, driver="gelsd").solution
