"""A tree of cell types in the places where scanpy keeps its dendrograms."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.cluster.hierarchy import dendrogram

from horoball.hierarchy.trees import Tree, tree_to_json

__all__ = ["branch_name", "write_tree"]

_SURE = 0.5  # support from which on a branch is one that cells are said to be of


def write_tree(cells: Any, tree: Tree, groupby: str, *, key: str = "poincare") -> None:
    """Write a tree of groups to AnnData, so that scanpy's plots draw it.

    `uns["dendrogram_<groupby>"]` is where `scanpy.pl.dendrogram`, `dotplot` and `matrixplot` look. The tree itself,
    with its support, goes to `uns["<key>_tree"]` as JSON and Newick. `obs["<key>_branch"]` is the smallest branch above
    each cell's group that has a support of at least 0.5, called by the groups below it.

    Args:
        cells: AnnData.
        tree: A tree whose leaves are the groups.
        groupby: The column of obs that holds the groups.
        key: Which embedding the tree belongs to.

    Example:
        >>> from horoball.cells import simulate
        >>> from horoball.hierarchy import tree
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> write_tree(cells, tree(cells.layers["counts"].toarray(), labels=cells.obs["branch"], draws=0), "branch")
        >>> sorted(cells.uns)[0], "newick" in cells.uns["poincare_tree"]
        ('dendrogram_branch', True)
    """
    groups = cells.obs[groupby].astype("category").cat.categories.astype(str).tolist()
    if sorted(groups) != sorted(tree.names):
        raise ValueError(f"The leaves of the tree are not the groups in obs[{groupby!r}]. Make it with this groupby.")
    linkage = tree.to_linkage()
    # scanpy numbers the leaves as obs numbers its categories.
    number = np.array([groups.index(name) for name in tree.names])
    leaf = linkage[:, :2] < tree.leaves
    linkage[:, :2][leaf] = number[linkage[:, :2][leaf].astype(np.int64)]
    drawn = dendrogram(linkage, labels=groups, no_plot=True)
    cells.uns[f"dendrogram_{groupby}"] = {
        "linkage": linkage,
        "groupby": [groupby],
        "use_rep": f"X_{key}",
        "cor_method": "none",
        "linkage_method": tree.method,
        "categories_ordered": drawn["ivl"],
        "categories_idx_ordered": drawn["leaves"],
        "dendrogram_info": drawn,
        "correlation_matrix": np.eye(len(groups)),
    }
    sure = tree if tree.support is None else tree.collapse(_SURE)
    above = {name: branch_name(sure, int(up)) for name, up in zip(sure.names, sure.parent, strict=False)}
    cells.obs[f"{key}_branch"] = cells.obs[groupby].astype(str).map(above).astype("category")
    cells.uns[f"{key}_tree"] = {"newick": tree.to_newick(), "json": tree_to_json(tree), "groupby": groupby}


def branch_name(tree: Tree, node: int, most: int = 4) -> str:
    """A leaf's name, or the names of the leaves below a branch.

    Example:
        >>> branch_name(Tree.from_merges([[0, 1], [2, 3]], [1.0, 3.0], names=["cat", "dog", "oak"]), 3)
        'cat | dog'
    """
    if node < tree.leaves:
        return tree.names[node]
    names = sorted(tree.names[leaf] for leaf in tree.members(node))
    return " | ".join(names[:most]) + (f" | … ({len(names)})" if len(names) > most else "")
