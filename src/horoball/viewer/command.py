"""What `horoball view` and `horoball graph view` do: files in, a page out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from horoball.data.files.names import title_of
from horoball.data.graphs.closure import transitive_reduction
from horoball.data.readers.frames import ending_of, frame_of
from horoball.training.graph.run import GraphRun
from horoball.training.table.run import Run
from horoball.viewer.disc import View, view_points
from horoball.viewer.run import view_run

__all__ = ["view_files", "view_graph_files"]

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
        data: A file of rows, or a folder of Parquet files, as `horoball.data.read` takes them.
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
        >>> from horoball.training.table.train import train
        >>> folder = Path(tempfile.mkdtemp())
        >>> np.save(folder / "rows.npy", np.random.default_rng(0).normal(size=(100, 4)))
        >>> from horoball.data import read
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
        >>> from horoball.data.graphs.graph import Graph
        >>> from horoball.training.graph.fit import FREE_TRAINING
        >>> from horoball.training.graph.run import train_graph
        >>> folder = Path(tempfile.mkdtemp())
        >>> path = Graph.of([(0, 1), (1, 2), (2, 3)])
        >>> run = train_graph(path, {"d": 2}, FREE_TRAINING.replace(max_epochs=1), folder / "run")
        >>> view_graph_files(folder / "run", folder / "map.html")
        View(... characters)
    """
    fitted = GraphRun.load(run)
    if fitted.model.ball.is_euclidean:
        raise ValueError("The model is Euclidean (c = 0): there is no disc to show. Fit one with c > 0.")
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
