"""What branches come to by chance: tables without a hierarchy that are otherwise like the data, and their branches.

Every linkage makes branches, and many come back in replicates whether there is a tree or not. A support means something
beside that of the branches of *flat tables* (`FlatTables`), of which the chance level of a branch and the p-value of
all branches together are taken (`Chance`). Columns of pure noise, which hide what the others have, are found before a
tree is made (`related_columns`).

Note [Flat tables]: correlated columns make branches come back, and so do outliers, edges and values that repeat. Two
kinds of tables have them without a tree:

- *an ellipsoid* of the same covariance, filled evenly. In many dimensions it is a normal cloud. In few, a normal
  cloud has no edge, and tables that have one (a cube, a ring) would seem to have branches.
- *the same columns, joined anew*: each column has its own values, by the ranks of a normal cloud whose correlations are
  such that the new table has those of the data. Of columns with few values (binaries, categories, counts), normal
  variables have to be correlated more than the columns are to come; their correlations are raised until they do.
  Columns of many values get one mode: values in clumps, joined anew, would be a grid of clusters.

With few rows (fewer than 50 groups, say), the correlations of the columns are those that a tree makes, and no others
can be known: flat tables then have columns that are not correlated, as groups that part all at once do.

One kind alone is not enough. Log-normal columns have ten false branches by the first, a ring in fifty columns has
fifty by the second. Gaps are put where rows of the data have them.

Note [Chance]: the chance level of a branch is the 95 % point of the support of branches of about its size (within a
factor of 1.6) in trees of flat tables, made by the very same steps; the larger of both kinds of flat tables. Branches
up to half of the leaves are compared with such branches only: what is left when outliers part comes back in flat tables
too. Where columns are copies of each other, branches of flat tables may come back always; a branch that does so too is
then told from them by its length ℓ, its share of the height that it leads to: what is compared is support + ℓ/20, where
a twentieth is less than one replicate of a flat table. A branch is *supported* if its support is above chance.

Flat tables have at most 300 rows. For larger trees, the level of a branch of few rows is that of the same number of
rows, and that of a large branch that of the same share of the rows: both fall as a table grows, so that a small flat
table errs on the side of caution.

Note [Structure]: is there any? Branches of five rows in 300 to half of them all that are above chance with a support of
0.5 or more count, each by its rows times its support times its length: two clusters have few branches, but long ones.
The p-value is the rank of that sum among those of the flat tables, each judged by the chance level of the others of its
kind; the larger one of both kinds. Two clusters of unequal sizes have few such branches, however far apart: the main
split of the tree is a second test, see Note [Split] in `horoball.trees.split`. Ten times its p-value counts: of an
error of 5.5 % in all, half a percent is the split's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import ndtr, ndtri

from horoball.hierarchy.delta import fixed_sample
from horoball.trees.split import BETWEEN, Split, beyond

Kind = Literal["ellipsoid", "columns"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FLAT_ROWS = 300  # of a flat table, at most
SURE = 0.9  # support of a branch that is nearly always real

# Related columns
_NEIGHBORS = 5
_EXPLAINED = 0.1  # share of a column's variance that its rows' neighbors explain; of noise it is about −1/5
_ROWS, _COLUMNS = 500, 1000  # more rows are sampled, more columns are all kept: time grows with both

# Flat tables
_KNOWN_ROWS = 2_000  # that covariance and marginals are taken from
_RAISED = 300  # columns whose correlations are raised, and that are made to have one mode, at most: it takes long
_STEPS = 3  # to raise them; the third changes them by less than 0.01
_DRAWN = 2_000  # rows of a trial
_KNOTS, _MODES = 80, 10  # values of a column that its distribution is drawn through, and modes of it that are tried
_REPEATED = 0.5  # a column with fewer distinct values than this share of the rows has few

# Chance
_ALIKE = 1.6  # a branch of about the same size has so many times its leaves, or that part of them
_LEVEL = 0.95
_LONG = 0.05  # how much of support the longest branch makes up for
_FEWEST = 20  # branches that make a level; where fewer are of about the same size, the nearest of other sizes
_LIKELY = 0.5  # support of a branch that counts as structure
_SPLIT = 10.0  # the weight of the p-value of the main split, so that the two tests err little more than the first
_LEAST = 5  # leaves of 300, or fewer, of a branch that counts as structure


def related_columns(x: np.ndarray, owners: np.ndarray | None = None) -> np.ndarray:
    """A mask of the columns that the other columns say something about; all, if those are fewer than two.

    The mean of a column over the five rows that are nearest in all other columns is compared with its value. What
    remains is judged again, until nothing more is left out.

    Args:
        x: Rows, shape (n, numbers).
        owners: The column that each number belongs to, from 0 on; each its own if not given. The mask is of numbers.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> blobs = np.repeat(10 * rng.normal(size=(5, 3)), 40, 0) + rng.normal(size=(200, 3))
        >>> related_columns(np.hstack((blobs / blobs.std(0), rng.normal(size=(200, 2)))))
        array([ True,  True,  True, False, False])
    """
    owners = np.arange(x.shape[1]) if owners is None else owners
    columns = np.unique(owners)
    x = x[fixed_sample(len(x), _ROWS)]
    if len(x) <= 2 * _NEIGHBORS or x.shape[1] > _COLUMNS:
        return np.ones(x.shape[1], bool)
    while True:
        noise = _explained([x[:, owners == column] for column in columns]) <= _EXPLAINED
        if not noise.any() or len(columns) - noise.sum() < 2:
            return np.isin(owners, columns)
        columns = columns[~noise]


def _explained(columns: list[np.ndarray]) -> np.ndarray:
    """The share of each column's variance that its rows' neighbors explain; a column is one or several numbers."""
    x = np.concatenate(columns, 1)
    square = cdist(x, x, "sqeuclidean")
    np.fill_diagonal(square, np.inf)
    shares = np.zeros(len(columns))
    for number, column in enumerate(columns):
        variance = column.var(0).sum()
        if variance > 0:
            own = (column - column.T) ** 2 if column.shape[1] == 1 else cdist(column, column, "sqeuclidean")
            nearest = np.argpartition(square - own, _NEIGHBORS, axis=1)[:, :_NEIGHBORS]
            shares[number] = 1 - ((column - column[nearest].mean(1)) ** 2).mean(0).sum() / variance
    return shares


class FlatTables:
    """Draws flat tables like a given one; see Note [Flat tables].

    Args:
        x: Rows, shape (n, columns); NaN where a value is missing.
        rng: Draws the rows used, where there are many, and the order of equal values.
        correlated: Whether columns are correlated as those of x are, or not at all.
    """

    def __init__(self, x: np.ndarray, rng: np.random.Generator, *, correlated: bool = True) -> None:
        x = x if len(x) <= _KNOWN_ROWS else x[np.sort(rng.choice(len(x), _KNOWN_ROWS, replace=False))]
        self._gaps = np.isnan(x) if np.isnan(x).any() else None
        if self._gaps is not None:
            # Values for the gaps: other values of the column, which leave its marginal as it is.
            x = x.copy()
            for column, gap in zip(x.T, self._gaps.T, strict=True):
                column[gap] = rng.choice(column[~gap], gap.sum()) if not gap.all() else 0.0
        self._x, self._mean, self._rng, self._correlated = x, x.mean(0), rng, correlated

    def draw(self, kind: Kind, rows: int, rng: np.random.Generator) -> np.ndarray:
        """A flat table of so many rows."""
        made = self._ellipsoid(rows, rng) if kind == "ellipsoid" else self._columns(rows, rng)
        if self._gaps is not None:
            made[self._gaps[rng.permutation(len(self._gaps))[np.arange(rows) % len(self._gaps)]]] = np.nan
        return made

    @cached_property
    def _axes(self) -> np.ndarray:
        """Principal axes, each as long as the standard deviation along it."""
        return _principal(self._x - self._mean) if self._correlated else np.diag(self._x.std(0))

    @cached_property
    def _factors(self) -> np.ndarray:
        """Correlated normals of the columns from independent ones, shape (independent, columns)."""
        x, n = self._x, len(self._x)
        if not self._correlated:
            return np.eye(x.shape[1])
        rank = np.stack([np.lexsort((self._rng.random(n), column)).argsort() for column in x.T], 1)
        scores = ndtri((rank + 0.5) / n)
        if x.shape[1] > _RAISED or not self._few_values.any():
            return _principal(scores - scores.mean(0))
        return _raised(x, self._rng)

    @cached_property
    def _few_values(self) -> np.ndarray:
        return np.array([len(np.unique(column)) < _REPEATED * len(column) for column in self._x.T])

    @cached_property
    def _sorted(self) -> np.ndarray:
        ordered = np.sort(self._x, axis=0)
        for at in np.flatnonzero(~self._few_values) if self._x.shape[1] <= _RAISED else ():
            ordered[:, at] = _one_mode(ordered[:, at])
        return ordered

    def _ellipsoid(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        axes = self._axes
        power = np.square(axes).sum(1)
        # As many dimensions as have an equal share of the variance, by the participation ratio.
        dimensions = power.sum() ** 2 / np.square(power).sum()
        g = rng.standard_normal((rows, len(axes)))
        radius = np.sqrt(np.square(g) @ power / power.sum())
        g *= (rng.random(rows) ** (1 / dimensions) / radius)[:, None]
        g = (g - g.mean(0)) / g.std(0)
        return self._mean + g @ axes

    def _columns(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        factors = self._factors
        g = rng.standard_normal((rows, len(factors))) @ factors
        place = (g.argsort(0).argsort(0) + 0.5) / rows * len(self._x)
        return np.take_along_axis(self._sorted, place.astype(np.int64), 0)


def _principal(x: np.ndarray) -> np.ndarray:
    """Axes whose combination with independent normals has the covariance of centered rows."""
    n, columns = x.shape
    # The smaller of the two square matrices: a table of cells has many columns, others many rows.
    values, vectors = np.linalg.eigh(x @ x.T if n < columns else x.T @ x)
    kept = values > 1e-9 * max(values[-1], 1e-300)
    if n < columns:
        return (vectors[:, kept].T @ x) / np.sqrt(n)
    return (vectors[:, kept] * np.sqrt(values[kept] / n)).T


def _one_mode(ordered: np.ndarray) -> np.ndarray:
    """Quantiles of the nearest distribution with one mode, at the ranks of sorted values.

    Left of its mode, a distribution function with one mode is convex, right of it concave: the largest convex function
    below that of the values, and the smallest concave one above it. Of some modes the one is taken that is nearest.
    """
    rank = (np.arange(len(ordered)) + 0.5) / len(ordered)
    some = np.unique(np.linspace(0, len(ordered) - 1, _KNOTS).astype(np.int64))
    value, share = ordered[some], rank[some]
    modes = range(0, len(some), _KNOTS // _MODES)
    convex = _convex(value, share, [mode + 1 for mode in modes])
    concave = _convex(-value[::-1], -share[::-1], [len(some) - mode for mode in modes])  # seen from the other end
    best, least = share, np.inf
    for mode, left, right in zip(modes, convex, reversed(concave), strict=True):
        made = np.append(left[:-1], -right[::-1])
        tied = np.searchsorted(value, value[mode], "right")
        made[mode:tied] = share[tied - 1]  # values that repeat at the mode are a step up
        apart = np.abs(made - share).max()
        if apart < least:
            best, least = made, apart
    return np.interp(rank, best, value)


def _convex(x: np.ndarray, y: np.ndarray, many: Sequence[int]) -> list[np.ndarray]:
    """The largest convex function below the first points of non-decreasing x, at these, for so many first points.

    One pass over the points is enough for all of them: the hull of some is made from that of fewer.
    """
    wanted, made = set(many), []
    hull: list[int] = []
    xs, ys = x.tolist(), y.tolist()
    for at, (right, high) in enumerate(zip(xs, ys, strict=True)):
        while len(hull) > 1:
            a, b = hull[-2:]
            if (ys[b] - ys[a]) * (right - xs[a]) < (high - ys[a]) * (xs[b] - xs[a]):
                break
            hull.pop()
        hull.append(at)
        if at + 1 in wanted:
            made.append(np.interp(x[: at + 1], x[hull], y[hull]))
    return made


def _raised(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Factors of normals whose correlations are raised until the columns made from them have those of x."""
    n, columns = x.shape
    ordered, spread = np.sort(x, axis=0), x.std(0)
    z = (x - x.mean(0)) / np.where(spread > 0, spread, 1.0)
    wanted = z.T @ z / n
    g, correlation = rng.standard_normal((_DRAWN, columns)), wanted.copy()
    for step in range(_STEPS + 1):
        np.fill_diagonal(correlation, 1.0)
        values, vectors = np.linalg.eigh(correlation)
        factors = vectors * np.sqrt(np.maximum(values, 0.0))
        factors /= np.maximum(np.linalg.norm(factors, axis=1, keepdims=True), 1e-12)
        if step == _STEPS:
            break
        place = np.minimum((ndtr(g @ factors.T) * n).astype(np.int64), n - 1)
        made = np.take_along_axis(ordered, place, 0)
        deviation = made.std(0)
        made = (made - made.mean(0)) / np.where(deviation > 0, deviation, 1.0)
        correlation = np.clip(correlation + wanted - made.T @ made / _DRAWN, -0.999, 0.999)
    return factors.T


