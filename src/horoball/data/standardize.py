"""Features brought to mean 0 and standard deviation 1, from one pass over a table of any size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.data.table import Batch, Order, Table

__all__ = ["Standardized", "Standardizer", "Summary", "common_spread", "standardized", "summarize"]


class Summary:
    """What one pass over the rows tells: count, mean, variance, range, whether all are whole numbers, empty rows.

    Example:
        >>> import numpy as np
        >>> from horoball.data.array_table import ArrayTable
        >>> summary = summarize(ArrayTable(np.array([[0.0, 1.0], [2.0, 1.0]])))
        >>> summary.mean, summary.std, summary.whole
        (tensor([1., 1.]), tensor([1., 0.]), True)
    """

    def __init__(self, features: int) -> None:
        self.rows = 0
        self._mean = torch.zeros(features, dtype=torch.float64)
        self._squares = torch.zeros(features, dtype=torch.float64)
        self.low = torch.full((features,), torch.inf)
        self.high = torch.full((features,), -torch.inf)
        self.whole = True
        self.odd: float | None = None  # a number that is not whole
        self.empty = 0  # rows that are all 0

    def add(self, x: Tensor) -> None:
        """Take in some rows (Chan's update, which does not cancel)."""
        if not len(x):
            return
        block = x.to(torch.float64, copy=True)
        n, total = len(block), self.rows + len(block)
        mean = block.mean(0)
        shift = mean - self._mean
        self._squares += block.sub_(mean).square_().sum(0) + shift.square() * (self.rows * n / total)
        self._mean += shift * (n / total)
        self.rows = total
        self.low, self.high = torch.minimum(self.low, x.amin(0)), torch.maximum(self.high, x.amax(0))
        self.empty += int((x == 0).all(-1).sum())
        if self.whole:
            odd = x != x.round()
            self.whole = not bool(odd.any())
            self.odd = None if self.whole else float(x[odd][0])

    @property
    def mean(self) -> Tensor:
        """Mean of each feature."""
        return self._mean.float()

    @property
    def std(self) -> Tensor:
        """Standard deviation of each feature."""
        return (self._squares / max(1, self.rows)).sqrt().float()


def summarize(table: Table) -> Summary:
    """One pass over all rows.

    Example:
        >>> import numpy as np
        >>> from horoball.data.array_table import ArrayTable
        >>> summarize(ArrayTable(np.eye(4))).rows
        4
    """
    if not table.features:
        raise ValueError("The table has no columns of numbers. Give it at least one beside the label.")
    summary = Summary(table.features)
    for rows in table.blocks(8192):  # few enough for the cache, in float64 too
        block = rows[:, : table.features]
        if not bool(torch.isfinite(block).all()):
            raise ValueError("The table holds missing or infinite values. Fill or drop such rows first.")
        summary.add(block)
    if not summary.rows:
        raise ValueError("The table has no rows. Give it at least two.")
    return summary


_ALIKE = 10.0  # largest spread over the middle one, up to which columns are taken to be in one unit


def common_spread(std: Tensor) -> Tensor | None:
    """The root mean square of the columns' spreads, for columns in one unit: none spreads far wider than the others.

    Columns that do not vary are left out of it.

    Columns of one unit (genes, pixels, principal components) lose their distances when each is scaled by itself.

    Example:
        >>> common_spread(torch.tensor([3.0, 4.0])), common_spread(torch.tensor([1.0, 1.0, 1e4]))
        (tensor(3.5355), None)
    """
    varying = std[std > 0]
    if not len(varying) or float(varying.max()) > _ALIKE * float(varying.median()):
        return None
    return varying.double().square().mean().sqrt().float()  # a square of what float32 holds may be beyond it


def standardized(x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """(x − mean)/std of the features of rows; what follows them stays as it is.

    Example:
        >>> standardized(torch.tensor([[5.0, 1.0]]), torch.tensor([1.0]), torch.tensor([2.0]))
        tensor([[2., 1.]])
    """
    features = len(mean)
    scaled = (x[:, :features] - mean) / std
    return scaled if x.shape[1] == features else torch.cat((scaled, x[:, features:]), 1)


class Standardizer:
    """x ↦ (x − mean)/std.

    Args:
        mean: Mean of each feature.
        std: What each feature is divided by, above 0.

    Example:
        >>> scaler = Standardizer(torch.tensor([1.0]), torch.tensor([2.0]))
        >>> scaler(torch.tensor([[5.0]])), scaler.inverse(torch.tensor([[2.0]]))
        (tensor([[2.]]), tensor([[5.]]))
    """

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        self.mean, self.std = mean, std

    @classmethod
    def of(cls, summary: Summary) -> Standardizer:
        """Each feature by its own spread, as far as it has one.

        A feature that does not vary is divided by 1, and one that varies by float32's rounding alone by that of its
        size: dividing by less would make much of what is nothing.

        Example:
            >>> from horoball.data.array_table import ArrayTable
            >>> Standardizer.of(summarize(ArrayTable([[5.0, 1.0], [5.0, 3.0]]))).std
            tensor([1., 1.])
        """
        size, std = summary.mean.abs(), summary.std
        rounded = torch.where(std > 1e-12 * size, 1e-7 * size, 1.0)
        return cls(summary.mean, torch.where(std > 1e-7 * size, std, rounded))

    def __call__(self, x: Tensor) -> Tensor:
        """Standardised rows; codes of covariates, which follow the features, stay as they are."""
        return standardized(x, self.mean, self.std)

    def inverse(self, x: Tensor) -> Tensor:
        """Rows in their own units.

        Example:
            >>> Standardizer(torch.zeros(1), torch.ones(1)).inverse(torch.ones(1, 1))
            tensor([[1.]])
        """
        return x * self.std + self.mean


class Standardized(Table):
    """A table seen through a standardizer.

    Args:
        table: The table.
        scaler: The standardizer.

    Example:
        >>> import numpy as np
        >>> from horoball.data.array_table import ArrayTable
        >>> table = Standardized(ArrayTable(np.ones((2, 1))), Standardizer(torch.ones(1), torch.ones(1)))
        >>> next(table.blocks())
        tensor([[0.],
                [0.]])
    """

    def __init__(self, table: Table, scaler: Standardizer) -> None:
        self.table, self.scaler = table, scaler
        self.columns, self.labels, self.covariates = table.columns, table.labels, table.covariates
        self.names, self.name_column = table.names, table.name_column

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.table.rows

    def read_labels(self) -> np.ndarray | None:
        """The table's labels."""
        return self.table.read_labels()

    def read_names(self) -> Any:
        """The table's names."""
        return self.table.read_names()

    def fingerprint(self) -> str:
        """The table's: what it is scaled by follows from it."""
        return self.table.fingerprint()

    def shards(self, rows: int) -> list[Standardized]:
        """The table's shards, standardised."""
        return [Standardized(shard, self.scaler) for shard in self.table.shards(rows)]

    def split(self, part: float, seed: int = 0) -> tuple[Table, Table | None]:
        """The table's split, standardised."""
        train, held = self.table.split(part, seed)
        return Standardized(train, self.scaler), None if held is None else Standardized(held, self.scaler)

    def steps(self, order: Order) -> int:
        """Number of steps of an epoch."""
        return self.table.steps(order)

    def batches(self, order: Order) -> Iterator[Batch]:
        """Standardised batches."""
        for batch in self.table.batches(order):
            yield batch._replace(x=self.scaler(batch.x))

    def blocks(self, rows: int = 65536) -> Iterator[Tensor]:
        """Standardised rows in their own order."""
        for block in self.table.blocks(rows):
            yield self.scaler(block)
