"""Commands for graphs: `horoball graph fit`, `evaluate`, `embed`, `info`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horoball.cli.console import Output, app, console, for_people, is_parquet, log_to_console, number, print_table

if TYPE_CHECKING:
    from horoball.training.graph_run import GraphRun

__all__: list[str] = []

graph_app = typer.Typer(
    help="Place the nodes of a graph in the ball, from its edges alone.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(graph_app, name="graph")

GraphFolder = Annotated[Path, typer.Argument(help="The folder that `horoball graph fit` wrote.")]


class Law(StrEnum):
    """Laws of an edge."""

    tanh = "tanh"
    fermi_dirac = "fermi_dirac"


class Encoder(StrEnum):
    """Kinds of encoder."""

    auto = "auto"
    free = "free"
    gcn = "gcn"


@graph_app.command("fit")
@for_people
def fit_graph(
    edges: Annotated[str, typer.Argument(help="Edges: .csv, .tsv, .parquet, .npz, or lines of two node ids.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to keep the run in.")],
    dim: Annotated[int, typer.Option(help="Dimension of the ball.")] = 2,
    c: Annotated[
        str, typer.Option(help="Minus the curvature: a number, 0 for the Euclidean model, or 'learn'.")
    ] = "1.0",
    encoder: Annotated[
        Encoder, typer.Option(help="'free': each node by itself; 'gcn': graph convolutions, as in the paper.")
    ] = Encoder.auto,
    law: Annotated[Law, typer.Option("--edges", help="Law of an edge: 'tanh' is the paper's.")] = Law.fermi_dirac,
    prior_scale: Annotated[str, typer.Option(help="Standard deviation of the prior: a number, or 'learn'.")] = "learn",
    test: Annotated[float, typer.Option(help="Part of the edges to hold out, for `evaluate`.")] = 0.0,
    max_epochs: Annotated[int | None, typer.Option(help="Passes over the edges; 1000, or 800 for 'gcn'.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Edges of a step; all if not given.")] = None,
    non_edges: Annotated[str, typer.Option(help="Pairs drawn for every edge, 'all', or 'auto' by size.")] = "auto",
    learning_rate: Annotated[float | None, typer.Option(help="Step size of Adam; chosen by the encoder.")] = None,
    hidden: Annotated[int, typer.Option(help="Size of the hidden layer of graph convolutions.")] = 32,
    beta: Annotated[float, typer.Option(help="Weight of the divergence.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Fit a model to a graph.

    Example: horoball graph fit friends.csv -o run
    """
    from horoball.data import read_graph
    from horoball.training.choices import curvature_fields, prior_fields
    from horoball.training.fit_graph import training_for
    from horoball.training.graph_run import encoder_for, train_graph
    from horoball.training.loop import Interrupted
    from horoball.training.progress import Bar, Silent
    from horoball.training.state import expect_room

    log_to_console()
    expect_room(output, resume=resume)  # before the data are read
    curvature = curvature_fields(number("--c", c, "learn"))
    prior = prior_fields(number("--prior-scale", prior_scale, "learn"))
    drawn: Any = None if non_edges == "all" else non_edges
    if non_edges not in ("all", "auto"):
        if not non_edges.isdecimal():
            raise ValueError(f"--non-edges is a whole number, 'all' or 'auto', got {non_edges!r}.")
        drawn = int(non_edges)
    with _warnings_as_lines():
        graph = read_graph(edges)
        kind = encoder_for(graph) if encoder is Encoder.auto else encoder.value
        model = {
            "d": dim,
            "encoder": kind,
            "edges": law.value,
            "hidden": hidden,
            **curvature,
            **prior,
        }
        given = {"max_epochs": max_epochs, "batch_size": batch_size, "learning_rate": learning_rate}
        config = training_for(kind, **given, beta=beta, seed=seed)
        try:
            run = train_graph(
                graph,
                model,
                config,
                output,
                test=test,
                non_edges=drawn,
                resume=resume,
                progress=Silent() if quiet else Bar(console),
            )
        except Interrupted as stopped:
            raise KeyboardInterrupt(f"{stopped} Go on with the same command and --resume.") from None
    _show(run, output)


