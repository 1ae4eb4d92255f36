"""A model of cells: fitted to counts, kept without pickle, and used on cells that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from horoball.annotated import annotated
from horoball.cells.graph import expect_neighbourhood, neighbours
from horoball.cells.places import write
from horoball.data.cells import cell_table, is_cells
from horoball.data.table import Table
from horoball.manifolds import PoincareBall
from horoball.models.posterior import mean_scale
from horoball.training import choices
from horoball.training.config import TrainConfig
from horoball.training.likelihood import cell_fields
from horoball.training.progress import Bar, Silent
from horoball.training.run import Run, train
from horoball.training.stored import expect_whole

__all__ = ["CellModel", "fit"]


@dataclass(repr=False)
class CellModel:
    """A trained model of cells.

    Example:
        >>> import tempfile
        >>> from horoball.cells import simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> model = fit(cells, batch_key="batch", max_epochs=1, hidden=(8,))
        >>> folder = tempfile.mkdtemp()
        >>> model.save(folder)
        >>> again = CellModel.load(folder)
        >>> np.allclose(again.embed(cells[:10].copy(), n_neighbors=5), cells.obsm["X_poincare"][:10], atol=1e-6)
        True
        >>> again.batches
        {'batch': ['a', 'b']}
    """

    run: Run
    key: str = "poincare"  # names the places in AnnData that are written to

    def __repr__(self) -> str:
        given = f", given {', '.join(self.batches)}" if self.batches else ""
        d, rows = self.run.about["model"]["d"], self.run.about["rows"]
        return f"CellModel({rows:,} cells, {len(self.genes):,} genes{given}; d = {d}, c = {self.c:.4g})"

    @property
    def genes(self) -> list[str]:
        """Names of the genes, in the model's order."""
        return self.run.columns

    @property
    def batches(self) -> dict[str, list[str]]:
        """What the model was given: columns of obs, and the categories it has seen of each."""
        return dict(self.run.about.get("covariates", {}))

    @property
    def ball(self) -> PoincareBall:
        """The ball of the embedding."""
        return self.run.model.ball

    @property
    def c(self) -> float:
        """Minus the curvature of the ball."""
        return self.ball.c_value

    @property
    def history(self) -> list[dict[str, float]]:
        """Metrics of every epoch."""
        return self.run.history

    def embed(self, cells: Any, *, n_neighbors: int | None = 15) -> np.ndarray:
        """Write the map of some cells to their AnnData, and return it.

        Genes are found by their names; there may be more than the model knows, in any order. Cells are read from the
        layer that the model was fitted to, with its columns of batches.

        Args:
            cells: AnnData, in memory or backed.
            n_neighbors: Size of the neighbourhoods of the graph, see `neighbours`; None for no graph.

        Returns:
            Ball coordinates in float64, shape (cells, d), as they stand in obsm["X_poincare"].
        """
        if not is_cells(cells) or isinstance(cells, str | Path):
            raise TypeError(f"Cells come as AnnData, got {type(cells).__name__}. Read a file with anndata.read_h5ad.")
        return self._write(cells, self.run.read(cells), n_neighbors)

    @torch.no_grad()
    def _write(self, cells: Any, table: Table, n_neighbors: int | None) -> np.ndarray:
        means, scales = [], []
        for q in self.run.posteriors(table):
            means.append(q.mean)
            scales.append(mean_scale(q))
        write(cells, torch.cat(means), torch.cat(scales), self.ball, self.key)
        if n_neighbors is not None:
            neighbours(cells, n_neighbors, key=self.key)
        return np.asarray(cells.obsm[f"X_{self.key}"])

    def save(self, folder: str | Path) -> None:
        """Write the model to a folder, as safetensors and JSON."""
        self.run.save(Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model back from a folder that `save` or `horoball fit cells.h5ad` wrote."""
        run = Run.load(Path(folder))
        model = cls(run, run.about.get("key") or "poincare")
        with expect_whole(Path(folder), "does not hold a whole model of cells"):
            repr(model)  # tells what a record lacks now, not when it is first shown
        return model


def fit(
    cells: Any,
    *,
    layer: str | None = "auto",
    batch_key: str | Sequence[str] | None = None,
    n_components: int = 2,
    c: float | str = 1.0,
    posterior: str = "wrapped",
    likelihood: str = "negative_binomial",
    hidden: int | tuple[int, ...] = (128,),
    beta: float = 1.0,
    distance_weight: float | str = "auto",
    max_epochs: int = 200,
    batch_size: int = 128,
    learning_rate: float = 1e-3,
    validation_fraction: float = 0.1,
    patience: int = 20,
    n_neighbors: int | None = 15,
    key_added: str = "poincare",
    random_state: int | None = 0,
    folder: str | Path | None = None,
    resume: bool = False,
    verbose: bool = False,
) -> CellModel:
    """Fit a map to cells, and write it to their AnnData.

    Writes obsm["X_poincare"] (ball coordinates), obsm["X_poincare_std"] (posterior scale), and the graph of nearest
    cells in obsp and uns["poincare"], which scanpy takes as `neighbors_key="poincare"`.

    Args:
        cells: AnnData, in memory or backed by a file.
        layer: Name of the layer with the raw counts, None for X; "auto" is the layer "counts" if there is one,
            otherwise X.
        batch_key: Column of obs, or several, with what the map should not show: batches, donors, chemistries.
        n_components: Dimension of the ball.
        c: Minus the curvature; 0 for the Euclidean model, "learn" to learn it from 1.
        posterior: "wrapped", or "riemannian", which in many dimensions mixes batches only after many epochs.
        likelihood: "negative_binomial" for counts, which "auto" is too; "normal" for real numbers, such as logarithms.
        hidden: Sizes of the encoder's hidden layers, or the size of one; the decoder has them in reverse.
        beta: Weight of the divergence.
        distance_weight: Weight of the term that keeps distances along the data, within batches; "auto" switches it on
            for maps, of two or three dimensions.
        max_epochs: Most passes over the cells.
        batch_size: Cells of a step.
        learning_rate: Of Adam.
        validation_fraction: Part of the cells held out for early stopping.
        patience: Epochs without a better validation loss before stopping.
        n_neighbors: Size of the neighbourhoods of the graph, see `neighbours`; None for no graph.
        key_added: Names the places that are written to.
        random_state: Seed; the same seed gives the same map, and None another one each time.
        folder: Where the run is kept while it trains, with checkpoints; nothing is written without one.
        resume: Go on with the folder's run, if there is one.
        verbose: Whether a progress bar is shown.

    Example:
        >>> from horoball.cells import simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> model = fit(cells, batch_key="batch", max_epochs=2, hidden=(16,))
        >>> cells.obsm["X_poincare"].shape, model.batches
        ((60, 2), {'batch': ['a', 'b']})
    """
    annotated()
    if not is_cells(cells) or isinstance(cells, str | Path):
        raise TypeError(f"Cells come as AnnData, got {type(cells).__name__}. Read a file with anndata.read_h5ad.")
    expect_neighbourhood(n_neighbors)
    batch = [batch_key] if isinstance(batch_key, str) else list(batch_key or ())
    table = cell_table(cells, layer=layer, batch=batch)
    fields = cell_fields(likelihood)
    library = bool(fields.get("library"))
    config = TrainConfig(
        distance_weight=choices.distance_weight(distance_weight, table, n_components, library=library),
        max_epochs=max_epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        beta=beta,
        seed=int(np.random.default_rng().integers(1 << 31)) if random_state is None else random_state,
        validation=validation_fraction,
        patience=patience,
    )
    fields |= {"d": n_components, "posterior": posterior, "hidden": hidden, **choices.curvature_fields(c)}
    place, progress = None if folder is None else Path(folder), Bar() if verbose else Silent()
    run = train(table, fields, config, place, resume=resume, progress=progress, about={"key": key_added})
    model = CellModel(run, key_added)
    model._write(cells, table, n_neighbors)
    return model
