"""Five sets of cells from a table to a picture: fit, map, neighbors, Leiden's clusters, pseudotime.

`python examples/cells.py FOLDER` writes a picture of each and prints what was found, beside the Euclidean twin.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import anndata
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import scanpy as sc
from scipy.sparse.csgraph import shortest_path
from scipy.stats import spearmanr
from sklearn.neighbors import kneighbors_graph

import horoball as hb

mpl.use("agg")
STEPS = 160  # of each of the four courses of krumsiek11


class Dataset(NamedTuple):
    """Cells, what is known of them, and where they begin."""

    cells: Any
    label: str
    root: str | int  # a group of the label, or the number of a cell
    time: np.ndarray | None = None  # where it is known; NaN for cells without
    courses: np.ndarray | None = None  # which way of development a cell is on, where that is known


def blood() -> Dataset:
    """Blood cells of a donor, 700 of them, scaled logarithms of 765 genes; bundled with scanpy."""
    return Dataset(sc.datasets.pbmc68k_reduced(), "bulk_labels", "CD34+")


def krumsiek() -> Dataset:
    """Four courses of myeloid differentiation, simulated by a network of eleven genes; bundled with scanpy."""
    cells = sc.datasets.krumsiek11()
    return Dataset(cells, "cell_type", 0, np.arange(640) % STEPS, np.arange(640) // STEPS)


def table(name: str) -> anndata.AnnData:
    """A table of the folder `cells` of HOROBALL_DATA, whose last column is the cells' type."""
    path = Path(os.environ.get("HOROBALL_DATA", "")) / "cells" / f"{name}.csv"
    if not path.exists():
        raise FileNotFoundError(f"there is no {path}. Set HOROBALL_DATA to the folder with a folder cells.")
    frame = pd.read_csv(path)
    kinds = frame.pop(frame.columns[-1]).astype("category")
    cells = anndata.AnnData(frame.astype(np.float32).set_axis(frame.index.astype(str)))
    cells.obs["kind"] = kinds.to_numpy()
    return cells


def olsson() -> Dataset:
    """Blood progenitors of mice, Olsson et al. 2016."""
    return Dataset(table("Olsson"), "kind", "HSPC-1")


def moignard() -> Dataset:
    """Blood development in mouse embryos of five stages, Moignard et al. 2015; the last two are of one day."""
    cells = table("Moignard2015")
    day = cells.obs["kind"].map({"PS": 7.0, "NP": 7.5, "HF": 7.75, "4SG": 8.25, "4SFG": 8.25}).to_numpy(float)
    return Dataset(cells, "kind", "PS", day)


def blobs() -> Dataset:
    """krumsiek11 among as many cells of noise."""
    cells = table("krumsiek11_blobs")
    step, course = np.full(cells.n_obs, np.nan), np.full(cells.n_obs, -1)
    step[:640], course[:640] = np.arange(640) % STEPS, np.arange(640) // STEPS
    return Dataset(cells, "kind", 0, step, course)


DATASETS: dict[str, Callable[[], Dataset]] = {
    "pbmc68k_reduced": blood,
    "krumsiek11": krumsiek,
    "Olsson": olsson,
    "Moignard2015": moignard,
    "krumsiek11_blobs": blobs,
}


def walk(data: Dataset, c: float = 1.0, max_epochs: int = 200) -> dict[str, str]:
    """All steps for one set of cells; the map, clusters and pseudotime are left in its AnnData."""
    cells, began = data.cells, time.perf_counter()
    hb.cells.fit(cells, layer=None, likelihood="normal", c=c, max_epochs=max_epochs)  # map and neighbors
    seconds = time.perf_counter() - began
    sc.tl.leiden(cells, neighbors_key="poincare", flavor="igraph", n_iterations=2, directed=False)
    groupby = data.label if isinstance(data.root, str) else None
    hb.cells.pseudotime(cells, data.root, groupby=groupby)

    kinds, found = cells.obs[data.label].astype(str).to_numpy(), cells.obs["poincare_pseudotime"].to_numpy()
    graph = cells.obsp["poincare_distances"].tocoo()
    return {
        "cells × genes": f"{cells.n_obs} × {cells.n_vars}",
        "same type among neighbors": f"{np.mean(kinds[graph.row] == kinds[graph.col]):.3f}",
        "clusters, of one type": f"{cells.obs['leiden'].nunique()}, {purity(kinds, cells.obs['leiden']):.3f}",
        "pseudotime with time": with_time(data, found, None),
        "within courses": with_time(data, found, data.courses) if data.courses is not None else "",
        "seconds": f"{seconds:.0f}",
    }


def purity(kinds: np.ndarray, clusters: Any) -> float:
    """The share of cells that have the type of most cells in their cluster."""
    return float(pd.crosstab(np.asarray(clusters), kinds).max(axis=1).sum() / len(kinds))


def with_time(data: Dataset, found: np.ndarray, courses: np.ndarray | None) -> str:
    """Rank correlation of pseudotime and time; of courses, the mean and the least."""
    if data.time is None:
        return ""
    known = ~np.isnan(data.time)
    if courses is None:
        return f"{spearmanr(found[known], data.time[known]).statistic:.3f}"
    each = [spearmanr(found[courses == k], data.time[courses == k]).statistic for k in np.unique(courses[known])]
    return f"{np.mean(each):.3f}, least {min(each):.3f}"


def others(data: Dataset) -> dict[str, str]:
    """What needs no model: shortest paths in the graph of 20 nearest cells, and scanpy's diffusion pseudotime."""
    cells = data.cells.copy()
    root = int(np.flatnonzero(cells.obs_names == cells.uns["poincare"]["root"])[0])
    paths = shortest_path(kneighbors_graph(cells.X, 20, mode="distance"), directed=False, indices=root)
    sc.pp.neighbors(cells, n_neighbors=20, use_rep="X")
    sc.tl.diffmap(cells)
    cells.uns["iroot"] = root
    sc.tl.dpt(cells)
    found = {"shortest paths": paths, "diffusion pseudotime": cells.obs["dpt_pseudotime"].to_numpy()}
    return {name: with_time(data, np.nan_to_num(values, posinf=1e9), None) for name, values in found.items()}


def draw(data: Dataset, path: Path) -> None:
    """The map by type and by pseudotime."""
    figure, axes = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    for ax, color in zip(axes, (data.label, "poincare_pseudotime"), strict=True):
        hb.cells.plot(data.cells, color, ax=ax, size=12)
    figure.savefig(path, dpi=80)
    plt.close(figure)


def main(folder: str = "cells", max_epochs: int | str = 200) -> None:
    """Walk through all that is there."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    rows = {}
    for name, load in DATASETS.items():
        try:
            data = load()
        except FileNotFoundError as missing:
            print(f"{name} is left out: {missing}")
            continue
        rows[name, "c = 0"] = walk(data, 0.0, int(max_epochs))
        rows[name, "c = 1"] = walk(data, 1.0, int(max_epochs))
        if data.time is not None:
            rows[name, "c = 1"] |= others(data)
        draw(data, Path(folder) / f"{name}.png")
    print(pd.DataFrame(rows).T.fillna("").to_string())


if __name__ == "__main__":
    main(*sys.argv[1:])
