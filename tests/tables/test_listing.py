"""What a path stands for: files, folders, prefixes of a store, patterns, partitioned and Delta tables."""

from __future__ import annotations

from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from horoball.tables import read
from horoball.tables.listing import parquet_files
from tests.commands import done


def frame(rows: int = 40, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({"a": rng.normal(size=rows), "b": rng.normal(size=rows), "t": [f"x{i % 3}" for i in range(rows)]})


@pytest.fixture(params=["disk", "memory"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "disk" else f"memory://listing/{tmp_path.name}"


def put(path: str, table: pa.Table) -> None:
    if "://" not in path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    with fsspec.open(path, "wb") as file:
        pq.write_table(table, file)


def test_a_prefix_a_pattern_and_a_file_in_capitals_are_the_same_rows(base: str) -> None:
    parts = [frame(seed=seed) for seed in range(3)]
    for number, part in enumerate(parts):
        put(f"{base}/rows/{number}.PARQUET", part)
    put(f"{base}/rows/_metadata.parquet", frame(3, 9))
    put(f"{base}/other.parquet", frame(5, 9))
    whole = read(pa.concat_tables(parts))
    for path in (f"{base}/rows", f"{base}/rows/", f"{base}/rows/*.PARQUET", f"{base}/ro*/"):
        assert len(parquet_files(path)) == 3
        found = read(path)
        assert found.columns == whole.columns
        assert bool((next(found.blocks()) == next(whole.blocks())).all())
    assert read(f"{base}/rows/[01].PARQUET").rows == 80
    assert read(f"{base}/rows/1.PARQUET").rows == 40
    done("check", f"{base}/rows/*.PARQUET")


def test_a_pattern_of_nothing_says_so(base: str) -> None:
    with pytest.raises(FileNotFoundError, match="There is no file"):
        read(f"{base}/none/*.parquet")


@pytest.mark.parametrize("streamed", [False, True])
def test_names_of_folders_are_columns(base: str, streamed: bool) -> None:
    parts = []
    for year in (2025, 2026):
        for place in ("a b", "c/d", None):
            part = frame(10, seed=year)
            coded = {"a b": "a%20b", "c/d": "c%2Fd", None: "__HIVE_DEFAULT_PARTITION__"}[place]
            put(f"{base}/rows/year={year}/place={coded}/0.parquet", part)
            columns = {"year": pa.array([year] * 10), "place": pa.array([place] * 10, pa.string())}
            parts.append(pa.table({name: part.column(name) for name in part.column_names} | columns))
    # In the order of the names of the folders, as they are written.
    order = [2, 0, 1, 5, 3, 4]
    found = read(f"{base}/rows", streamed=streamed, ids="year")
    whole = read(pa.concat_tables([parts[i] for i in order]), ids="year")
    assert found.columns == whole.columns
    ours, theirs = (np.concatenate([block.numpy() for block in table.blocks()]) for table in (found, whole))
    np.testing.assert_array_equal(ours, theirs)
    names = found.read_names()
    assert names.to_pylist() == [2025] * 30 + [2026] * 30
    assert {column.name for column in found.schema.columns} >= {"a", "b", "t", "place"}


def test_files_that_are_partitioned_otherwise_are_refused(base: str) -> None:
    put(f"{base}/rows/year=2025/0.parquet", frame())
    put(f"{base}/rows/0.parquet", frame())
    with pytest.raises(ValueError, match="not all of its files are by the same columns"):
        read(f"{base}/rows")


def test_a_column_that_its_folder_names_too_is_refused(base: str) -> None:
    put(f"{base}/rows/a=1/0.parquet", frame())
    with pytest.raises(ValueError, match="its folder is named by one too"):
        read(f"{base}/rows")


def test_a_delta_table_is_read_without_its_deleted_rows(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "table")
    deltalake.write_deltalake(path, frame(40), partition_by=["t"])
    deltalake.DeltaTable(path).delete("a > 0")
    table = deltalake.DeltaTable(path).to_pyarrow_table()
    found = read(path)
    assert found.rows == table.num_rows < 40
    ours = np.sort(np.concatenate([block.numpy()[:, 0] for block in found.blocks()]))
    np.testing.assert_allclose(ours, np.sort(table["a"].to_numpy().astype("float32")))
    with pytest.raises(ValueError, match="part of the Delta table"):
        read(next(str(each) for each in Path(path).iterdir() if each.name.startswith("t=")))


def test_a_table_of_another_format_in_a_store_is_refused() -> None:
    put("memory://listing/hudi/data/0.parquet", frame())
    fsspec.filesystem("memory").pipe_file("/listing/hudi/.hoodie/hoodie.properties", b"")
    with pytest.raises(ValueError, match="a Hudi table"):
        read("memory://listing/hudi")
