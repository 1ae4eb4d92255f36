from __future__ import annotations

import copy
import itertools
import pickle
import weakref
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import torch
from torch import Tensor

from horoball.tables.parquet import ParquetTable
from horoball.tables.read import read
from horoball.tables.row_groups import RowReader, Stretch
from horoball.tables.table import ArrayTable, Batch, Order, Table, spread_rows

ROWS = 103  # a prime: no batch size and no number of ranks divides it
GROUPS = ((7, 1, 20), (13, 30), (2, 2, 2, 26))  # rows of the row groups of each file; 103 in all
RANKS = (1, 2, 3)

ranks_of = pytest.mark.parametrize("ranks", RANKS)
batch_sizes = pytest.mark.parametrize("batch_size", [1, 8, 50, 103, 1000])


def rows_of(count: int = ROWS) -> np.ndarray:
    """Rows that say their own number, in the first column."""
    return np.stack([np.arange(count), np.sin(np.arange(count)), np.ones(count)], 1).astype(np.float32)


def write_parquet(folder: Path) -> list[str]:
    x, start, paths = rows_of(), 0, []
    for number, groups in enumerate(GROUPS):
        path = folder / f"{number}.parquet"
        schema = pa.schema([("a", pa.float32()), ("kind", pa.string()), ("b", pa.float64()), ("c", pa.int8())])
        with pq.ParquetWriter(path, schema) as writer:
            for rows in groups:
                part = x[start : start + rows]
                kinds = [f"row {int(i)}" for i in part[:, 0]]
                columns = [part[:, 0], kinds, part[:, 1].astype(np.float64), part[:, 2].astype(np.int8)]
                writer.write_table(pa.table([pa.array(column) for column in columns], schema=schema))
                start += rows
        paths.append(str(path))
    return paths


@pytest.fixture
def streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ParquetTable:
    """A table of three files, shuffled in blocks of some 16 rows: several blocks, which cut through batches."""
    monkeypatch.setattr("horoball.tables.parquet._BLOCK", 16)
    return ParquetTable(write_parquet(tmp_path), label="kind")


@pytest.fixture(params=["array", "sparse", "parquet"])
def table(request: pytest.FixtureRequest) -> Table:
    if request.param == "parquet":
        return request.getfixturevalue("streamed")
    x = rows_of()
    return ArrayTable(scipy.sparse.csr_array(x) if request.param == "sparse" else x)


def numbers(batches: list[Batch]) -> list[int]:
    return [int(i) for batch in batches for i in batch.x[:, 0]]


def epochs(table: Table, order: Order) -> list[list[Batch]]:
    """The batches of each rank."""
    return [list(table.batches(order._replace(rank=rank))) for rank in range(order.ranks)]


def same(first: list[Batch], second: list[Batch]) -> bool:
    return len(first) == len(second) and all(
        torch.equal(a.x, b.x) and a.total == b.total and a.noise == b.noise for a, b in zip(first, second, strict=True)
    )


def whole(table: Table, rows: int = 65536) -> Tensor:
    return torch.cat(list(table.blocks(rows)))


@ranks_of
@batch_sizes
@pytest.mark.parametrize("seed", [None, 0, 5])
def test_an_epoch_gives_every_row_once(table: Table, ranks: int, batch_size: int, seed: int | None) -> None:
    every = epochs(table, Order(batch_size, seed, 3, ranks=ranks))
    assert sorted(numbers([batch for batches in every for batch in batches])) == list(range(ROWS))
    x = torch.cat([batch.x for batches in every for batch in batches])
    assert torch.equal(x[x[:, 0].argsort()], torch.from_numpy(rows_of()))
    assert x.dtype == torch.float32


@ranks_of
@batch_sizes
def test_every_rank_has_the_same_steps_and_knows_their_rows(table: Table, ranks: int, batch_size: int) -> None:
    order = Order(batch_size, 1, 2, ranks=ranks)
    every = epochs(table, order)
    for rank, batches in enumerate(every):
        assert len(batches) == table.steps(order._replace(rank=rank))
    for step in zip(*every, strict=True):
        assert {batch.total for batch in step} == {sum(len(batch.x) for batch in step)}
        assert 0 < step[0].total < batch_size + ranks


@ranks_of
def test_starting_at_a_step_gives_the_batches_from_there_on(table: Table, ranks: int) -> None:
    for rank, seed in itertools.product(range(ranks), (None, 0)):
        order = Order(8, seed, 1, rank, ranks)
        batches = list(table.batches(order))
        for start in range(len(batches) + 2):
            assert same(list(table.batches(order._replace(start=start))), batches[start:]), start


def test_order_follows_from_seed_and_epoch(table: Table) -> None:
    first = numbers(list(table.batches(Order(8, 0, 0))))
    assert first == numbers(list(table.batches(Order(8, 0, 0))))
    assert first != list(range(ROWS))
    assert first != numbers(list(table.batches(Order(8, 0, 1))))
    assert first != numbers(list(table.batches(Order(8, 1, 0))))
    assert numbers(list(table.batches(Order(8, None)))) == list(range(ROWS))


