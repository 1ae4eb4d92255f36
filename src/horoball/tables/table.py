"""Rows of numbers, in memory or streamed, handed out in shuffled batches that can be resumed and shared among ranks.

Note [Batches]: an epoch is cut into steps. Which rows a step of a rank holds is a function of (seed, epoch, step, rank,
ranks) alone, so a run that is resumed, or restarted on a failure, sees the batches of the run that was not.
"""

from __future__ import annotations

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from horoball.tables.covariates import Covariates
from horoball.tables.numbers import check_numbers, refuse_beyond, tell_rounded
from horoball.tables.schema import Schema

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
    """Rows of one step of one rank."""

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
    _kind: str = ""

    @property
    @abstractmethod
    def rows(self) -> int:
        """Number of rows."""

    @property
    def features(self) -> int:
        """Number of features."""
        return len(self.columns)

    @property
    def kind(self) -> str:
        """What the rows are, of `horoball.tables.read.KINDS`: numbers, if nothing else was said or found."""
        if self.schema is not None and not self.schema.uniform:
            return "mixed"  # each column has a likelihood of its own, and values may be missing (NaN)
        return self._kind or "numbers"

    @kind.setter
    def kind(self, kind: str) -> None:
        self._kind = kind

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

    def noted(self) -> tuple[Self, Callable[[], str]]:
        """The same rows, and what tells their fingerprint after they were read in order: without reading them again."""
        return self, self.fingerprint

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

    def loaded(self) -> ArrayTable:
        """The same rows in memory."""
        if isinstance(self, ArrayTable):
            return copy.copy(self)
        rows = torch.cat(list(self.blocks()))[:, : self.features]
        table = ArrayTable(rows, self.columns, self.read_labels(), None, self.covariates)
        table.schema, table.kind, table.reading = self.schema, self.kind, self.reading
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


_BLOCK_VALUES = 1 << 24  # numbers of a block: 64 MiB


