"""A fitted model and its map: what is known of the fit, the embedding of cells, saving and loading."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from horoball.cells.embedding_keys import write
from horoball.cells.graph import neighbors
from horoball.data.cells.cell_table import is_cells
from horoball.data.tables.covariates import NUMBER
from horoball.data.tables.table import Table
from horoball.manifolds import PoincareBall
from horoball.training.table.run import Run

__all__ = ["CellMap"]


@dataclass(repr=False)
class CellMap:
    """A model of cells that embeds them; `CellModel` adds expression, trees and queries.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> fitted = CellMap(fit(cells, max_epochs=1, hidden=(8,)).run)
        >>> fitted.embed(cells, n_neighbors=None).shape, len(fitted.genes)
        ((60, 2), 30)
    """

    run: Run
    key: str = "poincare"  # of the embedding in AnnData

    def __repr__(self) -> str:
        names = self.run.record.covariates
        given = f", given {', '.join(names)}" if names else ""
        size = f"{self.run.record.rows:,} cells, {len(self.genes):,} genes{given}"
        return f"{type(self).__name__}({size}; d = {self.run.record.model.d}, c = {self.c:.4g})"

    @property
    def genes(self) -> list[str]:
        """Names of the genes, in the model's order."""
        return self.run.columns

    @property
    def batches(self) -> dict[str, list[str]]:
        """The batch keys of the fit, with the categories of each."""
        return {name: known for name, known in self.run.record.covariates.items() if known != [NUMBER]}

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
            n_neighbors: Size of the neighborhoods of the graph, see `neighbors`; None for no graph.

        Returns:
            Ball coordinates in float64, shape (cells, d), as they stand in obsm["X_poincare"].
        """
        if not is_cells(cells) or isinstance(cells, str | Path):
            raise TypeError(f"Cells come as AnnData, got {type(cells).__name__}. Read a file with anndata.read_h5ad.")
        return self.write(cells, self.run.read(cells), n_neighbors)

    @torch.no_grad()
    def write(self, cells: Any, table: Table, n_neighbors: int | None) -> np.ndarray:
        """Write the map of a table's rows to their AnnData, and return it; see `embed`."""
        means, scales = [], []
        for q in self.run.posteriors(table):
            means.append(q.mean.cpu())
            scales.append(q.mean_scale.cpu())
        write(cells, torch.cat(means), torch.cat(scales), PoincareBall(self.c), self.key)
        if n_neighbors is not None:
            neighbors(cells, n_neighbors, key=self.key)
        return np.asarray(cells.obsm[f"X_{self.key}"])

    def save(self, folder: str | Path) -> None:
        """Write the model to a folder, as safetensors and JSON."""
        self.run.save(Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model back from a folder that `save` or `horoball fit cells.h5ad` wrote."""
        run = Run.load(Path(folder))
        return cls(run, run.record.key or "poincare")
