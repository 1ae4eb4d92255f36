"""Features scaled to mean 0 and standard deviation 1, from one pass over a table of any size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self

import torch
from torch import Tensor

from horoball.geometry.kernels import bounded, may_hold
from horoball.tables.mapped import Mapped
from horoball.tables.numbers import check_finite
from horoball.tables.outliers import RowSample, Spread, robust_spread
from horoball.tables.table import Batch, Order, Table


class Summary:
    """What one pass over the rows tells: count, mean, variance, range, whether all are whole numbers, empty rows.

    Example:
        >>> import numpy as np
        >>> from horoball.tables.table import ArrayTable
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
        self._sample = RowSample(features)

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
        self._sample.add(x)
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

    @property
    def sample(self) -> Tensor:
        """Some rows, evenly spaced."""
        return self._sample.rows

    @property
    def spread(self) -> Spread:
        """Mean and standard deviation of each feature, without outliers where it has some; see `robust_spread`."""
        return robust_spread(self.mean, self.std, self.low, self.high, self.sample)


def summarize(table: Table) -> Summary:
    """One pass over all rows.

    Example:
        >>> import numpy as np
        >>> from horoball.tables.table import ArrayTable
        >>> summarize(ArrayTable(np.eye(4))).rows
        4
    """
    if not table.features:
        raise ValueError("The table has no columns of numbers. Give it at least one beside the label.")
    summary = Summary(table.features)
    for rows in table.blocks(8192):  # few enough for the cache, in float64 too
        block = rows[:, : table.features]
        check_finite(block, summary.rows, table.columns, "The table")
        summary.add(block)
    if not summary.rows:
        raise ValueError("The table has no rows. Give it at least two.")
    return summary


_NEAR = 10.0  # standard deviations that any new row may have without being drawn in
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


def standardized(x: Tensor, mean: Tensor, std: Tensor, limit: Tensor | None = None) -> Tensor:
    """(x − mean)/std of the features of rows, drawn in beyond a limit; what follows the features stays as it is.

    Args:
        x: Rows, shape (n, features + others).
        mean: Mean of each feature.
        std: What each feature is divided by.
        limit: Beyond which a scaled feature is drawn in, see `bounded`; none without it.

    Example:
        >>> standardized(torch.tensor([[5.0, 1.0]]), torch.tensor([1.0]), torch.tensor([2.0]))
        tensor([[2., 1.]])
    """
    features = len(mean)
    scaled = (x[:, :features] - mean) / std
    # A huge value divided by little overflows, but is a number still; an infinity that was given is not.
    if may_hold(~scaled.sum().isfinite()):
        over = scaled.isinf() & x[:, :features].isfinite()
        scaled = torch.where(over, scaled.sign() * torch.finfo(x.dtype).max, scaled)
    if limit is not None:
        scaled = bounded(scaled, limit)
    return scaled if x.shape[1] == features else torch.cat((scaled, x[:, features:]), 1)


class Standardizer:
    """x ↦ (x − mean)/std, and drawn in beyond a limit in columns that have one.

    Args:
        mean: Mean of each feature.
        std: What each feature is divided by, above 0.
        limit: Standard deviations beyond which values of each feature are drawn in, below twice as many; infinity for
            features without outliers, None if there are no others.

    Example:
        >>> scaler = Standardizer(torch.tensor([1.0]), torch.tensor([2.0]))
        >>> scaler(torch.tensor([[5.0]])), scaler.inverse(torch.tensor([[2.0]]))
        (tensor([[2.]]), tensor([[5.]]))
    """

    def __init__(self, mean: Tensor, std: Tensor, limit: Tensor | None = None) -> None:
        self.mean, self.std, self.limit = mean, std, limit

    @classmethod
    def of(cls, spread: Spread) -> Standardizer:
        """Each feature by its own spread, as far as it has one.

        A feature that does not vary is divided by 1, and one that varies by float32's rounding alone by that of its
        size: dividing by less would make much of what is nothing.
        """
        size, std = spread.mean.abs(), spread.std
        rounded = torch.where(std > 1e-12 * size, 1e-7 * size, 1.0)
        return cls(spread.mean, torch.where(std > 1e-7 * size, std, rounded), spread.limit)

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        kept = {"scaler.mean": self.mean, "scaler.std": self.std}
        return kept if self.limit is None else kept | {"scaler.limit": self.limit}

    def __call__(self, x: Tensor) -> Tensor:
        """Standardized rows; codes of covariates, which follow the features, stay as they are."""
        return standardized(x, self.mean, self.std, self.limit)

    def inverse(self, x: Tensor) -> Tensor:
        """Rows in their own units. What was drawn in stays where it was drawn to: a decoded outlier is a near one."""
        return x * self.std + self.mean


def stored_scaler(tensors: Mapping[str, Tensor], features: int) -> Standardizer | None:
    """The standardizer that a checkpoint holds, if it holds one; refuses what `Standardizer.tensors` cannot have given.

    Example:
        >>> stored_scaler({"scaler.mean": torch.zeros(2), "scaler.std": torch.ones(3)}, 2)
        Traceback (most recent call last):
        ...
        ValueError: its scaling is not of 2 columns.
    """
    if "scaler.mean" not in tensors:
        return None
    scaler = Standardizer(tensors["scaler.mean"], tensors["scaler.std"], tensors.get("scaler.limit"))
    if any(tensor.shape != (features,) for tensor in scaler.tensors().values()):
        raise ValueError(f"its scaling is not of {features} columns.")
    if not all(bool(torch.isfinite(tensor).all()) for tensor in (scaler.mean, scaler.std)):
        raise ValueError("its scaling is not finite.")
    if not bool((scaler.std > 0).all()):
        raise ValueError("its scaling divides by 0 or less.")
    if scaler.limit is not None and not bool((scaler.limit > 0).all()):
        raise ValueError("its scaling has limits of 0 or less.")
    return scaler


def input_limit(scaler: Standardizer, low: Tensor, high: Tensor) -> float:
    """Up to where an encoder should see rows as they are: twice as far as any row of the fit, at least 10.

    Example:
        >>> input_limit(Standardizer(torch.zeros(1), torch.ones(1)), torch.tensor([-2.0]), torch.tensor([8.0]))
        16.0
    """
    return max(_NEAR, 2 * float(scaler(torch.stack((low, high))).abs().max()))


class Standardized(Mapped):
    """A table seen through a standardizer.

    Example:
        >>> import numpy as np
        >>> from horoball.tables.table import ArrayTable
        >>> table = Standardized(ArrayTable(np.ones((2, 1))), Standardizer(torch.ones(1), torch.ones(1)))
        >>> next(table.blocks())
        tensor([[0.],
                [0.]])
    """

    def __init__(self, table: Table, scaler: Standardizer) -> None:
        super().__init__(table)
        self.scaler = scaler

    def _of(self, table: Table) -> Self:
        return type(self)(table, self.scaler)

    def batches(self, order: Order) -> Iterator[Batch]:
        """Standardized batches."""
        for batch in self.table.batches(order):
            yield batch._replace(x=self.scaler(batch.x))

    def blocks(self, rows: int = 65536) -> Iterator[Tensor]:
        """Standardized rows in their own order."""
        return map(self.scaler, self.table.blocks(rows))
