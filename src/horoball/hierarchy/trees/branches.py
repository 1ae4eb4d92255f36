"""What a branch is: its size, its labels, the columns that set it apart from the rest of the branch above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from horoball.data.missing import category_names
from horoball.data.tables.number_arrays import check_unmasked
from horoball.hierarchy.trees.tree import Tree

__all__ = ["Branch", "Difference", "branches", "differences"]

_SURE = 1.96


@dataclass(frozen=True)
class Difference:
    """How far a column's mean in a branch lies from its siblings', in standard deviations within the two.

    Example:
        >>> print(Difference("age", 1.2, 0.9, 1.5))
        age +1.20 [+0.90, +1.50]
    """

    column: str
    value: float
    low: float  # 95 % interval of two groups that are given; see `branches`
    high: float

    def __str__(self) -> str:
        return f"{self.column} {self.value:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


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

    Intervals are a description, not a test: a branch was cut from the same columns that it is compared by, so that
    even of columns of noise 14 to 28 % of the intervals leave out 0.

    Args:
        tree: The tree.
        x: The rows that it was made from, shape (rows, columns). Give counts as log(1 + x).
        columns: Names of the columns.
        labels: One label per row, for the composition of branches.
        support: Branches below it, or not above chance, are left out; those of a tree without support are all given.
        most: Labels, columns and exemplars to name.

    Example:
        >>> x = np.array([[0.0, 1.0], [0.1, 0.9], [5.0, 1.1], [5.1, 0.8], [5.2, 1.0]])
        >>> tree = Tree.from_merges([[0, 1], [2, 3], [4, 6], [5, 7]], [1, 1, 2, 9.0], leaf=np.arange(5))
        >>> print(branches(tree, x, columns=["height", "width"])[0])
        node 7: 3 rows | height +55.32 [+20.99, +89.65]
    """
    check_unmasked(x, "x")
    values = x.detach().cpu().double().numpy() if isinstance(x, Tensor) else np.asarray(x, np.float64)
    leaf = np.arange(tree.leaves) if tree.leaf is None else tree.leaf
    if values.ndim != 2 or len(values) != len(leaf):
        raise ValueError(f"branches expects the {len(leaf)} rows of the tree, got shape {values.shape}.")
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
    inside = _Rows(tree, leaf)
    described = []
    for node in sorted(asked, key=lambda node: -tree.rows[node]):
        here, all_ = inside.of(node), inside.of(int(tree.parent[node]))
        beside = np.setdiff1d(all_, here, assume_unique=True)
        mean = values[here].mean(0)
        near = here[np.argsort(((values[here] - mean) ** 2 / np.maximum(values.var(0), 1e-300)).sum(1), kind="stable")]
        described.append(
            Branch(
                node,
                len(here),
                None if sure is None else float(sure[node]),
                {} if kinds is None else _shares(kinds[here], most),
                differences(values[here], values[beside], names)[:most],
                tuple(near[:most].tolist()),
            )
        )
    return described


class _Rows:
    """The rows below nodes."""

    def __init__(self, tree: Tree, leaf: np.ndarray) -> None:
        order, self.first, self.last = tree.spans
        place = np.empty(tree.leaves, np.int64)
        place[order] = np.arange(tree.leaves)
        self.rows = np.argsort(place[leaf], kind="stable")
        self.bounds = np.searchsorted(place[leaf][self.rows], np.arange(tree.leaves + 1))

    def of(self, node: int) -> np.ndarray:
        return self.rows[self.bounds[self.first[node]] : self.bounds[self.last[node]]]


def _shares(labels: np.ndarray, most: int) -> dict[str, float]:
    values, count = np.unique(labels, return_counts=True)
    order = np.argsort(-count, kind="stable")[:most]
    return {str(values[i]): float(count[i] / len(labels)) for i in order}


def differences(here: np.ndarray, beside: np.ndarray, names: list[str]) -> tuple[Difference, ...]:
    """Standardized differences of means (Cohen's d), with the large-sample interval of Hedges and Olkin (1985).

    Example:
        >>> here, beside = np.array([[5.0], [5.1], [5.2]]), np.array([[0.0], [0.1]])
        >>> print(differences(here, beside, ["height"])[0])
        height +55.32 [+20.99, +89.65]
    """
    n, m = len(here), len(beside)
    if n + m < 4:
        return ()
    within = (n * here.var(0) + m * beside.var(0)) / (n + m - 2)
    gap = here.mean(0) - beside.mean(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        d = np.where(within > 0, gap / np.sqrt(within), 0.0)
    error = np.sqrt((n + m) / (n * m) + d**2 / (2 * (n + m)))
    low, high = d - _SURE * error, d + _SURE * error
    clear = np.flatnonzero((low > 0) | (high < 0))
    order = clear[np.argsort(-np.abs(d[clear]), kind="stable")]
    return tuple(Difference(names[i], float(d[i]), float(low[i]), float(high[i])) for i in order)
