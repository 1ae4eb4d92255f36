"""What the leaves of a tree are: rows, groups of rows, or cells of nearby rows where there are too many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike

from horoball.data.missing import category_names

__all__ = ["CELLS", "Leaves"]

CELLS = 5_000  # leaves of a table with too many rows for a leaf each
_ROWS = 4_000  # that stand for all rows of groups: a few hundred say where a group is
_ELEMENTS = 32_000_000  # distances to landmarks at a time


@dataclass(frozen=True)
class Leaves:
    """The leaves, the leaf of every row, and the rows that distances are taken between.

    Example:
        >>> leaves = Leaves.of_labels(["b", "a", "b"], np.random.default_rng(0))
        >>> leaves.names, leaves.leaf.tolist(), leaves.size.tolist()
        (('a', 'b'), [1, 0, 1], [1, 2])
    """

    names: tuple[str, ...]
    leaf: np.ndarray  # of every row
    rows: np.ndarray  # numbers of the rows that are used

    @property
    def size(self) -> np.ndarray:
        """Number of rows of each leaf."""
        return np.bincount(self.leaf, minlength=len(self.names))

    @property
    def grouped(self) -> bool:
        """Whether a leaf has more than one row that is used."""
        return len(self.rows) != len(self.names)

    @classmethod
    def of_rows(cls, n: int, names: Sequence[str] | None = None) -> Leaves:
        """Every row is a leaf."""
        if names is not None and len(names) != n:
            raise ValueError(f"names must name every row: got {len(names)} names for {n} rows.")
        everything = np.arange(n)
        return cls(tuple(map(str, everything if names is None else names)), everything, everything)

    @classmethod
    def of_labels(cls, labels: ArrayLike, rng: np.random.Generator) -> Leaves:
        """Every label is a leaf; of a large group, a sample of rows is used."""
        values, leaf = np.unique(category_names(np.asarray(labels)), return_inverse=True)
        if len(values) < 2:
            raise ValueError(f"A tree of groups needs at least two labels, got {len(values)}: {values[:3].tolist()}.")
        most = max(5, _ROWS // len(values))
        order = rng.permutation(len(leaf))
        order = order[np.argsort(leaf[order], kind="stable")]
        rank = np.arange(len(leaf)) - np.searchsorted(leaf[order], leaf[order])  # within its group
        return cls(tuple(map(str, values)), leaf, np.sort(order[rank < most]))

    @classmethod
    def of_cells(
        cls, points: np.ndarray, rng: np.random.Generator, names: Sequence[str] | None = None, count: int = CELLS
    ) -> Leaves:
        """Rows drawn as landmarks are the leaves; every other row belongs to the nearest of them."""
        marks = np.sort(rng.choice(len(points), count, replace=False))
        z = torch.from_numpy(np.ascontiguousarray(points, np.float32))
        at, block = z[marks], max(1, _ELEMENTS // count)
        half = at.square().sum(1) / 2
        leaf = torch.cat([torch.addmm(half, rows, at.T, alpha=-1).argmin(1) for rows in z.split(block)]).numpy()
        leaf[marks] = np.arange(count)
        called = [str(mark) if names is None else str(names[mark]) for mark in marks]
        return cls(tuple(called), leaf, marks)

    def again(self, rng: np.random.Generator) -> np.ndarray:
        """Rows drawn again with replacement within their leaves: places among `rows`."""
        leaf = self.leaf[self.rows]
        order = np.argsort(leaf, kind="stable")
        first, count = np.unique(leaf[order], return_index=True, return_counts=True)[1:]
        drawn = np.repeat(first, count) + (rng.random(len(leaf)) * np.repeat(count, count)).astype(np.int64)
        out = np.empty(len(leaf), np.int64)
        out[order] = order[drawn]  # a row's place is taken by a row of its own leaf
        return out

    def averaged(self, d: np.ndarray, radius: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean distances between leaves, and of leaves from the root, from those of the rows used."""
        if not self.grouped:
            return d, radius
        share = np.zeros((len(self.rows), len(self.names)))
        share[np.arange(len(self.rows)), self.leaf[self.rows]] = 1
        share /= share.sum(0)
        return share.T @ (d @ share), radius @ share
