"""Iceberg tables without a catalog: the rows that are left, and no others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from horoball.tables import read
from horoball.tables.listing import parquet_files

sql = pytest.importorskip("pyiceberg.catalog.sql")


def frame(rows: int = 40, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    numbers = {"a": rng.normal(size=rows), "b": rng.normal(size=rows), "n": np.arange(rows)}
    return pa.table(numbers | {"t": [f"x {i % 3}" for i in range(rows)]})


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    made = sql.SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    made.create_namespace("rows")
    return made


def of(table: Any) -> str:
    return str(table.location()).removeprefix("file://")


def numbers(source: Any, **options: Any) -> np.ndarray:
    found = np.concatenate([block.numpy() for block in read(source, **options).blocks()])
    return found[np.lexsort(found.T)]


@pytest.mark.parametrize("streamed", [False, True])
def test_deleted_rows_are_not_read(catalog: Any, streamed: bool) -> None:
    table = catalog.create_table("rows.one", frame().schema)
    table.append(frame())
    table.append(frame(30, 1))
    table.delete("a > 0")
    left = table.scan().to_arrow()
    assert 0 < left.num_rows < 70
    held = [str(path) for path in Path(of(table)).rglob("*.parquet")]
    assert len(held) > len(parquet_files(of(table))) == 2
    found = read(of(table), streamed=streamed, ids="n")
    assert found.rows == left.num_rows
    assert sorted(found.read_names().to_pylist()) == sorted(left["n"].to_pylist())
    np.testing.assert_array_equal(numbers(of(table), streamed=streamed), numbers(left))
    np.testing.assert_array_equal(numbers(of(table), columns=["a"]), numbers(left, columns=["a"]))


def test_names_of_folders_are_no_columns_and_the_newest_description_counts(catalog: Any) -> None:
    from pyiceberg.transforms import IdentityTransform

    table = catalog.create_table("rows.parts", frame().schema)
    with table.update_spec() as update:
        update.add_field("t", IdentityTransform(), "t")
    table.append(frame())
    table.append(frame(12, 1))
    np.testing.assert_array_equal(numbers(of(table)), numbers(table.scan().to_arrow()))
    folder = Path(of(table)) / "metadata"
    (folder / "version-hint.text").write_text(sorted(folder.glob("*.metadata.json"))[-2].name)
    assert read(of(table)).rows == 40
    with pytest.raises(ValueError, match="part of the Iceberg table"):
        read(of(table) + "/data")
    (folder / "version-hint.text").unlink()
    newest = max(folder.glob("*.metadata.json"))
    shutil.copy(newest, folder / f"{newest.name[:5]}-other.metadata.json")
    with pytest.raises(ValueError, match="2 newest descriptions"):
        read(of(table))


def test_a_table_whose_columns_changed_is_refused_until_it_is_written_anew(catalog: Any) -> None:
    table = catalog.create_table("rows.changed", frame().schema)
    table.append(frame())
    for before, after in (("a", "old"), ("b", "a"), ("old", "b")):
        with table.update_schema() as update:
            update.rename_column(before, after)
    with pytest.raises(ValueError, match="added, renamed or dropped"):
        read(of(table))
    table.overwrite(table.scan().to_arrow())
    np.testing.assert_array_equal(numbers(of(table)), numbers(table.scan().to_arrow()))


def test_deletes_in_files_of_their_own_and_empty_tables_are_refused(
    catalog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.table import DataScan

    table = catalog.create_table("rows.deletes", frame().schema)
    with pytest.raises(ValueError, match="has no rows"):
        read(of(table))
    table.append(frame())
    plan = DataScan.plan_files

    def planned(scan: Any) -> Any:
        for task in plan(scan):
            task.delete_files = {task.file}
            yield task

    monkeypatch.setattr(DataScan, "plan_files", planned)
    with pytest.raises(ValueError, match="deletes in files of their own"):
        read(of(table))


def test_a_description_neither_names_files_elsewhere_nor_code(catalog: Any, tmp_path: Path) -> None:
    table = catalog.create_table("rows.moved", frame().schema)
    table.append(frame())
    newest = max((Path(of(table)) / "metadata").glob("*.metadata.json"))
    described = json.loads(newest.read_text())
    newest.write_text(json.dumps(described | {"properties": {"py-io-impl": "no_such.Reader"}}))
    assert read(of(table)).rows == 40  # nothing is imported
    moved = tmp_path / "moved"
    shutil.move(of(table), moved)
    with pytest.raises(ValueError, match="does not lie below it"):
        read(moved)
    newest = max((moved / "metadata").glob("*.metadata.json"))
    newest.write_text(json.dumps({"format-version": 2}))
    with pytest.raises(ValueError, match="is no description of an Iceberg table"):
        read(moved)
