"""Taxonomies in five dimensions, all ancestors of each node asked for: `python -m experiments.taxonomies`.

Beside the directed model: its start (settled cones, without training), what that is made from (nested cones), the
directed model with c = 0, gensim's Poincaré embeddings (Nickel and Kiela, 2017), and the rule "most descendants first".
All are given the transitive closure, and the same pairs are asked for.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from experiments.runs import Setting, arguments, carry_out, interval, results
from experiments.wordnet import general_first
from experiments.wordnet import taxonomy as wordnet_part
from experiments.wordnet_data import Taxonomy
from horoball.geometry import PoincareBall
from horoball.geometry.random import generator_for
from horoball.graphs import Graph, GraphConfig, GraphVAE, ranking
from horoball.graphs.fit import DIRECTED_TRAINING, fit_graph, training_for
from horoball.graphs.lineage import Lineage
from horoball.graphs.model import FreeEncoder
from horoball.graphs.run import GraphRecord, GraphRun, non_edges_for
from horoball.graphs.start import distance_cones, nested_cones, place_nodes
from horoball.training.progress import Silent

STUDY = "taxonomies"
D = 5
MODELS = {
    "directed": "horoball, directed, c = 1",
    "pulled": "the same model, β = 0.1",
    "settled": "settled cones, not trained",
    "cones": "nested cones, not settled",
    "distance": "cones settled by distance, not trained",
    "flat": "the same model, c = 0",
    "gensim": "gensim's PoincareModel",
    "rule": "rule: most descendants first",
}
_UNTRAINED = ("settled", "cones", "distance", "rule")
_EPOCHS = {"directed": 300, "pulled": 300, "flat": 300, "gensim": 50}
_LARGE = {"directed": 150, "pulled": 150, "flat": 150, "gensim": 5}  # of the nouns
_SOURCES = 2000  # nodes of a large taxonomy whose ancestors are counted one by one


def google_products() -> Taxonomy:
    """Google's product taxonomy, from `HOROBALL_DATA`: 5,582 categories by their paths.

    Example:
        >>> len(google_products().closure)  # doctest: +SKIP
        17265
    """
    with np.load(Path(os.environ["HOROBALL_DATA"]) / "vectors" / "google_products.npz") as file:
        paths = file["paths"]
    number = {path: i for i, path in enumerate(paths.tolist())}
    pairs = [(i, number[path.rpartition(" > ")[0]]) for path, i in number.items() if " > " in path]
    return Taxonomy.of(paths, torch.tensor(pairs))


def taxonomy(part: str) -> Taxonomy:
    """A taxonomy by name: "google", or a part of WordNet."""
    return google_products() if part == "google" else wordnet_part(part)


class Curve(Silent):
    """MAP after some epochs, and the CPU seconds of training until then."""

    def __init__(self, every: int, measure: Callable[[], float]) -> None:
        self.every, self.measure, self.points = every, measure, list[tuple[float, float]]()
        self.began, self.apart, self.epochs = time.process_time(), 0.0, 0

    def epoch(self, line: dict[str, float]) -> None:
        """Note a point of the curve; what it costs does not count."""
        self.epochs += 1
        if self.epochs % self.every == 0:
            now = time.process_time()
            self.points.append((round(now - self.began - self.apart, 1), round(self.measure(), 4)))
            self.apart += time.process_time() - now


def depths(tree: Taxonomy) -> np.ndarray:
    """Steps from a root, by the shortest way.

    Example:
        >>> depths(Taxonomy.of(np.array(["animal", "mammal", "cat"]), torch.tensor([[2, 1], [1, 0]]))).tolist()
        [0, 1, 2]
    """
    from scipy.sparse.csgraph import dijkstra

    down = Graph.of(tree.parents, tree.nodes, directed=True).relation().T
    roots = np.setdiff1d(np.arange(tree.nodes), tree.parents[:, 0].numpy())
    steps: np.ndarray = dijkstra(down, indices=roots, unweighted=True, min_only=True)
    return steps.astype(int)


def figures(
    tree: Taxonomy,
    z: Tensor,
    ball: PoincareBall,
    offset: Tensor,
    likely: Callable[[Tensor], Tensor],
    parent: Callable[[Tensor], Tensor],
) -> dict[str, Any]:
    """How well ancestors and parents are found: all of them by rank, those of some nodes one by one.

    Args:
        tree: The taxonomy.
        z: Points of its nodes.
        ball: Their ball.
        offset: What is added to distances in ranks.
        likely: Whether each node is taken for an ancestor of some nodes, shape (nodes, n).
        parent: What some nodes' parents are taken to be.
    """
    graph = Graph.of(tree.closure, tree.nodes, directed=True)
    ancestors = graph.relation()
    # ranks of 82,115 nodes take half an hour; of 2,000 MAP is known to 0.005
    sources = None if tree.nodes < 10_000 else _SOURCES
    own = ranking(ancestors, z, ball, offset=offset, sources=sources)
    distance = ranking(ancestors, z, ball, sources=sources)
    radius = torch.linalg.vector_norm(z, dim=-1)
    direct = Graph.of(tree.parents, tree.nodes, directed=True)
    children = np.unique(tree.parents[:, 0].numpy())
    asked = np.random.default_rng(0).permutation(children)[:_SOURCES]
    true = found = both = hits = 0
    for part in torch.from_numpy(asked).split(100):
        taken = likely(part)
        taken[torch.arange(len(part)), part] = False
        real = torch.from_numpy(ancestors[part.numpy()].toarray() > 0)
        true, found, both = true + int(real.sum()), found + int(taken.sum()), both + int((taken & real).sum())
        hits += int(direct.holds(torch.stack((part, parent(part)), 1)).sum())
    return {
        "map": own.map,
        "mean_rank": own.mean_rank,
        "map_by_distance": distance.map,
        "mean_rank_by_distance": distance.mean_rank,
        "nodes_ranked": own.nodes,
        "radius_depth": float(spearmanr(radius, depths(tree))[0]),
        "precision": both / max(1, found),
        "recall": both / true,
        "parent_hit": hits / len(asked),
    }


def run(part: str, model: str, seed: int, epochs: int = 0) -> dict[str, Any]:
    """Figures of one embedding of a closure; 0 epochs is the model's own number."""
    tree = taxonomy(part)
    if model == "gensim":
        return _gensim(tree, seed, epochs or 50)
    if model == "rule":
        rule = general_first(tree)
        return {"map": rule.map, "mean_rank": rule.mean_rank, "cpu_minutes": 0.0}
    graph = Graph.of(tree.closure, tree.nodes, directed=True)
    config = GraphConfig(
        graph.nodes,
        d=D,
        c=float(model != "flat"),
        encoder="free",
        edges="fermi_dirac",
        learn_prior=True,
        directed=True,
        transitive=True,
    )
    vae = GraphVAE.from_config(config, generator=generator_for(seed))
    began = time.process_time()
    assert isinstance(vae.encoder, FreeEncoder)
    if model == "cones":
        vae.encoder.start_in(nested_cones(graph, D, seed=seed))
    elif model == "distance":
        vae.encoder.start_in(distance_cones(graph, D, seed=seed))
    else:
        place_nodes(vae.encoder, graph, seed=seed)
    ancestors = graph.relation()

    def score() -> float:
        z = vae.embed(graph).double()
        return ranking(ancestors, z, vae.ball, offset=vae.offset(z), sources=500).map

    curve = Curve(25, score)
    seconds = time.process_time() - began
    # c = 0 has no cones to start from: it is trained for longer, with longer steps
    training = training_for("free", directed=True, transitive=model != "flat", seed=seed, max_epochs=epochs or None)
    if model == "pulled":
        training = training.replace(beta=DIRECTED_TRAINING.beta)
    if model not in _UNTRAINED:
        began = time.process_time()
        fit_graph(vae, graph, training, non_edges=non_edges_for(graph), progress=curve)
        seconds += time.process_time() - began - curve.apart
    lineage = Lineage(
        GraphRun(vae, graph, GraphRecord(model=config, training=training, edges=len(graph.edges), digest=""))
    )
    offset = lineage.probability.offset
    assert offset is not None

    def parent(nodes: Tensor) -> Tensor:
        return torch.stack([lineage.parents(int(node)).nodes[0] for node in nodes])

    z = lineage.probability.z
    found = figures(tree, z, vae.ball, offset, lambda nodes: lineage.above(nodes) >= 0.5, parent)
    return found | {"cpu_minutes": seconds / 60, "curve": curve.points}