class Judged(NamedTuple):
    """The branches of a tree but its root: leaves, support, and length as a share of the height that it leads to."""

    size: np.ndarray
    support: np.ndarray
    length: np.ndarray


@dataclass(frozen=True)
class Chance:
    """Branches of flat trees; see Note [Chance].

    Attributes:
        leaves: Number of leaves of the flat trees.
        tables: For each kind of flat table, the branches of each.
        least: Leaves of a branch that counts as structure, at least.
        shares: For each kind of flat table, the share of the main split of each; none if splits do not count.
    """

    leaves: int
    tables: Mapping[str, Sequence[Judged]]
    least: int = _LEAST
    shares: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def level(self, found: Judged, leaves: int) -> np.ndarray:
        """What support of these branches, in a tree of so many leaves, has to exceed."""
        size = self._size(found.size, leaves)
        return np.max([_levels(kind, found._replace(size=size), self.leaves) for kind in self.tables.values()], axis=0)

    def structure(self, found: Judged, leaves: int) -> tuple[int, float, float]:
        """How many branches count, how many do in flat tables, and the p-value; see Note [Structure]."""
        number, held = self._counted(found._replace(size=self._share(found, leaves)), self.level(found, leaves))
        p, mean = 0.0, 0.0
        for kind in self.tables.values():
            others = ([*kind[:place], *kind[place + 1 :]] for place in range(len(kind)))
            flat = [self._counted(one, _levels(of, one, self.leaves)) for one, of in zip(kind, others, strict=True)]
            p = max(p, (1 + sum(rows >= held for _, rows in flat)) / (1 + len(flat)))
            mean = max(mean, sum(count for count, _ in flat) / len(flat))
        return number, mean, p

    def parted(self, found: Judged, split: Split, leaves: int) -> float:
        """The p-value of two clusters, times its weight; 1 where the main split could not be two."""
        of = split.branch
        if not self.shares or of < 0 or split.between > BETWEEN or found.support[of] < _LIKELY:
            return 1.0
        if self._share(found, leaves)[of] < self.least:
            return 1.0
        return min(1.0, _SPLIT * max(beyond(split.share, flat) for flat in self.shares.values()))

    def large(self, found: Judged, leaves: int) -> np.ndarray:
        """Which branches, in a tree of so many leaves, have the size of those that count as structure."""
        share = self._share(found, leaves)
        return np.asarray((share >= self.least) & (share <= self.leaves / 2))

    def _counted(self, found: Judged, level: np.ndarray) -> tuple[int, float]:
        """How many branches count as structure, and their sum; see Note [Structure]."""
        chosen = self.large(found, self.leaves) & (found.support >= _LIKELY) & (found.support > level)
        return int(chosen.sum()), float((found.size * found.support * found.length)[chosen].sum())

    def _share(self, found: Judged, leaves: int) -> np.ndarray:
        return np.asarray(found.size * min(1.0, self.leaves / leaves))

    def _size(self, size: np.ndarray, leaves: int) -> np.ndarray:
        """Sizes in a flat tree that are comparable with these; see Note [Chance]."""
        if leaves <= self.leaves:
            return size
        share = size * (self.leaves / leaves)
        return np.maximum(share, np.minimum(size, self.leaves / 4))


def _levels(tables: Sequence[Judged], found: Judged, leaves: int) -> np.ndarray:
    """What support of these branches has to exceed, by flat tables of one kind with so many leaves."""
    size, support, length = (np.concatenate(each) for each in zip(*tables, strict=True))
    size, measure = np.log(size), support + _LONG * length
    asked, where = np.unique(found.size, return_inverse=True)
    levels = np.empty(len(asked))
    small = size <= np.log(leaves / 2)
    for place, one in enumerate(asked):
        same = small if one <= leaves / 2 else ~small
        same = same if same.any() else ~same
        apart = np.abs(size[same] - np.log(one))
        enough = np.sort(apart)[min(_FEWEST, len(apart)) - 1]
        levels[place] = np.quantile(measure[same][apart <= max(np.log(_ALIKE), enough) + 1e-9], _LEVEL)
    return np.clip(levels[where] - _LONG * found.length, 0.0, 1.0)
