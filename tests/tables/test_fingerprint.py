"""The name of a table's rows: every row and every id of a streamed table counts, wherever it lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from horoball.tables import read
from horoball.tables.anndata import DiskRows, H5adTable
from horoball.tables.numpy_files import MappedVectors
from horoball.tables.row_groups import RowReader, Stretch
from horoball.tables.table import Table
from horoball.training import TrainConfig
from horoball.vae.files import embed_folder
from horoball.vae.train import train
from tests.late import late

h5py = late("h5py")

ROWS, GROUP = 20_000, 500


def rows(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(ROWS, 3)).astype(np.float32)


def exchanged() -> np.ndarray:
    """Other rows, but for the first sixteen of sixteen stretches of row groups: what a sample may have looked at."""
    x = rows(1)
    for unit in np.unique(np.linspace(0, ROWS // GROUP - 1, 16, dtype=int)):
        x[unit * GROUP :][:16] = rows()[unit * GROUP :][:16]
    assert (x != rows()).any(1).mean() > 0.98
    return x


def one_changed() -> np.ndarray:
    x = rows()
    x[12_345, 1] += 1e-3
    return x


def parquet(x: np.ndarray, folder: Path, ids: list[str] | None = None) -> Table:
    names = [f"n{i}" for i in range(ROWS)] if ids is None else ids
    frame = pa.table({"id": names} | {f"c{i}": column for i, column in enumerate(x.T)})
    pq.write_table(frame, folder / "rows.parquet", row_group_size=GROUP)
    return read(folder / "rows.parquet", ids="id", streamed=True, kind="numbers")


def mapped(x: np.ndarray, folder: Path) -> Table:
    np.save(folder / "rows.npy", x)
    return MappedVectors(str(folder / "rows.npy"))


def h5ad(x: np.ndarray, folder: Path) -> Table:
    file = h5py.File(f"rows{id(x)}", "w", driver="core", backing_store=False)
    return H5adTable(DiskRows(file.create_dataset("X", data=x)), ["a", "b", "c"])


@pytest.mark.parametrize("make", [parquet, mapped, h5ad])
def test_every_row_counts(make: Callable[[np.ndarray, Path], Table], tmp_path: Path) -> None:
    first = make(rows(), tmp_path).fingerprint()
    assert make(rows(), tmp_path).fingerprint() == first
    assert make(exchanged(), tmp_path).fingerprint() != first
    assert make(one_changed(), tmp_path).fingerprint() != first


@pytest.mark.parametrize("make", [parquet, mapped, h5ad])
def test_rows_read_once_are_named_on_the_way(make: Callable[[np.ndarray, Path], Table], tmp_path: Path) -> None:
    table = make(rows(), tmp_path)
    noted, fingerprint = table.noted()
    assert sum(len(block) for shard in noted.shards(3000) for block in shard.blocks(700)) == ROWS
    assert fingerprint() == table.fingerprint()
    noted, fingerprint = table.noted()
    next(noted.blocks(700))
    assert fingerprint() == table.fingerprint()  # of rows that were not all read


def test_rows_of_a_new_embedding_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = parquet(rows(), tmp_path)
    run = train(table, {"hidden": (4,)}, TrainConfig(max_epochs=1, batch_size=4096, distance_weight=0.0), ids="id")
    read_rows: list[int] = []
    whole = RowReader.read

    def counted(self: RowReader, stretches: Sequence[Stretch]) -> np.ndarray:
        read_rows.append(sum(stretch.rows for stretch in stretches))
        return whole(self, stretches)

    monkeypatch.setattr(RowReader, "read", counted)
    assert embed_folder(run, table, tmp_path / "z", rows=5000) == ROWS
    assert sum(read_rows) < 1.1 * ROWS  # with those of the sketch
    assert embed_folder(run, table, tmp_path / "z", rows=5000) == 0


def test_ids_count_and_so_does_their_order(tmp_path: Path) -> None:
    first = parquet(rows(), tmp_path).fingerprint()
    ids = [f"n{i}" for i in range(ROWS)]
    ids[12_345], ids[12_346] = ids[12_346], ids[12_345]
    assert parquet(rows(), tmp_path, ids).fingerprint() != first
    held = read(tmp_path / "rows.parquet", ids="id", kind="numbers").fingerprint()  # in memory
    parquet(rows(), tmp_path)
    assert read(tmp_path / "rows.parquet", ids="id", kind="numbers").fingerprint() != held


def test_ids_are_read_a_group_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = parquet(rows(), tmp_path)

    def all_of_them(*_: object) -> None:
        raise AssertionError("all ids were read at once")

    monkeypatch.setattr(type(table), "read_names", all_of_them)
    assert len(table.fingerprint()) == 16


@pytest.mark.parametrize("change", ["rows", "one cell", "ids"])
def test_a_run_is_not_resumed_with_other_rows(change: str, tmp_path: Path) -> None:
    config = TrainConfig(max_epochs=1, batch_size=4096, distance_weight=0.0)
    options = {"hidden": (4,), "d": 5}
    train(parquet(rows(), tmp_path), options, config, tmp_path / "run", ids="id")
    x = {"rows": exchanged(), "one cell": one_changed(), "ids": rows()}[change]
    ids = [f"m{i}" for i in range(ROWS)] if change == "ids" else None
    other = parquet(x, tmp_path, ids)
    with pytest.raises(ValueError, match="is of other rows"):
        train(other, options, config.replace(max_epochs=2), tmp_path / "run", ids="id", resume=True)
    train(parquet(rows(), tmp_path), options, config.replace(max_epochs=2), tmp_path / "run", ids="id", resume=True)


@pytest.mark.parametrize("change", ["rows", "one cell", "ids"])
def test_parts_of_an_embedding_of_other_rows_are_not_kept(change: str, tmp_path: Path) -> None:
    config = TrainConfig(max_epochs=1, batch_size=4096, distance_weight=0.0)
    table = parquet(rows(), tmp_path)
    run = train(table, {"hidden": (4,)}, config, ids="id")
    assert embed_folder(run, table, tmp_path / "z", rows=5000) == ROWS
    assert embed_folder(run, table, tmp_path / "z", rows=5000) == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "z").iterdir()}
    x = {"rows": exchanged(), "one cell": one_changed(), "ids": rows()}[change]
    ids = [f"m{i}" for i in range(ROWS)] if change == "ids" else None
    other = parquet(x, tmp_path, ids)
    with pytest.raises(ValueError, match="holds an embedding of another table"):
        embed_folder(run, other, tmp_path / "z", rows=5000)
    assert {path.name: path.read_bytes() for path in (tmp_path / "z").iterdir()} == before


def test_a_folder_of_an_embedding_is_a_parquet_dataset(tmp_path: Path) -> None:
    table = parquet(rows()[:100].repeat(200, 0), tmp_path)
    run = train(table, {"hidden": (4,)}, TrainConfig(max_epochs=1, batch_size=4096, distance_weight=0.0), ids="id")
    embed_folder(run, table, tmp_path / "z", rows=5000)
    assert pq.read_table(tmp_path / "z").num_rows == ROWS
    (tmp_path / "z" / "_embedding.json").rename(tmp_path / "z" / "embedding.json")  # its name in older versions
    assert embed_folder(run, table, tmp_path / "z", rows=5000) == 0
