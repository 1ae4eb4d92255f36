"""A table in Parquet files, streamed row group by row group: memory does not grow with the number of rows.

An epoch takes the row groups in a seeded order and deals them out to the ranks. A rank joins its groups to blocks of
some ten thousand rows, shuffles each block and cuts the stream of rows into batches; see Note [Batches] in `table`.
Ranks do not get exactly the same number of rows: those that run out first send empty batches, and every batch says how
many rows its step has in all, so that gradients are weighted right and every row counts once an epoch.

Note [Memory]: a block is read in a thread while the one before it is used, so two blocks are held and one that is being
decoded. A row group larger than a block is cut into blocks, and decoded bit by bit: writers make groups of a million
rows unless told otherwise. A block has fewer rows if they are wide.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.data.row_groups import ParquetFiles, RowReader, Stretch
from horoball.data.table import Batch, Order, Table

__all__ = ["ParquetTable"]

_BLOCK = 1 << 16  # rows shuffled together
_BLOCK_VALUES = 1 << 24  # numbers of a block: 64 MiB


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
        if not paths:
            raise ValueError("Expected at least one Parquet file, got none.")
        self._files = ParquetFiles(paths)
        self._units: list[Stretch] = []
        names: list[str] = []
        for number, path in enumerate(paths):
            file = self._files.open(number)
            if number == 0:
                names = list(file.schema_arrow.names)
                self.columns = _number_columns(file.schema_arrow, label, path)
            elif file.schema_arrow.names != names:
                raise ValueError(f"{path} has other columns than {paths[0]}. All files need the same columns.")
            groups = range(file.metadata.num_row_groups)
            units = [Stretch(number, g, file.metadata.row_group(g).num_rows, first=0, whole=True) for g in groups]
            self._units += [unit for unit in units if unit.rows]
        self.label = label
        self._rows = _count(self._units)

    def split(self, part: float, seed: int = 0) -> tuple[ParquetTable, ParquetTable | None]:
        """Most of the row groups, and a random part of them held out; stretches of groups, where these are few.

        None is held out where that would be no row.
        """
        units = self._units
        if int(len(units) * part) == 0:
            # Ten or so stretches are held out: a single one might be all of a kind.
            limits = [max(1, int(unit.rows * len(units) * part / 10)) for unit in units]
            units = [piece for unit, limit in zip(units, limits, strict=True) for piece in unit.parts(limit)]
        count = int(len(units) * part)
        if count == 0:
            return self, None
        index = np.random.default_rng((seed, 0x5EED)).permutation(len(units))
        kept, held = ([units[i] for i in sorted(chosen)] for chosen in (index[count:], index[:count]))
        return self._part(kept), self._part(held)

    def _part(self, units: Sequence[Stretch]) -> ParquetTable:
        part = copy.copy(self)
        groups = {unit._replace(whole=False): unit for unit in self._units}
        part._units = [groups.get(unit, unit) for unit in _merged(units)]
        part._rows = _count(part._units)
        return part

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self._rows

    def _plan(self, order: Order) -> list[list[Stretch]]:
        """The row groups of each rank, in order: dealt out to the rank that has the fewest rows."""
        groups: dict[tuple[int, int], list[Stretch]] = {}  # stretches of one group stay in order: it is decoded once
        for unit in self._units:
            groups.setdefault((unit.file, unit.group), []).append(unit)
        dealt = list(groups.values())
        if order.seed is not None:
            index = np.random.default_rng((order.seed, order.epoch)).permutation(len(dealt))
            dealt = [dealt[i] for i in index]
        hands: list[list[Stretch]] = [[] for _ in range(order.ranks)]
        counts = [0] * order.ranks
        for unit in (unit for group in dealt for unit in group):
            rank = counts.index(min(counts))
            hands[rank].append(unit)
            counts[rank] += unit.rows
        return hands

    def steps(self, order: Order) -> int:
        """Number of steps of an epoch: until the rank with the most rows has given them all."""
        share = _share(order)
        return max(-(-_count(hand) // share) for hand in self._plan(order))

    def batches(self, order: Order) -> Iterator[Batch]:
        """The batches of this rank, from step order.start on."""
        share, plan = _share(order), self._plan(order)
        totals = [_count(hand) for hand in plan]
        stream = _cut(self._shuffled(plan[order.rank], order, order.start * share), share)
        empty = torch.empty(0, self.features)
        for step in range(order.start, self.steps(order)):
            total = sum(min(share, max(0, rows - step * share)) for rows in totals)
            yield Batch(next(stream, empty), total)

    def _shuffled(self, hand: list[Stretch], order: Order, skip: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Blocks and the order of their rows, without the first `skip`; blocks that lie before them are not read."""
        plan = list(enumerate(self._plan_blocks(hand)))
        while plan and skip >= _count(plan[0][1]):
            skip -= _count(plan.pop(0)[1])
        for (number, _), block in zip(plan, self._read([block for _, block in plan]), strict=True):
            index = np.arange(len(block))
            if order.seed is not None:
                rng = np.random.default_rng((order.seed, order.epoch, order.rank, order.ranks, number))
                index = rng.permutation(len(block))
            yield block, torch.from_numpy(index[skip:])
            skip = 0

    def _plan_blocks(self, units: Sequence[Stretch]) -> list[list[Stretch]]:
        """Consecutive row groups joined to blocks; those that are larger than a block cut first."""
        limit = max(1, min(_BLOCK, _BLOCK_VALUES // self.features))
        blocks: list[list[Stretch]] = [[]]
        count = 0
        for stretch in (part for unit in units for part in unit.parts(limit)):
            if count >= limit:
                blocks.append([])
                count = 0
            blocks[-1].append(stretch)
            count += stretch.rows
        return blocks if blocks[0] else []

    def _read(self, blocks: Sequence[Sequence[Stretch]]) -> Iterator[Tensor]:
        """The blocks' rows, each block read in a thread while the one before it is used; see Note [Memory]."""
        reader = RowReader(self._files, self.columns)
        with ThreadPoolExecutor(1) as pool:
            coming: Future[np.ndarray] | None = None
            for stretches in [*blocks, None]:
                read = coming
                coming = None if stretches is None else pool.submit(reader.read, stretches)
                if read is not None:
                    yield torch.from_numpy(read.result())

    def blocks(self, rows: int = 65536) -> Iterator[Tensor]:
        """All rows in their own order, a block at a time or less."""
        for block in self._read(self._plan_blocks(self._units)):
            yield from block.split(rows)

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
        labels = []
        for unit in self._units:
            column = self._files.open(unit.file).read_row_group(unit.group, columns=[self.label]).column(0)
            labels.append(column.slice(unit.first, unit.rows).to_numpy())
        return np.concatenate(labels)


def _share(order: Order) -> int:
    """Rows of a step that a rank brings."""
    return -(-order.batch_size // order.ranks)


def _count(stretches: Sequence[Stretch]) -> int:
    return sum(stretch.rows for stretch in stretches)


def _merged(stretches: Sequence[Stretch]) -> list[Stretch]:
    """The same rows, with stretches that follow each other made one."""
    merged: list[Stretch] = []
    for stretch in stretches:
        last = merged[-1] if merged else None
        if last and last[:2] == stretch[:2] and last.first + last.rows == stretch.first:
            merged[-1] = last._replace(rows=last.rows + stretch.rows)
        else:
            merged.append(stretch)
    return merged


def _cut(stream: Iterator[tuple[Tensor, Tensor]], size: int) -> Iterator[Tensor]:
    """Batches of one size from blocks of any; what a block leaves over is joined to the next."""
    rest: list[Tensor] = []
    missing = size
    for block, index in stream:
        while len(index):
            rest.append(block.index_select(0, index[:missing]))
            index = index[missing:]
            missing -= len(rest[-1])
            if missing == 0:
                yield rest[0] if len(rest) == 1 else torch.cat(rest)
                rest, missing = [], size
    if rest:
        yield torch.cat(rest)


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
