"""WordNet's nouns and the mammals among them, embedded in five dimensions: `python -m experiments.wordnet`.

Prints how many synsets, pairs (child, parent) and pairs (descendant, ancestor) each part has, beside what Nickel and
Kiela (2017) have, how well ancestors are found by a rule that needs no embedding, and by models of the closure.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.stats import rankdata

from experiments.runs import Setting, arguments, carry_out, interval, results
from experiments.table4 import MODELS
from experiments.wordnet_data import Taxonomy, wordnet_nouns
from horoball.graphs import Graph, GraphConfig, GraphVAE, Ranking, ranking
from horoball.graphs.fit import fit_graph, training_for
from horoball.graphs.run import non_edges_for

ROOTS = {"mammals": "mammal.n.01", "nouns": "entity.n.01"}
PUBLISHED = {"mammals": (1_180, 6_540), "nouns": (82_115, 743_241)}  # synsets, pairs of the closure


def taxonomy(part: str) -> Taxonomy:
    """A part of WordNet: "mammals", or "nouns", which is all that is an entity.

    Args:
        part: Which part.

    Example:
        >>> taxonomy("mammals").nodes  # doctest: +SKIP
        1182
    """
    return wordnet_nouns().below(ROOTS[part])


def general_first(tree: Taxonomy) -> Ranking:
    """Ancestors found by a rule: whatever is asked, the nodes in one order, those with most descendants first.

    The rank of an ancestor leaves out the other ancestors, and counts from 1; of nodes with as many descendants, an
    ancestor comes last.

    Example:
        >>> import torch
        >>> chain = Taxonomy.of(np.array(["animal", "mammal", "cat"]), torch.tensor([[2, 1], [1, 0]]))
        >>> general_first(chain)
        Ranking(map=1.0, mean_rank=1.0, nodes=2)
    """
    u, v = tree.closure.numpy().T
    place = rankdata(-np.bincount(v, minlength=tree.nodes), method="max").astype(np.int64)[v]
    # A node has fewer descendants than its ancestors, so that it is never in front of them.
    first = u * (tree.nodes + 1)  # keys that order the pairs by u, then by place
    keys = np.sort(first + place)
    ancestors = np.searchsorted(keys, first + place, "right") - np.searchsorted(keys, first)  # up to that place
    precision = np.bincount(u, ancestors / place)[np.unique(u)] / np.unique(u, return_counts=True)[1]
    return Ranking(float(precision.mean()), float((place - ancestors + 1).mean()), len(precision))


def run(part: str, encoder: str, edges: str, model: str, seed: int, epochs: int = 0) -> dict[str, Any]:
    """Figures of one model of the closure, at d = 5; 0 epochs is as many as suit the encoder."""
    tree = taxonomy(part)
    graph = Graph.of(tree.closure, nodes=tree.nodes)
    torch.manual_seed(seed)
    paper = encoder == "gcn"
    config = GraphConfig(graph.nodes, d=5, c=MODELS[model], encoder=encoder, edges=edges, learn_prior=not paper)
    vae = GraphVAE.from_config(config)
    training = training_for(encoder, seed=seed, max_epochs=epochs or None)
    state = fit_graph(vae, graph, training, non_edges=non_edges_for(graph))
    ones = np.ones(len(tree.closure), np.float32)
    ancestors = csr_array((ones, tuple(tree.closure.numpy().T)), shape=(tree.nodes, tree.nodes))
    z = vae.embed(graph).double()
    found = ranking(ancestors, z, vae.ball)
    last, root = state.history[-1], int(np.bincount(tree.closure[:, 1].numpy()).argmax())
    radius = torch.linalg.vector_norm(z, dim=-1)
    return {
        "map": found.map,
        "mean_rank": found.mean_rank,
        "loss": last["loss"],
        "kl": last["kl"],
        "prior_scale": float(vae.prior.scale.detach()),
        "root_nearer_to_origin_than": float((radius > radius[root]).double().mean()),
    }


def settings(seeds: int) -> list[Setting]:
    """Every run: the mammals by our model and by the paper's, then all nouns."""
    kinds = [
        ("mammals", "free", "fermi_dirac", seeds),
        ("mammals", "gcn", "tanh", seeds),
        ("nouns", "free", "fermi_dirac", 1),
    ]
    return [
        {"part": part, "encoder": encoder, "edges": edges, "model": model, "seed": seed}
        for part, encoder, edges, many in kinds
        for seed in range(many)
        for model in MODELS
    ]


def parts_table() -> str:
    """What there is to learn, and what a simple rule finds of it."""
    lines = [
        "| WordNet | synsets | parents | closure | published, synsets / closure | rule, mean rank / MAP |",
        "|---|--:|--:|--:|---|---|",
    ]
    for part, published in PUBLISHED.items():
        tree = taxonomy(part)
        counts = " | ".join(f"{count:,}" for count in (tree.nodes, len(tree.parents), len(tree.closure)))
        rule = general_first(tree)
        said = " / ".join(f"{count:,}" for count in published)
        lines.append(f"| {part} | {counts} | {said} | {rule.mean_rank:.1f} / {rule.map:.3f} |")
    return "\n".join(lines)


def table() -> str:
    """The models' table, from what has been run."""
    kinds: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for run_ in results("wordnet"):
        kinds.setdefault(tuple(run_["setting"][key] for key in ("part", "encoder", "edges", "model")), []).append(run_)
    lines = [
        "| WordNet | encoder, edges | model | MAP | mean rank | loss, nats a node | minutes | seeds |",
        "|---|---|---|--:|--:|--:|--:|--:|",
    ]
    for (part, encoder, edges, model), runs in sorted(kinds.items()):
        figures = [interval(r["result"][name] for r in runs) for name in ("map", "mean_rank", "loss")]
        shown = [f"{mean:.3g}" + ("" if len(runs) < 2 else f" ± {half:.2g}") for mean, half in figures]
        minutes = interval(r["seconds"] / 60 for r in runs)[0]
        cells = [
            part,
            f"{encoder}, {edges}",
            f"{model}, c = {MODELS[model]:g}",
            *shown,
            f"{minutes:.1f}",
            f"{len(runs)}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the tables."""
    options = arguments(__doc__, 5)
    print(parts_table())
    carry_out("wordnet", settings(options.seeds), run, options.workers)
    print(table())


if __name__ == "__main__":
    main()
