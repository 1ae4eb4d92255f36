"""Tables that are read as they are used: memory does not grow with the number of rows.

An epoch takes stretches of rows in a seeded order and deals them out to the ranks. A rank joins its stretches to blocks
of some ten thousand rows, shuffles each block and cuts the stream of rows into batches; see Note [Batches] in `table`.
Ranks do not get exactly the same number of rows: those that run out first send empty batches, and every batch says how
many rows its step has in all, so that gradients are weighted right and every row counts once an epoch.

Note [Memory]: a block is read in a thread while the one before it is used, so two blocks are held and one that is being
decoded.
"""

from __future__ import annotations

import copy
import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from horoball.tables.row_groups import Stretch
from horoball.tables.table import Batch, Order, Table, digest, names_digest

_SAMPLE, _FIRST = 16, 16  # stretches of a sketch, and rows of each


class Reader(Protocol):
    """Who reads stretches of rows."""

    def read(self, stretches: Sequence[Stretch]) -> np.ndarray:
        """Their rows below each other, a C-ordered float32 array."""


class StreamedTable(Table):
    """A table in stretches of rows, each of them in a group: a file's row group, or a place in a file.

    A table of a new kind says what its stretches are, how many rows a block has, and who reads them.
    """

    _units: list[Stretch]
    _noted: Any = None  # a digest of the rows that `blocks` gave, see `noted`
    _read_rows: list[int]  # how many these are

    @abstractmethod
    def _block_rows(self) -> int:
        """Rows of a block."""

    @abstractmethod
    def _reader(self) -> Reader:
        """A reader for one pass."""

    def split(self, part: float, seed: int = 0) -> tuple[Self, Self | None]:
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

    def fingerprint(self) -> str:
        """Of how the rows lie, of all rows and of their names, in one pass over them."""
        table, told = self.noted()
        for _ in table.blocks():
            pass
        return told()

    def noted(self) -> tuple[Self, Callable[[], str]]:
        """The same table, and what tells its fingerprint once its `blocks`, or those of its shards, were read."""
        table = copy.copy(self)
        table._noted = found = hashlib.sha256(np.array([unit.rows for unit in self._units]).data)
        table._read_rows = rows = [0]

        def told() -> str:
            if rows[0] != self.rows:  # not once each
                return self.fingerprint()
            whole = found.copy()
            whole.update(names_digest(self._names_in_parts()))
            return whole.hexdigest()[:16]

        return table, told

    def sketch(self) -> str:
        """Of how the rows lie, and of the first ones of some stretches; the others are not read."""
        chosen = [self._units[i] for i in np.unique(np.linspace(0, len(self._units) - 1, _SAMPLE, dtype=int))]
        firsts = [
            unit._replace(rows=min(_FIRST, unit.rows), whole=unit.whole and unit.rows <= _FIRST) for unit in chosen
        ]
        sample = self._reader().read(firsts)
        return digest(np.array([unit.rows for unit in self._units]), sample)

    def _names_in_parts(self) -> Iterator[Any]:
        """The names of the rows, some at a time; none if they have none."""
        if (names := self.read_names()) is not None:
            yield names

    def shards(self, rows: int) -> list[Self]:
        """Tables of consecutive stretches, of that many rows or more each, so that no row group is decoded twice."""
        shards: list[Self] = []
        waiting: list[Stretch] = []
        first = 0
        for unit in [*self._units, None]:
            if unit is None or _count(waiting) >= rows:
                shard = copy.copy(self)
                shard._units = waiting
                if self.names is not None:
                    shard.names = self.names[first : first + shard.rows]
                first += shard.rows
                shards += [shard] if waiting else []
                waiting = []
            waiting += [] if unit is None else [unit]
        return shards

    def _part(self, units: Sequence[Stretch]) -> Self:
        part = copy.copy(self)
        part.names = None  # they are those of all rows
        groups = {unit._replace(whole=False): unit for unit in self._units}
        part._units = [groups.get(unit, unit) for unit in _merged(units)]
        return part

    @property
    def rows(self) -> int:
        """Number of rows."""
        return _count(self._units)

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
        empty = torch.empty(0, self.width)
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
        limit = self._block_rows()
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
        reader = self._reader()
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
            if self._noted is not None:
                self._noted.update(np.ascontiguousarray(block.numpy()).data)
                self._read_rows[0] += len(block)
            yield from block.split(rows)


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
