"""What a model says of the expression of cells: denoised, compared between groups, simulated, and how probable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from horoball.cells.cell_map import CellMap
from horoball.cells.differential import differential_expression
from horoball.cells.expression import mean_elbo, normalized_expression, sample_counts
from horoball.numerics.random import seed_from

__all__ = ["ExpressionModel"]


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
        batch: str | Sequence[str] | None = None,
        genes: Sequence[str] | None = None,
        draws: int = 10,
        random_state: Any = 0,
    ) -> Any:
        """Denoised expression: the means that the decoder gives genes, averaged over the cells' posteriors.

        Args:
            cells: AnnData.
            library_size: Sum of a cell's expression over all genes of the model, or "observed" for its own counts.
            batch: Batch in which cells are decoded, so that they can be compared: a category, several to average over,
                or "all". None leaves every cell in its own.
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
        batch: str | None = "all",
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
            groupby: Column of obs with the groups.
            group1: A group; each in turn if not given.
            group2: The group to compare with; all other cells if not given.
            delta: δ, the smallest log-fold change that matters. Larger values call fewer genes. Useful: 0.1 to 1.
            fdr: Expected share of false discoveries among the genes called.
            draws: Pairs of cells. More are less noisy and take longer. Useful: 1000 to 10000.
            batch: "all" pairs cells in every batch in turn, a category in that one; None leaves cells in their own.
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