def _gensim(tree: Taxonomy, seed: int, epochs: int) -> dict[str, Any]:
    """gensim's embedding: ranks by distance, an ancestor is a node nearer to the origin within a radius that fits."""
    try:
        poincare = importlib.import_module("gensim.models.poincare")
    except ImportError:
        raise ImportError("This comparison needs gensim. Install it with: pip install gensim") from None
    names = [str(i) for i in range(tree.nodes)]
    began = time.process_time()
    pairs = [(names[i], names[j]) for i, j in tree.closure.tolist()]
    model = poincare.PoincareModel(pairs, size=D, negative=10, burn_in=10, seed=seed)
    model.train(epochs=epochs)
    seconds = time.process_time() - began
    index = [model.kv.get_index(name) for name in names]
    x = torch.from_numpy(model.kv.vectors[index]).double()
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(1e-12, 1 - 1e-12)
    z = 2 * torch.atanh(norm) * x / norm
    ball = PoincareBall(1.0)
    i, j = tree.closure.T
    within = float(ball.dist(z[i], z[j]).quantile(0.9))
    radius = torch.linalg.vector_norm(z, dim=-1)

    def near(nodes: Tensor) -> Tensor:
        return ball.cdist(z[nodes], z) <= within

    def inward(nodes: Tensor) -> Tensor:  # the nearest node that is nearer to the origin: gensim's own idea of a parent
        return torch.where(radius < radius[nodes].unsqueeze(1), ball.cdist(z[nodes], z), torch.inf).argmin(1)

    found = figures(tree, z, ball, torch.zeros(tree.nodes).double(), near, inward)
    return found | {"cpu_minutes": seconds / 60, "epochs": epochs}


