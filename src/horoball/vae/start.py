"""How a model starts: fields, scaling and first guesses that follow from a table of numbers of one kind.

Note [Category means]: a batch multiplies the counts of every gene by a factor of its own. If training starts without
knowing, two rows of different batches are far apart, the latent space is the first to explain it, and in two dimensions
it never gives the room back. So training starts where a linear model would end: the encoder sees rows less the mean of
their categories, and the decoder's output is moved by the logarithm of each category's share. Both are weights like the
others from then on, for the means also differ where categories hold other rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from horoball.likelihoods.likelihood import LIKELIHOODS, Likelihood, guess_likelihood
from horoball.likelihoods.mixed import Mixed
from horoball.tables.outliers import Spread, report_outliers
from horoball.tables.scaling import Standardizer, Summary, common_spread, input_limit, summarize
from horoball.tables.table import Table
from horoball.vae.encoder import Encoder, network_input, one_hot
from horoball.vae.model import VAE, Decoder, ModelFields

_log = logging.getLogger("horoball")


def observed_fields(fields: ModelFields, summary: Summary) -> ModelFields:
    """Fields of `ModelConfig` with those that depend on the numbers: what is given stays, if the numbers suit it.

    Args:
        fields: What is given; the likelihood may be "auto", or left out.
        summary: Of the numbers.

    Example:
        >>> from horoball.tables.table import ArrayTable
        >>> from horoball.tables.scaling import summarize
        >>> observed_fields({"d": 2}, summarize(ArrayTable([[0.0, 1.5]])))
        {'log_input': False, 'learn_scale': True, 'd': 2, 'likelihood': 'normal'}
    """
    name = fields.get("likelihood", "auto")
    if name == "auto":
        name, why = guess_likelihood(summary)
        _log.info("Likelihood: %s, because %s.", name, why)
    kind = LIKELIHOODS[name]
    kind.check(summary, **{option: value for option, value in fields.items() if option in kind.options})
    return cast(ModelFields, kind.fields(summary) | fields | {"likelihood": name})


_ROWS = 1.0  # with the mean of all, added to each category: a gene that few rows do not show is not impossible there


@torch.no_grad()
def start_at_category_means(model: VAE, table: Table) -> None:
    """Set the weights of categories so that their means are taken out; see Note [Category means]."""
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


class Start(NamedTuple):
    """What a model of a table is made from."""

    fields: ModelFields  # of `ModelConfig`
    scaler: Standardizer | None
    whole: bool  # whether all values are whole numbers
    apply: Callable[[Any], Tensor]  # starts what a likelihood learns, and returns the decoder's first output


def uniform_start(table: Table, model: ModelFields) -> Start:
    """Look through a table of numbers, and choose its likelihood, how it is scaled and where training starts."""
    summary = summarize(table)
    if bool((summary.low == summary.high).all()):
        raise ValueError(
            f"All {summary.rows:,} rows are the same, so there is nothing to learn from them. Is this the right table? "
            "Columns that vary by less than float32's rounding, such as times in seconds, need their start subtracted."
        )
    fields = observed_fields(model, summary)
    if table.covariates is not None:
        fields["covariates"] = table.covariates.sizes
    spread = summary.spread
    scaler = uniform_scaler(spread) if LIKELIHOODS[fields["likelihood"]].standardizes else None
    if scaler is not None:
        report_outliers(table, spread)
        fields.setdefault("input_limit", input_limit(scaler, summary.low, summary.high))
    mean = torch.zeros(table.features) if scaler is not None else summary.mean

    def apply(likelihood: Likelihood) -> Tensor:
        likelihood.start_from(summary.std if scaler is None else spread.std / scaler.std)
        return likelihood.start_at(mean)

    return Start(fields, scaler, summary.whole, apply)


def uniform_scaler(spread: Spread) -> Standardizer:
    """How real numbers are scaled: columns of one unit together, others each by itself."""
    common = common_spread(spread.std)
    how = "one factor for all columns, whose spreads are alike" if common is not None else "each column by itself"
    _log.info("Scaling: %s.", how)
    if common is None:
        return Standardizer.of(spread)
    return Standardizer(spread.mean, common.repeat(len(spread.std)), spread.limit)


def mixed_start(table: Table, model: ModelFields) -> Start:
    """Look through a mixed table, and choose how its columns are scaled and where training starts.

    Real numbers are standardized by those that are there; positive ones are divided by their geometric mean; other
    kinds are seen as they are.
    """
    assert table.schema is not None  # noqa: S101  the caller has looked
    tokens = _likelihoods(table, model)
    names = [token.partition(":")[0] for token in tokens]
    sizes = [int(token.partition(":")[2] or 0) for token in tokens]
    positive = torch.tensor([name == "log_normal" for name in names])
    real = torch.tensor([LIKELIHOODS[name].standardizes for name in names])
    seen, center = _means(table, positive)
    summary, shares = _summarized(table, center, sizes)
    corrected = summary.std / seen.clamp_min(1e-9).sqrt()  # gaps were filled with the mean, where they do not spread
    spread = summary.spread
    scaler = _scaler(Spread(spread.mean, torch.where(spread.outliers, spread.std, corrected), spread.outliers), real)
    scaler.mean[positive], scaler.std[positive] = 0.0, center[positive].exp()
    fields = model | {"likelihood": "mixed", "columns": ",".join(tokens), "log_input": False}
    low, high = (torch.where(real, end, scaler.mean) for end in (summary.low, summary.high))
    fields.setdefault("input_limit", input_limit(scaler, low, high))
    mean = torch.where(real, 0.0, torch.where(positive, 1.0, summary.mean))

    def apply(likelihood: Mixed) -> Tensor:
        likelihood.start_from(corrected / scaler.std)
        return likelihood.start_at_shares(mean, shares)

    return Start(fields, scaler, False, apply)


def _likelihoods(table: Table, model: ModelFields) -> list[str]:
    """The likelihood of each feature: that of its column's kind, or the one that is given for a table of numbers."""
    assert table.schema is not None  # noqa: S101
    tokens = [feature.likelihood for feature in table.schema.features]
    given = model.get("likelihood", "auto")
    if given in ("auto", "mixed"):
        return tokens
    plain = all(column.kind in ("real", "positive", "count") for column in table.schema.used)
    if not plain or LIKELIHOODS[given].options not in ((), ("learn_scale",), ("library",)):
        raise ValueError(
            f"The likelihood {given} is for tables of one kind; this one has columns of several kinds. Leave it out, "
            "and say what columns are with --columns or columns=."
        )
    return [given] * len(tokens)