@pytest.mark.parametrize("rows", [1, 7, 65536])
def test_blocks_are_bounded_and_in_order(table: Table, rows: int) -> None:
    assert all(len(block) <= rows for block in table.blocks(rows))
    assert torch.equal(whole(table, rows), torch.from_numpy(rows_of()))


@pytest.mark.parametrize("part", [0.0, 0.001, 0.3, 0.9])
def test_a_split_is_a_partition_that_the_seed_decides(table: Table, part: float) -> None:
    train, held = table.split(part, seed=1)
    if held is None:
        assert train.rows == ROWS
        return
    kept, out = whole(train)[:, 0].tolist(), whole(held)[:, 0].tolist()
    assert (len(kept), len(out)) == (train.rows, held.rows)
    assert train.rows > 0
    assert sorted(kept + out) == list(range(ROWS))
    assert whole(table.split(part, seed=1)[1])[:, 0].tolist() == out
    assert any(whole(table.split(part, seed)[1])[:, 0].tolist() != out for seed in (2, 3))
    assert sorted(numbers(list(train.batches(Order(8))))) == sorted(kept)


def test_a_split_of_a_tenth_holds_out_a_tenth_of_an_array() -> None:
    train, held = ArrayTable(rows_of(), labels=np.arange(ROWS)).split(0.1)
    assert held is not None
    assert (train.rows, held.rows) == (93, 10)
    assert held.labels.tolist() == whole(held)[:, 0].tolist()
    assert train.labels.tolist() == whole(train)[:, 0].tolist()


@pytest.mark.parametrize("groups", [1, 2, 5, 9, 11])
def test_a_split_of_a_tenth_holds_out_a_tenth_of_few_row_groups(tmp_path: Path, groups: int) -> None:
    frame = pa.table(dict(zip("abc", rows_of(2000).T, strict=True))).append_column("kind", pa.array(range(2000)))
    pq.write_table(frame, tmp_path / "x.parquet", row_group_size=-(-2000 // groups))
    train, held = ParquetTable([str(tmp_path / "x.parquet")], label="kind").split(0.1)
    assert held is not None
    assert held.rows == pytest.approx(200, rel=0.1)
    kept, out = whole(train)[:, 0].tolist(), whole(held)[:, 0].tolist()
    assert sorted(kept + out) == list(range(2000))
    assert (kept, out) == (train.read_labels().tolist(), held.read_labels().tolist())
    for ranks in RANKS:
        every = epochs(train, Order(64, ranks=ranks))
        assert sorted(numbers([batch for batches in every for batch in batches])) == sorted(kept)
    if groups < 10:
        assert max(out) - min(out) > 400  # not all from one place


@pytest.mark.parametrize("ranks", [2, 3])
@batch_sizes
def test_ranks_of_an_array_deal_out_the_batch_of_one_process(ranks: int, batch_size: int) -> None:
    table = ArrayTable(rows_of())
    alone = list(table.batches(Order(batch_size)))
    for step, one in zip(zip(*epochs(table, Order(batch_size, ranks=ranks)), strict=True), alone, strict=True):
        together = torch.empty_like(one.x)
        for rank, batch in enumerate(step):
            together[rank::ranks] = batch.x
            assert batch.noise == "by_rank"
        assert torch.equal(together, one.x)


def test_a_sparse_matrix_stays_sparse_and_gives_the_same_rows() -> None:
    x = rows_of() * (np.arange(3) != 1)
    dense, sparse = ArrayTable(x), ArrayTable(scipy.sparse.coo_array(x.astype(np.float64)))
    assert scipy.sparse.issparse(sparse._sparse)
    assert sparse._sparse.nnz == np.count_nonzero(x)
    assert same(list(dense.batches(Order(8))), list(sparse.batches(Order(8))))
    for part in sparse.split(0.2):
        assert scipy.sparse.issparse(part._sparse)
    assert torch.equal(whole(dense.split(0.2)[1]), whole(sparse.split(0.2)[1]))


def test_an_array_may_be_read_only_or_reversed() -> None:
    x = rows_of()
    x.flags.writeable = False
    assert torch.equal(whole(ArrayTable(x)), torch.from_numpy(rows_of()))
    assert torch.equal(whole(ArrayTable(rows_of()[::-1])), torch.from_numpy(rows_of()).flip(0))


def test_bad_arrays_and_names_are_refused() -> None:
    with pytest.raises(ValueError, match=r"rows and columns; got an array of shape \(3,\)"):
        ArrayTable(np.ones(3))
    with pytest.raises(ValueError, match="Expected 2 column names, got 1"):
        ArrayTable(np.ones((3, 2)), ["a"])


def test_the_label_of_parquet_is_kept_aside(streamed: ParquetTable) -> None:
    assert (streamed.rows, streamed.columns) == (ROWS, ["a", "b", "c"])
    assert streamed.read_labels().tolist() == [f"row {i}" for i in range(ROWS)]


def test_the_labels_of_a_part_are_those_of_its_rows(streamed: ParquetTable) -> None:
    for part in streamed.split(0.3):
        assert part.read_labels().tolist() == [f"row {int(i)}" for i in whole(part)[:, 0]]


@ranks_of
def test_ranks_of_parquet_read_nothing_before_their_start(
    streamed: ParquetTable, ranks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    original = RowReader.read

    def counted(self: RowReader, stretches: list[Stretch]) -> np.ndarray:
        read.append(sum(stretch.rows for stretch in stretches))
        return original(self, stretches)

    monkeypatch.setattr(RowReader, "read", counted)
    steps = streamed.steps(Order(8, ranks=ranks))
    list(streamed.batches(Order(8, ranks=ranks, start=steps - 1)))
    assert sum(read) < ROWS / ranks


def test_more_ranks_than_row_groups_still_see_every_row(streamed: ParquetTable) -> None:
    every = epochs(streamed, Order(24, ranks=12))
    assert sorted(numbers([batch for batches in every for batch in batches])) == list(range(ROWS))
    assert len({len(batches) for batches in every}) == 1


@pytest.mark.parametrize("again", [copy.copy, lambda table: pickle.loads(pickle.dumps(table))])  # noqa: S301
def test_parquet_can_be_sent_to_another_process(streamed: ParquetTable, again: object) -> None:
    expected = list(streamed.batches(Order(8)))
    assert same(list(again(streamed).batches(Order(8))), expected)
    assert again(streamed).read_labels().tolist() == streamed.read_labels().tolist()


def test_parquet_is_read_from_any_file_system(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    urls = []
    for path in write_parquet(tmp_path):
        urls.append(f"memory://test_table/{Path(path).name}")
        fsspec.filesystem("memory").pipe_file(urls[-1], Path(path).read_bytes())
    assert torch.equal(whole(ParquetTable(urls, "kind")), torch.from_numpy(rows_of()))


def test_files_with_other_columns_and_missing_values_are_refused(tmp_path: Path) -> None:
    for name, columns in {"a": {"x": [1.0, 2.0]}, "b": {"y": [1.0]}, "c": {"x": [1.0, None]}}.items():
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    a, b, c = (str(tmp_path / f"{name}.parquet") for name in "abc")
    with pytest.raises(ValueError, match="All files need the same columns"):
        ParquetTable([a, b])
    with pytest.raises(ValueError, match=r"has a missing value in row 3, column 'x'\. Fill or drop"):
        list(ParquetTable([a, c]).blocks())
    with pytest.raises(ValueError, match="at least one Parquet file"):
        ParquetTable([])


def test_types_are_looked_at_in_every_parquet_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1.0, 2.0]}), tmp_path / "0.parquet")
    for values in (["3", "4"], [datetime(2020, 1, 1)] * 2):
        pq.write_table(pa.table({"a": values}), tmp_path / "1.parquet")
        with pytest.raises(ValueError, match=r"Column 'a' holds double in .*0\.parquet and .* in .*1\.parquet"):
            read(tmp_path, kind="numbers")


