"""How much of a graph few dimensions hold: `python -m experiments.reconstruction`.

Nothing is held out, so nothing leaks. The model of Table 4 in 2 and 5 dimensions, curved and flat, fitted to the whole
graph; mean average precision and mean rank of neighbors, and distortion of path lengths.
"""

from __future__ import annotations

from typing import Any

import torch

from experiments.runs import Setting, arguments, carry_out, interval, results
from experiments.table4 import GRAPHS, MODELS
from horoball.datasets import paper_graph
from horoball.graphs import GraphConfig, GraphVAE, reconstruction
from horoball.graphs.fit import PAPER_TRAINING, fit_graph

FIGURES = {"map": "MAP", "mean_rank": "mean rank", "distortion": "distortion"}


def run(graph: str, model: str, d: int, seed: int, edges: str = "tanh", epochs: int = 800) -> dict[str, Any]:
    """Figures of one model fitted to one whole graph."""
    whole = paper_graph(graph)
    torch.manual_seed(seed)
    vae = GraphVAE.from_config(GraphConfig(nodes=whole.nodes, d=d, c=MODELS[model], edges=edges))
    state = fit_graph(vae, whole, PAPER_TRAINING.replace(max_epochs=epochs, seed=seed))
    found = reconstruction(whole, vae.embed(whole).double(), vae.ball)
    return {
        "map": found.map,
        "mean_rank": found.mean_rank,
        "distortion": found.distortion.mean,
        "rank_correlation": found.distortion.rank_correlation,
        "loss": state.history[-1]["loss"],
        "kl": state.history[-1]["kl"],
    }


def settings(seeds: int) -> list[Setting]:
    """Every run: a few seeds of everything first, so that a table stands early."""
    return [
        {"graph": graph, "model": model, "d": d, "seed": seed}
        for seed in range(seeds)
        for graph in GRAPHS
        for d in (2, 5)
        for model in MODELS
    ]


def table() -> str:
    """The table, from what has been run."""
    found = {
        tuple(r["setting"][key] for key in ("graph", "d", "model", "seed")): r["result"]
        for r in results("reconstruction")
    }
    lines = [
        f"| graph | d | model | {' | '.join(FIGURES.values())} |",
        f"|---|--:|---|{'--:|' * len(FIGURES)}",
    ]
    for graph in GRAPHS:
        for d in (2, 5):
            by_model = {
                name: {key[3]: value for key, value in found.items() if key[:3] == (graph, d, name)} for name in MODELS
            }
            for name, values in by_model.items():
                lines.append(_line(f"| {graph} | {d} | {name}, c = {MODELS[name]:g} |", list(values.values())))
            paired = [
                {figure: by_model["P"][seed][figure] - by_model["N"][seed][figure] for figure in FIGURES}
                for seed in by_model["P"].keys() & by_model["N"].keys()
            ]
            lines.append(_line(f"| {graph} | {d} | P − N |", paired, "+"))
    return "\n".join(lines)


def _line(start: str, values: list[dict[str, float]], sign: str = "") -> str:
    if not values:
        return start + " not run |" * len(FIGURES)
    cells = (interval(value[figure] for value in values) for figure in FIGURES)
    return start + "".join(f" {mean:{sign}.3g} ± {half:.2g} |" for mean, half in cells)


def main() -> None:
    """Run what is missing, and print the table."""
    options = arguments(__doc__, 10)
    carry_out("reconstruction", settings(options.seeds), run, options.workers)
    print(table())


if __name__ == "__main__":
    main()
