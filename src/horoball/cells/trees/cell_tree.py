"""The tree of cell types: from expression, seen from a root group, or from the latent space."""

from __future__ import annotations

import logging
from typing import Any, Literal, get_args

import numpy as np

from horoball.cells.trees.dendrogram_keys import branch_name, write_tree
from horoball.cells.trees.group_means import GroupMeans
from horoball.cells.trees.shared_change import shared_change_tree
from horoball.estimators.trees import table_tree
from horoball.hierarchy.trees import Tree
from horoball.hierarchy.trees.leaves import Leaves
from horoball.training.table.run import Run

__all__ = ["TreeSource", "cell_tree", "weak_branches"]

TreeSource = Literal["auto", "expression", "latent"]

_WEAK = 0.7  # support below which a branch is named in a warning
_SHOWN = 5  # of the weak branches
_log = logging.getLogger("horoball")


def cell_tree(
    run: Run, cells: Any, groupby: str, *, root: str | None, source: str = "auto", draws: int, key: str, seed: int
) -> Tree:
    """The tree of groups of cells, written to AnnData; see `CellModel.tree`.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> run = fit(cells, max_epochs=1, hidden=(8,)).run
        >>> cell_tree(run, cells, "branch", root="0", draws=2, key="poincare", seed=0).source
        'expression'
    """
    if groupby not in cells.obs:
        known = ", ".join(map(str, cells.obs.columns[:10]))
        raise ValueError(f"obs has no column {groupby!r} to group cells by. Columns: {known}.")
    if source not in get_args(TreeSource):
        raise ValueError(f"Expected a source of {', '.join(get_args(TreeSource))}, got {source!r}.")
    if source == "expression" and root is None:
        raise ValueError('source="expression" needs a root: name the group that all others come from.')
    labels = np.asarray(cells.obs[groupby].astype(str))
    if root is not None and root not in labels:
        known = ", ".join(map(repr, np.unique(labels)[:20]))
        raise ValueError(f"There is no group {root!r} in obs[{groupby!r}] to be the root. Its groups are: {known}.")
    if root is None or source == "latent":
        at = "center" if root is None else root
        found = table_tree(run, run.read(cells), labels=labels, root=at, draws=draws, seed=seed)
    else:
        found = _expression_tree(run, cells, labels, root, draws, np.random.default_rng(seed))
    write_tree(cells, found, groupby, key=key)
    weak = weak_branches(found)
    if weak:
        inner = found.nodes - found.leaves - 1
        named = "; ".join(f"{name} ({held:.2f})" for name, held in weak[:_SHOWN]) + "; …" * (len(weak) > _SHOWN)
        _log.warning(
            "%d of %d branches have a support below %.1f, or no more than chance gives: %s. tree.collapse(%.1f) leaves "
            "them out; more cells, more genes or fewer groups may settle them.",
            *(len(weak), inner, _WEAK, named, _WEAK),
        )
    return found


def _expression_tree(run: Run, cells: Any, labels: np.ndarray, root: str, draws: int, rng: np.random.Generator) -> Tree:
    leaves = Leaves.of_labels(labels, rng)
    means = GroupMeans.of_cells(run, cells, leaves)
    apart = [leaves.names[i] for i in means.unlinked(leaves.names.index(root))]
    if apart:
        _log.warning(
            "%s and the root %s share no batch, not even through other groups: where they join the tree, their change "
            "is mixed with that of their batches.",
            *(", ".join(apart), root),
        )
    options: dict[str, Any] = {"response": means.response, "draws": draws, "rng": rng}
    return shared_change_tree(means, leaves.leaf, leaves.names, root, **options)


def weak_branches(tree: Tree, support: float = _WEAK) -> list[tuple[str, float]]:
    """Branches whose support is below a bound or not above chance, with it, the weakest first.

    Example:
        >>> held = np.array([np.nan] * 4 + [0.4, 0.9, 1.0])
        >>> tree = Tree.from_merges([[0, 1], [2, 4], [3, 5]], [1.0, 2.0, 3.0], names=["a", "b", "c", "d"], support=held)
        >>> weak_branches(tree)
        [('a | b', 0.4)]
    """
    if tree.support is None:
        return []
    held = [(float(tree.support[node]), node) for node in range(tree.leaves, tree.nodes - 1)]
    # All but a root group, which joins last, is no find.
    above = tree.supported | (tree.clade_sizes == tree.leaves - 1)
    return [(branch_name(tree, node), value) for value, node in sorted(held) if value < support or not above[node]]
