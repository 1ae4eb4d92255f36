"""Commands that ask a directed model: `horoball graph parents`, `ancestors`, `descendants`, `is-a`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from horoball.cli.console import print_table, reports_errors
from horoball.cli.graphs import GraphFolder, graph_app

if TYPE_CHECKING:
    from pathlib import Path

    from horoball.training.graph.lineage import Lineage, Relatives
    from horoball.training.graph.run import GraphRun

__all__: list[str] = []

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
    _show(fitted, lineage.parents(number, k))


@graph_app.command("ancestors")
@reports_errors
def ancestors(run: GraphFolder, node: Node, threshold: Threshold = 0.5) -> None:
    """Print all nodes that a node is below, with probabilities.

    Example: horoball graph ancestors run lion
    """
    fitted, lineage, (number,) = _asked(run, node)
    _show(fitted, lineage.ancestors(number, threshold))


@graph_app.command("descendants")
@reports_errors
def descendants(run: GraphFolder, node: Node, threshold: Threshold = 0.5) -> None:
    """Print all nodes that are below a node, with probabilities.

    Example: horoball graph descendants run cat
    """
    fitted, lineage, (number,) = _asked(run, node)
    _show(fitted, lineage.descendants(number, threshold))


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
    from horoball.training.graph.lineage import Lineage
    from horoball.training.graph.run import GraphRun

    fitted = GraphRun.load(run)
    lineage = Lineage(fitted)
    unnamed = fitted.graph.names is None
    asked = [int(node) if unnamed and node.isdecimal() else node for node in nodes]
    return fitted, lineage, fitted.graph.numbers(asked).tolist()


def _show(run: GraphRun, found: Relatives) -> None:
    names = run.graph.names
    nodes = [str(i) if names is None else str(names[i]) for i in found.nodes.tolist()]
    print_table(dict(zip(nodes, found.probability.tolist(), strict=True)))
