"""Maps of many cells: `python -m benchmarks.atlas [--quick]`, then `--render`.

Cells of `benchmarks.lineage_counts`, in three batches. Is any row special? *landmarks* is the share of the ten nearest
cells of a landmark that are landmarks too, where chance is the share of landmarks among all cells. Beside the map: the
main axes of the logarithms less the mean of each batch, in as many dimensions and in 50. Every run is a line of
`results/atlas.jsonl`; runs that are there are passed over. CPU seconds of one thread.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from scipy.stats import spearmanr

import horoball as hb
from benchmarks.cell_models import of_column
from benchmarks.cells import figure, keep, known, stored
from benchmarks.lineage_counts import genome, lineage_counts
from benchmarks.table import markdown
from horoball.cells.anndata import nearest
from horoball.geometry import PoincareBall
from horoball.geometry.coordinates import frechet_mean
from horoball.tables.anndata import cell_table
from horoball.tables.geodesics import count_axes
from horoball.tables.table import ArrayTable, held_out
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


def centered(cells: Any) -> np.ndarray:
    """The 50 main axes of the logarithms, less the mean of each batch."""
    axes, batch = count_axes(cast(ArrayTable, cell_table(cells))), of_column(cells, "batch")
    for name in set(batch):
        axes[batch == name] -= axes[batch == name].mean(0)
    return np.ascontiguousarray(axes, np.float64)


def run(cells: Any, d: int, epochs: int | None, seed: int, model: str) -> dict[str, Any]:
    start = time.process_time()
    if model != "horoball":
        axes = torch.from_numpy(centered(cells)[:, : d if model.endswith("d axes") else None])
        return {"epochs": 0, **judged(cells, axes, PoincareBall(0.0), None), "cpu": time.process_time() - start}
    options: dict[str, Any] = {} if epochs is None else {"max_epochs": epochs}
    options |= {"batch_key": "batch", "n_components": d, "random_state": seed, "n_neighbors": None, "verbose": False}
    fitted = hb.cells.fit(cells, **options)
    cpu = time.process_time() - start
    config = fitted.run.record.training
    landmarks = None
    if config.distance_weight > 0 and cells.n_obs > 2500:
        inside = np.setdiff1d(np.arange(cells.n_obs), held_out(cells.n_obs, config.validation, config.seed))
        landmarks = surveyed(cell_table(cells, batch=["batch"]), candidates=inside, library=True).landmarks
    z = fitted.ball.from_ball(torch.from_numpy(cells.obsm["X_poincare"]))
    return {"epochs": len(fitted.history), **judged(cells, z, fitted.ball, landmarks), "cpu": cpu}


MODELS = ("horoball", "batch-centered, d axes", "batch-centered, 50 axes")


def render(lines: Sequence[dict[str, Any]]) -> str:
    rows: dict[tuple[int, int, int, str], list[dict[str, Any]]] = {}
    for line in lines:
        if line["what"] == "atlas":
            rows.setdefault((line["cells"], line["genes"], line["d"], line["model"]), []).append(line)
    made = []
    for (cells, genes, d, model), runs in sorted(rows.items(), key=lambda row: (*row[0][:3], MODELS.index(row[0][3]))):
        shown = [figure([run[name] for run in runs]) for name in SCORES]
        epochs, cpu = (figure([float(run[name]) for run in runs], 0).split(" ")[0] for name in ("epochs", "cpu"))
        made.append([f"{cells:,} × {genes:,}", str(d), model, str(len(runs)), epochs, *shown, cpu])
    titles = ["cells × genes", "d", "model", "seeds", "epochs", "landmarks", "chance", "same type", "batch, excess"]
    return markdown([*titles, "pseudotime", "CPU s"], made)


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
                for model in given.models:
                    setting = {"what": "atlas", "cells": cells, "genes": given.genes, "d": d, "model": model}
                    setting |= {"seed": seed, "asked": given.epochs if model == "horoball" else None}
                    if not known(given.results, setting):
                        keep(given.results, setting | run(made, d, given.epochs, seed, model))
    print(render(stored(given.results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
