"""Table 4, link prediction on three graphs, beside rules of one line: `python -m experiments.table4`.

The split of Kipf & Welling, no features, d = 5, two graph convolutions of 32 hidden units, 800 full-batch epochs of
Adam at 0.01, wrapped normal posterior and prior with σ₀ = 1, the bound over all pairs, scores by distances of posterior
means after the last epoch. Validation edges are held out, as in the paper, and not used.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import torch

from experiments.runs import Setting, carry_out, interval, results
from horoball.data import paper_graph, split_links
from horoball.data.link_split import LeakWarning
from horoball.graphs import BASELINES, link_scores, vgae_scores
from horoball.models import GraphConfig, GraphVAE
from horoball.training.fit_graph import PAPER_TRAINING, fit_graph

GRAPHS = ("phylogenetic", "csphd", "diseases")
MODELS = {"N": 0.0, "P": 1.0}  # c
PAPER = {
    "N": ((54.2, 2.2, 54.0, 2.1), (56.5, 1.1, 56.4, 1.1), (89.8, 0.7, 91.8, 0.7)),
    "P": ((59.0, 1.9, 55.5, 1.6), (59.8, 1.2, 56.7, 1.2), (92.3, 0.7, 93.6, 0.5)),
}


def run(graph: str, model: str, seed: int, epochs: int = 800, non_edges: int = 0) -> dict[str, Any]:
    """Scores of one model on one split, or of all the rules; non_edges > 0 trains on sampled pairs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeakWarning)  # what the rules show
        split = split_links(paper_graph(graph), seed=seed)
    pairs, is_edge = split.test
    if model == "rules":
        found = {name: link_scores(rule(split.train, pairs), is_edge) for name, rule in BASELINES.items()}
        found["VGAE, inner product, d = 16"] = link_scores(vgae_scores(split.train, pairs, seed=seed), is_edge)
        return {name: {"auc": s.auc, "ap": s.ap} for name, s in found.items()} | {"isolated": split.isolated}
    torch.manual_seed(seed)
    vae = GraphVAE.from_config(GraphConfig(nodes=split.train.nodes, d=5, c=MODELS[model]))
    config = PAPER_TRAINING.replace(max_epochs=epochs, seed=seed)
    state = fit_graph(vae, split.train, config, non_edges=non_edges or None)
    z = vae.embed(split.train).double()
    scores = link_scores(-vae.ball.dist(z[pairs[:, 0]], z[pairs[:, 1]]), is_edge)
    return {"auc": scores.auc, "ap": scores.ap, "loss": state.history[-1]["loss"], "kl": state.history[-1]["kl"]}


def settings(seeds: int) -> list[Setting]:
    """Every run of the table: a few seeds of everything first, so that a table stands early."""
    return [
        {"graph": graph, "model": model, "seed": seed}
        for seed in range(seeds)
        for graph in GRAPHS
        for model in (*MODELS, "rules")
    ]


def table() -> str:
    """The table, from what has been run."""
    runs = results("table4")
    lines = ["| AUC / AP, % | phylogenetic | CS PhD | diseases |", "|---|---|---|---|"]
    for name, cells in PAPER.items():
        parts = " | ".join("{:.1f} ± {:.1f} / {:.1f} ± {:.1f}".format(*cell) for cell in cells)
        lines.append(f"| {name}, the paper's figures | {parts} |")
    found = {(r["setting"]["graph"], r["setting"]["model"], r["setting"]["seed"]): r["result"] for r in runs}
    for name in MODELS:
        lines.append(
            _row(
                f"{name}, c = {MODELS[name]:g}",
                [[v for (g, m, _), v in found.items() if (g, m) == (graph, name)] for graph in GRAPHS],
            )
        )
    pairs = [
        [
            {key: value[key] - found[graph, "N", seed][key] for key in ("auc", "ap")}
            for (g, m, seed), value in found.items()
            if g == graph and m == "P" and (graph, "N", seed) in found
        ]
        for graph in GRAPHS
    ]
    lines.append(_row("P − N, paired by split", pairs, sign="+"))
    rules = [[v for (g, m, _), v in found.items() if (g, m) == (graph, "rules")] for graph in GRAPHS]
    for name in (*BASELINES, "VGAE, inner product, d = 16"):
        lines.append(_row(name, [[value[name] for value in column] for column in rules]))
    counts = " | ".join(
        f"{len(column)} splits, {interval(v['isolated'] for v in column)[0]:.0f} isolated" for column in rules
    )
    lines.append(f"| nodes that a split isolates | {counts} |")
    return "\n".join(lines)


def _row(name: str, columns: list[list[dict[str, float]]], sign: str = "") -> str:
    cells = []
    for column in columns:
        figures = [interval(100 * value[key] for value in column) for key in ("auc", "ap")]
        cells.append(" / ".join(f"{mean:{sign}.1f} ± {half:.1f}" for mean, half in figures))
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    carry_out("table4", settings(options.seeds), run, options.workers)
    print(table())


if __name__ == "__main__":
    main()
