"""`view_tree`: a tree as a page to look at, without a map."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from horoball.hierarchy.trees import Tree
from horoball.viewer.disc import View, add_rows
from horoball.viewer.document import document
from horoball.viewer.payload import Payload

__all__ = ["view_tree"]

_GROUPS = 8  # branches that get a color of their own where there is no column to color by


def view_tree(
    tree: Tree,
    columns: Any = None,
    labels: Any = None,
    color: str | None = None,
    title: str = "",
    path: str | Path | None = None,
) -> View:
    """One HTML file with a tree to browse; it needs no network. For a tree beside its map, see `view`.

    Args:
        tree: The tree.
        columns: Values of the rows to show and to color branches by: a dict from names to arrays, or a pandas or
            polars data frame. Without any, the largest branches have colors.
        labels: Names of the rows, to search for; the tree's own names where each row is a leaf.
        color: Name of the column that colors the branches at first; the first one without it.
        title: Title of the page.
        path: Where to write the page; without it, it is only returned.

    Example:
        >>> tree = Tree.from_merges([[0, 1], [2, 3]], [1.0, 3.0], names=["cat", "dog", "oak"])
        >>> view_tree(tree, {"kingdom": ["animal", "animal", "plant"]})
        View(... characters)
    """
    n = tree.leaves if tree.leaf is None else len(tree.leaf)
    if columns is None:
        group = tree.cut(min(_GROUPS, tree.leaves))
        columns = {"branch": group if tree.leaf is None else group[tree.leaf]}
    payload = Payload()
    payload.meta["n"] = n
    add_rows(payload, n, columns=columns, labels=labels, color=color, tree=tree, title=title)
    shown = View(document(payload.meta, payload.data))
    if path is not None:
        shown.save(path)
    return shown
