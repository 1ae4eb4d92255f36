"""Cells of two simulators beside SCVI and ComBat: `python -m benchmarks.cells [--quick]`.

Every model with its defaults, one thread, CPU seconds. Three batches of uneven composition. Needs scvi-tools, which is
left out if it is not there: `pip install scvi-tools==1.4.2` beside the torch that is there.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import rankdata, spearmanr

import horoball as hb
from benchmarks.table import markdown
from horoball.cells.graph import nearest
from horoball.manifolds import PoincareBall
from horoball.manifolds.projection import frechet_mean

NEIGHBORS = 30
PAIRS = (("A1", "A2"), ("B1x", "B1y"), ("A3", "B2"))  # types whose genes are compared
CHANGE = 0.25  # log₂-fold change that counts, as in scvi-tools


class Data(NamedTuple):
    """Cells with obs type, time and batch, the root's type, and the true shares of genes if they are known."""

    cells: Any
    root: str
    shares: np.ndarray | None


class Fitted(NamedTuple):
    """What a model makes of cells."""

    z: torch.Tensor  # in the tangent chart
    ball: PoincareBall
    expression: Callable[[], np.ndarray] | None = None  # without the batch
    changed: Callable[[str, str], np.ndarray] | None = None  # probability that each gene differs
    time: np.ndarray | None = None  # pseudotime, if it is not the distance from the root


def data(simulator: str, cells: int, genes: int, seed: int) -> Data:
    if simulator == "splatter":
        from tests.cells.splatter import splatter

        truth = splatter(cells, genes, 3, batch_scale=0.5, uneven=0.4, seed=seed)
        return Data(truth.cells, "stem", truth.shares)
    made = hb.cells.simulate(depth=3, cells=cells, genes=genes, batches=3, seed=seed)
    made.obs["type"], made.obs["time"] = made.obs["branch"], made.obs["depth"]
    return Data(made, "0", None)


def horoball(c: float) -> Callable[..., Fitted]:
    def fit(given: Data, d: int, epochs: int | None, seed: int) -> Fitted:
        options: dict[str, Any] = {} if epochs is None else {"max_epochs": epochs}
        options |= {"batch_key": "batch", "n_components": d, "c": c, "n_neighbors": None, "random_state": seed}
        model = hb.cells.fit(given.cells, verbose=False, **options)
        z = model.ball.from_ball(torch.from_numpy(given.cells.obsm["X_poincare"]))
        genes = list(given.cells.var_names)

        def changed(one: str, other: str) -> np.ndarray:
            table = model.differential_expression(given.cells, "type", one, other)
            return table.loc[genes, "proba_de"].to_numpy()

        return Fitted(z, model.ball, lambda: model.normalized_expression(given.cells, batch="all").to_numpy(), changed)

    return fit


def scvi(given: Data, d: int, epochs: int | None, seed: int) -> Fitted:
    import scvi as library

    library.settings.seed = seed
    library.settings.verbosity = logging.ERROR
    cells = given.cells
    library.model.SCVI.setup_anndata(cells, layer="counts", batch_key="batch")
    model = library.model.SCVI(cells, n_latent=d, gene_likelihood="nb")
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    model.train(max_epochs=epochs, accelerator="cpu", early_stopping=epochs is None, **quiet)
    z = torch.from_numpy(model.get_latent_representation()).double()
    genes, batches = list(cells.var_names), sorted(set(cells.obs["batch"]))

    def changed(one: str, other: str) -> np.ndarray:
        options = {"mode": "change", "delta": CHANGE, "batch_correction": True, "silent": True}
        table = model.differential_expression(groupby="type", group1=one, group2=other, **options)
        return table.loc[genes, "proba_de"].to_numpy()

    def expression() -> np.ndarray:
        return np.asarray(model.get_normalized_expression(n_samples=10, transform_batch=batches))

    return Fitted(z, PoincareBall(0.0), expression, changed)


def combat(given: Data, d: int, epochs: int | None, seed: int) -> Fitted:
    """ComBat, main axes, and scanpy's diffusion pseudotime."""
    import scanpy as sc

    del epochs
    cells = given.cells.copy()
    cells.X = cells.layers["counts"].toarray()
    sc.pp.normalize_total(cells)
    sc.pp.log1p(cells)
    sc.pp.combat(cells, "batch")
    expression = np.maximum(np.expm1(np.asarray(cells.X)), 0.0)
    sc.pp.pca(cells, n_comps=max(d, 10), random_state=seed)
    z = torch.from_numpy(np.ascontiguousarray(cells.obsm["X_pca"][:, :d], np.float64))
    sc.pp.neighbors(cells, use_rep="X_pca", random_state=seed)
    ball = PoincareBall(0.0)
    members = torch.from_numpy(_of(cells, "type") == given.root)
    center = frechet_mean(z[members], ball)
    cells.uns["iroot"] = int(torch.where(members, ball.dist(center.expand_as(z), z), torch.inf).argmin())
    sc.tl.diffmap(cells)
    sc.tl.dpt(cells)
    reached = np.nan_to_num(np.asarray(cells.obs["dpt_pseudotime"]), posinf=1.0)
    return Fitted(z, ball, lambda: expression, None, reached)


