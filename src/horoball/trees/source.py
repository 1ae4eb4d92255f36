"""What a tree is made from: points, and replicates of them that say how sure they are.

Note [Replicates]: a replicate is what the data might have been. Columns are drawn again with replacement, as
Felsenstein (1985) does with the sites of an alignment: a branch that rests on a few columns does not come back. With a
fitted model, every row is moved as well by a draw from its posterior, decoded: x_i + x̂(z) − x̂(E z), z ~ q(z | x_i), so
that a branch made by noise does not come back either. Fewer than ten columns say little when they are drawn again (two
columns are then often copies of one), so each replicate has a random 70 % of the rows as well. A column that is several
numbers, as a category or a date is, is drawn with all of them: a level says what the others of its category are not.
Points of a latent space have no columns to draw; there a replicate is a draw of every row's posterior.

What the leaves of a tree are: rows, groups of rows, or micro-clusters where there are too many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike

from horoball.geometry.ball import PoincareBall
from horoball.tables.cell_values import category_names

_BLOCK = 256  # rows whose distances to all are in float64 at a time: a matrix more is not needed
_FEW_COLUMNS = 10  # columns below which replicates draw rows as well

Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]  # generator, row numbers -> what is added to these rows


@dataclass(frozen=True)
class Source:
    """Points of rows, and how to draw others that might have been; see Note [Replicates]."""

    name: str
    points: np.ndarray  # (rows, columns), NaN where a value is missing; or in the ball's tangent chart
    noise: Draw | None = None  # what a replicate adds to rows
    weight: np.ndarray | None = None  # of the columns; 1 if not given
    c: float | None = None  # minus the curvature of a latent space; None for columns, whose root is their center
    owners: np.ndarray | None = None  # the column that each number belongs to, from 0 on; its own if not given
    spread: np.ndarray | None = None  # variance of the columns within each row, where a row is the mean of many

    @property
    def few_columns(self) -> bool:
        """Whether replicates have to draw rows, as there are too few columns to draw."""
        return self.c is None and len(np.unique(self._owners)) < _FEW_COLUMNS

    @property
    def _owners(self) -> np.ndarray:
        return np.arange(self.points.shape[1]) if self.owners is None else self.owners

    def weighted(self, rows: np.ndarray) -> np.ndarray:
        """The points of rows, as distances are taken between them."""
        return self.points[rows] if self.weight is None else self.points[rows] * self.weight

    def within(self, rows: np.ndarray, times: np.ndarray | float = 1.0) -> np.ndarray | None:
        """Sum of the variances within each of some rows; None where rows are single ones."""
        if self.spread is None:
            return None
        weight = np.ones(self.points.shape[1]) if self.weight is None else self.weight
        return np.asarray(self.spread[rows] @ (np.square(weight) * times))

    def replicate(self, rng: np.random.Generator, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """The points of rows as they might have been, and the variance within each."""
        moved = self.points[rows] if self.noise is None else self.points[rows] + self.noise(rng, rows)
        if self.weight is not None:
            moved = moved * self.weight
        if self.c is not None:
            return moved, None
        # A column that is drawn k times counts k times in squared distances, with all its numbers.
        columns = int(self._owners.max()) + 1
        times = np.bincount(rng.integers(0, columns, columns), minlength=columns)[self._owners]
        return moved * np.sqrt(times), self.within(rows, times)


def distance_matrix(points: np.ndarray, c: float | None = None, within: np.ndarray | None = None) -> np.ndarray:
    """All distances between points, float32: straight, or of the ball with curvature −c in its tangent chart.

    They are computed in float64, so that near points far from the origin keep their distance. Between rows with gaps
    it is the distance over the columns that both have, scaled up to all columns (Gower, 1971); rows without a column in
    common get the mean of all.

    Args:
        points: Rows, shape (n, columns).
        c: Minus the curvature of their space; None for columns.
        within: Variance within each row, where a row is the mean of many: see `horoball.trees.microclusters`.
    """
    if np.isnan(points).any():
        return _apart(_shared_distances(points), within)
    z = torch.from_numpy(np.ascontiguousarray(points, np.float64))
    n = len(z)
    ball = None if c is None or c == 0 else PoincareBall(c)
    out = np.empty((n, n), np.float32)
    with torch.no_grad():
        for first in range(0, n, _BLOCK):
            rows = z[first : first + _BLOCK]
            if ball is None:
                d = torch.cdist(rows, z, compute_mode="use_mm_for_euclid_dist")
            else:
                d = ball.cdist(rows, z)
            out[first : first + _BLOCK] = d.numpy()
    np.fill_diagonal(out, 0)
    return _apart(out, within)


def _apart(d: np.ndarray, within: np.ndarray | None) -> np.ndarray:
    """Distances between rows of micro-clusters, from those of their means."""
    if within is None:
        return d
    part = within.astype(np.float32)
    for first in range(0, len(d), _BLOCK):
        rows = d[first : first + _BLOCK]
        np.sqrt(np.square(rows) + part[first : first + _BLOCK, None] + part, out=rows)
    np.fill_diagonal(d, 0)
    return d


def _shared_distances(x: np.ndarray) -> np.ndarray:
    """Distances over the columns that two rows have, scaled up to all columns."""
    known = ~np.isnan(x)
    there, value = known.astype(np.float64), np.where(known, x, 0.0)
    shared = known.astype(np.float32)
    shared = shared @ shared.T  # whole numbers, exact
    square = np.square(value) @ there.T
    d = value @ value.T
    d *= -2
    d += square
    d += square.T
    np.maximum(d, 0.0, out=d)
    d *= x.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        d /= shared
    np.sqrt(d, out=d)
    none = shared == 0
    if none.any():
        d[none] = d[~none].mean()
    np.fill_diagonal(d, 0.0)
    return d.astype(np.float32)


_ROWS = 4_000  # that stand for all rows of groups: a few hundred say where a group is


@dataclass(frozen=True)
class Leaves:
    """The leaves, the leaf of every row, and the rows that distances are taken between."""

    names: tuple[str, ...]
    leaf: np.ndarray  # of every row
    rows: np.ndarray  # numbers of the rows that are used
    weight: np.ndarray | None = None  # of each leaf, where it is a micro-cluster: its number of rows

    @property
    def size(self) -> np.ndarray:
        """Number of rows of each leaf."""
        return np.bincount(self.leaf, minlength=len(self.names)) if self.weight is None else self.weight

    @property
    def grouped(self) -> bool:
        """Whether a leaf has more than one row that is used."""
        return len(self.rows) != len(self.names)

    @classmethod
    def of_rows(cls, n: int, names: Sequence[str] | None = None, weight: np.ndarray | None = None) -> Leaves:
        """Every row is a leaf; or every micro-cluster, of the weight that is given."""
        if names is not None and len(names) != n:
            raise ValueError(f"names must name every row: got {len(names)} names for {n} rows.")
        everything = np.arange(n)
        return cls(tuple(map(str, everything if names is None else names)), everything, everything, weight)

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
