"""Mean expression of groups of cells, with what batches add taken out.

Note [Groups and batches]: a group that is mostly in one batch would carry that batch's genes into the tree. The
expression of a cell is therefore modeled as that of its group plus that of its covariates, by least squares over all
cells, and the groups' terms are the means. Groups are compared within batches so, as far as they share any. A group
that shares no batch with the others, not even through other groups, cannot be told from its batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from horoball.hierarchy.trees.leaves import Leaves
from horoball.models.table.conditioning import one_hot
from horoball.models.table.encoder import network_input
from horoball.training.table.run import Run

__all__ = ["GroupMeans"]

_CLEAR = 1e-8  # singular values below this share of the largest are none


class GroupMeans:
    """Means of groups, and of replicates in which cells are drawn again within their groups.

    Args:
        x: Expression, shape (cells, genes).
        leaf: The group of each cell.
        covariates: What is taken out, one-hot categories and numbers, shape (cells, columns); None for nothing.

    Example:
        >>> x = np.array([[1.0], [2.0], [5.0], [6.0], [7.0]])
        >>> batch = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> means = GroupMeans(x, np.array([0, 0, 1, 1, 1]), batch)(None)
        >>> float((means[1] - means[0]).round(3)[0])
        4.286
    """

    def __init__(self, x: np.ndarray, leaf: np.ndarray, covariates: np.ndarray | None = None) -> None:
        self.x, self.leaf, self.groups = x, leaf, int(leaf.max()) + 1
        self.response: np.ndarray | None = None  # of genes to a change of all shares, see `shared_change`
        given = np.zeros((len(x), 0)) if covariates is None else covariates
        self.design = np.concatenate([np.eye(self.groups)[leaf], given - given.mean(0)], 1)

    def __call__(self, rng: np.random.Generator | None = None) -> np.ndarray:
        """Means of the groups, shape (groups, genes); of a replicate, with a generator."""
        times = np.ones(len(self.x)) if rng is None else self._drawn(rng)
        weighted = self.design * times[:, None]
        # The pseudoinverse leaves out what covariates and groups have in common: a constant, or a batch of its own.
        inverse = np.linalg.pinv(weighted.T @ self.design, rcond=_CLEAR, hermitian=True)
        return np.asarray((inverse @ (weighted.T @ self.x))[: self.groups])

    def unlinked(self, root: int) -> list[int]:
        """Groups whose difference from the root cannot be told from a difference of batches."""
        values, axes = np.linalg.eigh(self.design.T @ self.design)
        free = axes[: self.groups, values < _CLEAR * values.max()]  # can be added to the groups' terms, fit unchanged
        return np.flatnonzero(np.abs(free - free[root]).max(1, initial=0.0) > _CLEAR**0.5).tolist()

    def _drawn(self, rng: np.random.Generator) -> np.ndarray:
        """How often each cell is drawn, with replacement within its group."""
        order = np.argsort(self.leaf, kind="stable")
        first, count = np.unique(self.leaf[order], return_index=True, return_counts=True)[1:]
        drawn = np.repeat(first, count) + (rng.random(len(order)) * np.repeat(count, count)).astype(np.int64)
        return np.bincount(order[drawn], minlength=len(order)).astype(np.float64)

    @classmethod
    def of_cells(cls, run: Run, cells: Any, leaves: Leaves) -> GroupMeans:
        """Means of the groups of some cells, as a model sees their expression and batches.

        Example:
            >>> from horoball.cells import fit, simulate
            >>> cells = simulate(depth=2, cells=60, genes=30)
            >>> run = fit(cells, batch_key="batch", max_epochs=1, hidden=(8,)).run
            >>> leaves = Leaves.of_labels(cells.obs["branch"], np.random.default_rng(0))
            >>> GroupMeans.of_cells(run, cells, leaves)().shape
            (7, 30)
        """
        table, config = run.read(cells), run.record.model
        expression, given, first = [], [], 0
        for block in run.blocks(table):
            inside = leaves.rows[(leaves.rows >= first) & (leaves.rows < first + len(block))] - first
            rows, first = block[torch.from_numpy(inside).to(block.device)].cpu(), first + len(block)
            genes = rows[:, : table.features]
            seen = network_input(genes, log=config.log_input, library=config.library, unit=config.unit_input)
            expression.append(seen.double().numpy())
            if run.record.covariates:
                given.append(one_hot(rows[:, table.features :], run.model.covariates).double())
        x = np.concatenate(expression)
        found = cls(x, leaves.leaf[leaves.rows], torch.cat(given).numpy() if given else None)
        if config.library and config.log_input:
            found.response = -np.expm1(-x).mean(0)  # m/(1 + m), of x = log(1 + m)
        return found
