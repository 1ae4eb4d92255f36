"""Values so far beyond all others of their column that the column's standard deviation is theirs alone.

One row at 10⁹ among 400 ordinary ones makes the standard deviation 5·10⁷, and the 399 others all alike. Such columns
are scaled by the rows that remain, and what lies beyond is drawn in; both are reported with the rows' numbers.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from horoball.tables.schema import some_names
from horoball.tables.table import Table

LIMIT = 3.0  # standard deviations of the other rows up to which values of a column with outliers stay as they are
_TRIM = 0.005  # part of the sample that is set aside at either end
_INFLATED = 3.0  # times the others' standard deviation; a normal column has 1.1, a lognormal one 1.3
_BEYOND = 10.0  # times the others' range: a rare category has outliers by the first rule, but not by this one
_FEWEST = 8  # rows of which none can be told from the others
_SAMPLE = 4096  # rows of the sample, and
_NUMBERS = 1 << 21  # numbers in it, so that a wide table does not take much memory
_NAMED = 5  # rows that a report names


class OutlierWarning(UserWarning):
    """Some values lie so far out that their columns are scaled without them."""


class RowSample:
    """Rows of a table of any length, evenly spaced: every row at first, then every second, then every fourth."""

    def __init__(self, features: int) -> None:
        self._most = 2 * max(64, min(_SAMPLE, _NUMBERS // features))
        self._blocks: list[Tensor] = []
        self._every, self._seen, self._held = 1, 0, 0

    def add(self, x: Tensor) -> None:
        """Take in the rows that follow."""
        taken = x[-self._seen % self._every :: self._every].clone()
        self._blocks.append(taken)
        self._seen, self._held = self._seen + len(x), self._held + len(taken)
        while self._held > self._most:
            self._blocks = [self.rows[::2].clone()]
            self._every, self._held = 2 * self._every, len(self._blocks[0])

    @property
    def rows(self) -> Tensor:
        """The rows of the sample."""
        return torch.cat(self._blocks)


class Spread(NamedTuple):
    """Mean and standard deviation of each column, without outliers where it has some."""

    mean: Tensor
    std: Tensor
    outliers: Tensor  # whether a column has outliers

    @property
    def limit(self) -> Tensor | None:
        """Standard deviations beyond which values are drawn in; infinity for columns without outliers."""
        return torch.where(self.outliers, LIMIT, torch.inf) if bool(self.outliers.any()) else None


def robust_spread(mean: Tensor, std: Tensor, low: Tensor, high: Tensor, sample: Tensor) -> Spread:
    """The spread of columns as a scaler should see it: as given, unless a few values make up all of it.

    A column has outliers if its standard deviation is several times that of the sample without its extremes, half a
    percent at either end, and if a value lies far beyond the range of those.

    Args:
        mean: Mean of each column, over all rows.
        std: Standard deviation of each column, over all rows.
        low: Least value of each column.
        high: Largest value of each column.
        sample: Some rows, all of them if they are few.
    """
    n = len(sample)
    if n < _FEWEST:
        return Spread(mean, std, torch.zeros_like(std, dtype=torch.bool))
    trim = -int(-n * _TRIM // 1)
    inner = sample.double().sort(0).values[trim : n - trim]
    center, spread = inner.median(0).values, inner.std(0, correction=0)
    width = inner[-1] - inner[0]
    farthest = torch.maximum(high.double() - center, center - low.double())
    outliers = (spread > 0) & (std > _INFLATED * spread) & (farthest > _BEYOND * width)
    if not bool(outliers.any()):
        return Spread(mean, std, outliers)
    columns = outliers.nonzero().ravel()
    among = (sample[:, columns].double() - center[columns]).abs() <= _BEYOND * width[columns]
    kept = torch.where(among, sample[:, columns].double(), torch.nan)
    middle = kept.nanmean(0)
    mean, std = mean.clone(), std.clone()
    mean[columns] = middle.float()
    std[columns] = (kept - middle).square().nanmean(0).sqrt().float()
    return Spread(mean, std, outliers)


def report_outliers(table: Table, spread: Spread) -> None:
    """Warn of the values that columns are scaled without, by column and row."""
    columns = spread.outliers.nonzero().ravel()
    if not len(columns):
        return
    first = rows = 0
    named: list[int] = []
    largest = 0.0, 0, 0, 0.0  # in standard deviations; its row, its column, the value
    for block in table.blocks(8192):
        x = block[:, columns]
        size = ((x - spread.mean[columns]) / spread.std[columns]).abs()
        far = size > LIMIT
        found = far.any(1).nonzero().ravel()
        rows += len(found)
        named += (first + found[: _NAMED - len(named)]).tolist()
        row, column = divmod(int(size.argmax()), len(columns))
        if float(size[row, column]) > largest[0]:
            largest = float(size[row, column]), first + row, int(columns[column]), float(x[row, column])
        first += len(block)
    names = [table.columns[column] for column in columns.tolist()]
    warnings.warn(
        f"{rows:,} of {first:,} rows hold outliers, which make up the spread of their columns alone: row "
        f"{', '.join(map(str, named))}{' …' * (rows > _NAMED)}; column {some_names(names)}. The largest is "
        f"{largest[3]:g} in row {largest[1]}, column {some_names([table.columns[largest[2]]])}. These columns are "
        f"scaled by the other rows, and values more than {LIMIT:g} standard deviations from the mean are drawn in. "
        "Remove or correct such rows if they are errors.",
        OutlierWarning,
        stacklevel=2,
    )
