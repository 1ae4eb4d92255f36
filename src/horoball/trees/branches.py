"""What a branch is: its size, its labels, the columns that set it apart from the rest of the branch above.

What sets a branch apart from its siblings: as it was cut, and on rows that did not cut it.

Note [Held out]: a branch is cut where columns differ, so on its own rows they differ in noise too. Here the rows are
halved at random. Each row goes to the branch that holds the most similar row of the *other* half, and similar means
in all columns but the one that is compared. A column that has nothing to do with the others then has the same
distribution in all branches, whatever that distribution is, and the t interval of two groups holds. Halving alone would
not do: rows of the other half that are assigned by the same column differ in it by construction (Gao, Bien and Witten,
2022). Halves only keep the row itself from drawing its neighbor into its own branch.

Note [Gap]: a column by which alone a branch was cut relates to no other, and the above cannot show it. It is believed
if it has a gap: of three adjacent intervals of the same length around the two means and between them, the middle one
holds fewer rows than both others. No column with a single peak has that, wherever the intervals are; rows are counted
in the half that the means are not taken from. Columns with many equal values always have gaps, and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, stdtrit
from torch import Tensor

from horoball.tables.cell_values import category_names
from horoball.tables.frames import columns_of_frame, index_of
from horoball.tables.numbers import check_unmasked
from horoball.trees.tree import Tree

_ROWS = 2_000  # compared at most, drawn at random: time grows with their square
_BLOCKS = 100  # sets of columns that are left out in turn; with fewer columns, one at a time
_RARE = 0.01  # how often a column without a gap may seem to have one, at most
_ROUNDING = 1e-12  # of sums of standardized values
_LEAST = 0.01  # weight of a column that neighbors in the tree do not share
_FAR = 3.0  # standard deviations from which on a gap is looked for: a normal column that is cut in half has 2.65


@dataclass(frozen=True)
class Difference:
    """How far a column's mean in a branch lies from its siblings', in standard deviations within the two."""

    column: str
    value: float
    low: float  # 95 % interval
    high: float
    alone: bool = False  # shown by a gap in the column itself, not by its relation to others

    def __str__(self) -> str:
        return f"{self.column} {self.value:+.2f} [{self.low:+.2f}, {self.high:+.2f}]" + " alone" * self.alone


def differences(here: np.ndarray, beside: np.ndarray, names: list[str]) -> tuple[Difference, ...]:
    """Standardized differences of two groups that are given, those whose interval leaves out 0, largest first.

    Of branches of a tree they are a description, not a test: see Note [Held out].

    Example:
        >>> here, beside = np.array([[5.0], [5.1], [5.2]]), np.array([[0.0], [0.1]])
        >>> print(differences(here, beside, ["height"])[0])
        height +55.32 [+20.91, +89.73]
    """
    x = np.concatenate([here, beside])
    mean, spread = column_scale(x)
    group = np.repeat([0, 1], [len(here), len(beside)])
    sums = np.stack([_sums(group, column, np.array([[0, 1], [1, 2]])) for column in ((x - mean) / spread).T], axis=-1)
    return shown(names, *_intervals(sums[:, 0], sums[:, 1], least=1))


def shown(
    names: list[str], value: np.ndarray, low: np.ndarray, high: np.ndarray, alone: np.ndarray | None = None
) -> tuple[Difference, ...]:
    """The differences whose interval leaves out 0, largest first."""
    clear = np.flatnonzero((low > 0) | (high < 0))
    order = clear[np.argsort(-np.abs(value[clear]), kind="stable")]
    gap = np.zeros(len(value), bool) if alone is None else alone
    return tuple(Difference(names[i], float(value[i]), float(low[i]), float(high[i]), bool(gap[i])) for i in order)


class HeldOut:
    """Rows assigned to the leaves of a tree by rows of the other half, see Note [Held out].

    Args:
        place: Place of each row's leaf in an order in which every branch is a range, shape (n,).
        x: The rows, shape (n, columns); NaN where a value is missing.
        seed: Seed of the halves, and of the rows drawn where there are many.
    """

    def __init__(self, place: np.ndarray, x: np.ndarray, *, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        rows = self._rng.permutation(len(x))[:_ROWS]
        self._place, some = place[rows], x[rows]
        self._half = np.arange(len(rows)) % 2 == 0
        self._mean, self._spread = column_scale(some)
        self._z = (some - self._mean) / self._spread
        self._blocks = np.array_split(self._rng.permutation(x.shape[1]), min(x.shape[1], _BLOCKS))
        self._weight = _shared(np.nan_to_num(self._z)[np.argsort(self._place, kind="stable")])
        self._near = np.empty(self._z.shape, np.int64)
        for half in (self._half, ~self._half):
            self._near[half] = self._places(self._z[half], ~half)

    def places(self, x: np.ndarray, half: int) -> np.ndarray:
        """Places of new rows by all columns but one, shape (rows, columns), as the rows of one half assign them."""
        return self._places((x - self._mean) / self._spread, self._half == bool(half))

    def _places(self, z: np.ndarray, by: np.ndarray) -> np.ndarray:
        a, b = (np.nan_to_num(one) * self._weight for one in (z, self._z[by]))  # a missing value is at the mean
        # Equal distances are broken at random: rounding would break them by the column that is left out.
        d = _squares(a, b) + 1e-6 * self._rng.random((len(a), len(b)))
        near = np.empty(z.shape, np.int64)
        for block in self._blocks:
            near[:, block] = self._place[by][(d - _squares(a[:, block], b[:, block])).argmin(1)][:, None]
        return near

    def compare(self, branch: ArrayLike, above: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Differences of branches from their siblings, both ends of the intervals, and which of them rest on a gap.

        Args:
            branch: First and past-the-end places of the branches, shape (branches, 2).
            above: The same of the branches above them.

        Returns:
            Arrays of shape (branches, columns); an interval is infinite where there are too few rows.
        """
        ends = np.stack([np.asarray(branch), np.asarray(above)], axis=1)
        value, low, high = np.empty((3, len(ends), self._z.shape[1]))
        alone = np.zeros(value.shape, bool)
        for j, z in enumerate(self._z.T):
            here, both = np.moveaxis(_sums(self._near[:, j], z, ends), 2, 0)
            value[:, j], low[:, j], high[:, j] = _intervals(here, both - here)
            if 2 * len(np.unique(z)) < len(z):
                continue  # many equal values: see Note [Gap]
            here, both = np.moveaxis(_sums(self._place, z, ends), 2, 0)
            cut = np.stack(_intervals(here, both - here))
            clear = np.where(cut[0] > 0, low[:, j] > 0, high[:, j] < 0)
            for i in np.flatnonzero(~clear & (np.abs(cut[0]) > _FAR)):
                if self._gap(j, *ends[i]):
                    (value[i, j], low[i, j], high[i, j]), alone[i, j] = cut[:, i], True
        return value, low, high, alone

    def _gap(self, j: int, branch: np.ndarray, above: np.ndarray) -> bool:
        """Whether a column has a gap between a branch and its siblings, see Note [Gap]."""
        z, has = self._z[:, j], ~np.isnan(self._z[:, j])
        here, both = (has & (ends[0] <= self._place) & (self._place < ends[1]) for ends in (branch, above))
        near = has & (above[0] <= self._near[:, j]) & (self._near[:, j] < above[1])
        rows = np.zeros(3, np.int64)  # around the one mean, between the two, around the other
        for half in (self._half, ~self._half):
            if not (here & half).any() or not (both & ~here & half).any():
                return False
            a, b = sorted((z[here & half].mean(), z[both & ~here & half].mean()))
            rows += np.histogram(z[near & ~half], a + (b - a) * np.array([-0.25, 0.25, 0.75, 1.25]))[0]
        return bool(bdtr(rows[1], rows[1] + min(rows[0], rows[2]), 0.5) <= _RARE)


