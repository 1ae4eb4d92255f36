"""A model of cells: fitted to counts, kept without pickle, and used on cells that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from horoball.cells.anndata import check_cells, neighbors, write
from horoball.cells.expression import Batch, differential_expression, mean_elbo, normalized_expression, sample_counts
from horoball.cells.query import cells_like, map_query
from horoball.cells.tree import TreeSource, branch_markers, cell_tree
from horoball.geometry.ball import PoincareBall
from horoball.geometry.random import seed_from
from horoball.notebook import facts_table
from horoball.storage.stores import located
from horoball.tables.covariates import NUMBER
from horoball.tables.schema import some_names
from horoball.tables.table import Table
from horoball.training.progress import watched
from horoball.trees.tree import Tree
from horoball.vae.run import Run

if TYPE_CHECKING:
    from horoball.viewer.disc import View


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

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {"cells": f"{self.run.record.rows:,}", "genes": f"{len(self.genes):,}"}
        facts |= {"given": ", ".join(self.run.record.covariates) or None, "dimensions": self.run.record.model.d}
        return facts_table(type(self).__name__, facts | {"c": f"{self.c:.4g}", "epochs": len(self.history)})

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

    def embed(self, cells: Any, *, layer: str | None = "auto", n_neighbors: int | None = 15) -> np.ndarray:
        """Write the map of some cells to their AnnData, and return it.

        Genes are found by their names; there may be more than the model knows, in any order. Cells are read from the
        layer that the model was fitted to, with its columns of batches.

        Args:
            cells: AnnData, in memory or backed.
            layer: Layer with the counts, None for X; "auto" is the layer of the fit.
            n_neighbors: Size of the neighborhoods of the graph, see `neighbors`; None for no graph.

        Returns:
            Ball coordinates in float64, shape (cells, d), as they stand in obsm["X_poincare"].
        """
        check_cells(cells)
        return self.write(cells, cells_like(self.run, cells, layer), n_neighbors)

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

    def view(
        self,
        cells: Any,
        labels: str | Sequence[Any] | None = None,
        *,
        tree: Tree | None = None,
        title: str = "",
        path: str | Path | None = None,
    ) -> View:
        """An interactive map of cells: one HTML page, which a notebook shows; it needs no network.

        All columns of obs are shown and can color the map; cells are found by their names.

        Args:
            cells: AnnData, in memory or backed.
            labels: Column of obs that colors the map at first, or one label per cell; the first column if not given.
            tree: A tree of the cells or of groups of them, shown beside the map and in it.
            title: Title of the page.
            path: Where to write the page; without it, it is only returned.

        Example:
            >>> from horoball.cells import fit, simulate
            >>> cells = simulate(depth=2, cells=60, genes=30)
            >>> fit(cells, max_epochs=1, hidden=(8,)).view(cells, "branch")
            View(... characters)
        """
        from horoball.viewer.run import view_run

        check_cells(cells, written=False)
        columns = {str(name): cells.obs[name] for name in cells.obs.columns}
        if isinstance(labels, str):
            if labels not in columns:
                raise ValueError(f"obs has no column {labels!r} to color by. Columns: {some_names(list(columns))}.")
            columns = {labels: columns[labels]} | columns
        elif labels is not None:
            columns = {"label": labels} | {name: column for name, column in columns.items() if name != "label"}
        names = [str(name) for name in cells.obs_names]
        table = self.run.read(cells)
        return view_run(self.run, table, columns=columns, labels=names, tree=tree, title=title, path=path)

    def save(self, folder: str | Path) -> None:
        """Write the model to a folder, as safetensors and JSON."""
        self.run.save(located(folder))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model back from a folder that `save` or `horoball fit cells.h5ad` wrote."""
        run = Run.load(located(folder))
        return cls(run, run.record.key or "poincare")