MODELS: dict[str, Callable[..., Fitted]] = {
    "horoball": horoball(1.0),
    "horoball, c = 0": horoball(0.0),
    "SCVI": scvi,
    "ComBat, PCA, dpt": combat,
}


def judged(given: Data, found: Fitted) -> list[float]:
    """Excess of a cell's batch among its neighbors, share of its type, pseudotime, denoised expression, genes."""
    batch, kind = _of(given.cells, "batch"), _of(given.cells, "type")
    index, _ = nearest(found.z, found.ball, NEIGHBORS)
    chance = np.mean([(batch[kind == k] == b).mean() for b, k in zip(batch, kind, strict=True)])
    figures = [float((batch[index] == batch[:, None]).mean() - chance), float((kind[index] == kind[:, None]).mean())]
    root = frechet_mean(found.z[torch.from_numpy(kind == given.root)], found.ball)
    reached = found.ball.dist(root.expand_as(found.z), found.z).numpy() if found.time is None else found.time
    figures.append(float(spearmanr(reached, given.cells.obs["time"]).statistic))
    if given.shares is None:
        return [*figures, np.nan, np.nan]
    figures.append(np.nan if found.expression is None else _correlation(found.expression(), given.shares))
    if found.changed is None:
        return [*figures, np.nan]
    areas = []
    for one, other in PAIRS:
        means = [np.log2(given.shares[kind == name].mean(0)) for name in (one, other)]
        areas.append(area(found.changed(one, other), np.abs(means[0] - means[1]) >= CHANGE))
    return [*figures, float(np.mean(areas))]


def _correlation(found: np.ndarray, shares: np.ndarray) -> float:
    """Mean over genes of the correlation with the true shares."""
    pairs = [np.corrcoef(a, b)[0, 1] for a, b in zip(found.T, shares.T, strict=True) if a.std() > 0]
    return float(np.mean(pairs))


def area(score: np.ndarray, positive: np.ndarray) -> float:
    """Area under the receiver operating characteristic."""
    rank, n = rankdata(score), int(positive.sum())
    return float((rank[positive].sum() - n * (n + 1) / 2) / (n * (len(score) - n)))


def _of(cells: Any, column: str) -> np.ndarray:
    return np.asarray(cells.obs[column].astype(str))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few cells, one epoch, without SCVI")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=None, help="of all models; the default of each if not given")
    parser.add_argument("--cells", type=int, default=1500)
    parser.add_argument("--genes", type=int, default=500)
    parser.add_argument("--simulators", nargs="+", default=["splatter", "tree"])
    parser.add_argument("--dimensions", nargs="+", type=int, default=[2, 10])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    options = parser.parse_args(arguments)
    if options.quick:
        options.seeds, options.epochs, options.cells, options.genes, options.dimensions = 1, 1, 200, 60, [2]
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of scvi-tools' packages
    names = [name for name in options.models if name != "SCVI" or (not options.quick and find_spec("scvi"))]
    titles = ["data", "d", "model", "batch, excess", "same type", "pseudotime", "denoised", "genes, AUC", "CPU s"]
    lines = []
    for simulator in options.simulators:
        for d in options.dimensions:
            for name in names:
                figures = []
                for seed in range(options.seeds):
                    given = data(simulator, options.cells, options.genes, seed)
                    start = time.process_time()
                    found = MODELS[name](given, d, options.epochs, seed)
                    seconds = time.process_time() - start
                    figures.append([*judged(given, found), seconds])
                mean, spread = np.mean(figures, 0), np.std(figures, 0)
                several = options.seeds > 1
                shown = [f"{m:.3f}" + f" ± {s:.3f}" * several for m, s in zip(mean[:5], spread[:5], strict=True)]
                shown = ["" if text.startswith("nan") else text for text in shown]
                lines.append([simulator, str(d), name, *shown, f"{mean[5]:.0f}"])
                print(*lines[-1], sep=" | ", file=sys.stderr, flush=True)
    print(markdown(titles, lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
