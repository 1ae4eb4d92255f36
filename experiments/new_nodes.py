"""Leaves of a taxonomy placed after training, by one edge to a parent each: `python -m experiments.new_nodes`.

A tenth of the leaves is left out with all of their edges, the model is trained on the others, and each leaf is added by
its edge to one parent. Its ancestors are then ranked as those of a model that was trained with all nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from experiments.runs import Setting, arguments, carry_out, figure, results
from experiments.taxonomies import D, taxonomy
from horoball.graphs import Graph, ranking
from horoball.graphs.lineage import add_nodes
from horoball.graphs.run import GraphRun, graph_fit, train_graph

STUDY = "new_nodes"


def _map(run: GraphRun, closure: np.ndarray, asked: np.ndarray) -> float:
    """MAP of the ancestors of some nodes, which are pairs of names."""
    number = {name: i for i, name in enumerate(run.graph.names.tolist())}  # type: ignore[union-attr]
    pairs = torch.tensor([(number[i], number[j]) for i, j in closure[np.isin(closure[:, 0], asked)].tolist()])
    z = run.points()
    relation = Graph.of(pairs, run.graph.nodes, directed=True).relation()
    return ranking(relation, z, run.model.ball, offset=run.model.offset(z)).map


def run(part: str, seed: int, epochs: int = 100) -> dict[str, Any]:
    """MAP of the held-out leaves, placed by one parent and trained with the others."""
    tree = taxonomy(part)
    closure, parents = tree.names[tree.closure.numpy()], tree.names[tree.parents.numpy()]
    leaves = np.setdiff1d(parents[:, 0], parents[:, 1])
    held = np.random.default_rng(seed).permutation(leaves)[: len(leaves) // 10]
    kept = parents[~np.isin(parents[:, 0], held)]
    _, first = np.unique(parents[:, 0], return_index=True)
    one_parent = [tuple(pair) for pair in parents[first].tolist() if pair[0] in set(held.tolist())]
    found = {}
    for name, pairs in (("placed", kept), ("trained", parents)):
        names, edges = np.unique(pairs, return_inverse=True)
        graph = Graph.of(edges.reshape(-1, 2), len(names), names, directed=True)
        model, training = graph_fit(graph, d=D, seed=seed, max_epochs=epochs)
        fitted = train_graph(graph, model, training)
        if name == "placed":
            fitted = add_nodes(fitted, one_parent, seed=seed)
        found[name] = _map(fitted, closure, held)
    return found | {"leaves": len(held)}


def settings(seeds: int) -> list[Setting]:
    """Every run."""
    return [{"part": "mammals", "seed": seed} for seed in range(seeds)]


def table() -> str:
    """The table, from what has been run."""
    runs = {record["setting"]["seed"]: record["result"] for record in results(STUDY)}
    lines = ["| leaves of the mammals, held out | MAP of their ancestors |", "|---|--:|"]
    for name, title in (("placed", "added by one edge each"), ("trained", "trained with all nodes")):
        lines.append(f"| {title} | {figure({seed: found[name] for seed, found in runs.items()}, 3)} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the table."""
    options = arguments(__doc__, 3)
    carry_out(STUDY, settings(options.seeds), run, options.workers)
    print(table())


if __name__ == "__main__":
    main()
