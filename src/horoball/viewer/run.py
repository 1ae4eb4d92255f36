"""Pages of fitted models: a table as a model sees it, a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from horoball.geometry.coordinates import frozen
from horoball.graphs.graph import transitive_reduction
from horoball.graphs.run import GraphRun
from horoball.tables.frames import ending_of, frame_of
from horoball.tables.schema import some_names
from horoball.tables.table import ArrayTable, Table
from horoball.trees.tree import Tree
from horoball.vae.run import Run
from horoball.viewer.points import View, view_points


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
    details: int | str = "auto",
    title: str = "",
    path: str | Path | None = None,
) -> View:
    """`view(run, table, …)`: a map of a table, with posterior means, their scales, and the table's label.

    Args:
        run: A fitted model, such as `Run.load(folder)` or `PoincareVAE.run_`.
        table: Rows with the columns of the fit.
        features: Names of the table's columns to color by as well.
        columns: Other values of the rows by name, to show and to color by; see `horoball.view`.
        labels: Names of the rows, to search for; the ids of the table if not given.
        image_shape: (h, w) or (h, w, 3) where a row is a picture: rows are then shown as thumbnails.
        edges: Pairs of row numbers to join by geodesics, shape (m, 2).
        tree: A tree of the rows, shown beside the map and in it.
        levels: Names of the group of each row, from coarse to fine, such as `Taxonomy.names`; see `horoball.view`.
        details: How many of the table's columns the page holds, to say what sets a branch or a selection apart; see
            `horoball.view`.
        title: Title of the page.
        path: Where to write the page; without it, it is only returned.

    Example:
        >>> from horoball.tables import ArrayTable
        >>> from horoball.training import TrainConfig
        >>> from horoball.vae.train import train
        >>> table = ArrayTable(torch.randn(100, 4), labels=np.repeat(["a", "b"], 50))
        >>> run = train(table, {"hidden": (8,)}, TrainConfig(max_epochs=1))
        >>> view_run(run, table, features=["x0"])
        View(... characters)
    """
    return run_page(
        run,
        table,
        features=features,
        columns=columns,
        labels=labels,
        image_shape=image_shape,
        edges=edges,
        tree=tree,
        levels=levels,
        details=details,
        title=title,
        path=path,
    )


def model_of(what: Any) -> Run | GraphRun | None:
    """The run of an estimator or of a map of cells, or a run itself; None of anything else."""
    if isinstance(what, Run | GraphRun):
        return what
    if hasattr(what, "fit") and not hasattr(what, "run_"):
        raise ValueError(f"This {type(what).__name__} is not fitted yet. Call fit first.")
    found = getattr(what, "run_", getattr(what, "run", None))
    return found if isinstance(found, Run | GraphRun) else None


def _table(run: Run, rows: Any) -> Table:
    """Rows for a model; an array has the columns of the fit in their order."""
    if isinstance(rows, Table):
        return rows
    if isinstance(rows, np.ndarray | torch.Tensor) and not run.record.schema:
        return ArrayTable(np.asarray(rows), run.columns)
    return run.read(rows)


@torch.no_grad()
def run_page(
    run: Run,
    rows: Any,
    *,
    features: Sequence[str] = (),
    columns: Any = None,
    labels: Any = None,
    color: str | None = None,
    image_shape: tuple[int, ...] | None = None,
    edges: Any = None,
    tree: Tree | None = None,
    levels: Sequence[Any] = (),
    details: int | str = "auto",
    title: str = "",
    path: str | Path | None = None,
) -> View:
    """`view` of a model of rows: posterior means, with the posterior scale around each, colored by the label."""
    table = _table(run, rows)
    columns = {} if columns is None else {str(name): columns[name] for name in columns}
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
        frozen(run.model.ball),
        columns=told | {name: column for name, column in columns.items() if name not in told},
        labels=table.read_names() if labels is None else labels,
        color=color,
        scale=torch.cat(scales),
        edges=edges,
        tree=tree,
        levels=levels,
        images=None if image_shape is None else _pictures(table, image_shape),
        rows=table,
        details=details,
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


_HOVERED_COLUMNS = 12  # of a file, which a page holds unasked
_HOVERED_ROWS = 50_000  # up to which it does: some 5 MB


def file_columns(data: str, wanted: Sequence[str], rows: int) -> dict[str, Any]:
    """Columns of a file as they stand there, fitted or not; those of arrays are known to the table alone.

    Those that are wanted, or the first dozen of up to 50,000 rows, so that a point tells its own values.
    """
    if ending_of(data) is None or not (wanted or rows <= _HOVERED_ROWS):
        return {}
    import pyarrow as pa

    frame = frame_of(data)
    single = [field.name for field in frame.schema if not pa.types.is_nested(field.type)]  # not vectors, or records
    for name in wanted:
        if name in frame.column_names and name not in single:
            raise ValueError(
                f"Column {name[:40]!r} of {data} holds {frame.schema.field(name).type}, several values in a cell. "
                "Color by a column of numbers or texts."
            )
    names = [name for name in wanted if name in single] or single[:_HOVERED_COLUMNS]
    return {name: frame[name].to_pandas() for name in names} if len(frame) == rows else {}


def graph_page(
    run: GraphRun,
    *,
    rows: Any = None,
    columns: Any = None,
    labels: Any = None,
    color: str | None = None,
    tree: Tree | None = None,
    levels: Sequence[Any] = (),
    details: int | str = "auto",
    title: str = "",
    path: str | Path | None = None,
) -> View:
    """`view` of a graph's nodes and edges, colored by the nodes' degrees.

    Of the ancestors in a directed model's closure, only edges to parents are drawn: they point to the center.
    """
    graph = transitive_reduction(run.graph) if run.record.model.transitive else run.graph
    degree = torch.bincount(graph.edges.flatten(), minlength=graph.nodes)
    names = [str(i) for i in range(graph.nodes)] if graph.names is None else graph.names
    return view_points(
        run.points().detach(),
        run.model.ball,
        columns={"degree": degree.numpy()} if columns is None else columns,
        labels=names if labels is None else labels,
        color=color,
        scale=None,
        edges=graph.edges,
        tree=tree,
        levels=levels,
        rows=rows,
        details=details,
        title=title,
        path=path,
    )


def shape_of(text: str) -> tuple[int, ...]:
    """The size of a picture from its text."""
    sizes = text.lower().replace("×", "x").split("x")
    if len(sizes) not in (2, 3) or not all(size.strip().isdecimal() for size in sizes):
        raise ValueError(f"The size of a picture is height x width, such as 28x28, got {text!r}.")
    return tuple(int(size) for size in sizes)
