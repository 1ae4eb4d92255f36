"""The models that `benchmarks.cells` compares: horoball, its Euclidean baseline, SCVI, and ComBat with scanpy."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch

import horoball as hb
from horoball.geometry import PoincareBall
from horoball.geometry.coordinates import frechet_mean

__all__ = ["CHANGE", "MODELS", "Data", "Fitted", "available", "corrected", "of_column", "quiet_scvi"]

CHANGE = 0.25  # log₂-fold change that counts, as in scvi-tools
MOST = 1000  # epochs of SCVI at most, where it stops by itself


class Data(NamedTuple):
    """Cells with obs type, time and batch, the root's type, and the true shares of genes if they are known."""

    cells: Any
    root: str
    shares: np.ndarray | None


class Fitted(NamedTuple):
    """What a model makes of cells."""

    z: torch.Tensor  # in the tangent chart
    ball: PoincareBall
    epochs: int
    expression: Callable[[], np.ndarray] | None = None  # without the batch
    changed: Callable[[str, str], np.ndarray] | None = None  # probability that each gene differs
    time: np.ndarray | None = None  # pseudotime, if it is not the distance from the root


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

        def expression() -> np.ndarray:
            return model.normalized_expression(given.cells, batch="all").to_numpy()

        return Fitted(z, model.ball, len(model.history), expression, changed)

    return fit


def scvi(*, converged: bool) -> Callable[..., Fitted]:
    """SCVI with its defaults; or told the batch in its encoder too, of counts without added zeros, until it stops."""

    def fit(given: Data, d: int, epochs: int | None, seed: int) -> Fitted:
        library, quiet = quiet_scvi(seed)
        cells = given.cells
        library.model.SCVI.setup_anndata(cells, layer="counts", batch_key="batch")
        tuned: dict[str, Any] = {"gene_likelihood": "nb", "encode_covariates": True} if converged else {}
        model = library.model.SCVI(cells, n_latent=d, **tuned)
        stop: dict[str, Any] = {"max_epochs": MOST, "early_stopping": True} if converged else {}
        if epochs is not None:
            stop = {"max_epochs": epochs}
        model.train(accelerator="cpu", **stop, **quiet)
        z = torch.from_numpy(model.get_latent_representation()).double()
        genes, batches = list(cells.var_names), sorted(set(cells.obs["batch"]))

        def changed(one: str, other: str) -> np.ndarray:
            options = {"mode": "change", "delta": CHANGE, "batch_correction": True, "silent": True}
            table = model.differential_expression(groupby="type", group1=one, group2=other, **options)
            return np.asarray(table.loc[genes, "proba_de"])

        def expression() -> np.ndarray:
            return np.asarray(model.get_normalized_expression(n_samples=10, transform_batch=batches))

        return Fitted(z, PoincareBall(0.0), int(model.trainer.current_epoch), expression, changed)

    return fit


def quiet_scvi(seed: int) -> tuple[Any, dict[str, Any]]:
    """scvi-tools with a seed, and options of `train` that print nothing."""
    import scvi as library

    library.settings.seed = seed
    library.settings.verbosity = logging.ERROR
    for name in ("lightning.pytorch", "pytorch_lightning"):
        logging.getLogger(name).setLevel(logging.ERROR)
    return library, {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}


def corrected(cells: Any, axes: int, seed: int) -> Any:
    """A copy with normalized logarithms in X, batches taken out by ComBat, main axes, and scanpy's neighbors."""
    import scanpy as sc

    cells = cells.copy()
    cells.X = cells.layers["counts"].toarray()
    sc.pp.normalize_total(cells)
    sc.pp.log1p(cells)
    sc.pp.combat(cells, "batch")
    sc.pp.pca(cells, n_comps=axes, random_state=seed)
    sc.pp.neighbors(cells, use_rep="X_pca", random_state=seed)
    return cells


def combat(given: Data, d: int, epochs: int | None, seed: int) -> Fitted:
    """ComBat, main axes, and scanpy's diffusion pseudotime."""
    import scanpy as sc

    del epochs
    cells = corrected(given.cells, max(d, 10), seed)
    expression = np.maximum(np.expm1(np.asarray(cells.X)), 0.0)
    z = torch.from_numpy(np.ascontiguousarray(cells.obsm["X_pca"][:, :d], np.float64))
    ball = PoincareBall(0.0)
    members = torch.from_numpy(of_column(cells, "type") == given.root)
    center = frechet_mean(z[members], ball)
    cells.uns["iroot"] = int(torch.where(members, ball.dist(center.expand_as(z), z), torch.inf).argmin())
    sc.tl.diffmap(cells)
    sc.tl.dpt(cells)
    reached = np.nan_to_num(np.asarray(cells.obs["dpt_pseudotime"]), posinf=1.0)
    return Fitted(z, ball, 0, lambda: expression, None, reached)


def of_column(cells: Any, column: str) -> np.ndarray:
    return np.asarray(cells.obs[column].astype(str))


MODELS: dict[str, Callable[..., Fitted]] = {
    "horoball": horoball(1.0),
    "horoball, c = 0": horoball(0.0),
    "SCVI": scvi(converged=False),
    "SCVI, converged": scvi(converged=True),
    "ComBat, PCA, dpt": combat,
}


def available(name: str) -> bool:
    return not name.startswith("SCVI") or find_spec("scvi") is not None
