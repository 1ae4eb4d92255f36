"""A table in Parquet files, streamed row group by row group: memory does not grow with the number of rows.

An epoch takes the row groups in a seeded order and deals them out to the ranks. A rank joins its groups to blocks of
some ten thousand rows, shuffles each block and cuts the stream of rows into batches; see Note [Batches] in `table`.
Ranks do not get exactly the same number of rows: those that run out first send empty batches, and every batch says how
many rows its step has in all, so that gradients are weighted right and every row counts once an epoch.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.data.table import Batch, Order, Table

__all__ = ["ParquetTable"]

_BLOCK = 1 << 16  # rows shuffled together, at least


class _Unit(NamedTuple):
    """A row group of a file."""

    file: int
    group: int
    rows: int


class ParquetTable(Table):
    """One or more Parquet files of numbers, on any file system that fsspec knows.

    Args:
        paths: Paths or URLs of the files.
        label: Name of a column to keep aside.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.parquet"
        >>> pq.write_table(pa.table({"a": np.arange(10.0), "b": np.ones(10)}), path, row_group_size=4)
        >>> table = ParquetTable([str(path)])
        >>> table.rows, sorted(float(x) for batch in table.batches(Order(4)) for x in batch.x[:, 0])[-1]
        (10, 9.0)
    """

    def __init__(self, paths: Sequence[str], label: str | None = None) -> None:
        self._paths = list(paths)
        if not self._paths:
            raise ValueError("Expected at least one Parquet file, got none.")
        self._files: dict[int, Any] = {}
        self._units: list[_Unit] = []
        names: list[str] | None = None
        for number, path in enumerate(self._paths):
            file = self._open(number)
            found = list(file.schema_arrow.names)
            if names is None:
                names = found
            elif found != names:
                raise ValueError(f"{path} has other columns than {self._paths[0]}. All files need the same columns.")
            metadata = file.metadata
            units = [_Unit(number, g, metadata.row_group(g).num_rows) for g in range(metadata.num_row_groups)]
            self._units += [unit for unit in units if unit.rows]
        self.label = label
        self.columns = _number_columns(self._files[0].schema_arrow, label, self._paths[0])
        self._rows = sum(unit.rows for unit in self._units)

    def split(self, part: float, seed: int = 0) -> tuple[ParquetTable, ParquetTable | None]:
        """Most of the row groups, and a random part of them held out; None where there are too few."""
        count = int(len(self._units) * part)
        if count == 0:
            return self, None
        index = np.random.default_rng((seed, 0x5EED)).permutation(len(self._units))
        return self._part(sorted(index[count:])), self._part(sorted(index[:count]))

    def _part(self, index: Sequence[int]) -> ParquetTable:
        part = copy.copy(self)
        part._units = [self._units[i] for i in index]
        part._rows = sum(unit.rows for unit in part._units)
        return part

    def _open(self, number: int) -> Any:
        """The file, opened on first use: a table may be sent to another process before it is read."""
        if number not in self._files:
            import fsspec
            import pyarrow as pa
            import pyarrow.parquet as pq

            try:
                self._files[number] = pq.ParquetFile(fsspec.open(self._paths[number], "rb").open())
            except pa.ArrowInvalid as error:
                raise ValueError(f"{self._paths[number]} is not a Parquet file: {str(error).splitlines()[0]}") from None
        return self._files[number]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_files": {}}

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self._rows

    def _read(self, unit: _Unit) -> np.ndarray:
        """A row group as a C-ordered float32 array, filled column by column as Parquet stores it."""
        group = self._open(unit.file).read_row_group(unit.group, columns=self.columns)
        out = np.empty((unit.rows, self.features), np.float32, order="F")
        for position, column in enumerate(group.itercolumns()):
            if column.null_count:
                raise ValueError(
                    f"Column {self.columns[position]!r} of {self._paths[unit.file]} has {column.null_count} missing "
                    f"values in row group {unit.group}. Fill or drop them first."
                )
            out[:, position] = column.to_numpy()
        return np.ascontiguousarray(out)

    def _plan(self, order: Order) -> list[list[_Unit]]:
        """The row groups of each rank, in order: dealt out to the rank that has the fewest rows."""
        index = np.arange(len(self._units))
        if order.seed is not None:
            index = np.random.default_rng((order.seed, order.epoch)).permutation(len(index))
        hands: list[list[_Unit]] = [[] for _ in range(order.ranks)]
        counts = [0] * order.ranks
        for i in index:
            rank = counts.index(min(counts))
            hands[rank].append(self._units[i])
            counts[rank] += self._units[i].rows
        return hands

    def steps(self, order: Order) -> int:
        """Number of steps of an epoch: until the rank with the most rows has given them all."""
        share = _share(order)
        return max(-(-sum(unit.rows for unit in hand) // share) for hand in self._plan(order))

    def batches(self, order: Order) -> Iterator[Batch]:
        """The batches of this rank, from step order.start on."""
        share, plan = _share(order), self._plan(order)
        totals = [sum(unit.rows for unit in hand) for hand in plan]
        stream = _cut(self._shuffled(plan[order.rank], order, order.start * share), share)
        empty = torch.empty(0, self.features)
        for step in range(order.start, self.steps(order)):
            total = sum(min(share, max(0, rows - step * share)) for rows in totals)
            yield Batch(next(stream, empty), total)

    def _shuffled(self, hand: list[_Unit], order: Order, skip: int) -> Iterator[Tensor]:
        """Blocks of shuffled rows, without the first `skip` rows; blocks that lie before them are not read."""
        for number, units in enumerate(_group(hand)):
            rows = sum(unit.rows for unit in units)
            if skip >= rows:
                skip -= rows
                continue
            block = np.concatenate([self._read(unit) for unit in units])
            if order.seed is not None:
                rng = np.random.default_rng((order.seed, order.epoch, order.rank, order.ranks, number))
                block = block[rng.permutation(rows)[skip:]]
            else:
                block = block[skip:]
            skip = 0
            yield torch.from_numpy(block)

    def blocks(self, rows: int = 65536) -> Iterator[Tensor]:
        """All rows in their own order, one row group at a time or less."""
        for unit in self._units:
            yield from torch.from_numpy(self._read(unit)).split(rows)

    def read_labels(self) -> np.ndarray | None:
        """The label column, if one was named.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, pathlib
            >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.parquet"
            >>> pq.write_table(pa.table({"a": [1.0, 2.0], "kind": ["x", "y"]}), path)
            >>> list(ParquetTable([str(path)], label="kind").read_labels())
            ['x', 'y']
        """
        if self.label is None:
            return None
        groups = (self._open(unit.file).read_row_group(unit.group, columns=[self.label]) for unit in self._units)
        return np.concatenate([group.column(0).to_numpy() for group in groups])


def _share(order: Order) -> int:
    """Rows of a step that a rank brings."""
    return -(-order.batch_size // order.ranks)


def _group(units: list[_Unit]) -> Iterator[list[_Unit]]:
    """Consecutive row groups that make a block."""
    block: list[_Unit] = []
    for unit in units:
        block.append(unit)
        if sum(member.rows for member in block) >= _BLOCK:
            yield block
            block = []
    if block:
        yield block


def _cut(stream: Iterator[Tensor], size: int) -> Iterator[Tensor]:
    """Batches of one size from blocks of any; what a block leaves over is joined to the next."""
    rest: Tensor | None = None
    for block in stream:
        joined = block if rest is None else torch.cat((rest, block))
        whole = len(joined) // size * size
        yield from joined[:whole].split(size) if whole else ()
        rest = joined[whole:].clone() if whole < len(joined) else None
    if rest is not None:
        yield rest


def _number_columns(schema: Any, label: str | None, path: str) -> list[str]:
    import pyarrow as pa

    if label is not None and label not in schema.names:
        raise ValueError(f"{path} has no column {label!r}. Its columns are: {', '.join(schema.names[:20])}.")
    repeated = {name for name in schema.names if schema.names.count(name) > 1}
    if repeated:
        raise ValueError(f"{path} has columns of the same name: {', '.join(sorted(repeated))}. Rename them.")
    columns = []
    for field in schema:
        if field.name == label:
            continue
        kind = field.type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise ValueError(
                f"Column {field.name[:40]!r} of {path} holds {kind}, not numbers. Name it as the label, or drop it."
            )
        columns.append(field.name)
    if not columns:
        raise ValueError(f"{path} has no column of numbers.")
    return columns
