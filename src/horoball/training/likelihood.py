"""The likelihood that a table's numbers suit: guessed, or checked; and what of a model follows from it."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor

from horoball.data.standardize import Summary

__all__ = ["cell_fields", "expect_counts", "expect_rows", "expect_suits", "guess_likelihood", "observed_fields"]

_COUNTS = ("poisson", "negative_binomial")
_EXACT = 1 << 24  # from here on float32 has whole numbers only, which says nothing about what they were
_log = logging.getLogger("horoball")


def observed_fields(fields: dict[str, Any], summary: Summary) -> dict[str, Any]:
    """Fields of `ModelConfig` with those that depend on the numbers: what is given stays, if the numbers suit it.

    Args:
        fields: What is given; the likelihood may be "auto", or left out.
        summary: Of the numbers.

    Example:
        >>> from horoball.data.array_table import ArrayTable
        >>> from horoball.data.standardize import summarize
        >>> observed_fields({"d": 2}, summarize(ArrayTable([[0.0, 1.5]])))
        {'d': 2, 'likelihood': 'normal', 'log_input': False, 'learn_scale': True}
    """
    likelihood = fields.get("likelihood", "auto")
    if likelihood == "auto":
        likelihood, why = guess_likelihood(summary)
        _log.info("Likelihood: %s, because %s.", likelihood, why)
    if fields.get("library"):
        expect_counts(summary)
    expect_suits(likelihood, summary, fields.get("classes"))
    fields = fields | {"likelihood": likelihood}
    if likelihood == "categorical":
        fields.setdefault("classes", max(2, int(summary.high.max()) + 1))
    fields.setdefault("log_input", likelihood in _COUNTS)
    fields.setdefault("learn_scale", likelihood == "normal")
    return fields


def guess_likelihood(summary: Summary) -> tuple[str, str]:
    """A likelihood that suits the numbers, and why.

    Example:
        >>> from horoball.data.array_table import ArrayTable
        >>> from horoball.data.standardize import summarize
        >>> guess_likelihood(summarize(ArrayTable([[0.0, 1.0], [1.0, 0.0]])))[0]
        'bernoulli'
    """
    low, high = float(summary.low.min()), float(summary.high.max())
    if low >= 0 and high <= 1 and (summary.whole or (low == 0 and high == 1)):
        return "bernoulli", "all values lie in [0, 1]"
    if summary.whole and low >= 0 and high < _EXACT:
        mean, variance = float(summary.mean.mean()), float(summary.std.square().mean())
        if variance > 1.5 * mean:
            return "negative_binomial", "the values are counts that vary more than Poisson's"
        return "poisson", "the values are counts"
    return "normal", "the values are real numbers"


def cell_fields(likelihood: str = "negative_binomial") -> dict[str, Any]:
    """Fields of `ModelConfig` for cells: counts are negative binomial shares of a library, unless told otherwise.

    "auto" is the negative binomial too: what a count is out of cannot be seen from the numbers.

    Example:
        >>> cell_fields()
        {'posterior': 'wrapped', 'hidden': (128,), 'likelihood': 'negative_binomial', 'library': True}
    """
    likelihood = "negative_binomial" if likelihood == "auto" else likelihood
    fields = {"posterior": "wrapped", "hidden": (128,), "likelihood": likelihood}
    return fields | ({"library": True} if likelihood == "negative_binomial" else {})


def expect_suits(likelihood: str, summary: Summary, classes: int | None = None) -> None:
    """Refuse numbers that have no probability under a likelihood.

    Args:
        likelihood: Its name.
        summary: Of the numbers.
        classes: Of the categorical likelihood, if they are given.

    Example:
        >>> from horoball.data.array_table import ArrayTable
        >>> from horoball.data.standardize import summarize
        >>> expect_suits("bernoulli", summarize(ArrayTable([[0.0, 1.5]])))
        Traceback (most recent call last):
        ...
        ValueError: The likelihood bernoulli needs values in [0, 1], got 0 to 1.5. Scale them, or take the ...
    """
    low, high = float(summary.low.min()), float(summary.high.max())
    if likelihood in _COUNTS and low < 0:
        raise ValueError(
            f"The likelihood {likelihood} needs counts, but the table holds negative numbers. Take the likelihood "
            "normal."
        )
    if likelihood == "bernoulli" and (low < 0 or high > 1):
        raise ValueError(
            f"The likelihood bernoulli needs values in [0, 1], got {low:g} to {high:g}. Scale them, or take the "
            "likelihood normal."
        )
    if likelihood == "categorical" and (low < 0 or not summary.whole):
        raise ValueError(
            "The likelihood categorical needs categories 0, 1, 2 …, but the table holds other numbers. Number the "
            "categories first."
        )
    if likelihood == "categorical" and classes is not None and high >= classes:
        raise ValueError(f"The table holds the category {high:g}, but there are {classes} classes: 0 to {classes - 1}.")


def expect_rows(likelihood: str, x: Tensor, first: int = 0, classes: int | None = None, *, whole: bool = False) -> None:
    """Refuse rows that a fitted model cannot be asked about: its likelihood gives them no probability.

    Args:
        likelihood: Its name.
        x: Rows as the model sees them.
        first: Number of the first one, for the message.
        classes: Of the categorical likelihood.
        whole: Whether the rows of the fit were whole numbers; counts then have to be.

    Example:
        >>> expect_rows("poisson", torch.tensor([[1.0], [-2.0]]), first=10)
        Traceback (most recent call last):
        ...
        ValueError: Row 11 holds -2, but the model is one of counts (poisson). Give it rows like those of the fit.
    """
    bad, words = ~torch.isfinite(x), "numbers; none may be missing or infinite"
    if not bool(bad.any()) and likelihood != "normal":
        words = {"bernoulli": "values in [0, 1]", "categorical": f"categories 0 to {(classes or 2) - 1}"}.get(
            likelihood, f"counts ({likelihood})"
        )
        bad = x < 0
        if likelihood == "bernoulli":
            bad |= x > 1
        if likelihood == "categorical":
            bad |= x >= (classes or 2)
        if likelihood == "categorical" or (whole and likelihood in _COUNTS):
            bad |= x != x.round()
    if bool(bad.any()):
        row, column = bad.nonzero()[0].tolist()
        raise ValueError(
            f"Row {first + row} holds {float(x[row, column]):g}, but the model is one of {words}. Give it rows like "
            "those of the fit."
        )


def expect_counts(summary: Summary) -> None:
    """Refuse a table that is not of counts out of libraries.

    Example:
        >>> from horoball.data.standardize import summarize
        >>> from horoball.data.array_table import ArrayTable
        >>> expect_counts(summarize(ArrayTable([[0.0, 1.5]])))
        Traceback (most recent call last):
        ...
        ValueError: Counts are whole numbers from 0 on, but the table holds 1.5...
    """
    low = float(summary.low.min())
    if not summary.whole or low < 0:
        shown = summary.odd if summary.odd is not None else low
        raise ValueError(
            f"Counts are whole numbers from 0 on, but the table holds {shown:g}. Choose the layer with the raw counts, "
            'not normalised, not logarithms, not scaled; those in adata.raw become one by adata.layers["counts"] = '
            "adata.raw[:, adata.var_names].X. Or take the likelihood normal, for real numbers."
        )
    if summary.empty:
        raise ValueError(
            f"{summary.empty:,} of {summary.rows:,} rows hold no count at all. Drop them first, as by "
            "scanpy.pp.filter_cells(adata, min_counts=1)."
        )
