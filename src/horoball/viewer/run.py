"""`view_run`: a table as a fitted model sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from horoball.data.tables.column_names import some_names
from horoball.data.tables.table import Table
from horoball.hierarchy.trees import Tree
from horoball.manifolds import PoincareBall
from horoball.viewer.disc import View, view_points

if TYPE_CHECKING:
    from horoball.training.table.run import Run  # brings the training engine, which a page does not need

__all__ = ["view_run"]


@torch.no_grad()
def view_run(
    run: Run,
    table: Table,
    *,
    features: Sequence[str] = (),
    columns: Mapping[str, Any] | None = None,
    labels: Any = None,
    image_shape: tuple[int, ...] | None = None,
    edges: Any = None,
    tree: Tree | None = None,
    levels: Sequence[Any] = (),
    title: str = "",
    path: str | Path | None = None,
) -> View:
    """A map of a table: posterior means, with the posterior scale around each, colored by the table's label.

    Args:
        run: A fitted model, such as `Run.load(folder)` or `PoincareVAE.run_`.
        table: Rows with the columns of the fit.
        features: Names of the table's columns to color by as well.
        columns: Other values of the rows by name, to show and to color by; see `horoball.view`.
        labels: Names of the rows, to search for; the ids of the table if not given.
        image_shape: (h, w) or (h, w, 3) where a row is a picture: rows are then shown as thumbnails.
        edges: Pairs of row numbers to join by geodesics, shape (m, 2).
        tree: A tree of the rows, shown beside the disc and in it; alone where the model is Euclidean.
        levels: Names of the group of each row, from coarse to fine, such as `Taxonomy.names`; see `horoball.view`.
        title: Title of the page.
        path: Where to write the page; without it, it is only returned.

    Example:
        >>> from horoball.data import ArrayTable
        >>> from horoball.training import TrainConfig
        >>> from horoball.training.table.train import train
        >>> table = ArrayTable(torch.randn(100, 4), labels=np.repeat(["a", "b"], 50))
        >>> run = train(table, {"hidden": (8,)}, TrainConfig(max_epochs=1))
        >>> view_run(run, table, features=["x0"])
        View(... characters)
    """
    if run.model.ball.is_euclidean:
        raise ValueError("The model is Euclidean (c = 0): there is no disc to show. Fit one with c > 0.")
    features = [name for name in features if name != run.label]  # which is shown anyway
    missing = [name for name in features if name not in table.columns]
    if missing:
        raise ValueError(
            f"The model was not fitted to a column {missing[0]!r}, but to: {some_names(table.columns)}. A map can be "
            "colored by these and by the label; by others with horoball.view(places, columns=...), in Python."
        )
    index = [table.columns.index(name) for name in features]
    means, scales = [], []
    for q in run.posteriors(table):
        means.append(q.mean.cpu())
        scales.append(q.mean_scale.cpu())
    shown = [block[:, index] for block in table.blocks(8192)] if index else []
    told: dict[str, Any] = {}
    values = table.read_labels()
    if values is not None:
        told[run.label or "label"] = values
    if shown:
        told |= dict(zip(features, torch.cat(shown).T.numpy(), strict=True))
    return view_points(
        torch.cat(means),
        PoincareBall(run.model.ball.c_value),  # on the CPU, wherever the model is
        columns=told | {name: column for name, column in (columns or {}).items() if name not in told},
        labels=table.read_names() if labels is None else labels,
        color=None,
        scale=torch.cat(scales),
        edges=edges,
        tree=tree,
        levels=levels,
        images=None if image_shape is None else _pictures(table, image_shape),
        title=title,
        path=path,
    )


def _pictures(table: Table, shape: tuple[int, ...]) -> np.ndarray:
    """Rows as pictures, black where the table is lowest."""
    if int(np.prod(shape)) != table.features:
        size = " × ".join(map(str, shape))
        raise ValueError(f"image_shape {size} needs {int(np.prod(shape))} columns, the table has {table.features}.")
    blocks = [block.numpy() for block in table.blocks(8192)]
    low, high = min(float(b.min()) for b in blocks), max(float(b.max()) for b in blocks)
    scaled = [np.rint((b - low) * (255 / ((high - low) or 1))).astype(np.uint8) for b in blocks]
    return np.concatenate(scaled).reshape(-1, *shape)
