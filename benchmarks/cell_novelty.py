"""How many known cells of a new batch are called novel: `python -m benchmarks.cell_novelty [--quick]`, then `--render`.

Cells of `benchmarks.lineage_counts`: a reference of four batches without one of eight types, and ten queries of a batch
of their own, of other sizes and depths, with all types. *known* is the share of the cells of known types with a novelty
above 0.95, which should be 0.05; *power* that of the cells of the type that was left out; *AUC* that of the surprise.
Every query is a line of `results/atlas.jsonl`.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

import horoball as hb
from benchmarks.atlas import RESULTS
from benchmarks.cell_models import of_column
from benchmarks.cells import figure, keep, known, stored
from benchmarks.lineage_counts import genome, lineage_counts
from benchmarks.table import markdown

QUERIES = (
    *((200, 2500), (300, 1200), (400, 5000), (500, 800), (600, 2500)),
    *((700, 6000), (800, 1500), (900, 3500), (1000, 1000), (1200, 2500)),
)
LEFT_OUT = "mega"
SCORES = ("known", "power", "auc", "surprise")


def queries(cells: int, genes: int, d: int, seed: int, count: int, results: Path, epochs: int | None) -> None:
    """Map the first so many queries, unless they are there."""
    setting = {"what": "novelty", "cells": cells, "genes": genes, "d": d, "seed": seed, "asked": epochs}
    todo = [number for number in range(count) if not known(results, setting | {"query": number})]
    if not todo:
        return
    made = genome(genes, seed)
    reference = lineage_counts(made, cells, ["a", "b", "c", "d"], seed=seed)
    reference = reference[of_column(reference, "type") != LEFT_OUT].copy()
    options: dict[str, Any] = {"batch_key": "batch", "n_components": d, "n_neighbors": None, "random_state": seed}
    options |= {} if epochs is None else {"max_epochs": epochs, "learning_rate": 3e-3}
    model = hb.cells.fit(reference, verbose=False, **options)
    for number in todo:
        size, depth = QUERIES[number]
        query = lineage_counts(made, size, [f"query {number}"], seed=100 * (seed + 1) + number, depth=depth)
        start = time.process_time()
        model.map_query(query, reference, max_epochs=epochs and 25, n_neighbors=None, verbose=False)
        new, above = of_column(query, "type") == LEFT_OUT, query.obs["poincare_novelty"].to_numpy() > 0.95
        surprise = query.obs["poincare_surprise"].to_numpy()
        found = {"known": float(above[~new].mean()), "power": float(above[new].mean())}
        found |= {"auc": float(roc_auc_score(new, surprise)), "surprise": float(np.median(surprise[~new]))}
        found |= {"cpu": time.process_time() - start}
        keep(results, setting | {"query": number, "size": size, "depth": depth} | found)


def render(lines: Sequence[dict[str, Any]]) -> str:
    rows: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for line in lines:
        if line["what"] == "novelty":
            rows.setdefault((line["cells"], line["genes"], line["d"]), []).append(line)
    made = []
    for (cells, genes, d), runs in sorted(rows.items()):
        shares = [run["known"] for run in runs]
        shown = [figure([run[name] for run in runs]) for name in SCORES]
        inside = f"{min(shares):.3f} to {max(shares):.3f}"
        made.append([f"{cells:,} × {genes:,}", str(d), str(len(runs)), shown[0], inside, *shown[1:]])
    titles = ["reference", "d", "queries", "known above 0.95", "least to most", "power", "AUC", "surprise"]
    return markdown(titles, made)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few cells, one epoch, one query")
    parser.add_argument("--render", action="store_true", help="print the table of the queries that are there")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--cells", type=int, default=1600)
    parser.add_argument("--genes", type=int, default=300)
    parser.add_argument("--epochs", type=int, default=60, help="of the reference, at a rate of 0.003; 0 for defaults")
    parser.add_argument("--queries", type=int, default=len(QUERIES))
    parser.add_argument("--dimensions", nargs="+", type=int, default=[2, 10])
    given = parser.parse_args(arguments)
    if given.quick:
        given.cells, given.genes, given.epochs, given.queries, given.dimensions = 600, 60, 1, 1, [2]
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for seed in [] if given.render else given.seeds:
        for d in given.dimensions:
            queries(given.cells, given.genes, d, seed, given.queries, given.results, given.epochs or None)
    print(render(stored(given.results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
