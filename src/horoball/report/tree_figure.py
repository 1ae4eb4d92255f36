"""The tree of the labels as a drawing of the report, or a sentence about the tree of the rows."""

from __future__ import annotations

from html import escape

import numpy as np

from horoball.hierarchy.trees import Tree

__all__ = ["tree_figure"]

_WIDTH, _NAMES, _LINE = 600, 150, 16  # of the drawing, of the names, of a leaf


def tree_figure(tree: Tree, *, of_labels: bool) -> str:
    """A drawing of the tree, if its leaves are labels, and what to believe of it.

    Args:
        tree: The tree, with support.
        of_labels: Whether its leaves are labels; rows are too many to draw.

    Example:
        >>> tree = Tree.from_merges([[0, 1], [2, 3]], [1.0, 3.0], names=["<cat>", "dog", "oak"])
        >>> "&lt;cat&gt;" in tree_figure(tree, of_labels=True)
        True
    """
    above, inner = int(tree.supported[tree.leaves : -1].sum()), tree.nodes - tree.leaves - 1
    words = (
        f"{above} of {inner} branches have a support above chance: more replicates have them, up to a few rows, than "
        f"in flat data. "
        f"{escape('' if tree.verdict is None else f'{tree.verdict.sentence} ')}"
        f"Made from {escape(tree.source)}, method {escape(tree.method)}."
    )
    how = "Branches that are not above chance are dashed. " if of_labels else ""
    more = "<code>horoball tree</code> writes the tree to look at, or for other programs."
    return f"{_drawing(tree) if of_labels else ''}<p class='note'>{words} {how}{more}</p>"


def _drawing(tree: Tree) -> str:
    order = tree.spans[0]
    place = np.empty(tree.leaves)
    place[order] = np.arange(tree.leaves)
    low, high = float(tree.depth[-1]), float(tree.depth.max())
    x = 8 + (_WIDTH - _NAMES - 16) * (tree.depth - low) / max(high - low, 1e-12)
    y = np.empty(tree.nodes)
    y[: tree.leaves] = 12 + _LINE * place
    for node in range(tree.leaves, tree.nodes):
        y[node] = y[tree.children[node]].mean()
    parts = []
    for node in range(tree.nodes - 1):
        up = tree.parent[node]
        dash = "" if tree.supported[node] else " stroke-dasharray='3 3'"
        parts.append(f"<path d='M{x[up]:.1f} {y[up]:.1f}V{y[node]:.1f}H{x[node]:.1f}'{dash}/>")
    lines = f"<g fill='none' stroke='#0072b2' stroke-width='1.5'>{''.join(parts)}</g>"
    names = "".join(
        f"<text x='{x[leaf] + 5:.1f}' y='{y[leaf] + 4:.1f}'>{escape(tree.names[leaf][:24])}</text>"
        for leaf in range(tree.leaves)
    )
    numbers = "".join(
        f"<text x='{x[node] - 3:.1f}' y='{y[node] - 3:.1f}' text-anchor='end' font-size='10'>"
        f"{tree.support[node]:.2f}</text>"
        for node in range(tree.leaves, tree.nodes - 1)
        if tree.support is not None and tree.supported[node]
    )
    height = 24 + _LINE * tree.leaves
    return (
        f"<svg viewBox='0 0 {_WIDTH} {height}' role='img' aria-label='Tree of the labels' font-size='12' "
        f"fill='currentColor'>{lines}{names}{numbers}</svg>"
    )
