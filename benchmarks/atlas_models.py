"""The models that `benchmarks.atlas` compares: horoball, its flat twin, and what biologists take instead.

All are told the batches. SCVI is trained until it stops by itself, at most 400 epochs, and its encoder is told the
batch as horoball's is; scANVI goes on from it with the types of half of the cells, which no other model is given.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple, cast

import numpy as np
import torch

import horoball as hb
from benchmarks.cell_models import of_column, quiet_scvi
from horoball.geometry import PoincareBall
from horoball.tables.anndata import cell_table
from horoball.tables.geodesics import count_axes
from horoball.tables.table import ArrayTable

__all__ = ["MODELS", "TRAINED", "Placed", "available"]

AXES = 50
MOST = 400  # epochs of SCVI at most, its default for 10,000 cells
_NEEDS = {"SCVI": "scvi", "scANVI": "scvi", "Harmony": "harmonypy"}


class Placed(NamedTuple):
    """Where a model puts the cells."""

    z: torch.Tensor  # in the tangent chart
    ball: PoincareBall
    epochs: int = 0
    fitted: Any = None
    before: float = 0.0  # CPU seconds of a model that it starts from, if another run trained that


def horoball(c: float) -> Callable[..., Placed]:
    def place(cells: Any, d: int, epochs: int | None, seed: int) -> Placed:
        options: dict[str, Any] = {} if epochs is None else {"max_epochs": epochs}
        options |= {"batch_key": "batch", "n_components": d, "c": c, "random_state": seed, "n_neighbors": None}
        fitted = hb.cells.fit(cells, verbose=False, **options)
        z = fitted.ball.from_ball(torch.from_numpy(cells.obsm["X_poincare"]))
        return Placed(z, fitted.ball, len(fitted.history), fitted)

    return place


def main_axes(cells: Any) -> np.ndarray:
    return np.ascontiguousarray(count_axes(cast(ArrayTable, cell_table(cells)), AXES), np.float64)


def centered(cells: Any, d: int, epochs: int | None, seed: int) -> Placed:
    """The main axes of the logarithms, less the mean of each batch."""
    axes, batch = main_axes(cells), of_column(cells, "batch")
    for name in set(batch):
        axes[batch == name] -= axes[batch == name].mean(0)
    return Placed(torch.from_numpy(np.ascontiguousarray(axes[:, :d])), PoincareBall(0.0))


def harmony(theta: float) -> Callable[..., Placed]:
    """Harmony (Korsunsky et al., 2019) on the main axes; its own theta is 2, with which it may stop early."""

    def place(cells: Any, d: int, epochs: int | None, seed: int) -> Placed:
        from harmonypy import run_harmony

        made = run_harmony(main_axes(cells), cells.obs, "batch", theta=theta, random_state=seed, verbose=False)
        axes = np.asarray(made.Z_corr)
        axes = axes if len(axes) == cells.n_obs else axes.T  # versions differ
        return Placed(torch.from_numpy(np.ascontiguousarray(axes[:, :d], np.float64)), PoincareBall(0.0))

    return place


class Plain(NamedTuple):
    """A trained SCVI, kept for scANVI of the same cells."""

    cells: Any
    asked: tuple[int, int | None, int]
    model: Any
    cpu: float


_last: list[Plain] = []


def _scvi(cells: Any, d: int, epochs: int | None, seed: int) -> Plain:
    library, quiet = quiet_scvi(seed)
    began = time.process_time()
    library.model.SCVI.setup_anndata(cells, batch_key="batch")
    model = library.model.SCVI(cells, n_latent=d, gene_likelihood="nb", encode_covariates=True)
    quiet |= {"accelerator": "cpu"}
    model.train(max_epochs=MOST if epochs is None else epochs, early_stopping=True, **quiet)
    _last[:] = [Plain(cells, (d, epochs, seed), model, time.process_time() - began)]
    return _last[0]


def _latent(model: Any, before: float = 0.0) -> Placed:
    z = torch.from_numpy(model.get_latent_representation()).double()
    return Placed(z, PoincareBall(0.0), int(model.trainer.current_epoch), before=before)


def scvi(cells: Any, d: int, epochs: int | None, seed: int) -> Placed:
    return _latent(_scvi(cells, d, epochs, seed).model)


def scanvi(cells: Any, d: int, epochs: int | None, seed: int) -> Placed:
    kept = [one for one in _last if one.cells is cells and one.asked == (d, epochs, seed)]
    plain = kept[0] if kept else _scvi(cells, d, epochs, seed)
    known = np.random.default_rng(seed).random(cells.n_obs) < 0.5
    cells.obs["label"] = np.where(known, of_column(cells, "type"), "unlabeled")
    library, quiet = quiet_scvi(seed)
    model = library.model.SCANVI.from_scvi_model(plain.model, "unlabeled", labels_key="label", adata=cells)
    model.train(max_epochs=epochs, **quiet, accelerator="cpu")
    return _latent(model, plain.cpu if kept else 0.0)


MODELS: dict[str, Callable[..., Placed]] = {
    "horoball": horoball(1.0),
    "horoball, c = 0": horoball(0.0),
    "SCVI": scvi,
    "scANVI, half of the types": scanvi,
    "Harmony": harmony(2.0),
    "Harmony, theta = 4": harmony(4.0),
    "batch-centered axes": centered,
}

TRAINED = tuple(MODELS)[:4]  # others have no epochs


def available(name: str) -> bool:
    needed = _NEEDS.get(name.partition(",")[0])
    return needed is None or find_spec(needed) is not None
