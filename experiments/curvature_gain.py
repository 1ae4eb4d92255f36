"""When does curvature pay on a graph? `python -m experiments.curvature_gain`.

Twenty graphs in the plane and in the disc: the same model with c = 0 and c = 1, fitted to the whole graph. For each,
the rank correlation of distances with path lengths, the mean average precision of neighbors, and the bound on the log
likelihood of the edges, which is what `c` can be chosen by without knowing the answer. Beside them stands how far the
graph is from a tree: the mean four-point defect of its path lengths, as a share of the median path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
import torch

from experiments.runs import RESULTS, Setting, arguments, carry_out, figure, paired, results
from horoball import PoincareBall
from horoball.datasets import paper_graph, preferential_attachment, random_tree
from horoball.graphs import Graph, PoincareGraphVAE, read_graph, reconstruction
from horoball.hierarchy import Space, delta

__all__ = ["FIGURE", "GRAPHS", "STUDY", "figure_of", "run", "settings", "table"]

STUDY = "curvature_gain"
FIGURE = RESULTS.parents[1] / "docs" / "curvature.svg"
nx: Any = import_module("networkx")
MODELS = {"flat": 0.0, "ball": 1.0}


def _networkx(name: str, *sizes: Any, **options: Any) -> Callable[[int], Graph]:
    """A graph of networkx, its largest part; random ones are drawn by the seed."""

    def made(seed: int) -> Graph:
        draw = getattr(nx, name)
        graph = draw(*sizes, **options, **({"seed": seed} if name in _DRAWN else {}))
        part = graph.subgraph(max(nx.connected_components(graph), key=len))
        return read_graph(nx.convert_node_labels_to_integers(nx.Graph(part), ordering="sorted"))

    return made


_DRAWN = (
    "gnm_random_graph",
    "random_regular_graph",
    "watts_strogatz_graph",
    "random_geometric_graph",
    "stochastic_block_model",
)


def _nested_blocks(seed: int) -> Graph:
    """Four groups of four groups of eight nodes: the nearer two groups are, the more edges join them."""
    share = np.kron(np.eye(4), np.full((4, 4), 0.06)) + 0.006
    np.fill_diagonal(share, 0.6)
    return _networkx("stochastic_block_model", [8] * 16, share.tolist())(seed)


def _in_the_disc(seed: int) -> Graph:
    """A hyperbolic random graph (Krioukov and others, 2010): points of the disc, joined where they are near."""
    rng = np.random.default_rng(seed)
    n, reach = 250, 7.0
    radius = np.arccosh(1 + (np.cosh(reach) - 1) * rng.random(n))  # even by area
    angle = 2 * np.pi * rng.random(n)
    z = torch.from_numpy(radius[:, None] * np.stack((np.cos(angle), np.sin(angle)), 1))
    near = np.argwhere(np.triu(PoincareBall(1.0).cdist(z, z).numpy() < reach, 1))
    graph = nx.Graph(near.tolist())
    part = graph.subgraph(max(nx.connected_components(graph), key=len))
    return read_graph(nx.convert_node_labels_to_integers(nx.Graph(part), ordering="sorted"))


GRAPHS: Mapping[str, tuple[str, Callable[[int], Graph]]] = {
    "balanced tree 3⁴": ("tree", _networkx("balanced_tree", 3, 4)),
    "balanced tree 2⁶": ("tree", _networkx("balanced_tree", 2, 6)),
    "random recursive tree": ("tree", lambda seed: random_tree(150, seed)),
    "preferential tree": ("tree", lambda seed: preferential_attachment(150, 1, seed)),
    "phylogenetic": ("tree", lambda seed: paper_graph("phylogenetic")),
    "hyperbolic random graph": ("scale-free", _in_the_disc),
    "preferential, two edges": ("scale-free", lambda seed: preferential_attachment(150, 2, seed)),
    "diseases": ("scale-free", lambda seed: paper_graph("diseases")),
    "karate club": ("social", _networkx("karate_club_graph")),
    "Les Misérables": ("social", _networkx("les_miserables_graph")),
    "Davis's southern women": ("social", _networkx("davis_southern_women_graph")),
    "groups in groups": ("groups", _nested_blocks),
    "cliques in a ring": ("groups", _networkx("connected_caveman_graph", 15, 8)),
    "grid 12 × 12": ("grid", _networkx("grid_2d_graph", 12, 12)),
    "torus 12 × 12": ("grid", _networkx("grid_2d_graph", 12, 12, periodic=True)),
    "random points of a square": ("grid", _networkx("random_geometric_graph", 150, 0.15)),
    "ring": ("ring", _networkx("cycle_graph", 100)),
    "small world": ("ring", _networkx("watts_strogatz_graph", 150, 6, 0.05)),
    "random, mean degree 4": ("random", _networkx("gnm_random_graph", 150, 300)),
    "random, three neighbors": ("random", _networkx("random_regular_graph", 3, 150)),
}


_ASIDE = {  # names in the figure, in points from their marks, where they would meet
    "random recursive tree": (6, -8),
    "diseases": (6, -2),
    "random points of a square": (-40, 10),
    "random, mean degree 4": (-8, -12),
    "small world": (-2, 16),
    "groups in groups": (-50, -12),
    "grid 12 × 12": (-30, -12),
}


def run(graph: str, model: str, seed: int) -> dict[str, Any]:
    """Figures of one model of a whole graph."""
    whole = GRAPHS[graph][1](seed)
    fitted = PoincareGraphVAE(2, c=MODELS[model], max_epochs=500, random_state=seed).fit(whole)
    found = reconstruction(whole, fitted.run_.points(), fitted.run_.model.ball)
    tree = delta(Space.of_graph(whole.adjacency()), landmarks=100)
    return {
        "nodes": whole.nodes,
        "edges": len(whole.edges),
        "defect": tree.mean.value / tree.median,
        "rank_correlation": found.distortion.rank_correlation,
        "map": found.map,
        "loss": float(np.median([epoch["loss"] for epoch in fitted.run_.history[-50:]])),
    }


def settings(seeds: int) -> list[Setting]:
    """Every run: a seed of all first."""
    return [
        {"graph": graph, "model": model, "seed": seed} for seed in range(seeds) for graph in GRAPHS for model in MODELS
    ]


def _found() -> dict[str, dict[str, dict[int, dict[str, float]]]]:
    """Results by graph, model and seed, of the graphs that both models have; from the nearest to a tree on."""
    found: dict[str, dict[str, dict[int, dict[str, float]]]] = {}
    for record in results(STUDY):
        at = record["setting"]
        found.setdefault(at["graph"], {}).setdefault(at["model"], {})[at["seed"]] = record["result"]
    both = {graph: by_model for graph, by_model in found.items() if by_model.keys() == MODELS.keys()}
    return dict(sorted(both.items(), key=lambda item: _mean(item[1]["ball"], "defect")))


def _mean(by_seed: dict[int, dict[str, float]], name: str) -> float:
    return float(np.mean([result[name] for result in by_seed.values()]))


def _column(by_seed: dict[int, dict[str, float]], name: str) -> dict[int, float]:
    return {seed: result[name] for seed, result in by_seed.items()}


def table() -> str:
    """A line for each graph, from what has been run."""
    lines = [
        "| graph | kind | nodes | four-point defect | rank correlation, c = 0 | c = 1 | gain | MAP, c = 0 | c = 1 "
        "| bound, c = 1 − c = 0 |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for graph, by_model in _found().items():
        flat, ball = by_model["flat"], by_model["ball"]
        gain = paired(_column(ball, "rank_correlation"), _column(flat, "rank_correlation"))
        bound = paired(_column(flat, "loss"), _column(ball, "loss"))  # a loss is the bound's negative
        cells = [
            f"{_mean(ball, 'nodes'):.0f}",
            f"{_mean(ball, 'defect'):.3f}",
            *(f"{_mean(which, 'rank_correlation'):.3f}" for which in (flat, ball)),
            figure(gain, 3, "+"),
            *(f"{_mean(which, 'map'):.3f}" for which in (flat, ball)),
            figure(bound, 2, "+"),
        ]
        lines.append(f"| {graph} | {GRAPHS[graph][0]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def figure_of() -> None:
    """Draw the gain of curvature against the defect of each graph."""
    import matplotlib.pyplot as plt

    shown, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    kinds = list(dict.fromkeys(kind for kind, _ in GRAPHS.values()))
    for number, kind in enumerate(kinds):
        mine = {graph: found for graph, found in _found().items() if GRAPHS[graph][0] == kind}
        x = [_mean(found["ball"], "defect") for found in mine.values()]
        y = [
            _mean(found["ball"], "rank_correlation") - _mean(found["flat"], "rank_correlation")
            for found in mine.values()
        ]
        axes.plot(x, y, "os^Dvp*"[number], label=kind, ms=8)
        for name, at in zip(mine, zip(x, y, strict=True), strict=True):
            axes.annotate(
                name, at, xytext=_ASIDE.get(name, (6, 3)), textcoords="offset points", fontsize=7, color="0.35"
            )
    axes.set_xlim(right=0.2)
    axes.axhline(0, color="0.7", lw=1)
    axes.set_xlabel("four-point defect of path lengths (0: a tree)")
    axes.set_ylabel("rank correlation of distances, c = 1 minus c = 0")
    axes.legend(fontsize=8)
    shown.savefig(FIGURE, metadata={"Date": None})
    plt.close(shown)


def main() -> None:
    """Run what is missing, print the table, and draw the figure."""
    options = arguments(__doc__, 3)
    carry_out(STUDY, settings(options.seeds), run, options.workers)
    print(table())
    figure_of()


if __name__ == "__main__":
    main()
