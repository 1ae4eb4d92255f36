"""Tables that stay on the device: a step then moves no rows, and a GPU is not kept waiting for the CPU to pick them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from horoball.data.tables.array_table import ArrayTable
from horoball.data.tables.standardizer import Standardized
from horoball.data.tables.table import Batch, Order, Table
from horoball.runtime.devices import free_memory

__all__ = ["ResidentTable", "resident"]

_SHARE = 4  # of the memory that is free, the rows may take one part in so many


class ResidentTable:
    """The steps of a table in memory, picked on the device from rows that were moved once.

    Args:
        table: The table, dense.
        index: What tells its order: the table itself, or the one that it is a view of.
        device: Where its rows are kept.

    Example:
        >>> table = ArrayTable(torch.arange(6.0).reshape(3, 2))
        >>> order = Order(batch_size=2, seed=0)
        >>> kept = ResidentTable(table, table, torch.device("cpu"))
        >>> all(torch.equal(a.x, b.x) for a, b in zip(kept.batches(order), table.batches(order), strict=True))
        True
    """

    def __init__(self, table: Table, index: ArrayTable, device: torch.device) -> None:
        self.steps, self._index = index.steps, index
        self._x = torch.cat(list(table.blocks())).to(device)
        self._side = None if index.side is None else index.side.to(device)

    def batches(self, order: Order) -> Iterator[Batch]:
        """The batches of an epoch, from step order.start on."""
        index = torch.from_numpy(self._index.order(order)).to(self._x.device)  # once an epoch
        for step in range(order.start, self.steps(order)):
            step_rows = slice(step * order.batch_size, (step + 1) * order.batch_size)
            mine = index[step_rows][order.rank :: order.ranks]
            side = None if self._side is None else self._side[mine]
            yield Batch(self._x[mine], len(index[step_rows]), "by_rank", side)


def resident(source: Any, device: torch.device) -> Any:
    """The source kept on a device that is not the CPU, if it is a dense table in memory that leaves room there.

    Example:
        >>> table = ArrayTable(torch.zeros(3, 2))
        >>> resident(table, torch.device("cpu")) is table
        True
    """
    index = source.table if isinstance(source, Standardized) else source
    if device.type == "cpu" or not isinstance(index, ArrayTable) or index.is_sparse:
        return source
    numbers = index.rows * (source.width + (0 if index.side is None else index.side.shape[1]))
    return ResidentTable(source, index, device) if 4 * numbers * _SHARE <= free_memory(device) else source
