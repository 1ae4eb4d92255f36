"""New cells on a map, and trees of cell types, against a simulation: `python -m benchmarks.cell_queries [--quick]`.

A fifth of the cells is a batch that the model has not seen, with a type that it has not seen either. Joint training
sees both. The tree is that of all types, made from all batches.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import horoball as hb
from benchmarks.cells import area
from benchmarks.table import markdown
from horoball.cells.embedding_keys import ball_of, coordinates
from horoball.hierarchy.trees import Tree
from horoball.neighbors import Index
from tests.cells.splatter import LINEAGE, splatter

NEIGHBORS = 30


def same_type(query: Any, reference: Any) -> float:
    """Share of the nearest cells of the reference that are of a query cell's type."""
    index = Index(ball_of(reference)).add(coordinates(reference))
    _, near = index.search(coordinates(query), NEIGHBORS)
    mine, theirs = np.asarray(query.obs["type"]), np.asarray(reference.obs["type"])
    return float((theirs[near.numpy()] == mine[:, None]).mean())


def calibration(probability: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error over ten bins of the probability."""
    bins = np.minimum((probability * 10).astype(int), 9)
    gaps = [abs(probability[bins == b].mean() - right[bins == b].mean()) * (bins == b).mean() for b in set(bins)]
    return float(np.sum(gaps))


def queried(cells: int, genes: int, d: int, options: dict[str, Any], epochs: int, seed: int) -> list[float]:
    """Type neighbors of query cells by joint training and by mapping, novelty, labels and their calibration."""
    truth = splatter(cells, genes, 5, batch_scale=0.3, uneven=0.2, seed=seed).cells
    new = np.asarray(truth.obs["batch"]) == "batch4"
    unknown = np.asarray(truth.obs["type"]) == "B1y"
    joint, reference, query = truth.copy(), truth[~new & ~unknown].copy(), truth[new].copy()
    hb.cells.fit(joint, batch_key="batch", n_components=d, random_state=seed, **options)
    model = hb.cells.fit(reference, batch_key="batch", n_components=d, random_state=seed, **options)
    model.map_query(query, reference, max_epochs=epochs, n_neighbors=None, verbose=False)
    known = np.asarray(query.obs["type"]) != "B1y"
    mapped = same_type(query[known].copy(), reference)
    jointly = same_type(joint[new & ~unknown].copy(), joint[~new & ~unknown].copy())
    found = hb.cells.transfer_labels(query, reference, "type", tree=None).to_numpy()[known]
    names = sorted(set(reference.obs["type"]))
    right = np.array(names)[found.argmax(1)] == np.asarray(query.obs["type"])[known]
    surprise = query.obs["poincare_surprise"].to_numpy()
    flagged = float((query.obs["poincare_novelty"][known] > 0.95).mean())
    return [jointly, mapped, area(surprise, ~known), flagged, float(right.mean()), calibration(found.max(1), right)]


def true_branches(tree: Tree, lineage: dict[str, str] = LINEAGE) -> list[float]:
    """The support of every true branch: a type and all that come from it, if there are any. 0 where it is not found."""
    below: dict[str, set[str]] = {name: {name} for name in lineage}
    for name in reversed(list(lineage)):
        if lineage[name] != name:
            below[lineage[name]] |= below[name]
    clades = {frozenset(tree.names[i] for i in tree.members(node)): node for node in range(tree.leaves, tree.nodes)}
    wanted = [frozenset(names) for name, names in below.items() if len(names) > 1 and lineage[name] != name]
    assert tree.support is not None
    return [float(tree.support[clades[one]]) if one in clades else 0.0 for one in wanted]


def grown(cells: int, genes: int, d: int, options: dict[str, Any], draws: int, seed: int) -> list[float]:
    truth = splatter(cells, genes, 3, batch_scale=0.5, uneven=0.4, seed=seed).cells
    model = hb.cells.fit(truth, batch_key="batch", n_components=d, random_state=seed, **options)
    return true_branches(model.tree(truth, "type", root="stem", draws=draws, random_state=seed))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few cells, one epoch")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cells", type=int, default=1500)
    parser.add_argument("--genes", type=int, default=500)
    parser.add_argument("--dimensions", nargs="+", type=int, default=[2, 10])
    given = parser.parse_args(arguments)
    options: dict[str, Any] = {"n_neighbors": None, "verbose": False}
    epochs, draws = 100, 100
    if given.quick:
        given.seeds, given.cells, given.genes, given.dimensions, epochs, draws = 1, 250, 60, [5], 1, 2
        options["max_epochs"] = 1
    torch.set_num_threads(1)
    queries, trees = [], []
    for d in given.dimensions:
        for seed in range(given.seeds):
            figures = queried(given.cells, given.genes, d, options, epochs, seed)
            queries.append([str(d), str(seed), *(f"{value:.3f}" for value in figures)])
            print(*queries[-1], sep=" | ", file=sys.stderr, flush=True)
            support = grown(given.cells, given.genes, d, options, draws, seed) if d > 3 else []
            if support:
                trees.append([str(d), str(seed), *(f"{value:.2f}" for value in support)])
                print(*trees[-1], sep=" | ", file=sys.stderr, flush=True)
    titles = ["d", "seed", "same type, joint", "mapped", "unknown, AUC", "known above 0.95", "labels", "calibration"]
    print(markdown(titles, queries))
    inner = [name for name in LINEAGE if name in set(LINEAGE.values()) and LINEAGE[name] != name]
    print(markdown(["d", "seed", *(f"support of {name}" for name in inner)], trees))
    return 0


if __name__ == "__main__":
    sys.exit(main())
