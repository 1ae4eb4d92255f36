"""Cells on the disc, colored by what is known of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from horoball import plotting
from horoball.cells.embedding_keys import ball_of

__all__ = ["plot"]


def plot(cells: Any, color: str | None = None, *, key: str = "poincare", ax: Any = None, **style: Any) -> Any:
    """Draw the map of cells on the disc, with matplotlib; see `horoball.plotting.points`.

    Args:
        cells: AnnData with an embedding by `fit` or `CellModel.embed`.
        color: Column of obs, or a gene.
        key: Which embedding.
        ax: Where to draw.
        style: size, marker, title, legend, as `points` takes them.

    Returns:
        The axes.

    Example:
        >>> import matplotlib; matplotlib.use("agg")
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> _ = fit(cells, max_epochs=1, hidden=(8,))
        >>> [text.get_text() for text in plot(cells, "batch").get_legend().get_texts()]
        ['a', 'b']
    """
    c = ball_of(cells, key).c_value
    if color is not None and not isinstance(color, str):
        raise TypeError(f"color is one column of obs, or one gene, got {color!r}. Call plot for each, with its own ax.")
    labels = None if color is None else _values(cells, color)
    options = {"title": color or ""} | style
    return plotting.points(cells.obsm[f"X_{key}"], c=c, labels=labels, ax=ax, **options)


def _values(cells: Any, color: str) -> np.ndarray:
    """A category or a number for each cell."""
    if color in cells.obs:
        column = cells.obs[color]
        values = np.asarray(column)
        # Whole numbers count something, unless they were made categories.
        return values.astype(np.float64) if values.dtype.kind in "iu" and column.dtype.kind in "iu" else values
    if color in cells.var_names:
        values = cells[:, [color]].X
        return np.asarray(values.toarray() if hasattr(values, "toarray") else values, np.float64).ravel()
    known = ", ".join(map(str, list(cells.obs)[:20])) or "none"
    raise ValueError(f"{color!r} is neither a column of obs nor a gene. The columns of obs are: {known}.")
