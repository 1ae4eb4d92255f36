"""Trees of classification tables, beside classical linkages: `python -m experiments.tree_purity`.

Dendrogram purity of the classes (higher is better), and Dasgupta's cost for the similarity ½(1 + cos) of standardized
rows (lower is better). No method sees the classes. Tables are those that studies of hierarchical clustering use; of
large ones, 2,000 rows are drawn.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import linkage
from sklearn import datasets
from sklearn.cluster import HDBSCAN

from experiments import runs
from horoball import PoincareVAE
from horoball.hierarchy.metrics import merges_purity
from horoball.trees import Tree
from horoball.trees import tree as tree_of

STUDY = "tree_purity"
TABLES = ("zoo", "iris", "glass", "wine", "digits", "spambase", "letter", "satellite")
LINKAGES = ("single", "complete", "average", "ward")
# The settings that results were measured with, which were the estimator's defaults then.
TRAINING: dict[str, Any] = {
    "locality": 0.0,
    "hidden": (200,),
    "max_epochs": 200,
    "batch_size": 128,
    "learning_rate": 1e-3,
    "patience": 20,
}
MODELS: dict[str, dict[str, Any]] = {
    "horoball, default map": {},
    "horoball, five dimensions": {"n_components": 5, "posterior": "wrapped"},
    "flat, five dimensions": {"n_components": 5, "posterior": "wrapped", "c": 0.0},
}
METHODS = (*MODELS, "columns without a model", *LINKAGES, "HDBSCAN")
_ROWS = 2_000


def rows_of(table: str) -> tuple[np.ndarray, np.ndarray]:
    """Standardized rows and their classes."""
    if table in ("iris", "wine", "digits"):
        found = getattr(datasets, f"load_{table}")()
        x, y = found.data, found.target
    else:
        path = Path(os.environ["HOROBALL_DATA"]) / "trees" / f"{table}.csv"
        text = np.genfromtxt(path, delimiter=",", dtype=str, skip_header=1)
        x, y = text[:, :-1].astype(float), text[:, -1]
    if len(x) > _ROWS:
        some = np.random.default_rng(0).choice(len(x), _ROWS, replace=False)
        x, y = x[some], y[some]
    x = x[:, x.std(0) > 0]
    return (x - x.mean(0)) / x.std(0), np.unique(y, return_inverse=True)[1]


def run(table: str, method: str, seed: int) -> dict[str, Any]:
    """Purity and cost of one tree."""
    x, classes = rows_of(table)
    about: dict[str, Any] = {}
    if method in MODELS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the last epoch may still improve
            model = PoincareVAE(likelihood="normal", random_state=seed, **TRAINING, **MODELS[method]).fit(x)
        found = model.tree(x, draws=0, random_state=seed)
        about = {"method": found.method, "source": found.source}
    elif method == "columns without a model":
        found = tree_of(x, draws=0, seed=seed)
        about = {"method": found.method, "source": found.source}
    elif method == "HDBSCAN":
        made = HDBSCAN(copy=True).fit(x)._single_linkage_tree_
        merges = np.column_stack([made["left_node"], made["right_node"]])
        found = Tree.from_merges(merges, made["value"])
    else:
        made = linkage(x, method)
        found = Tree.from_merges(made[:, :2], made[:, 2])
    return {
        "purity": merges_purity(found.to_linkage()[:, :2].astype(np.int64), classes),
        "cost": dasgupta(found, x),
    } | about


def dasgupta(tree: Tree, x: np.ndarray) -> float:
    """Dasgupta's cost: the sum over pairs of their similarity, times the leaves of the smallest branch with both.

    Example:
        >>> dasgupta(Tree.from_merges([[0, 1], [2, 3]], [1.0, 2.0]), np.eye(3))
        4.0
    """
    order, first, last = tree.spans
    unit = x[order] / np.maximum(np.linalg.norm(x[order], axis=1, keepdims=True), 1e-12)
    # Prefix sums of the similarities in the order of the leaves: a branch is a square on the diagonal.
    sums = np.zeros((len(x) + 1, len(x) + 1))
    sums[1:, 1:] = ((1 + unit @ unit.T) / 2).cumsum(0).cumsum(1)
    inside = sums[last, last] - sums[first, last] - sums[last, first] + sums[first, first]
    cost = 0.0
    for node in range(tree.leaves, tree.nodes):
        across = (inside[node] - inside[tree.children[node]].sum()) / 2
        cost += float(across * (last[node] - first[node]))
    return cost


def settings(seeds: int) -> list[runs.Setting]:
    """All runs; linkages have no seed."""
    trained = [*MODELS, "columns without a model"]
    return [
        {"table": table, "method": method, "seed": seed}
        for seed in range(seeds)
        for table in TABLES
        for method in (METHODS if seed == 0 else trained)
    ]


def table() -> str:
    """Purity and cost, means over seeds."""
    lines = ["| table | " + " | ".join(METHODS) + " |", "|---" * (len(METHODS) + 1) + "|"]
    for name in TABLES:
        cells = []
        for method in METHODS:
            of = [
                record["result"]
                for record in runs.results(STUDY)
                if (record["setting"]["table"], record["setting"]["method"]) == (name, method)
            ]
            mean = {key: float(np.mean([one[key] for one in of])) for key in ("purity", "cost")} if of else {}
            cells.append(f"{mean['purity']:.3f} / {mean['cost']:.4g}" if of else "not run")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the table."""
    asked = runs.arguments(__doc__, seeds=3)
    runs.carry_out(STUDY, settings(asked.seeds), run, asked.workers)
    print(table())


if __name__ == "__main__":
    main()
