"""An atlas that stays in its file: `python -m benchmarks.atlas_size --cells 100000 1000000`, then `--render`.

Cells of `benchmarks.lineage_counts` in an .h5ad file, three batches; a tenth as many cells of a fourth batch are mapped
onto them afterwards. CPU minutes of the fit, of the graph of neighbors, of the tree of types and of the query, the wall
minutes of all four, and the peak of memory, in a process of its own. Scores are of 20,000 random cells, as in
`benchmarks.atlas`; *novel* is the share of the new cells above 0.95. Every run is a line of `results/atlas.jsonl`.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import torch
from anndata.io import sparse_dataset, write_elem

import horoball as hb
from benchmarks.atlas import RESULTS, judged
from benchmarks.cells import keep, known, stored
from benchmarks.lineage_counts import genome, lineage_counts
from benchmarks.table import markdown

CHUNK = 50_000  # cells simulated at a time
JUDGED = 20_000
BRANCHES = (("mono", "neutro"), ("erythro", "mega"))  # with their progenitors, those of the lineage
STEPS = ("fit", "graph", "tree", "query")


def simulate(path: Path, cells: int, genes: int, seed: int, batches: Sequence[str]) -> None:
    """Write cells to a file, some at a time."""
    made, obs = genome(genes, seed), []
    for number, first in enumerate(range(0, cells, CHUNK)):
        part = lineage_counts(made, min(CHUNK, cells - first), batches, seed=1000 * (seed + 1) + number)
        obs.append(part.obs)
        if number == 0:
            part.write_h5ad(path)
        else:
            with h5py.File(path, "a") as file:
                sparse_dataset(file["X"]).append(part.X)
    with h5py.File(path, "a") as file:
        del file["obs"]
        write_elem(file, "obs", pd.concat(obs).astype({"batch": "category", "type": "category"}))


@contextmanager
def timed(found: dict[str, float], name: str) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    found[f"{name}_wall"], found[f"{name}_cpu"] = time.perf_counter() - wall, time.process_time() - cpu


def measure(folder: Path, seed: int, epochs: int | None) -> dict[str, Any]:
    """The steps on cells that lie in files."""
    found: dict[str, Any] = {}
    cells = anndata.read_h5ad(folder / "cells.h5ad", backed="r")
    options: dict[str, Any] = {} if epochs is None else {"max_epochs": epochs}
    with timed(found, "fit"):
        model = hb.cells.fit(cells, batch_key="batch", random_state=seed, n_neighbors=None, **options)
    with timed(found, "graph"):
        hb.cells.neighbors(cells)
    with timed(found, "tree"):
        tree = model.tree(cells, "type", root="stem")
    clades = {frozenset(tree.names[leaf] for leaf in tree.members(node)) for node in range(tree.leaves, tree.nodes)}
    found["branches"] = sum(any(set(pair) <= clade and len(clade) <= 3 for clade in clades) for pair in BRANCHES)
    found["epochs"] = len(model.history)
    some = np.sort(np.random.default_rng(seed).permutation(cells.n_obs)[:JUDGED])
    few = anndata.AnnData(obs=cells.obs.iloc[some])
    z = model.ball.from_ball(torch.from_numpy(np.asarray(cells.obsm["X_poincare"])[some]))
    found |= judged(few, z, model.ball, None)
    new = anndata.read_h5ad(folder / "new.h5ad", backed="r")
    with timed(found, "query"), warnings.catch_warnings(record=True):
        model.map_query(new, cells, n_neighbors=None, **options)
    found["novel"] = float((np.asarray(new.obs["poincare_novelty"]) > 0.95).mean())
    found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return found


def render(lines: Sequence[dict[str, Any]]) -> str:
    made = []
    for line in sorted((one for one in lines if one["what"] == "size"), key=lambda one: (one["cells"], one["seed"])):
        minutes = [f"{line[f'{step}_cpu'] / 60:.1f}" for step in STEPS]
        wall = f"{sum(line[f'{step}_wall'] for step in STEPS) / 60:.0f}"
        scores = [f"{line[name]:.3f}" for name in ("same_type", "batch_excess", "pseudotime", "novel")]
        size = f"{line['cells']:,} × {line['genes']:,}"
        found = [f"{line['peak']:.1f}", *scores, f"{line['branches']} of {len(BRANCHES)}"]
        made.append([size, str(line["epochs"]), *minutes, wall, *found])
    scores = ["same type", "batch, excess", "pseudotime", "novel", "branches"]
    return markdown(["cells × genes", "epochs", *STEPS, "wall minutes", "peak, GiB", *scores], made)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--render", action="store_true", help="print the table of the runs that are there")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--cells", nargs="+", type=int, default=[100_000])
    parser.add_argument("--genes", type=int, default=2000)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--epochs", type=int, default=None, help="of the fit; its own default if not given")
    parser.add_argument("--measure", type=Path, help="the folder of a run, in its own process")
    given = parser.parse_args(arguments)
    for cells in [] if given.render else given.cells:
        for seed in given.seeds:
            setting = {"what": "size", "cells": cells, "genes": given.genes, "seed": seed}
            setting |= {} if given.epochs is None else {"asked": given.epochs}
            if given.measure:
                keep(given.results, setting | measure(given.measure, seed, given.epochs))
            elif not known(given.results, setting):
                with TemporaryDirectory() as folder:
                    simulate(Path(folder, "cells.h5ad"), cells, given.genes, seed, "abc")
                    simulate(Path(folder, "new.h5ad"), cells // 10, given.genes, seed, "d")
                    own = ["--cells", cells, "--genes", given.genes, "--seeds", seed, "--results", given.results]
                    own += [] if given.epochs is None else ["--epochs", given.epochs]
                    command = [sys.executable, "-m", "benchmarks.atlas_size", *map(str, own), "--measure", folder]
                    subprocess.run(command, check=True)  # noqa: S603 - own
    if not given.measure:
        print(render(stored(given.results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
