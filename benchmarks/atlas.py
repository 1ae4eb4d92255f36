"""Maps of many cells: `python -m benchmarks.atlas [--quick]`, then `--render`.

Cells of `benchmarks.lineage_counts`, in three batches. Is any row special? *landmarks* is the share of the ten nearest
cells of a landmark that are landmarks too, where chance is the share of landmarks among all cells. Beside the map stand
the models of `benchmarks.atlas_models`; those whose package is not there are left out, and so are the metrics of scIB:
`pip install torch==2.13.0 scvi-tools scib-metrics harmonypy` has both. Every run is a line of `results/atlas.jsonl`;
runs that are there are passed over. CPU seconds of one thread.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

from benchmarks.atlas_models import MODELS, TRAINED, available
from benchmarks.cell_models import of_column
from benchmarks.cell_scores import SCIB, scib
from benchmarks.cells import figure, keep, known, stored
from benchmarks.lineage_counts import genome, lineage_counts
from benchmarks.table import markdown
from horoball.cells.anndata import nearest
from horoball.geometry import PoincareBall
from horoball.geometry.coordinates import frechet_mean
from horoball.tables.anndata import cell_table
from horoball.tables.table import held_out
from horoball.vae.layout import surveyed

RESULTS = Path(__file__).parent / "results" / "atlas.jsonl"
SCORES = ("landmarks", "chance", "same_type", "batch_excess", "pseudotime")
NEIGHBORS = 10


def judged(cells: Any, z: torch.Tensor, ball: PoincareBall, landmarks: np.ndarray | None) -> dict[str, float | None]:
    """The figures of a map."""
    batch, kind = of_column(cells, "batch"), of_column(cells, "type")
    near = np.asarray(nearest(z, ball, NEIGHBORS)[0])
    share = {(b, k): float((batch[kind == k] == b).mean()) for b in set(batch) for k in set(kind)}
    by_chance = np.mean([share[pair] for pair in zip(batch, kind, strict=True)])
    root = frechet_mean(z[torch.from_numpy(kind == "stem")], ball)
    figures: dict[str, float | None] = {
        "same_type": float((kind[near] == kind[:, None]).mean()),
        "batch_excess": float((batch[near] == batch[:, None]).mean() - by_chance),
        "pseudotime": float(spearmanr(ball.dist(root.expand_as(z), z), cells.obs["time"]).statistic),
        "landmarks": None,
        "chance": None,
    }
    if landmarks is not None:
        mark = np.zeros(len(batch), bool)
        mark[landmarks] = True
        figures |= {"landmarks": float(mark[near[mark]].mean()), "chance": float(mark.mean())}
    return figures


def run(cells: Any, d: int, epochs: int | None, seed: int, model: str) -> dict[str, Any]:
    start = time.process_time()
    placed = MODELS[model](cells, d, epochs, seed)
    cpu = time.process_time() - start + placed.before
    landmarks = None
    if placed.fitted is not None and cells.n_obs > 2500:
        config = placed.fitted.run.record.training
        if config.distance_weight > 0:
            inside = np.setdiff1d(np.arange(cells.n_obs), held_out(cells.n_obs, config.validation, config.seed))
            landmarks = surveyed(cell_table(cells, batch=["batch"]), candidates=inside, library=True).landmarks
    found: dict[str, Any] = {"epochs": placed.epochs, **judged(cells, placed.z, placed.ball, landmarks), "cpu": cpu}
    if find_spec("scib_metrics") and cells.n_obs >= 1000:
        found |= scib(placed.z, placed.ball, of_column(cells, "batch"), of_column(cells, "type"))
    return found


def render(lines: Sequence[dict[str, Any]]) -> str:
    rows: dict[tuple[int, int, int, str], list[dict[str, Any]]] = {}
    for line in lines:
        if line["what"] == "atlas":
            rows.setdefault((line["cells"], line["genes"], line["d"], line["model"]), []).append(line)
    made = []
    for (cells, genes, d, model), runs in sorted(
        rows.items(), key=lambda row: (*row[0][:3], list(MODELS).index(row[0][3]))
    ):
        shown = [figure([run.get(name) for run in runs]) for name in (*SCORES, *SCIB)]
        epochs, cpu = (figure([float(run[name]) for run in runs], 0).split(" ")[0] for name in ("epochs", "cpu"))
        made.append([f"{cells:,} × {genes:,}", str(d), model, str(len(runs)), epochs, *shown, cpu])
    titles = ["cells × genes", "d", "model", "seeds", "epochs", "landmarks", "chance", "same type", "batch, excess"]
    return markdown([*titles, "pseudotime", "scIB, types", "scIB, batches", "scIB", "CPU s"], made)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few cells, one epoch")
    parser.add_argument("--render", action="store_true", help="print the table of the runs that are there")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--cells", nargs="+", type=int, default=[3000, 10_000])
    parser.add_argument("--genes", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=None, help="of the map; its own default if not given")
    parser.add_argument("--dimensions", nargs="+", type=int, default=[2])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    given = parser.parse_args(arguments)
    if given.quick:
        given.seeds, given.cells, given.genes, given.epochs = [0], [300], 60, 1
    torch.set_num_threads(1)
    for cells in [] if given.render else given.cells:
        for seed in given.seeds:
            made = lineage_counts(genome(given.genes, seed), cells, seed=seed)
            for d in given.dimensions:
                for model in filter(available, given.models):
                    setting = {"what": "atlas", "cells": cells, "genes": given.genes, "d": d, "model": model}
                    setting |= {"seed": seed, "asked": given.epochs if model in TRAINED else None}
                    if not known(given.results, setting):
                        keep(given.results, setting | run(made, d, given.epochs, seed, model))
    print(render(stored(given.results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
