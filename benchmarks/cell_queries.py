"""New cells on a map of simulated ones: `python -m benchmarks.cell_queries [--quick]`, then `--render`.

A fifth of the cells is a batch that the model has not seen, with a type that it has not seen either. Joint training
sees both. Beside scANVI, which is trained on the labels of the reference and places the new batch as scArches does.
Every run is a line of `results/cells.jsonl`.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

import horoball as hb
from benchmarks.cell_models import available, quiet_scvi
from benchmarks.cells import RESULTS, figure, keep, known, stored
from benchmarks.table import markdown
from horoball.geometry import PoincareBall
from horoball.neighbors import Index
from tests.cells.splatter import splatter

NEIGHBORS, UNKNOWN = 30, "B1y"
SCORES = ("joint", "mapped", "unknown_auc", "known_above", "labels", "calibration")
Figures = dict[str, float | None]


class Parts:
    """Cells, the reference without a batch and a type, and the new batch."""

    def __init__(self, cells: int, genes: int, seed: int) -> None:
        self.all = splatter(cells, genes, 5, batch_scale=0.3, uneven=0.2, seed=seed).cells
        self.new = np.asarray(self.all.obs["batch"]) == "batch4"
        self.unknown = np.asarray(self.all.obs["type"]) == UNKNOWN
        self.reference, self.query = self.all[~self.new & ~self.unknown].copy(), self.all[self.new].copy()
        self.known = ~self.unknown[self.new]

    def same_type(self, query: torch.Tensor, reference: torch.Tensor, ball: PoincareBall) -> float:
        """Share of the nearest cells of the reference that are of a query cell's type, for cells of known types."""
        _, near = Index(ball).add(reference).search(query[torch.from_numpy(self.known)], NEIGHBORS)
        mine, theirs = np.asarray(self.query.obs["type"])[self.known], np.asarray(self.reference.obs["type"])
        return float((theirs[near.numpy()] == mine[:, None]).mean())

    def labeled(self, probability: np.ndarray, names: Sequence[str]) -> Figures:
        """How often the most probable label is right, and the calibration error of its probability."""
        found = probability[self.known]
        right = np.array(names)[found.argmax(1)] == np.asarray(self.query.obs["type"])[self.known]
        return {"labels": float(right.mean()), "calibration": calibration(found.max(1), right)}


