"""Trees of tables whose tree is known, and what is found of it: `python -m experiments.tree_support`.

Beside the model's tree stand linkages and neighbor joining of the raw columns.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist, squareform

from experiments import runs
from experiments.known_trees import KINDS, Known, agreement
from horoball import PoincareVAE
from horoball.trees import Tree
from horoball.trees import tree as tree_of

STUDY = "tree_support"
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
    "horoball, five dimensions": {"n_components": 5, "posterior": "wrapped"},
    "horoball, flat, five dimensions": {"n_components": 5, "posterior": "wrapped", "c": 0.0},
    "horoball, the default map": {},
}
RAW = ("columns without a model", "average linkage", "Ward's linkage", "neighbor joining")
_DRAWS = 100


def run(kind: str, method: str, seed: int) -> dict[str, Any]:
    """One tree with its support, compared with the known one."""
    known = KINDS[kind](seed)
    if method in MODELS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the last epoch may still improve
            model = PoincareVAE(random_state=seed, **TRAINING, **MODELS[method]).fit(known.x)
        found = model.tree(known.x, draws=_DRAWS, n_jobs=1, random_state=seed)
    elif method == "columns without a model":
        found = tree_of(known.x, draws=_DRAWS, n_jobs=1, seed=seed)
    elif method == "neighbor joining":
        found = neighbor_joining(squareform(pdist(known.x)))
    else:
        found = _linked(known.x, "ward" if method.startswith("Ward") else "average")
    return _summary(found, known, unrooted=method == "neighbor joining")


def _summary(found: Tree, known: Known, *, unrooted: bool) -> dict[str, Any]:
    judged = agreement(found, known, unrooted=unrooted)
    result: dict[str, Any] = {"recall": judged.recall, "triplets": judged.triplets, "clades": len(known.clades)}
    result |= {"method": found.method, "source": found.source}
    return result


def _linked(x: np.ndarray, method: str) -> Tree:
    made = linkage(x, method)
    return Tree.from_merges(made[:, :2], made[:, 2])


def neighbor_joining(d: np.ndarray) -> Tree:
    """The tree of Saitou and Nei (1987), O(n³), with a root at its last merge; branch lengths are not kept.

    Example:
        >>> d = np.array([[0, 2, 7, 7], [2, 0, 7, 7], [7, 7, 0, 2], [7, 7, 2, 0]], float)
        >>> neighbor_joining(d).to_newick(digits=1)
        '(3:3,(2:2,(0:1,1:1):1):1);'
    """
    n = len(d)
    d, name = d.astype(np.float64).copy(), np.arange(n)
    merges = []
    for step in range(n - 1):
        m = len(d)
        if m == 2:
            merges.append((name[0], name[1]))
            break
        q = (m - 2) * d - d.sum(0) - d.sum(1)[:, None]
        np.fill_diagonal(q, np.inf)
        i, j = sorted(divmod(int(q.argmin()), m))
        merges.append((name[i], name[j]))
        d[i] = d[:, i] = (d[i] + d[j] - d[i, j]) / 2
        d[i, i] = 0
        keep = np.arange(m) != j
        d, name[i] = d[np.ix_(keep, keep)], n + step
        name = name[keep]
    height = np.zeros(n - 1)
    depth = np.zeros(2 * n - 1)
    for step, (a, b) in enumerate(merges):
        depth[n + step] = max(depth[a], depth[b]) + 1
        height[step] = depth[n + step]
    order = np.argsort(height, kind="stable")
    number = np.concatenate([np.arange(n), n + np.argsort(order)])
    return Tree.from_merges(number[np.array(merges)[order]], height[order])


def settings(seeds: int) -> list[runs.Setting]:
    """All runs."""
    return [
        {"kind": kind, "method": method, "seed": seed}
        for seed in range(seeds)
        for kind in KINDS
        for method in (*RAW, *MODELS)
    ]


def found_table() -> str:
    """Clade recall and triplets, means over seeds."""
    lines = ["| table | " + " | ".join((*MODELS, *RAW)) + " |", "|---" + "|---" * (len(MODELS) + len(RAW)) + "|"]
    for kind in KINDS:
        cells = []
        for method in (*MODELS, *RAW):
            of = _of(kind, method)
            recall, triplets = (np.mean([one[name] for one in of]) if of else np.nan for name in ("recall", "triplets"))
            cells.append(f"{recall:.3f} / {triplets:.3f}" if of else "not run")
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _of(kind: str, method: str) -> list[dict[str, Any]]:
    return [
        record["result"]
        for record in runs.results(STUDY)
        if (record["setting"]["kind"], record["setting"]["method"]) == (kind, method)
    ]


def main() -> None:
    """Run what is missing, and print the tables."""
    asked = runs.arguments(__doc__, seeds=3)
    runs.carry_out(STUDY, settings(asked.seeds), run, asked.workers)
    print(found_table())


if __name__ == "__main__":
    main()