def spread_rows(table: Table, count: int) -> Tensor:
    """About so many rows that are spread over a table, in its order; all of a table with fewer.

    Example:
        >>> spread_rows(ArrayTable(torch.arange(10.0).unsqueeze(1)), 5).ravel()
        tensor([0., 2., 4., 6., 8.])
    """
    step = -(-table.rows // count)
    return torch.cat([block[::step].clone() for block in table.blocks()])  # a view would keep its block


def held_out(rows: int, part: float, seed: int = 0) -> np.ndarray:
    """The rows that `ArrayTable.split` holds out of a table.

    Example:
        >>> len(held_out(10, 0.2))
        2
    """
    return np.random.default_rng((seed, 0x5EED)).permutation(rows)[: int(rows * part)]


class ArrayTable(Table):
    """A table in memory.

    Args:
        x: Rows, shape (rows, features): an array, a tensor or a scipy sparse matrix, which stays sparse.
        columns: Names of the features.
        labels: One label per row.
        side: Numbers that go with the rows and that a model does not see, shape (rows, any).
        covariates: Categories of the rows, for a model that is given them.

    Example:
        >>> table = ArrayTable(np.arange(10.0).reshape(5, 2))
        >>> [len(batch.x) for batch in table.batches(Order(batch_size=2))]
        [2, 2, 1]
    """

    def __init__(
        self,
        x: object,
        columns: Sequence[str] | None = None,
        labels: np.ndarray | None = None,
        side: Tensor | None = None,
        covariates: Covariates | None = None,
    ) -> None:
        check_numbers(x, "The array")
        with np.errstate(over="ignore"):  # what is beyond float32 becomes infinite, and is refused as such
            self._sparse = x.tocsr().astype(np.float32) if hasattr(x, "tocsr") else None
            if self._sparse is None:
                given = x.detach().to("cpu", torch.float32) if isinstance(x, Tensor) else None
                self._x = _as_tensor(np.asarray(x, np.float32)) if given is None else given
                if self._x.dim() != 2:
                    raise ValueError(f"A table has rows and columns; got an array of shape {tuple(self._x.shape)}.")
        shape = self._x.shape if self._sparse is None else self._sparse.shape
        self._rows = int(shape[0])
        if isinstance(x, np.ndarray) and x.dtype.kind == "f" and x.dtype.itemsize > 4:
            refuse_beyond(x, columns or [f"x{i}" for i in range(shape[1])], "The table")
        if shape[1] > _BLOCK_VALUES:
            raise ValueError(
                f"A table has at most {_BLOCK_VALUES:,} columns, so that a row is a block; got {shape[1]:,}."
            )
        self.columns = list(columns) if columns is not None else [f"x{i}" for i in range(shape[1])]
        self.labels, self.side, self.covariates = labels, side, covariates
        if covariates is not None and len(covariates.codes) != self._rows:
            raise ValueError(f"Expected covariates of {self._rows} rows, got {len(covariates.codes)}.")
        if len(self.columns) != shape[1]:
            raise ValueError(f"Expected {shape[1]} column names, got {len(self.columns)}.")
        if isinstance(x, np.ndarray):
            tell_rounded(x, self.columns)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self._rows

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are held as a sparse matrix."""
        return self._sparse is not None

    def take(self, index: np.ndarray | slice) -> Tensor:
        """Rows by their numbers."""
        if self._sparse is not None:
            x = torch.from_numpy(self._sparse[index].toarray())
        else:
            x = self._x[index if isinstance(index, slice) else torch.from_numpy(index)]
        return x if self.covariates is None else self.covariates.beside(x, index)

    def matrix(self) -> Any:
        """All features, a tensor or a scipy matrix in rows, as the table holds them."""
        return self._x if self._sparse is None else self._sparse

    def beside(self, side: Tensor) -> ArrayTable:
        """The same rows with numbers that go with them."""
        table = copy.copy(self)
        table.side = side
        return table

    def split(self, part: float, seed: int = 0) -> tuple[ArrayTable, ArrayTable | None]:
        """Most of the rows, and a random part of them held out; None where that would be no row.

        Example:
            >>> train, held = ArrayTable(np.eye(10)).split(0.2)
            >>> train.rows, held.rows
            (8, 2)
        """
        held = held_out(self._rows, part, seed)
        if not len(held):
            return self, None
        return self.part(np.setdiff1d(np.arange(self._rows), held)), self.part(held)

    def shards(self, rows: int) -> list[ArrayTable]:
        """Tables of consecutive rows, that many each."""
        parts = [np.arange(start, min(start + rows, self._rows)) for start in range(0, self._rows, rows)]
        shards = [self.part(part) for part in parts]
        for shard, part in zip(shards, parts, strict=True):
            shard.names = None if self.names is None else self.names[part[0] : part[-1] + 1]
            shard.name_column = self.name_column
        return shards

    def fingerprint(self) -> str:
        """Of all numbers, of the categories of the rows, and of their names."""
        if self._sparse is None:
            parts = [self._x.contiguous().numpy()]
        else:
            parts = [self._sparse.indptr, self._sparse.indices, self._sparse.data]
        parts += [] if self.covariates is None else [self.covariates.codes]
        parts += [] if self.names is None else [np.frombuffer(names_digest([self.names]), np.uint8)]
        return digest(*parts)

    def part(self, index: np.ndarray) -> ArrayTable:
        """Some of the rows, in their own order."""
        index = np.sort(index)
        x = self._x[torch.from_numpy(index)] if self._sparse is None else self._sparse[index]
        labels = None if self.labels is None else self.labels[index]
        side = None if self.side is None else self.side[torch.from_numpy(index)]
        covariates = None if self.covariates is None else self.covariates.take(index)
        part = ArrayTable(x, self.columns, labels, side, covariates)
        part.schema, part.kind, part.reading = self.schema, self.kind, self.reading
        return part

    def steps(self, order: Order) -> int:
        """Number of steps of an epoch."""
        return -(-self._rows // order.batch_size)

    def order(self, order: Order) -> np.ndarray:
        """The numbers of the rows in the order of an epoch; step k of all ranks together is slice k."""
        if order.seed is None:
            return np.arange(self._rows)
        return np.random.default_rng((order.seed, order.epoch)).permutation(self._rows)

    def batches(self, order: Order) -> Iterator[Batch]:
        """Slices of a permutation: step k of all ranks together is slice k, dealt out in turn."""
        index = self.order(order)
        for step in range(order.start, self.steps(order)):
            step_rows = slice(step * order.batch_size, (step + 1) * order.batch_size)
            mine = index[step_rows][order.rank :: order.ranks]
            side = None if self.side is None else self.side[torch.from_numpy(mine)]
            yield Batch(self.take(mine), len(index[step_rows]), "by_rank", side)

    def blocks(self, rows: int = 65536) -> Iterator[Tensor]:
        """All rows in their own order."""
        rows = max(1, min(rows, _BLOCK_VALUES // max(1, self.features)))
        for start in range(0, self._rows, rows):
            yield self.take(slice(start, start + rows))


def _as_tensor(x: np.ndarray) -> Tensor:
    """The array's memory as a tensor; a copy where torch cannot share it."""
    shared = x.flags.writeable and min(x.strides, default=0) >= 0
    return torch.from_numpy(x if shared else x.copy())