def calibration(probability: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error over ten bins of the probability."""
    bins = np.minimum((probability * 10).astype(int), 9)
    gaps = [abs(probability[bins == b].mean() - right[bins == b].mean()) * (bins == b).mean() for b in set(bins)]
    return float(np.sum(gaps))


def horoball(parts: Parts, d: int, epochs: int | None, seed: int) -> Figures:
    options: dict[str, Any] = {"batch_key": "batch", "n_components": d, "random_state": seed}
    options |= {"n_neighbors": None, "verbose": False} | ({} if epochs is None else {"max_epochs": epochs})

    def points(cells: Any, ball: PoincareBall) -> torch.Tensor:
        return ball.from_ball(torch.from_numpy(np.asarray(cells.obsm["X_poincare"])))

    joint = parts.all.copy()
    ball = hb.cells.fit(joint, **options).ball
    z = points(joint, ball)
    inside = torch.from_numpy(~parts.new & ~parts.unknown)
    jointly = parts.same_type(z[torch.from_numpy(parts.new)], z[inside], ball)
    model = hb.cells.fit(parts.reference, **options)
    model.map_query(parts.query, parts.reference, max_epochs=epochs or 100, n_neighbors=None, verbose=False)
    mapped = parts.same_type(points(parts.query, model.ball), points(parts.reference, model.ball), model.ball)
    found = hb.cells.transfer_labels(parts.query, parts.reference, "type", tree=None)
    surprise = parts.query.obs["poincare_surprise"].to_numpy()
    return {
        "joint": jointly,
        "mapped": mapped,
        "unknown_auc": float(roc_auc_score(~parts.known, surprise)),
        "known_above": float((parts.query.obs["poincare_novelty"][parts.known] > 0.95).mean()),
        **parts.labeled(found.to_numpy(), list(found.columns)),
    }


def scanvi(parts: Parts, d: int, epochs: int | None, seed: int) -> Figures:
    """scANVI on the labels of the reference. Novelty is 1 less the probability of the best label."""
    library, quiet = quiet_scvi(seed)
    cells: dict[str, Any] = {"accelerator": "cpu", **quiet}
    library.model.SCVI.setup_anndata(parts.reference, layer="counts", batch_key="batch")
    # As scArches' tutorials have it, for queries.
    options: dict[str, Any] = {"use_layer_norm": "both", "use_batch_norm": "none", "encode_covariates": True}
    plain = library.model.SCVI(parts.reference, n_latent=d, gene_likelihood="nb", **options)
    plain.train(max_epochs=epochs, **cells)
    parts.reference.obs["label"] = parts.reference.obs["type"].astype(str)
    model = library.model.SCANVI.from_scvi_model(plain, "unlabeled", labels_key="label", adata=parts.reference)
    model.train(max_epochs=epochs, **cells)
    query = parts.query.copy()
    query.obs["label"] = "unlabeled"
    placed = library.model.SCANVI.load_query_data(query, model)
    placed.train(max_epochs=epochs or 100, plan_kwargs={"weight_decay": 0.0}, **cells)
    z, zq = (torch.from_numpy(m.get_latent_representation()).double() for m in (model, placed))
    found = placed.predict(query, soft=True)
    figures = parts.labeled(found.to_numpy(), list(found.columns))
    novel = float(roc_auc_score(~parts.known, 1 - found.to_numpy().max(1)))
    nothing: Figures = {"joint": None, "known_above": None}
    return nothing | {"mapped": parts.same_type(zq, z, PoincareBall(0.0)), "unknown_auc": novel, **figures}


MODELS: dict[str, Callable[[Parts, int, int | None, int], Figures]] = {"horoball": horoball, "scANVI": scanvi}


def render(lines: Sequence[dict[str, Any]]) -> str:
    rows: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for line in lines:
        if line["what"] == "query":
            rows.setdefault((f"{line['cells']} × {line['genes']}", line["d"], line["model"]), []).append(line)
    made = []
    for key, runs in sorted(rows.items()):
        shown = [figure([run[name] for run in runs]) for name in SCORES]
        made.append([*map(str, key), str(len(runs)), *shown, figure([run["cpu"] for run in runs], 0).split(" ")[0]])
    titles = ["cells × genes", "d", "model", "seeds", "same type, joint", "mapped", "unknown, AUC", "known above 0.95"]
    return markdown([*titles, "labels", "calibration", "CPU s"], made)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few cells, one epoch, without scANVI")
    parser.add_argument("--render", action="store_true", help="print the table of the runs that are there")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--cells", type=int, default=1500)
    parser.add_argument("--genes", type=int, default=500)
    parser.add_argument("--dimensions", nargs="+", type=int, default=[2, 10])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    given = parser.parse_args(arguments)
    epochs = None
    if given.quick:
        given.seeds, given.cells, given.genes, given.dimensions, epochs = [0], 250, 60, [5], 1
        given.models = ["horoball"]
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of scvi-tools' packages
    for seed in [] if given.render else given.seeds:
        for d in given.dimensions:
            for name in given.models:
                size = {"cells": given.cells, "genes": given.genes}
                setting = {"what": "query", "data": "splatter", **size, "d": d, "model": name, "seed": seed}
                if known(given.results, setting) or not available(name.replace("scANVI", "SCVI")):
                    continue
                parts = Parts(given.cells, given.genes, seed)
                start = time.process_time()
                figures = MODELS[name](parts, d, epochs, seed)
                keep(given.results, setting | figures | {"cpu": time.process_time() - start})
    print(render(stored(given.results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
