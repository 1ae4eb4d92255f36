"""A model of cells: fitted to counts, kept without pickle, and used on cells that it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from horoball.cells.expression_model import ExpressionModel
from horoball.cells.query import map_query
from horoball.cells.trees import branch_markers, cell_tree
from horoball.cells.trees.cell_tree import TreeSource
from horoball.data.cells.cell_table import is_cells
from horoball.hierarchy.trees import Tree
from horoball.numerics.random import seed_from
from horoball.training.progress import watched

__all__ = ["CellModel"]


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
            Tree of 7 leaves and 300 rows, 4 of 5 branches above chance, 4 branches are believed, ...
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
        max_epochs: int = 100,
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
        share of cells of the reference that surprise less. Of new cells of known types, 6 to 13 % were above 0.95 where
        it was measured, and up to 27 % with a reference of 500 cells: the model was not trained on them.

        Args:
            cells: AnnData of new cells.
            reference: AnnData of the fit, whose cells say what is usual; None for no novelty.
            max_epochs: Epochs for the weights of new batches; none are trained if all batches are known.
            learning_rate: Learning rate of these weights.
            n_neighbors: Size of the neighborhoods of the graph among the new cells; None for no graph.
            random_state: Seed.
            verbose: Whether to show progress.

        Returns:
            The model that knows the new batches, for `normalized_expression` and the others.

        Example:
            >>> from horoball.cells import fit, simulate
            >>> cells = simulate(depth=2, cells=60, genes=30)
            >>> model = fit(cells, batch_key="batch", max_epochs=1, hidden=(8,))
            >>> new = simulate(depth=2, cells=20, genes=30, seed=1)
            >>> new.obs["batch"] = "later"
            >>> model.map_query(new, cells, max_epochs=1, n_neighbors=None).batches
            {'batch': ['a', 'b', 'later']}
        """
        if not is_cells(cells) or isinstance(cells, str | Path):
            raise TypeError(f"Cells come as AnnData, got {type(cells).__name__}. Read a file with anndata.read_h5ad.")
        options: dict[str, Any] = {"max_epochs": max_epochs, "learning_rate": learning_rate, "key": self.key}
        options |= {"n_neighbors": n_neighbors, "seed": seed_from(random_state)}
        with watched(verbose) as progress:
            run = map_query(self.run, cells, reference, progress=progress, **options)
        return CellModel(run, self.key)
