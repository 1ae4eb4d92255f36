"""Tables that are seen through something: the rows of another, each made into something else."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from torch import Tensor

from horoball.tables.table import Order, Table


class Mapped(Table):
    """The rows of a table, each made into something else; a subclass says what."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.columns, self.labels, self.covariates = table.columns, table.labels, table.covariates
        self.names, self.name_column = table.names, table.name_column
        self.schema, self.kind = table.schema, table.kind

    @abstractmethod
    def _of(self, table: Table) -> Self:
        """The same of other rows."""

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
        """The table's: what is made of it follows from it."""
        return self.table.fingerprint()

    def shards(self, rows: int) -> list[Self]:
        """The table's shards, made into the same."""
        return [self._of(shard) for shard in self.table.shards(rows)]

    def split(self, part: float, seed: int = 0) -> tuple[Table, Table | None]:
        """The table's split, made into the same."""
        train, held = self.table.split(part, seed)
        return self._of(train), None if held is None else self._of(held)

    def steps(self, order: Order) -> int:
        """Number of steps of an epoch."""
        return self.table.steps(order)

    def blocks(self, rows: int = 65536) -> Iterator[Tensor]:
        """The table's rows."""
        return self.table.blocks(rows)
