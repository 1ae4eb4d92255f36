"""Table 4, link prediction on three graphs, beside rules of one line: `python -m experiments.table4`.

The split of Kipf & Welling, no features, d = 5, two graph convolutions of 32 hidden units, 800 full-batch epochs of
Adam at 0.01, wrapped normal posterior and prior with σ₀ = 1, the bound over all pairs, scores by distances of posterior
means after the last epoch. Validation edges are held out, as in the paper, and not used.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from experiments.runs import Setting, arguments, carry_out, figure, paired, results
from horoball.datasets import paper_graph
from horoball.graphs import BASELINES, GraphConfig, GraphVAE, link_scores, split_links, vgae_scores
from horoball.graphs.evaluation import LeakWarning
from horoball.graphs.fit import PAPER_TRAINING, fit_graph

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


def found(graph: str, score: str, model: str, rule: str = "") -> dict[int, float]:
    """A score in percent, or a count, of the runs so far, by seed; `rule` is for the model "rules"."""
    runs = [r for r in results("table4") if (r["setting"]["graph"], r["setting"]["model"]) == (graph, model)]
    values = {r["setting"]["seed"]: r["result"][rule] if rule else r["result"] for r in runs}
    return {seed: values[seed][score] * (1 if score == "isolated" else 100) for seed in sorted(values)}


def gain(graph: str, score: str) -> dict[int, float]:
    """P − N, by split."""
    return paired(found(graph, score, "P"), found(graph, score, "N"))


def table() -> str:
    """The table, from what has been run."""
    lines = ["| AUC / AP, % | phylogenetic | CS PhD | diseases |", "|---|---|---|---|"]
    for name, cells in PAPER.items():
        parts = " | ".join("{:.1f} ± {:.1f} / {:.1f} ± {:.1f}".format(*cell) for cell in cells)
        lines.append(f"| {name}, the paper's figures | {parts} |")
    for name, c in MODELS.items():
        lines.append(_row(f"{name}, c = {c:g}", partial(found, model=name)))
    lines.append(_row("P − N, paired by split", gain, "+"))
    for rule in (*BASELINES, "VGAE, inner product, d = 16"):
        lines.append(_row(rule, partial(found, model="rules", rule=rule)))
    isolated = [found(graph, "isolated", "rules") for graph in GRAPHS]
    counts = " | ".join(f"{len(column)} splits, {figure(column, 0).split(' ±')[0]} isolated" for column in isolated)
    lines.append(f"| nodes that a split isolates | {counts} |")
    return "\n".join(lines)


def _row(name: str, values: Callable[[str, str], dict[int, float]], sign: str = "") -> str:
    cells = [" / ".join(figure(values(graph, score), 1, sign) for score in ("auc", "ap")) for graph in GRAPHS]
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Run what is missing, and print the table."""
    options = arguments(__doc__, 40)
    carry_out("table4", settings(options.seeds), run, options.workers)
    print(table())


if __name__ == "__main__":
    main()
