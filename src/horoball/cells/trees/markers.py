"""Marker genes of the branches of a tree: what sets a branch apart from the rest of the branch above."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from horoball.cells.differential import compared
from horoball.cells.trees.dendrogram_keys import branch_name
from horoball.hierarchy.trees import Tree
from horoball.training.table.run import Run

__all__ = ["branch_markers"]


def branch_markers(
    run: Run,
    cells: Any,
    tree: Tree,
    groupby: str,
    *,
    support: float = 0.5,
    most: int = 5,
    key: str = "poincare",
    **options: Any,
) -> Any:
    """Genes that are higher in a branch or group than in its siblings; see `CellModel.markers`.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> model = fit(cells, max_epochs=1, hidden=(8,))
        >>> tree = model.tree(cells, "branch", draws=2)
        >>> list(branch_markers(model.run, cells, tree, "branch", draws=20).columns[:3])
        ['branch', 'support', 'gene']
    """
    import pandas as pd

    groups = np.asarray(cells.obs[groupby].astype(str))
    if sorted(set(groups)) != sorted(tree.names):
        raise ValueError(f"The leaves of the tree are not the groups in obs[{groupby!r}]. Make it with this groupby.")
    sure = tree if tree.support is None else tree.collapse(support)
    x = torch.cat(list(run.blocks(run.read(cells))))
    parts = []
    for node in range(sure.nodes - 2, -1, -1):  # without the root, which has no siblings
        here = _members(sure, node, groups)
        beside = _members(sure, int(sure.parent[node]), groups) & ~here
        table = compared(run, x[torch.from_numpy(here)], x[torch.from_numpy(beside)], **options)
        called = next(name for name in table.columns if name.startswith("is_de_fdr"))
        best = table[(table["lfc_mean"] > 0) & table[called]].head(most)
        held = np.nan if sure.support is None or node < sure.leaves else float(sure.support[node])
        rows = {"branch": branch_name(sure, node), "support": held, "gene": best.index}
        parts.append(pd.DataFrame(rows | {name: best[name].to_numpy() for name in ("lfc_mean", "proba_de")}))
    found = pd.concat(parts, ignore_index=True)
    cells.uns[f"{key}_markers"] = found
    return found


def _members(tree: Tree, node: int, groups: np.ndarray) -> np.ndarray:
    """Which cells are of the groups below a node."""
    return np.isin(groups, [tree.names[leaf] for leaf in tree.members(node)])
