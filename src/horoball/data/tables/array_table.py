"""A table in memory: dense or sparse, with labels, names and covariates."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.data.tables.covariates import Covariates
from horoball.data.tables.number_arrays import check_numbers, refuse_beyond
from horoball.data.tables.precision import tell_rounded
from horoball.data.tables.table import Batch, Order, Table, digest, names_digest

__all__ = ["ArrayTable", "held_out"]

_BLOCK_VALUES = 1 << 24  # numbers of a block: 64 MiB


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
        """Whether the rows are held as a sparse matrix.

        Example:
            >>> ArrayTable(np.eye(3)).is_sparse
            False
        """
        return self._sparse is not None

    def take(self, index: np.ndarray | slice) -> Tensor:
        """Rows by their numbers.

        Example:
            >>> ArrayTable(np.eye(3)).take(np.array([2]))
            tensor([[0., 0., 1.]])
        """
        if self._sparse is not None:
            x = torch.from_numpy(self._sparse[index].toarray())
        else:
            x = self._x[index if isinstance(index, slice) else torch.from_numpy(index)]
        return x if self.covariates is None else self.covariates.beside(x, index)

    def matrix(self) -> Any:
        """All features, a tensor or a scipy matrix in rows, as the table holds them.

        Example:
            >>> ArrayTable(np.eye(3)).matrix().shape
            torch.Size([3, 3])
        """
        return self._x if self._sparse is None else self._sparse

    def beside(self, side: Tensor) -> ArrayTable:
        """The same rows with numbers that go with them.

        Example:
            >>> ArrayTable(np.eye(3)).beside(torch.ones(3, 1)).side.shape
            torch.Size([3, 1])
        """
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
        return self._part(np.setdiff1d(np.arange(self._rows), held)), self._part(held)

    def shards(self, rows: int) -> list[ArrayTable]:
        """Tables of consecutive rows, that many each.

        Example:
            >>> [shard.rows for shard in ArrayTable(np.eye(5)).shards(2)]
            [2, 2, 1]
        """
        parts = [np.arange(start, min(start + rows, self._rows)) for start in range(0, self._rows, rows)]
        shards = [self._part(part) for part in parts]
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

    def _part(self, index: np.ndarray) -> ArrayTable:
        index = np.sort(index)
        x = self._x[torch.from_numpy(index)] if self._sparse is None else self._sparse[index]
        labels = None if self.labels is None else self.labels[index]
        side = None if self.side is None else self.side[torch.from_numpy(index)]
        covariates = None if self.covariates is None else self.covariates.take(index)
        part = ArrayTable(x, self.columns, labels, side, covariates)
        part.schema = self.schema
        return part

    def steps(self, order: Order) -> int:
        """Number of steps of an epoch."""
        return -(-self._rows // order.batch_size)

    def order(self, order: Order) -> np.ndarray:
        """The numbers of the rows in the order of an epoch; step k of all ranks together is slice k.

        Example:
            >>> ArrayTable(np.eye(3)).order(Order(batch_size=2, seed=None))
            array([0, 1, 2])
        """
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