def _means(table: Table, positive: Tensor) -> tuple[Tensor, Tensor]:
    """The part of the rows that have a value, and the mean of these; of the logarithm, for positive columns."""
    counts = torch.zeros(table.features, dtype=torch.float64)
    sums, rows = torch.zeros_like(counts), 0
    for block in table.blocks(8192):
        there = ~block.isnan()
        x = torch.where(there, block, 0.0).double()
        x[:, positive] = torch.where(there[:, positive], x[:, positive].clamp_min(0).log(), 0.0)
        counts += there.sum(0)
        sums += x.sum(0)
        rows += len(block)
    if not rows:
        raise ValueError("The table has no rows. Give it at least two.")
    return (counts / rows).float(), (sums / counts.clamp_min(1)).float()


def _summarized(table: Table, center: Tensor, sizes: list[int]) -> tuple[Summary, Tensor]:
    """A summary of the rows with gaps filled by the columns' centers, and the share of each level."""
    summary = Summary(table.features)
    levels = torch.tensor(sizes)
    counts = torch.zeros(len(sizes), max(2, *sizes, 2))
    for block in table.blocks(8192):
        summary.add(torch.where(block.isnan(), center, block))
        for feature in levels.nonzero().ravel().tolist():
            values = block[:, feature]
            found = values[~values.isnan()].long()
            counts[feature] += torch.bincount(found, minlength=counts.shape[1])[: counts.shape[1]]
    return summary, counts / counts.sum(1, keepdim=True).clamp_min(1)


def _scaler(spread: Spread, real: Tensor) -> Standardizer:
    """Real columns by their spread, each by itself; others as they are.

    A column that was scaled with others of a hundred times its spread could not be filled in.
    """
    each = Standardizer.of(spread)
    limit = None if each.limit is None else torch.where(real, each.limit, torch.inf)
    return Standardizer(torch.where(real, each.mean, 0.0), torch.where(real, each.std, 1.0), limit)