class ExpressionModel(CellMap):
    """A model of cells that is asked about their genes.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> isinstance(fit(cells, max_epochs=1, hidden=(8,)), ExpressionModel)
        True
    """

    def normalized_expression(
        self,
        cells: Any,
        *,
        library_size: float | str = 1e4,
        batch: Batch = None,
        genes: Sequence[str] | None = None,
        draws: int = 10,
        random_state: Any = 0,
    ) -> Any:
        """Denoised expression: the means that the decoder gives genes, averaged over the cells' posteriors.

        Args:
            cells: AnnData.
            library_size: Sum of a cell's expression over all genes of the model, or "observed" for its own counts.
            batch: Batch in which cells are decoded, so that they can be compared: a category, several to average over,
                or "all" of the first batch key. {key: category} says of which key a category is, and names one for each
                of several keys. None leaves every cell in its own.
            genes: Genes to return; all if not given.
            draws: Points per cell drawn from its posterior; 0 decodes the posterior mean. More draws are less noisy and
                take longer. Useful: 1 to 100.
            random_state: Seed.

        Returns:
            A data frame of shape (cells, genes).

        Example:
            >>> from horoball.cells import fit, simulate
            >>> cells = simulate(depth=2, cells=60, genes=30)
            >>> model = fit(cells, batch_key="batch", max_epochs=1, hidden=(8,))
            >>> model.normalized_expression(cells, batch="a", genes=["gene3", "gene7"]).shape
            (60, 2)
        """
        seed = seed_from(random_state)
        options: dict[str, Any] = {"library_size": library_size, "batch": batch, "genes": genes, "draws": draws}
        return normalized_expression(self.run, cells, seed=seed, **options)

    def differential_expression(
        self,
        cells: Any,
        groupby: str,
        group1: str | None = None,
        group2: str | None = None,
        *,
        delta: float = 0.25,
        fdr: float = 0.05,
        draws: int = 5000,
        batch: Batch = "all",
        pseudocount: float | None = None,
        random_state: Any = 0,
    ) -> Any:
        """Genes that differ between groups of cells, with log-fold changes, their probability and calls.

        As in scvi-tools' "change" mode, a draw takes a cell of each group, a point from the posterior of each, and
        decodes both in the same batch. The log-fold change is log₂(share₁ + ε) − log₂(share₂ + ε); `proba_de` is the
        share of draws in which it is at least δ either way. `is_de_fdr_0.05` calls the most probable genes, as long as
        the mean of 1 − proba_de over those called stays below 0.05.

        Args:
            cells: AnnData.
            groupby: Column of obs with the groups. Cells without one are left out.
            group1: A group; each in turn if not given.
            group2: The group to compare with; the cells of all other groups if not given.
            delta: δ, the smallest log-fold change that matters. Larger values call fewer genes. Useful: 0.1 to 1.
            fdr: Expected share of false discoveries among the genes called.
            draws: Pairs of cells. More are less noisy and take longer. Useful: 1000 to 10000.
            batch: "all" pairs cells in every batch of the first batch key in turn, a category in that one, as for
                `normalized_expression`; None leaves cells in their own.
            pseudocount: ε, added to shares. If not given, it is what the model gives genes without any count.
            random_state: Seed.

        Returns:
            A data frame with a row for each gene and comparison, the most probable first.

        Example:
            >>> from horoball.cells import fit, simulate
            >>> cells = simulate(depth=2, cells=60, genes=30)
            >>> model = fit(cells, batch_key="batch", max_epochs=1, hidden=(8,))
            >>> table = model.differential_expression(cells, "branch", "00", draws=100)
            >>> table["comparison"].iloc[0], "is_de_fdr_0.05" in table
            ('00 vs rest', True)
        """
        options: dict[str, Any] = {"delta": delta, "fdr": fdr, "draws": draws, "batch": batch}
        options |= {"pseudocount": pseudocount, "seed": seed_from(random_state)}
        return differential_expression(self.run, cells, groupby, group1, group2, **options)

    def sample(self, cells: Any, *, prior: bool = False, random_state: Any = 0) -> Any:
        """Counts drawn from the model, as AnnData: to see whether it makes cells like those it was fitted to.

        Every cell keeps its row of obs, its batch and its library size.

        Args:
            cells: AnnData.
            prior: Whether coordinates are drawn from the prior, and not from the posterior of the cell.
            random_state: Seed.

        Example:
            >>> from horoball.cells import fit, simulate
            >>> cells = simulate(depth=2, cells=60, genes=30)
            >>> made = fit(cells, max_epochs=1, hidden=(8,)).sample(cells)
            >>> made.shape, bool((made.X.data % 1 == 0).all())
            ((60, 30), True)
        """
        return sample_counts(self.run, cells, prior=prior, seed=seed_from(random_state))

    def elbo(self, cells: Any, *, draws: int = 1, random_state: Any = 0) -> float:
        """The evidence lower bound in nats per cell, averaged over cells. Higher is better.

        Args:
            cells: AnnData; cells that were held out tell how well the model generalizes.
            draws: Points per cell. More are less noisy.
            random_state: Seed.

        Example:
            >>> from horoball.cells import fit, simulate
            >>> cells = simulate(depth=2, cells=60, genes=30)
            >>> fit(cells, max_epochs=1, hidden=(8,)).elbo(cells) < 0
            True
        """
        return mean_elbo(self.run, cells, draws=draws, seed=seed_from(random_state))


