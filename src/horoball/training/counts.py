"""What counts of cells ask of a model, and what they must be."""

from __future__ import annotations

from typing import Any

from horoball.data.standardize import Summary

__all__ = ["cell_fields", "expect_counts"]


def cell_fields(likelihood: str = "negative_binomial") -> dict[str, Any]:
    """Fields of `ModelConfig` for cells: counts are negative binomial shares of a library, unless told otherwise.

    Example:
        >>> cell_fields(), cell_fields("normal")
        ({'likelihood': 'negative_binomial', 'library': True}, {'likelihood': 'normal'})
    """
    return {"likelihood": likelihood} | ({"library": True} if likelihood == "negative_binomial" else {})


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
            "not normalised, not logarithms, not scaled; or take the likelihood normal, for real numbers."
        )
    if summary.empty:
        raise ValueError(
            f"{summary.empty:,} of {summary.rows:,} rows hold no count at all. Drop them first, as by "
            "scanpy.pp.filter_cells(adata, min_counts=1)."
        )
