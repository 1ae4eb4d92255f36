"""How a model of a mixed table starts: scales and first guesses of its columns, from the values that are there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from horoball.data.tables.outliers import Spread
from horoball.data.tables.standardizer import Standardizer, Summary, input_limit
from horoball.data.tables.table import Table
from horoball.likelihoods import LIKELIHOODS
from horoball.likelihoods.mixed import Mixed
from horoball.training.table.start import Start

__all__ = ["mixed_start"]


def mixed_start(table: Table, model: dict[str, Any]) -> Start:
    """Look through a mixed table, and choose how its columns are scaled and where training starts.

    Real numbers are standardized by those that are there; positive ones are divided by their geometric mean; other
    kinds are seen as they are.

    Args:
        table: A table with a schema.
        model: Fields of `ModelConfig` that were given.

    Example:
        >>> import pyarrow as pa
        >>> from horoball.data.readers.mixed import read_columns
        >>> table = read_columns(pa.table({"a": [0.5, None, 2.5, 1.0], "b": ["x", "y", "x", "z"]}))
        >>> start = mixed_start(table, {})
        >>> start.fields["columns"], start.scaler.mean
        ('normal,categorical:3', tensor([1.3333, 0.0000]))
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


def _likelihoods(table: Table, model: dict[str, Any]) -> list[str]:
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
