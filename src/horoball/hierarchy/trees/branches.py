"""What a branch is: its size, its labels, the columns that set it apart from the rest of the branch above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from horoball.data.missing import category_names
from horoball.data.tables.number_arrays import check_unmasked
from horoball.hierarchy.trees.differences import Difference, HeldOut, column_scale, differences, shown
from horoball.hierarchy.trees.tree import Tree

__all__ = ["Branch", "Difference", "branches", "differences"]


@dataclass(frozen=True)
class Branch:
    """An inner node of a tree, described.

    Example:
        >>> print(Branch(7, 30, 0.95, {"cat": 1.0}, (Difference("weight", -2.0, -2.5, -1.5),), (3,)))
        node 7: 30 rows, support 0.95 | cat 100% | weight -2.00 [-2.50, -1.50]
    """

    node: int
    rows: int
    support: float | None
    labels: dict[str, float]  # shares of the commonest labels, largest first
    differences: tuple[Difference, ...]  # from its siblings; those whose interval leaves out 0, largest first
    exemplars: tuple[int, ...]  # rows nearest to the branch's mean

    def __str__(self) -> str:
        sure = "" if self.support is None else f", support {self.support:.2f}"
        held = ", ".join(f"{name} {share:.0%}" for name, share in self.labels.items())
        apart = "; ".join(map(str, self.differences))
        parts = [f"node {self.node}: {self.rows:,} rows{sure}", *([held] if held else []), *([apart] if apart else [])]
        return " | ".join(parts)


def branches(
    tree: Tree,
    x: ArrayLike | Tensor,
    *,
    columns: Sequence[str] | None = None,
    labels: ArrayLike | None = None,
    support: float = 0.5,
    most: int = 3,
) -> list[Branch]:
    """The branches of a tree that can be believed, from large to small, each with what sets it apart.

    Differences are a test that holds although branches were cut from the same table: they are measured on rows that
    other rows assign to the branch by all columns but the one compared, or rest on a gap in the column. Of columns of
    noise at most 6 % of the 95 % intervals leave out 0. See Note [Held out] in `horoball.hierarchy.trees.differences`.

    Args:
        tree: The tree.
        x: The rows that it was made from, shape (rows, columns); NaN where a value is missing. Give counts as
            log(1 + x). Of more than 2,000 rows, 2,000 drawn at random are compared.
        columns: Names of the columns.
        labels: One label per row, for the composition of branches.
        support: Branches below it, or not above chance, are left out; those of a tree without support are all given.
        most: Labels, columns and exemplars to name.

    Example:
        >>> from horoball.hierarchy import tree
        >>> x = np.random.default_rng(0).normal(size=(60, 3))
        >>> x[:20, :2] += 9
        >>> found = tree(x, draws=0, method="average")
        >>> print(branches(found, x, columns=["height", "weight", "noise"])[0])
        node 117: 40 rows | weight -10.71 [-12.70, -8.71]; height -8.38 [-9.98, -6.79]
    """
    check_unmasked(x, "x")
    values = x.detach().cpu().double().numpy() if isinstance(x, Tensor) else np.asarray(x, np.float64)
    leaf = np.arange(tree.leaves) if tree.leaf is None else tree.leaf
    if values.ndim != 2 or len(values) != len(leaf):
        raise ValueError(f"branches expects the {len(leaf)} rows of the tree, got shape {values.shape}.")
    if np.isinf(values).any():
        raise ValueError("branches expects finite numbers, got infinity. Give NaN where a value is missing.")
    names = [f"x{i}" for i in range(values.shape[1])] if columns is None else [str(name) for name in columns]
    if len(names) != values.shape[1]:
        raise ValueError(f"columns must name all {values.shape[1]} columns, got {len(names)} names.")
    kinds = None if labels is None else category_names(np.asarray(labels))
    sure, above = tree.support, tree.supported
    asked = [
        node
        for node in range(tree.nodes - 2, tree.leaves - 1, -1)
        if sure is None or (above[node] and sure[node] >= support)  # the root has no siblings
    ]
    asked.sort(key=lambda node: -tree.rows[node])
    inside = _Rows(tree, leaf)
    compared = HeldOut(inside.place, values).compare(inside.ends(asked), inside.ends(tree.parent[asked]))
    mean, spread = column_scale(values)
    z = np.nan_to_num((values - mean) / spread)  # a missing value is at the mean
    described = []
    for node, *found in zip(asked, *compared, strict=True):
        here = inside.of(node)
        far = ((z[here] - z[here].mean(0)) ** 2).sum(1)
        described.append(
            Branch(
                node,
                len(here),
                None if sure is None else float(sure[node]),
                {} if kinds is None else _shares(kinds[here], most),
                shown(names, *found)[:most],
                tuple(here[np.argsort(far, kind="stable")][:most].tolist()),
            )
        )
    return described


class _Rows:
    """The rows below nodes."""

    def __init__(self, tree: Tree, leaf: np.ndarray) -> None:
        order, self.first, self.last = tree.spans
        place = np.empty(tree.leaves, np.int64)
        place[order] = np.arange(tree.leaves)
        self.place = place[leaf]  # of each row's leaf, in an order in which every branch is a range
        self.rows = np.argsort(self.place, kind="stable")
        self.bounds = np.searchsorted(self.place[self.rows], np.arange(tree.leaves + 1))

    def ends(self, nodes: ArrayLike) -> np.ndarray:
        """The first and past-the-end places of nodes, shape (nodes, 2)."""
        nodes = np.asarray(nodes, np.int64)
        return np.column_stack([self.first[nodes], self.last[nodes]])

    def of(self, node: int) -> np.ndarray:
        return self.rows[self.bounds[self.first[node]] : self.bounds[self.last[node]]]


def _shares(labels: np.ndarray, most: int) -> dict[str, float]:
    values, count = np.unique(labels, return_counts=True)
    order = np.argsort(-count, kind="stable")[:most]
    return {str(values[i]): float(count[i] / len(labels)) for i in order}
