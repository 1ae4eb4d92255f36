"""Commands for graphs: `horoball graph fit`, `evaluate`, `embed`, `view`, and questions to a directed model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horoball.cli.arguments import (
    IS_PATH,
    Force,
    Loggers,
    Output,
    Quiet,
    Resume,
    TableFile,
    check_outputs,
    given_path,
    save_page,
    takes_options,
)
from horoball.cli.config import Config, write_options
from horoball.cli.console import FIRST, Commands, app, console, log_to_console, print_table, reports_errors, say
from horoball.options import GraphOptions

if TYPE_CHECKING:
    from horoball.graphs.lineage import Lineage, Relatives
    from horoball.graphs.run import GraphRun

__all__: list[str] = []

graph_app = typer.Typer(
    cls=Commands,
    help="Embed the nodes of a graph in the ball, from its edges alone.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(graph_app, name="graph")

GraphFolder = Annotated[Path, typer.Argument(help="The folder that `horoball graph fit` wrote.", parser=given_path)]


@graph_app.command("fit")
@reports_errors
@takes_options(GraphOptions)
def fit_graph(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="edges", help="Edges: .csv, .tsv, .parquet, .npz, or lines of two node ids.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for checkpoints and the fitted model.", **IS_PATH)
    ],
    options: GraphOptions,
    directed: Annotated[
        bool,
        typer.Option("--directed", help="Edges go from child to parent; adds parents, ancestors, descendants, is-a."),
    ] = False,
    features: Annotated[
        str | None,
        typer.Option(help="Numbers known of the nodes: a table with a row for each, .csv, .tsv, .parquet or .npy."),
    ] = None,
    id_: Annotated[
        str | None,
        typer.Option(
            "--id", help="Column of --features with the names of the nodes. Without it rows are in the order of nodes."
        ),
    ] = None,
    comment: Annotated[
        str | None,
        typer.Option(
            help="What comments in a text file begin with, wherever they stand, such as '#'; 'none' if there are none. "
            "[default: lines before the first edge that begin with # or %]"
        ),
    ] = None,
    test: Annotated[
        float, typer.Option(help="Fraction of the edges to hold out for `evaluate`. Useful: 0.05 to 0.2.")
    ] = 0.0,
    non_edges: Annotated[
        str | None,
        typer.Option(
            help="Random pairs per edge, 'all' pairs, or 'auto': all up to 3000 nodes, else 10. More pairs give a less "
            "noisy loss and slower steps. [default: auto]"
        ),
    ] = None,
    resume: Resume = False,
    quiet: Quiet = False,
    logger: Loggers = None,
    config: Config = None,
) -> None:
    """Fit a model to a graph.

    Example: horoball graph fit friends.csv -o run
    """
    from horoball.graphs.curvature import choose_curvature
    from horoball.graphs.model import GraphConfig
    from horoball.graphs.read import read_graph
    from horoball.graphs.run import GRAPHS, graph_fit, train_graph
    from horoball.tables.read import read
    from horoball.training.hooks import named_hooks
    from horoball.training.loop import Interrupted
    from horoball.training.progress import Silent, shown
    from horoball.training.state import check_output_dir
    from horoball.vae.options import check_options

    log_to_console()
    hooks, _ = named_hooks(loggers=logger, folder=output)
    check_output_dir(output, resume=resume, graph=True)  # before the data are read
    auto = options.get("c") == "auto"
    options = {**options, "c": 0.0} if auto else options
    check_options(GraphConfig, options)
    drawn: Any = GRAPHS.non_edges if non_edges is None else None if non_edges == "all" else non_edges
    if non_edges not in (None, "all", "auto"):
        if not non_edges.isdecimal():
            raise ValueError(f"--non-edges is a whole number, 'all' or 'auto', got {non_edges!r}.")
        drawn = int(non_edges)
    known = None if features is None else read(features, kind="numbers", ids=id_)
    graph = read_graph(source, known, directed=directed, comment=comment)
    model, training = graph_fit(graph, **options)
    progress = Silent() if quiet else shown(console)
    try:
        if auto:
            chosen, tried = choose_curvature(graph, model, training, test=test, non_edges=drawn, progress=progress)
            for each in tried:
                say(f"c = {each.c:g}: bound {each.bound:.3f} nats a node, gain {each.gain:+.3f} ± {each.error:.3f}")
            model["c"] = chosen.model.ball.c_value
        more: dict[str, Any] = {"resume": resume, "progress": progress, "hooks": hooks}
        run = train_graph(graph, model, training, output, test=test, non_edges=drawn, **more)
    except Interrupted as stopped:
        raise KeyboardInterrupt(f"{stopped} Resume with the same command and --resume.") from None
    if FIRST:
        write_options(context, output)
    _show(run, output)


@graph_app.command("evaluate")
@reports_errors
def evaluate_graph(
    run: GraphFolder,
    sources: Annotated[
        int, typer.Option(min=1, help="Nodes of a large graph whose neighbors are ranked. More: slower, more exact.")
    ] = 2000,
) -> None:
    """Print how well the embedding reconstructs the graph and predicts held-out edges, beside simple baselines.

    Example: horoball graph evaluate run
    """
    from horoball.graphs.baselines import rules_for
    from horoball.graphs.evaluation import link_scores, reconstruction
    from horoball.graphs.run import GraphRun

    fitted = GraphRun.load(run)
    z, ball = fitted.points(), fitted.model.ball
    found = reconstruction(fitted.graph, z, ball, offset=fitted.model.offset(z), sources=sources)
    results: dict[str, Any] = {
        "mean average precision": found.map,
        "mean rank": found.mean_rank,
        "distortion of path lengths": found.distortion.mean,
        "rank correlation with path lengths": found.distortion.rank_correlation,
        "nodes ranked": found.nodes,
    }
    if fitted.held_out is not None:
        pairs, is_edge = fitted.held_out
        scores = {"this model": -fitted.model.separation(z, pairs)}
        hidden = int(is_edge.sum())
        rules = rules_for(hidden / (hidden + len(fitted.graph.edges)))
        scores |= {name: rule(fitted.graph, pairs) for name, rule in rules.items()}
        for name, score in scores.items():
            auc, ap = link_scores(score.detach(), is_edge)
            results[name] = {"AUC": auc, "AP": ap}
    print_table(results)


@graph_app.command("embed")
@reports_errors
def embed_graph(run: GraphFolder, output: TableFile, force: Force = False) -> None:
    """Write the ball coordinates of every node to a file, with its name.

    Example: horoball graph embed run -o nodes.parquet
    """
    import pyarrow as pa

    from horoball.graphs.run import GraphRun
    from horoball.vae.files import check_ending, write_table

    check_ending(output)
    check_outputs(output, force=force, run=run)
    fitted = GraphRun.load(run)
    z, graph = fitted.embed(), fitted.graph
    nodes = pa.array(range(graph.nodes) if graph.names is None else graph.names.tolist())
    write_table(pa.table({"node": nodes} | {f"z{i}": pa.array(column) for i, column in enumerate(z.T.numpy())}), output)
    say(f"{graph.nodes:,} nodes, {z.shape[1]} coordinates: {output}")


@graph_app.command("view")
@reports_errors
def view_graph(
    run: GraphFolder,
    output: Output,
    title: Annotated[str | None, typer.Option(help="Title of the page; the folder's name without it.")] = None,
    force: Force = False,
) -> None:
    """Write a map of the nodes and edges to look at: one HTML file, which needs no network.

    Example: horoball graph view run -o map.html
    """
    from horoball.graphs.run import GraphRun
    from horoball.viewer import view as view_of

    check_outputs(output, force=force, run=run, command="graph view")
    page = view_of(GraphRun.load(run), title=run.resolve().name if title is None else title)
    save_page(page, output, "graph view")
    say(f"{len(page.html.encode()) / 1000:,.0f} kB: {output}")


@graph_app.command("info")
@reports_errors
def info_graph(run: GraphFolder) -> None:
    """Print what a run is and how it went.

    Example: horoball graph info run
    """
    from horoball.graphs.run import GraphRun

    _show(GraphRun.load(run), run)


def _show(run: GraphRun, folder: Path) -> None:
    model, last, drawn = run.record.model, run.history[-1] if run.history else {}, run.record.non_edges
    results: dict[str, Any] = {"run": str(folder), "nodes": run.graph.nodes, "edges": len(run.graph.edges)}
    results |= {"posterior": model.posterior, "d": model.d, "c": run.model.ball.c_value}
    results |= {"encoder": model.encoder, "edge likelihood": model.edges}
    if model.directed:
        results |= {"edges are": "node and ancestor" if model.transitive else "child and parent"}
    results |= {"pairs": "all" if drawn is None else f"{drawn} random pairs for every edge"}
    print_table(results | {"epochs": len(run.history)} | {name: last[name] for name in ("loss", "kl") if name in last})


Node = Annotated[str, typer.Argument(help="The node: its name, or its number if nodes have no names.")]
Threshold = Annotated[
    float, typer.Option(help="Smallest probability. Smaller values find more and err more often. Useful: 0.1 to 0.9.")
]


@graph_app.command("parents")
@reports_errors
def parents(
    run: GraphFolder,
    node: Node,
    k: Annotated[int, typer.Option("-k", min=1, help="How many parents to print.")] = 1,
) -> None:
    """Print the most likely parents of a node, with the probability that it is below each.

    Example: horoball graph parents run lion
    """
    fitted, lineage, (number,) = _asked(run, node)
    _show_relatives(fitted, lineage.parents(number, k))


@graph_app.command("ancestors")
@reports_errors
def ancestors(run: GraphFolder, node: Node, threshold: Threshold = 0.5) -> None:
    """Print all nodes that a node is below, with probabilities.

    Example: horoball graph ancestors run lion
    """
    fitted, lineage, (number,) = _asked(run, node)
    _show_relatives(fitted, lineage.ancestors(number, threshold))


@graph_app.command("descendants")
@reports_errors
def descendants(run: GraphFolder, node: Node, threshold: Threshold = 0.5) -> None:
    """Print all nodes that are below a node, with probabilities.

    Example: horoball graph descendants run cat
    """
    fitted, lineage, (number,) = _asked(run, node)
    _show_relatives(fitted, lineage.descendants(number, threshold))


@graph_app.command("is-a")
@reports_errors
def is_a(run: GraphFolder, node: Node, ancestor: Node) -> None:
    """Print the probability that a node is below another.

    Example: horoball graph is-a run lion animal
    """
    import torch

    _, lineage, pair = _asked(run, node, ancestor)
    print_table({"probability": float(lineage.is_a(torch.tensor([pair])))})


def _asked(run: Path, *nodes: str) -> tuple[GraphRun, Lineage, list[int]]:
    """The run, its relations, and the numbers of the nodes."""
    from horoball.graphs.lineage import Lineage
    from horoball.graphs.run import GraphRun

    fitted = GraphRun.load(run)
    lineage = Lineage(fitted)
    unnamed = fitted.graph.names is None
    asked = [int(node) if unnamed and node.isdecimal() else node for node in nodes]
    return fitted, lineage, fitted.graph.numbers(asked).tolist()


def _show_relatives(run: GraphRun, found: Relatives) -> None:
    names = run.graph.names
    nodes = [str(i) if names is None else str(names[i]) for i in found.nodes.tolist()]
    print_table(dict(zip(nodes, found.probability.tolist(), strict=True)))