def test_a_part_of_streamed_rows_has_no_names_of_others(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": np.arange(100.0)}), tmp_path / "x.parquet", row_group_size=10)
    table = read(tmp_path / "x.parquet", kind="numbers")
    table.names = [f"n{i}" for i in range(100)]
    _, held = table.split(0.2)
    assert held is not None
    assert held.names is None


@pytest.mark.parametrize("group", [7, 200])
def test_parts_of_row_groups_have_a_fingerprint(tmp_path: Path, group: int) -> None:
    pq.write_table(pa.table({"a": np.arange(200.0)}), tmp_path / "x.parquet", row_group_size=group)
    whole = read(tmp_path / "x.parquet", kind="numbers")
    names = {table.fingerprint() for table in (whole, *whole.split(0.2)) if table is not None}
    assert len(names) == 3
    assert read(tmp_path / "x.parquet", kind="numbers").fingerprint() in names


def test_a_tensor_with_a_gradient_is_a_table() -> None:
    table = ArrayTable(torch.ones(3, 2, requires_grad=True))
    assert len(table.fingerprint()) == 16


def test_rows_that_are_spread_over_a_table_do_not_keep_its_blocks() -> None:
    alive: list[weakref.ref[np.ndarray]] = []

    class Blocks(ArrayTable):
        def blocks(self, rows: int = 100) -> Iterator[Tensor]:
            for part in super().blocks(100):
                assert sum(one() is not None for one in alive) <= 1  # the one before
                copy = part.numpy().copy()
                alive.append(weakref.ref(copy))
                yield torch.from_numpy(copy)

    x = torch.arange(2000.0).unsqueeze(1)
    assert torch.equal(spread_rows(Blocks(x), 100), x[::20])
    assert len(alive) == 20