class CellModel(ExpressionModel):
    """A trained model of cells.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from horoball.cells import fit, simulate
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

    def tree(
        self,
        cells: Any,
        groupby: str,
        *,
        root: str | None = None,
        source: TreeSource = "auto",
        draws: int = 100,
        random_state: Any = 0,
    ) -> Tree:
        """The tree of groups of cells, such as cell types, with the support of every branch.

        With a root it is a lineage: groups that share more of their change in expression since the root group join
        first, with the effects of batches taken out. So progenitors join their descendants. Without a root it says
        which groups are alike, in the latent space if the model has batches.

        It is also written to `uns["dendrogram_<groupby>"]`, where scanpy's plots look, and with its support to
        `uns["poincare_tree"]`. A warning names the branches with a support below 0.7, which may be chance.

        Args:
            cells: AnnData.
            groupby: Column of obs with the groups.
            root: The group that the others come from, such as the stem cells; the tree is seen from the center of all
                cells if not given.
            source: Where the tree comes from: "expression" (needs a root) or "latent"; "auto" is expression if there is
                a root.
            draws: Replicates for the support: cells are drawn again within their groups and genes among all; in the
                latent space, cells are moved by draws from their posteriors. Useful: 50 to 500.
            random_state: Seed.

        Example:
            >>> from horoball.cells import fit, simulate
            >>> cells = simulate(depth=2, cells=300, genes=100, batches=1)
            >>> tree = fit(cells, max_epochs=1, hidden=(8,)).tree(cells, "branch", root="0", draws=20)
            >>> print(tree)
            Tree of 7 leaves and 300 rows, 4 of 5 branches above chance (shared change, ...
        """
        options: dict[str, Any] = {"root": root, "source": source, "draws": draws, "key": self.key}
        return cell_tree(self.run, cells, groupby, seed=seed_from(random_state), **options)

    def markers(
        self,
        cells: Any,
        tree: Tree,
        groupby: str,
        *,
        support: float = 0.5,
        n_genes: int = 5,
        delta: float = 0.25,
        fdr: float = 0.05,
        draws: int = 2000,
        random_state: Any = 0,
    ) -> Any:
        """Marker genes of every branch and group of a tree: those higher than in the rest of the branch above.

        They are also written to `uns["poincare_markers"]`.

        Args:
            cells: AnnData.
            tree: A tree of groups, by `tree`.
            groupby: Column of obs with the groups.
            support: Branches with less support are passed over.
            n_genes: Most genes of a branch.
            delta: Smallest log-fold change that matters, see `differential_expression`.
            fdr: Expected share of false discoveries among the genes of a comparison.
            draws: Pairs of cells in a comparison.
            random_state: Seed.

        Returns:
            A data frame with a row for each branch and gene.

        Example:
            >>> from horoball.cells import fit, simulate
            >>> cells = simulate(depth=2, cells=60, genes=30)
            >>> model = fit(cells, max_epochs=1, hidden=(8,))
            >>> "gene" in model.markers(cells, model.tree(cells, "branch", draws=2), "branch", draws=20)
            True
        """
        options: dict[str, Any] = {"delta": delta, "fdr": fdr, "draws": draws, "seed": seed_from(random_state)}
        return branch_markers(self.run, cells, tree, groupby, support=support, most=n_genes, key=self.key, **options)

    def map_query(
        self,
        cells: Any,
        reference: Any = None,
        *,
        layer: str | None = "auto",
        max_epochs: int | None = None,
        learning_rate: float = 5e-3,
        n_neighbors: int | None = 15,
        random_state: Any = 0,
        verbose: bool = True,
    ) -> CellModel:
        """Place new cells on the map, which stays as it is: cells of a new batch, or with fewer genes.

        A batch that the model does not know gets weights of its own, trained on its cells while all others are frozen,
        as scArches does. Genes that are missing are filled in by what the model expects given the others; at least half
        must be there.

        Writes the same keys as `embed`. With a reference also `obs["poincare_surprise"]`, what the model leaves
        unexplained of a cell and its nearest new cells, about 1 if it is right; and `obs["poincare_novelty"]`, the
        share of cells of the reference that depart less from its other batches. Of known cells in new batches,
        0 to 15 %, 5 % on average, were above 0.95 where it was measured. It needs several batches in the reference, and
        known types for at least half of a new batch.

        Args:
            cells: AnnData of new cells.
            reference: AnnData of the fit, whose cells say what is usual; None for no novelty.
            layer: Layer of the new cells with the counts, None for X; "auto" is the layer of the fit.
            max_epochs: Epochs for the weights of new batches; none are trained if all batches are known. None takes
                100, or as many as 2,000 steps take.
            learning_rate: Learning rate of these weights.
            n_neighbors: Size of the neighborhoods of the graph among the new cells; None for no graph.
            random_state: Seed.
            verbose: Whether to show progress.

        Returns:
            The model that knows the new batches, for `normalized_expression` and the others.

        Example:
            >>> from horoball.cells import fit, simulate
            >>> made = simulate(depth=2, cells=180, genes=30)
            >>> cells, new = made[:120].copy(), made[120:].copy()
            >>> model = fit(cells, batch_key="batch", max_epochs=1, hidden=(8,))
            >>> new.obs["batch"] = "later"
            >>> model.map_query(new, cells, max_epochs=1, n_neighbors=None).batches
            {'batch': ['a', 'b', 'later']}
        """
        check_cells(cells)
        options: dict[str, Any] = {"max_epochs": max_epochs, "learning_rate": learning_rate, "key": self.key}
        options |= {"n_neighbors": n_neighbors, "seed": seed_from(random_state), "layer": layer}
        with watched(verbose) as progress:
            run = map_query(self.run, cells, reference, progress=progress, **options)
        return CellModel(run, self.key)
