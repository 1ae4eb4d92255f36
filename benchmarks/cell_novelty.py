"""How many known cells of a new batch are called novel: `python -m benchmarks.cell_novelty [--quick]`, then `--render`.

Cells of `benchmarks.lineage_counts`: a reference of four batches without one of eight types, or two, and ten queries of
a batch of their own, of other sizes and depths, with all types. *known* is the share of the cells of known types with a
novelty above 0.95, which should be 0.05; *power* that of the cells of the types that were left out; *AUC* that of the
novelty, and of the surprise. Each query is also mapped without the cells of those types: *known, no others*. Every
query is a line of `results/novelty.jsonl`. What novelty is was chosen with seeds 0 to 2, and is measured with others.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

import horoball as hb
from benchmarks.cell_models import of_column
from benchmarks.cells import figure, keep, known, stored
from benchmarks.lineage_counts import genome, lineage_counts
from benchmarks.table import markdown

QUERIES = (
    *((200, 2500), (300, 1200), (400, 5000), (500, 800), (600, 2500)),
    *((700, 6000), (800, 1500), (900, 3500), (1000, 1000), (1200, 2500)),
)
LEFT_OUT = {1: ("mega",), 2: ("mega", "mono")}
SCORES = ("known", "alone", "power", "auc", "auc_surprise")
RESULTS = Path(__file__).parent / "results" / "novelty.jsonl"


def queries(setting: dict[str, Any], count: int, results: Path) -> None:
    """Map the first so many queries, unless they are there."""
    todo = [number for number in range(count) if not known(results, setting | {"query": number})]
    if not todo:
        return
    d, seed, epochs, lacking = (setting[name] for name in ("d", "seed", "asked", "left_out"))
    made = genome(setting["genes"], seed)
    reference = lineage_counts(made, setting["cells"], ["a", "b", "c", "d"], seed=seed)
    reference = reference[~np.isin(of_column(reference, "type"), LEFT_OUT[lacking])].copy()
    options: dict[str, Any] = {"batch_key": "batch", "n_components": d, "n_neighbors": None, "random_state": seed}
    options |= {} if epochs is None else {"max_epochs": epochs, "learning_rate": 3e-3}
    model = hb.cells.fit(reference, verbose=False, **options)
    for number in todo:
        size, depth = QUERIES[number]
        query = lineage_counts(made, size, [f"query {number}"], seed=100 * (seed + 1) + number, depth=depth)
        new = np.isin(of_column(query, "type"), LEFT_OUT[lacking])
        alone = query[~new].copy()
        start = time.process_time()
        for cells in (query, alone):
            model.map_query(cells, reference, max_epochs=epochs and 25, n_neighbors=None, verbose=False)
        novelty, surprise = (query.obs[f"poincare_{name}"].to_numpy() for name in ("novelty", "surprise"))
        found = {"known": float((novelty[~new] > 0.95).mean()), "power": float((novelty[new] > 0.95).mean())}
        found |= {"alone": float((alone.obs["poincare_novelty"] > 0.95).mean())}
        found |= {"auc": float(roc_auc_score(new, novelty)), "auc_surprise": float(roc_auc_score(new, surprise))}
        found |= {"cpu": (time.process_time() - start) / 2}
        keep(results, setting | {"query": number, "size": size, "depth": depth} | found)


def render(lines: Sequence[dict[str, Any]]) -> str:
    rows: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for line in lines:
        rows.setdefault((line["cells"], line["genes"], line["left_out"], line["d"]), []).append(line)
    made = []
    for (cells, genes, lacking, d), runs in sorted(rows.items()):
        shown = [figure([run[name] for run in runs]) for name in SCORES]
        inside = [f"{min(of):.3f} to {max(of):.3f}" for of in ([run[name] for run in runs] for name in SCORES[:2])]
        counts = [str(len({run["seed"] for run in runs})), str(len(runs))]
        left = [f"{cells:,} × {genes:,}", str(lacking), str(d), *counts]
        made.append([*left, shown[0], inside[0], shown[1], inside[1], *shown[2:]])
    titles = ["reference", "types left out", "d", "seeds", "queries", "known above 0.95", "least to most"]
    return markdown([*titles, "known, no others", "least to most", "power", "AUC", "AUC of the surprise"], made)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few cells, one epoch, one query")
    parser.add_argument("--render", action="store_true", help="print the table of the queries that are there")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[3, 4, 5])
    parser.add_argument("--cells", type=int, default=1600)
    parser.add_argument("--genes", type=int, default=300)
    parser.add_argument("--epochs", type=int, default=60, help="of the reference, at a rate of 0.003; 0 for defaults")
    parser.add_argument("--queries", type=int, default=len(QUERIES))
    parser.add_argument("--dimensions", nargs="+", type=int, default=[2, 10])
    parser.add_argument("--left-out", nargs="+", type=int, choices=LEFT_OUT, default=[1, 2], help="number of types")
    given = parser.parse_args(arguments)
    if given.quick:
        given.cells, given.genes, given.epochs, given.queries, given.dimensions = 600, 60, 1, 1, [2]
        given.seeds, given.left_out = [3], [1]
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for seed, lacking, d in [] if given.render else product(given.seeds, given.left_out, given.dimensions):
        setting = {"cells": given.cells, "genes": given.genes, "d": d, "seed": seed, "asked": given.epochs or None}
        queries(setting | {"left_out": lacking}, given.queries, given.results)
    print(render(stored(given.results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
