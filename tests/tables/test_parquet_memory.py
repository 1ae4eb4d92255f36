from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor

from horoball.tables import parquet, row_groups
from horoball.tables.parquet import ParquetTable
from horoball.tables.table import Order
from tests.tracing import Traced, tracing_apart

FEATURES = 8
BLOCK = 1 << 14
BLOCKS = 50
BYTES = 4 * FEATURES * BLOCK  # of a block

PASSES: dict[str, Callable[[ParquetTable], Iterable[Tensor]]] = {
    "blocks": lambda table: table.blocks(100),
    "batches": lambda table: (batch.x for batch in table.batches(Order(100))),
}


def write(path: Path, group: int, blocks: int = BLOCKS) -> str:
    """Rows that say their own number; pages are small, since a page of a column is the least that can be decoded."""
    x = np.arange(blocks * BLOCK * FEATURES, dtype=np.float32).reshape(-1, FEATURES)
    table = pa.table({f"x{i}": x[:, i] for i in range(FEATURES)})
    pq.write_table(table, path, row_group_size=group, data_page_size=1 << 15, use_dictionary=False)
    return str(path)


def arrow_of(path: str, way: str) -> int:
    """Most memory of Arrow's that a pass takes, in bytes."""
    parquet._BLOCK = BLOCK
    table, arrow, rows = ParquetTable([path]), 0, 0
    before = pa.total_allocated_bytes()
    for x in PASSES[way](table):
        rows += len(x)
        arrow = max(arrow, pa.total_allocated_bytes() - before)
    assert rows == table.rows
    return arrow


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Traced]]:
    with tracing_apart() as traced:
        traced(arrow_of, write(tmp_path_factory.mktemp("first") / "x.parquet", BLOCK, 1), "batches")  # it imports
        yield traced


@pytest.mark.parametrize("way", PASSES)
@pytest.mark.parametrize("group", [BLOCK // 4, BLOCK, 3 * BLOCK, BLOCK * BLOCKS])
def test_a_pass_holds_a_few_blocks_whatever_the_size_of_the_row_groups(
    tmp_path: Path, traced: Callable[..., Traced], way: str, group: int
) -> None:
    """Memory of numpy and of what was read from the file, and Arrow's."""
    arrow, peak = traced(arrow_of, write(tmp_path / "x.parquet", group), way)
    assert (peak + arrow) / BYTES < BLOCKS / 4


def test_a_block_of_wide_rows_has_fewer_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("horoball.tables.parquet._BLOCK_VALUES", 100 * FEATURES)
    table = ParquetTable([write(tmp_path / "x.parquet", BLOCK, blocks=1)])
    sizes = [len(block) for block in table.blocks()]
    assert sum(sizes) == BLOCK
    assert max(sizes) <= 100


def test_few_files_are_open_at_a_time_and_all_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_groups, "_OPEN", 3)
    table = ParquetTable([write(tmp_path / f"{i}.parquet", BLOCK // 2, blocks=1) for i in range(10)])
    seen = [len(batch.x) for batch in table.batches(Order(1000))]
    assert sum(seen) == table.rows == 10 * BLOCK
    assert len(table._files._open) == 3


@pytest.mark.parametrize("group", [1000, BLOCK])
def test_two_passes_may_go_on_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int) -> None:
    monkeypatch.setattr("horoball.tables.parquet._BLOCK", 3000)
    table = ParquetTable([write(tmp_path / "x.parquet", group, blocks=2)])
    first, second = Order(500, seed=1), Order(500, seed=2)
    alone = [[batch.x for batch in table.batches(order)] for order in (first, second)]
    for a, b, x, y in zip(table.batches(first), table.batches(second), *alone, strict=True):
        assert torch.equal(a.x, x)
        assert torch.equal(b.x, y)


def test_a_pass_that_is_left_ends_its_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("horoball.tables.parquet._BLOCK", 1000)
    before = threading.active_count()
    batches = ParquetTable([write(tmp_path / "x.parquet", 500, blocks=1)]).batches(Order(100))
    next(batches)
    assert threading.active_count() == before + 1
    del batches
    gc.collect()
    assert threading.active_count() == before