def settings(seeds: int) -> list[Setting]:
    """Every run: small taxonomies first. The cones are not trained, so that epochs mean nothing to them."""
    return [
        Setting(part=part, model=model, seed=seed) | ({} if model in _UNTRAINED else {"epochs": epochs[model]})
        for part, epochs in (("mammals", _EPOCHS), ("google", _EPOCHS), ("nouns", _LARGE))
        for model in MODELS
        for seed in range(1 if model == "rule" else seeds)
    ]


def table() -> str:
    """The table, from what has been run."""
    kinds: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in results(STUDY):
        found = record["result"] | ({"peak": record["peak"]} if "peak" in record else {})
        kinds.setdefault((record["setting"]["part"], record["setting"]["model"]), []).append(found)
    columns = ("map", "mean_rank", "map_by_distance", "radius_depth", "precision", "recall", "parent_hit")
    lines = [
        "| taxonomy | embedding, d = 5 | MAP | mean rank | MAP by distance | radius–depth | precision | recall "
        "| parent first | CPU minutes | peak, GiB | seeds |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for part in ("mammals", "google", "nouns"):
        for model, title in MODELS.items():
            runs = kinds.get((part, model), [])
            if not runs:
                continue
            shown = [
                f"{interval(r[name] for r in runs)[0]:.{1 if name == 'mean_rank' else 3}f}" if name in runs[0] else ""
                for name in columns
            ]
            minutes = interval(r["cpu_minutes"] for r in runs)[0]
            peaks = [run["peak"] for run in runs if "peak" in run]
            memory = f"{max(peaks):.1f}" if peaks else ""
            lines.append(f"| {part} | {title} | {' | '.join(shown)} | {minutes:.1f} | {memory} | {len(runs)} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the table."""
    options = arguments(__doc__, 3)
    carry_out(STUDY, settings(options.seeds), run, options.workers)
    print(table())


if __name__ == "__main__":
    main()