def column_scale(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of columns, without missing values; 1 for the deviation of a constant."""
    has = ~np.isnan(x)
    count = np.maximum(has.sum(0), 1)
    mean = np.where(has, x, 0.0).sum(0) / count
    spread = np.sqrt((np.where(has, x - mean, 0.0) ** 2).sum(0) / count)
    return mean, np.where(spread > 0, spread, 1.0)


def _shared(z: np.ndarray) -> np.ndarray:
    """Share of each column's variance that rows next to each other in the tree have in common: a weight for columns.

    Columns of noise have little, and would hide by their number which rows are similar.
    """
    return np.asarray(np.maximum(1 - (np.diff(z, axis=0) ** 2).mean(0) / 2, _LEAST))


def _squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared distances between the rows of two tables."""
    if a.shape[1] == 1:
        return np.asarray((a - b.T) ** 2)
    return np.asarray((a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T)


def _sums(place: np.ndarray, z: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Number, sum and sum of squares of the values at places from the first to the second end; shape (3, ...)."""
    order = np.argsort(place, kind="stable")
    order = order[~np.isnan(z[order])]
    sums = np.zeros((3, len(order) + 1))
    np.cumsum([np.ones(len(order)), z[order], z[order] ** 2], axis=1, out=sums[:, 1:])
    at = np.searchsorted(place[order], ends)
    return np.asarray(sums[:, at[..., 1]] - sums[:, at[..., 0]])


def _intervals(here: np.ndarray, beside: np.ndarray, least: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cohen's d and its 95 % interval, by the standard error of Hedges and Olkin (1985)."""
    (n, a, aa), (m, b, bb) = here, beside
    free = n + m - 2
    few = (n < least) | (m < least) | (free < 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = a / n - b / m
        within = (np.maximum(aa - a * a / n, 0.0) + np.maximum(bb - b * b / m, 0.0)) / free
        # Two values that divide the groups exactly leave no variance: as if one row were on the other side.
        within = np.where(within > _ROUNDING, within, gap**2 / (n + m))
        d = np.where(few | (np.abs(gap) < _ROUNDING), 0.0, gap / np.sqrt(within))
        # Student's t for the means, at d = 0; the normal quantile for the standard deviation that d is divided by.
        mean, scale = stdtrit(free, 0.975) * np.sqrt(1 / n + 1 / m), 1.96 * d / np.sqrt(2 * (n + m))
        reach = np.where(few, np.inf, np.hypot(mean, scale))
    return d, d - reach, d + reach


@dataclass(frozen=True)
class Branch:
    """An inner node of a tree, described."""

    node: int
    rows: int
    support: float | None
    labels: dict[str, float]  # shares of the commonest labels, largest first
    differences: tuple[Difference, ...]  # from its siblings; those whose interval leaves out 0, largest first
    exemplars: tuple[int, ...]  # numbers of the rows nearest to the branch's mean
    exemplar_names: tuple[str, ...] = ()  # their labels in the index of a data frame

    def __str__(self) -> str:
        sure = "" if self.support is None else f", support {self.support:.2f}"
        held = self._composition
        apart = "; ".join(map(str, self.differences))
        parts = [f"node {self.node}: {self.rows:,} rows{sure}", *([held] if held else []), *([apart] if apart else [])]
        return " | ".join(parts)

    @property
    def _composition(self) -> str:
        return ", ".join(f"{name} {share:.0%}" for name, share in self.labels.items())

    def _repr_html_(self) -> str:
        from horoball.notebook import facts_table  # which a fit does not need

        facts: dict[str, object] = {
            "rows": f"{self.rows:,}",
            "support": None if self.support is None else f"{self.support:.2f}",
            "labels": self._composition or None,
        }
        facts |= {one.column: str(one).removeprefix(f"{one.column} ") for one in self.differences}
        return facts_table(
            f"node {self.node}",
            facts | {"exemplars": ", ".join(map(str, self.exemplar_names or self.exemplars)) or None},
        )


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
    noise at most 6 % of the 95 % intervals leave out 0. See Note [Held out] in `horoball.trees.branches`.

    Args:
        tree: The tree.
        x: The rows that it was made from, shape (rows, columns); NaN where a value is missing. Give counts as
            log(1 + x). Of more than 2,000 rows, 2,000 drawn at random are compared.
        columns: Names of the columns; those of a data frame if not given.
        labels: One label per row, for the composition of branches.
        support: Branches below it, or not above chance, are left out; those of a tree without support are all given.
        most: Labels, columns and exemplars to name.

    Example:
        >>> from horoball.trees import tree
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
    columns = columns_of_frame(x) if columns is None else columns
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
    described, index = [], index_of(x)
    for node, *found in zip(asked, *compared, strict=True):
        here = inside.of(node)
        far = ((z[here] - z[here].mean(0)) ** 2).sum(1)
        nearest = here[np.argsort(far, kind="stable")][:most].tolist()
        described.append(
            Branch(
                node,
                len(here),
                None if sure is None else float(sure[node]),
                {} if kinds is None else _shares(kinds[here], most),
                shown(names, *found)[:most],
                tuple(nearest),
                () if index is None else tuple(str(index[row]) for row in nearest),
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