@graph_app.command("evaluate")
@for_people
def evaluate_graph(
    run: GraphFolder,
    sources: Annotated[int, typer.Option(min=1, help="Nodes whose neighbours are ranked, of a larger graph.")] = 2000,
) -> None:
    """Print how much of the graph the embedding holds, and how held-out edges are told, beside simple rules.

    Example: horoball graph evaluate run
    """
    from horoball.graphs import link_scores, reconstruction, rules_for
    from horoball.training.graph_run import GraphRun

    fitted = GraphRun.load(run)
    z, ball = fitted.points(), fitted.model.ball
    found = reconstruction(fitted.graph, z, ball, sources=sources)
    numbers = {
        "mean average precision": f"{found.map:.4f}",
        "mean rank": f"{found.mean_rank:.2f}",
        "distortion of path lengths": f"{found.distortion.mean:.4f}",
        "rank correlation with path lengths": f"{found.distortion.rank_correlation:.4f}",
        "nodes ranked": f"{found.nodes:,}",
    }
    if fitted.held_out is not None:
        pairs, is_edge = fitted.held_out
        scores = {"this model": -ball.dist(z[pairs[:, 0]], z[pairs[:, 1]])}
        hidden = int(is_edge.sum())
        rules = rules_for(hidden / (hidden + len(fitted.graph.edges)))
        scores |= {name: rule(fitted.graph, pairs) for name, rule in rules.items()}
        for name, score in scores.items():
            auc, ap = link_scores(score.detach(), is_edge)
            numbers[f"AUC / AP, {name}"] = f"{100 * auc:.1f} / {100 * ap:.1f}"
    print_table(numbers)


@graph_app.command("embed")
@for_people
def embed_graph(run: GraphFolder, output: Output) -> None:
    """Write the ball coordinates of every node to a Parquet file, with its name.

    Example: horoball graph embed run -o nodes.parquet
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from horoball.training.graph_run import GraphRun
    from horoball.training.whole import whole_file

    is_parquet(output)
    fitted = GraphRun.load(run)
    z, graph = fitted.embed(), fitted.graph
    nodes = pa.array(range(graph.nodes) if graph.names is None else graph.names.tolist())
    columns = {"node": nodes} | {f"z{i}": pa.array(column) for i, column in enumerate(z.T.numpy())}
    with whole_file(output) as part:
        pq.write_table(pa.table(columns), part, write_page_checksum=True)
    console.print(f"{graph.nodes:,} nodes, {z.shape[1]} coordinates: {output}", markup=False)


@graph_app.command("info")
@for_people
def info_graph(run: GraphFolder) -> None:
    """Print what a run is and how it went.

    Example: horoball graph info run
    """
    from horoball.training.graph_run import GraphRun

    _show(GraphRun.load(run), run)


def _show(run: GraphRun, folder: Path) -> None:
    model, last = run.about["model"], run.history[-1]
    drawn = run.about["non_edges"]
    numbers = {
        "run": str(folder),
        "nodes, edges": f"{run.graph.nodes:,}, {len(run.graph.edges):,}",
        "posterior": f"{model['posterior']}, d = {model['d']}, c = {last['c']:.4g}",
        "encoder": model["encoder"],
        "law of an edge": model["edges"],
        "pairs": "all" if drawn is None else f"{drawn} random pairs for every edge",
        "epochs": str(len(run.history)),
        "loss": f"{last['loss']:.4f}",
        "kl": f"{last['kl']:.4f}",
    }
    print_table(numbers)


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Warnings for a person: what they say, without the line of code that says it."""

    def line(message: Warning | str, *_: Any, **__: Any) -> None:
        console.print(f"Warning: {message}", style="yellow", markup=False, soft_wrap=True)

    with warnings.catch_warnings():
        warnings.showwarning = line
        yield
