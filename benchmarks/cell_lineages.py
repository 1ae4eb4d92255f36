"""Lineages of cell types that are known, found again: `python -m benchmarks.cell_lineages [--quick]`, then `--render`.

A true branch is a type with all that come from it. Beside horoball's tree seen from the root: its tree of the latent
space, scanpy's dendrogram, and the spanning tree of PAGA, both after ComBat. These two have no support: 1 is found, 0
is missed. Every tree is a line of `results/cells.jsonl`.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

import horoball as hb
from benchmarks.cell_models import corrected
from benchmarks.cells import RESULTS, figure, keep, known, stored
from benchmarks.table import markdown
from horoball.trees import Tree

Support = dict[frozenset[str], float]  # of each branch


class Known(NamedTuple):
    """Cells whose lineage is known."""

    cells: Any
    groupby: str
    root: str
    branches: dict[str, frozenset[str]]
    options: dict[str, Any]  # of a fit


def true_branches(lineage: dict[str, str]) -> dict[str, frozenset[str]]:
    """Every type from which others come with all of them, except the root."""
    below: dict[str, set[str]] = {name: {name} for name in lineage}
    for name in reversed(list(lineage)):
        if lineage[name] != name:
            below[lineage[name]] |= below[name]
    return {name: frozenset(of) for name, of in below.items() if len(of) > 1 and lineage[name] != name}


def splatter(cells: int, genes: int, seed: int) -> Known:
    from tests.cells.splatter import LINEAGE
    from tests.cells.splatter import splatter as simulated

    made = simulated(cells, genes, 3, batch_scale=0.5, uneven=0.4, seed=seed).cells
    return Known(made, "type", "stem", true_branches(LINEAGE), {"batch_key": "batch"})


def tree(cells: int, genes: int, seed: int) -> Known:
    made = hb.cells.simulate(depth=3, cells=cells, genes=genes, batches=3, seed=seed)
    return Known(made, "branch", "0", true_branches(dict(made.uns["tree"])), {"batch_key": "batch"})


def krumsiek11(cells: int, genes: int, seed: int) -> Known:
    """Eleven genes of myeloid differentiation, bundled with scanpy; one data set, whatever the seed."""
    import scanpy as sc

    del cells, genes, seed
    made = sc.datasets.krumsiek11()
    made.obs_names_make_unique()
    branches = {"Ery, Mk": frozenset({"Ery", "Mk"}), "Mo, Neu": frozenset({"Mo", "Neu"})}
    return Known(made, "cell_type", "progenitor", branches, {"likelihood": "normal", "layer": None})


DATA: dict[str, Callable[[int, int, int], Known]] = {"splatter": splatter, "tree": tree, "krumsiek11": krumsiek11}


def held(found: Tree) -> Support:
    assert found.support is not None
    inner = range(found.leaves, found.nodes)
    return {frozenset(found.names[i] for i in found.members(node)): float(found.support[node]) for node in inner}


def expression(given: Known, draws: int, seed: int, epochs: int | None) -> Support:
    """Does not depend on the training of the model, which is one epoch."""
    del epochs
    options: dict[str, Any] = {"max_epochs": 1, "n_neighbors": None, "verbose": False, "n_components": 10}
    model = hb.cells.fit(given.cells, random_state=seed, **options, **given.options)
    return held(model.tree(given.cells, given.groupby, root=given.root, draws=draws, random_state=seed))


def latent(given: Known, draws: int, seed: int, epochs: int | None) -> Support:
    options: dict[str, Any] = {"n_neighbors": None, "verbose": False, "n_components": 10, "random_state": seed}
    options |= {} if epochs is None else {"max_epochs": epochs}
    model = hb.cells.fit(given.cells, **options, **given.options)
    asked: dict[str, Any] = {"root": given.root, "draws": draws, "random_state": seed}
    return held(model.tree(given.cells, given.groupby, source="latent", **asked))


def scanpy_cells(given: Known, seed: int) -> Any:
    import scanpy as sc

    if "batch" in given.cells.obs:
        return corrected(given.cells, 30, seed)
    cells = given.cells.copy()
    sc.pp.pca(cells, random_state=seed)
    sc.pp.neighbors(cells, use_rep="X_pca", random_state=seed)
    return cells


def dendrogram(given: Known, draws: int, seed: int, epochs: int | None) -> Support:
    import scanpy as sc

    del draws, epochs
    cells = scanpy_cells(given, seed)
    cells.obs[given.groupby] = cells.obs[given.groupby].astype("category")
    sc.tl.dendrogram(cells, given.groupby, use_rep="X_pca")
    names = list(cells.obs[given.groupby].cat.categories)
    sets = [frozenset({name}) for name in names]
    for one, other in cells.uns[f"dendrogram_{given.groupby}"]["linkage"][:, :2].astype(int):
        sets.append(sets[one] | sets[other])
    return dict.fromkeys(sets[len(names) :], 1.0)


def paga(given: Known, draws: int, seed: int, epochs: int | None) -> Support:
    import scanpy as sc
    from scipy.sparse.csgraph import breadth_first_order

    del draws, epochs
    cells = scanpy_cells(given, seed)
    cells.obs[given.groupby] = cells.obs[given.groupby].astype("category")
    sc.tl.paga(cells, given.groupby)
    names = list(cells.obs[given.groupby].cat.categories)
    spanning = cells.uns["paga"]["connectivities_tree"]
    order, above = breadth_first_order(spanning, names.index(given.root), directed=False)
    below = [{name} for name in names]
    for node in order[:0:-1]:
        below[above[node]] |= below[node]
    return dict.fromkeys([frozenset(of) for of in below], 1.0)


METHODS: dict[str, Callable[[Known, int, int, int | None], Support]] = {
    "horoball, expression": expression,
    "horoball, latent space": latent,
    "scanpy dendrogram": dendrogram,
    "PAGA": paga,
}


def contradicts(branch: frozenset[str], cells: Known) -> bool:
    """Whether a branch cannot be in the same tree as the true ones."""
    return any(branch & of and branch - of and of - branch for of in cells.branches.values())


def render(lines: Sequence[dict[str, Any]]) -> str:
    rows: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for line in lines:
        if line["what"] == "lineage":
            size = f"{line['cells']} × {line['genes']}"
            rows.setdefault((line["data"], size, line["model"]), []).append(line)
    made = []
    for key, runs in sorted(rows.items(), key=lambda row: (*row[0][:2], list(METHODS).index(row[0][2]))):
        supports = [value for run in runs for value in run["support"].values()]
        least = [min(run["support"].values()) for run in runs]
        count = f"{sum(value >= 0.7 for value in supports)} of {len(supports)}"
        made.append([*key, str(len(runs)), count, figure(supports, 2).split(" ")[0], f"{min(least):.2f}"])
        made[-1].append(str(sum(run["contradicting"] for run in runs)))
    titles = [
        "data",
        "cells × genes",
        "tree",
        "seeds",
        "true branches above 0.7",
        "mean support",
        "least",
        "wrong above 0.7",
    ]
    return markdown(titles, made)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few cells, one epoch")
    parser.add_argument("--render", action="store_true", help="print the table of the trees that are there")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--cells", type=int, default=1500)
    parser.add_argument("--genes", type=int, default=500)
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    given = parser.parse_args(arguments)
    epochs, draws = None, 100
    if given.quick:
        given.seeds, given.cells, given.genes, epochs, draws = [0], 250, 60, 1, 5
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for seed in [] if given.render else given.seeds:
        for name in given.data:
            for method in given.methods:
                cells = DATA[name](given.cells, given.genes, seed)
                size = {"cells": cells.cells.n_obs, "genes": cells.cells.n_vars}
                setting = {"what": "lineage", "data": name, **size, "model": method, "seed": seed}
                if known(given.results, setting):
                    continue
                start = time.process_time()
                found = METHODS[method](cells, draws, seed, epochs)
                cpu = time.process_time() - start
                support = {branch: round(found.get(of, 0.0), 2) for branch, of in cells.branches.items()}
                wrong = sum(value >= 0.7 and contradicts(of, cells) for of, value in found.items())
                keep(given.results, setting | {"support": support, "contradicting": wrong, "cpu": cpu})
    print(render(stored(given.results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
