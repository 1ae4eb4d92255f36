"""How a model starts: fields, scaling and first guesses that follow from a table of numbers of one kind."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from horoball.data.tables.outliers import Spread, report_outliers
from horoball.data.tables.standardizer import Standardizer, common_spread, input_limit, summarize
from horoball.data.tables.table import Table
from horoball.likelihoods import LIKELIHOODS, Likelihood
from horoball.training.table.likelihood import observed_fields

__all__ = ["Start", "uniform_scaler", "uniform_start"]

_log = logging.getLogger("horoball")


class Start(NamedTuple):
    """What a model of a table is made from.

    Example:
        >>> Start({"d": 2}, None, False, lambda likelihood: torch.zeros(1)).fields
        {'d': 2}
    """

    fields: dict[str, Any]  # of `ModelConfig`
    scaler: Standardizer | None
    whole: bool  # whether all values are whole numbers
    apply: Callable[[Any], Tensor]  # starts what a likelihood learns, and returns the decoder's first output


def uniform_start(table: Table, model: dict[str, Any]) -> Start:
    """Look through a table of numbers, and choose its likelihood, how it is scaled and where training starts.

    Args:
        table: Rows, without gaps.
        model: Fields of `ModelConfig` that were given.

    Example:
        >>> from horoball.data import ArrayTable
        >>> uniform_start(ArrayTable([[0.0, 1.5], [1.0, 2.0]]), {}).fields["likelihood"]
        'normal'
    """
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
    """How real numbers are scaled: columns of one unit together, others each by itself.

    Example:
        >>> uniform_scaler(Spread(torch.zeros(2), torch.tensor([3.0, 4.0]), torch.tensor([False, False]))).std
        tensor([3.5355, 3.5355])
    """
    common = common_spread(spread.std)
    how = "one factor for all columns, whose spreads are alike" if common is not None else "each column by itself"
    _log.info("Scaling: %s.", how)
    if common is None:
        return Standardizer.of(spread)
    return Standardizer(spread.mean, common.repeat(len(spread.std)), spread.limit)
