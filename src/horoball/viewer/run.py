"""`view_run`: a table as a fitted model sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from horoball.geometry.ball import PoincareBall
from horoball.graphs.graph import transitive_reduction
from horoball.graphs.run import GraphRun
from horoball.tables.frames import ending_of, frame_of
from horoball.tables.limits import title_of
from horoball.tables.schema import some_names
from horoball.tables.table import Table
from horoball.trees.tree import Tree
from horoball.vae.run import Run
from horoball.viewer.disc import View, view_points

if TYPE_CHECKING:
    from horoball.vae.run import Run  # brings the training engine, which a page does not need

__all__ = ["view_files", "view_graph_files", "view_run"]


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
    details: int | str = "auto",
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


def view_files(
    run: Path,
    data: str,
    output: Path | None = None,
    *,
    features: Sequence[str] = (),
    names: Path | None = None,
    image_shape: str | None = None,
    title: str | None = None,
    device: str = "cpu",
    na: Sequence[str] = (),
) -> View:
    """Make a map of a table, as a fitted model sees it.

    Args:
        run: The folder that `horoball fit` wrote.
        data: A file of rows, or a folder of Parquet files, as `horoball.tables.read` takes them.
        output: Where to write the page; None writes nothing.
        features: Columns of the data to color by as well as by the label, whether the model was fitted to them or not.
            The first dozen if not given, of up to 50,000 rows, so that a point tells its own values.
        names: A text file with the name of each row, one a line; the ids of the table if not given.
        image_shape: Size of a picture where a row is one: "28x28", or "32x32x3" for colors.
        title: Title of the page; the name of the data without it.
        device: Where the coordinates are computed.
        na: Words that stand for a missing value, beside those of the fit.

    Example:
        >>> import tempfile, numpy as np
        >>> from horoball.training import TrainConfig
        >>> from horoball.vae.train import train
        >>> folder = Path(tempfile.mkdtemp())
        >>> np.save(folder / "rows.npy", np.random.default_rng(0).normal(size=(100, 4)))
        >>> from horoball.tables import read
        >>> table = read(folder / "rows.npy")
        >>> run = train(table, {"hidden": (8,)}, TrainConfig(max_epochs=1), folder / "run")
        >>> view_files(folder / "run", str(folder / "rows.npy"), folder / "map.html")
        View(... characters)
    """
    fitted = Run.load(run).to(device)
    table = fitted.read(data, na=na)
    own = _own_columns(data, features, table.rows)
    own.pop(fitted.record.ids or "", None)  # which names the points
    return view_run(
        fitted,
        table,
        features=[name for name in features if name not in own],
        columns=own,
        labels=None if names is None else names.read_text(encoding="utf-8").splitlines(),
        image_shape=None if image_shape is None else _shape(image_shape),
        title=title_of(data) if title is None else title,
        path=output,
    )


def _own_columns(data: str, wanted: Sequence[str], rows: int) -> dict[str, Any]:
    """Columns of a file as they stand there, fitted or not; those of arrays are known to the table alone."""
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


def view_graph_files(run: Path, output: Path | None = None, *, title: str | None = None) -> View:
    """Make a map of a graph's nodes and edges, colored by the nodes' degrees.

    Of the ancestors in a directed model's closure, only edges to parents are drawn: they point to the center.

    Args:
        run: The folder that `horoball graph fit` wrote.
        output: Where to write the page; None writes nothing.
        title: Title of the page; the folder's name without it.

    Example:
        >>> import tempfile
        >>> from horoball.graphs.graph import Graph
        >>> from horoball.graphs.fit import FREE_TRAINING
        >>> from horoball.graphs.run import train_graph
        >>> folder = Path(tempfile.mkdtemp())
        >>> path = Graph.of([(0, 1), (1, 2), (2, 3)])
        >>> run = train_graph(path, {"d": 2}, FREE_TRAINING.replace(max_epochs=1), folder / "run")
        >>> view_graph_files(folder / "run", folder / "map.html")
        View(... characters)
    """
    fitted = GraphRun.load(run)
    graph = transitive_reduction(fitted.graph) if fitted.record.model.transitive else fitted.graph
    degree = torch.bincount(graph.edges.flatten(), minlength=graph.nodes)
    return view_points(
        fitted.points().detach(),
        fitted.model.ball,
        columns={"degree": degree.numpy()},
        labels=[str(i) for i in range(graph.nodes)] if graph.names is None else graph.names,
        color=None,
        scale=None,
        edges=graph.edges,
        title=run.resolve().name if title is None else title,
        path=output,
    )


def _shape(text: str) -> tuple[int, ...]:
    sizes = text.lower().replace("×", "x").split("x")
    if len(sizes) not in (2, 3) or not all(size.strip().isdecimal() for size in sizes):
        raise ValueError(f"The size of a picture is height x width, such as 28x28, got {text!r}.")
    return tuple(int(size) for size in sizes)
