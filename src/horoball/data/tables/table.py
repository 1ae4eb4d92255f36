"""Rows of numbers, in memory or streamed, handed out in shuffled batches that can be resumed and shared among ranks.

Note [Batches]: an epoch is cut into steps. Which rows a step of a rank holds is a function of (seed, epoch, step, rank,
ranks) alone, so a run that is resumed, or restarted on a failure, sees the batches of the run that was not.
"""

from __future__ import annotations

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from torch import Tensor

from horoball.data.tables.column_types import Schema
from horoball.data.tables.covariates import Covariates

__all__ = ["Batch", "Order", "Step", "Table", "digest", "names_digest"]

_NAMES = 1 << 16  # that are written out at a time


def digest(*parts: Any) -> str:
    """A name for arrays: others have another.

    Example:
        >>> digest(np.zeros(3)) == digest(np.zeros(3)), digest(np.zeros(3)) == digest(np.ones(3))
        (True, False)
    """
    found = hashlib.sha256()
    for part in map(np.ascontiguousarray, parts):
        found.update(f"{part.dtype} {part.shape}".encode())
        found.update(part.data)
    return found.hexdigest()[:16]


def names_digest(names: Iterable[Any]) -> bytes:
    """A digest of the names of rows, which come as lists or Arrow arrays, one after the other.

    Example:
        >>> import pyarrow as pa
        >>> names_digest([["a"], pa.array(["b"])]) == names_digest([["a", "b"]])
        True
        >>> names_digest([["7"]]) == names_digest([[7]])
        False
    """
    found = hashlib.sha256()
    for part in names:
        for start in range(0, len(part), _NAMES):
            some = part[start : start + _NAMES]
            values = some.to_pylist() if hasattr(some, "to_pylist") else list(some)
            found.update("".join(f"{value!r}\0" for value in values).encode("utf-8", "surrogatepass"))
    return found.digest()


class Order(NamedTuple):
    """In which order rows come, and whose they are.

    Example:
        >>> Order(batch_size=128).ranks
        1
    """

    batch_size: int  # rows of a step, over all ranks
    seed: int | None = 0  # None: as they stand
    epoch: int = 0
    rank: int = 0
    ranks: int = 1
    start: int = 0  # first step


class Step(Protocol):
    """What a rank sees of one step: what a loss is called with, and how much of the whole step that is."""

    @property
    def inputs(self) -> tuple[Any, ...]:
        """What the loss is called with."""

    @property
    def rows(self) -> int:
        """Observations of this rank."""

    @property
    def total(self) -> int:
        """Observations over all ranks."""

    @property
    def noise(self) -> str:
        """Noise of the ranks: their "own", "by_rank" out of that of one batch, or the "same"."""

    def describe(self) -> str:
        """The observations, for an error message."""


class Batch(NamedTuple):
    """Rows of one step of one rank.

    Example:
        >>> import torch
        >>> Batch(torch.zeros(2, 3), 2).x.shape
        torch.Size([2, 3])
    """

    x: Tensor  # float32, (rows, features)
    total: int  # rows of this step over all ranks
    noise: str = "own"  # "by_rank" if the ranks' rows are every ranks-th of one batch
    side: Tensor | None = None  # numbers that go with the rows and that a model does not see

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        """What the loss is called with."""
        return self.x, self.side

    @property
    def rows(self) -> int:
        """Rows of this rank."""
        return len(self.x)

    def describe(self) -> str:
        """The rows' range."""
        return f"rows of values from {float(self.x.min()):g} to {float(self.x.max()):g}"


class Table(ABC):
    """Rows of float32 features with named columns, and a label kept aside if there is one.

    Where rows belong to categories that a model is given, their codes follow the features; see `Covariates`.
    """

    columns: list[str]  # of the features
    labels: np.ndarray | None = None
    covariates: Covariates | None = None
    names: Any = None  # of the rows, a list or an Arrow array
    name_column: str = "row"  # what names, or numbers in their place, are called
    reading: Mapping[str, Any] = MappingProxyType({})  # how another source of such rows is read
    schema: Schema | None = None  # what the columns of its source are, if they are of several kinds or have gaps

    @property
    @abstractmethod
    def rows(self) -> int:
        """Number of rows."""

    @property
    def features(self) -> int:
        """Number of features."""
        return len(self.columns)

    @property
    def mixed(self) -> bool:
        """Whether each column has a likelihood of its own, and values may be missing (NaN)."""
        return self.schema is not None and not self.schema.uniform

    @property
    def width(self) -> int:
        """Numbers of a row: its features, and a code for each covariate."""
        return self.features + (0 if self.covariates is None else len(self.covariates.sizes))

    def read_labels(self) -> np.ndarray | None:
        """One label per row, read now if the table is streamed."""
        return self.labels

    def read_names(self) -> Any:
        """One name per row, as a list or an Arrow array, read now if the table is streamed; None without names."""
        return self.names

    @abstractmethod
    def fingerprint(self) -> str:
        """A name for the rows and their names: another table has another. Streamed rows are all read for it."""

    def sketch(self) -> str:
        """A name that is found in no time: of two tables with different ones, not all rows are the same."""
        return self.fingerprint()

    @abstractmethod
    def shards(self, rows: int) -> list[Self]:
        """Tables of consecutive rows, some or more each, that make up this one."""

    def coded(self, categories: Mapping[str, Sequence[str]]) -> Self:
        """The same table with the codes of a model that knows these categories."""
        mine = {} if self.covariates is None else self.covariates.categories
        if mine == categories:
            return self
        if not categories:
            raise ValueError(
                f"The model was fitted without covariates, but the rows have {', '.join(mine)}. Read them without."
            )
        if self.covariates is None:
            raise ValueError(
                f"The model was fitted with the covariates {', '.join(categories)}; the rows have none. Add them."
            )
        table = copy.copy(self)
        table.covariates = self.covariates.recoded(categories)
        return table

    @abstractmethod
    def split(self, part: float, seed: int = 0) -> tuple[Table, Table | None]:
        """Most of the rows, and a random part of them held out; None where that would be no row."""

    @abstractmethod
    def steps(self, order: Order) -> int:
        """Number of steps of an epoch."""

    @abstractmethod
    def batches(self, order: Order) -> Iterator[Batch]:
        """The batches of an epoch, from step order.start on."""

    @abstractmethod
    def blocks(self, rows: int = 65536) -> Iterator[Tensor]:
        """All rows in their own order, a bounded number at a time."""
