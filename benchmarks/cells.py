"""Cells along a known tree in two batches, beside scvi-tools' SCVI: `python -m benchmarks.cells [--quick]`.

Same counts, same epochs, same law of counts (negative binomial), same sizes of layers and batches, one thread, models
in turns. Needs scvi-tools: `pip install scvi-tools==1.4.2` beside the torch that is there.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import spearmanr

import horoball as hb
from benchmarks.table import markdown
from horoball.cells.graph import nearest
from horoball.manifolds import PoincareBall
from horoball.projection import frechet_mean

NEIGHBOURS = 30
HIDDEN, BATCH = 128, 128


class Embedding(NamedTuple):
    """Where a model puts cells, in the tangent chart of its space, and how long it took to fit."""

    z: torch.Tensor
    ball: PoincareBall
    seconds: float


def ours(
    c: float, distance_weight: float | str, posterior: str = "wrapped"
) -> Callable[[Any, int, int, int], Embedding]:
    def fit(cells: Any, d: int, epochs: int, seed: int) -> Embedding:
        start = time.perf_counter()
        model = hb.cells.fit(
            cells,
            batch_key="batch",
            n_components=d,
            c=c,
            posterior=posterior,
            hidden=(HIDDEN,),
            distance_weight=distance_weight,
            max_epochs=epochs,
            batch_size=BATCH,
            patience=0,
            n_neighbors=None,
            random_state=seed,
        )
        seconds = time.perf_counter() - start
        return Embedding(model.ball.from_ball(torch.from_numpy(cells.obsm["X_poincare"])), model.ball, seconds)

    return fit


def scvi(cells: Any, d: int, epochs: int, seed: int) -> Embedding:
    import scvi as library

    library.settings.seed = seed
    library.settings.verbosity = logging.ERROR
    start = time.perf_counter()
    library.model.SCVI.setup_anndata(cells, layer="counts", batch_key="batch")
    model = library.model.SCVI(cells, n_latent=d, n_hidden=HIDDEN, n_layers=1, gene_likelihood="nb")
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    model.train(max_epochs=epochs, batch_size=BATCH, accelerator="cpu", **quiet)
    z = torch.from_numpy(model.get_latent_representation()).double()
    return Embedding(z, PoincareBall(0.0), time.perf_counter() - start)


MODELS: dict[str, Callable[[Any, int, int, int], Embedding]] = {
    "horoball": ours(1.0, "auto"),
    "horoball, c = 0": ours(0.0, "auto"),
    "horoball, Riemannian": ours(1.0, "auto", "riemannian"),
    "horoball, no distances": ours(1.0, 0.0),
    "horoball, c = 0, no distances": ours(0.0, 0.0),
    "SCVI": scvi,
}


def judged(cells: Any, found: Embedding) -> list[float]:
    """Share of a cell's batch and of its branch among its neighbours, and pseudotime's rank correlation with depth."""
    index, _ = nearest(found.z, found.ball, NEIGHBOURS)
    same = [np.mean(values[index] == values[:, None]) for values in (_of(cells, "batch"), _of(cells, "branch"))]
    root = frechet_mean(found.z[_of(cells, "branch") == "0"], found.ball)
    distance = found.ball.dist(root.expand_as(found.z), found.z).numpy()
    return [*map(float, same), float(spearmanr(distance, cells.obs["depth"]).statistic)]


def _of(cells: Any, column: str) -> np.ndarray:
    return np.asarray(cells.obs[column].astype(str))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few cells, one epoch, without SCVI")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--cells", type=int, default=3000)
    options = parser.parse_args(arguments)
    if options.quick:
        options.seeds, options.epochs, options.cells = 1, 1, 200
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of scvi-tools' packages
    names = [name for name in MODELS if name != "SCVI" or not options.quick]
    reference, lines = "horoball" if options.quick else "SCVI", []
    for d in (2, 10):
        figures: dict[str, list[list[float]]] = {name: [] for name in names}
        for seed in range(options.seeds):
            cells = hb.cells.simulate(depth=3, cells=options.cells, genes=500, seed=seed)
            for name in names if seed % 2 else names[::-1]:
                if d > 3 and name.endswith("no distances"):
                    continue  # they have none by themselves
                found = MODELS[name](cells, d, options.epochs, seed)
                figures[name].append([*judged(cells, found), found.seconds])
        for name, runs in figures.items():
            if runs:
                ratio = np.median([run[-1] / other[-1] for run, other in zip(runs, figures[reference], strict=True)])
                mean, std = np.mean(runs, 0), np.std(runs, 0)
                shown = [f"{m:.3f} ± {s:.3f}" for m, s in zip(mean[:3], std[:3], strict=True)]
                lines.append([str(d), name, *shown, f"{mean[3]:.1f}", f"{ratio:.2f}"])
    titles = ["d", "model", "same batch", "same branch", "pseudotime", "seconds", f"ratio to {reference}"]
    print(markdown(titles, lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
