"""Folders of Parquet files: which files are read, and which folders are not only files."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from horoball.tables import read


def part(path: Path, start: float, rows: int = 3) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"a": np.arange(start, start + rows), "b": np.ones(rows)}), path)


def first_column(folder: Path) -> list[float]:
    return [float(row[0]) for block in read(folder, kind="numbers").blocks() for row in block]


def delta(folder: Path) -> None:
    (folder / "_delta_log").mkdir()
    (folder / "_delta_log" / "00000000000000000000.json").write_text('{"remove":{"path":"1.parquet"}}\n')


def iceberg(folder: Path) -> None:
    (folder / "metadata").mkdir()
    (folder / "metadata" / "v1.metadata.json").write_text("{}")


def hudi(folder: Path) -> None:
    (folder / ".hoodie").mkdir()


FORMATS = {"Hudi": (hudi, "hudi")}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("reads", [read, partial(read, kind="numbers")])
@pytest.mark.parametrize("below", ["", "data", "data/day"])
def test_a_folder_whose_log_tells_which_rows_are_left_is_refused_by_name(
    name: str, reads: Callable[[Path], object], below: str, tmp_path: Path
) -> None:
    write, advice = FORMATS[name]
    write(tmp_path)
    for number in range(2):
        part(tmp_path / below / f"{number}.parquet", number)
    with pytest.raises(ValueError, match=rf"{name} table\. .*deleted.*{advice}.*\.parquet file first"):
        reads(tmp_path / below)


@pytest.mark.parametrize("reads", [read, partial(read, kind="numbers")])
def test_a_delta_table_needs_what_reads_its_log(
    reads: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delta(tmp_path)
    part(tmp_path / "0.parquet", 0)
    part(tmp_path / "day" / "1.parquet", 0)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(ImportError, match=r"is a Delta table.*deleted.*horoball\[delta\]"):
        reads(tmp_path)
    with pytest.raises(ValueError, match="part of the Delta table"):
        reads(tmp_path / "day")


@pytest.mark.parametrize("reads", [read, partial(read, kind="numbers")])
def test_an_iceberg_table_needs_what_reads_its_metadata(
    reads: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    iceberg(tmp_path)
    part(tmp_path / "data" / "day" / "1.parquet", 0)
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog.noop", None)
    with pytest.raises(ImportError, match=r"is an Iceberg table.*deleted.*horoball\[iceberg\]"):
        reads(tmp_path)
    for below in ("data", "data/day"):
        with pytest.raises(ValueError, match="part of the Iceberg table"):
            reads(tmp_path / below)


def test_a_folder_called_metadata_is_no_iceberg_table(tmp_path: Path) -> None:
    part(tmp_path / "0.parquet", 0)
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "notes.json").write_text("{}")
    assert read(tmp_path, kind="numbers").rows == 3


def test_files_of_subfolders_and_endings_in_capitals_are_read_in_the_order_of_names(tmp_path: Path) -> None:
    part(tmp_path / "c.parquet", 6)
    part(tmp_path / "b" / "x.parquet", 3)
    part(tmp_path / "a.PARQUET", 0)
    assert first_column(tmp_path) == list(range(9))
    assert read(tmp_path).rows == 9


@pytest.mark.parametrize("name", [".x.parquet", "._a.parquet", "_x.parquet", "_old/x.parquet", ".cache/x.parquet"])
def test_what_is_hidden_is_not_read(name: str, tmp_path: Path) -> None:
    part(tmp_path / "a.parquet", 0)
    part(tmp_path / name, 50)
    for other in ("_metadata", "_common_metadata", ".a.parquet.crc", "_SUCCESS"):
        (tmp_path / other).write_bytes(b"no rows")
    assert first_column(tmp_path) == [0, 1, 2]


def test_a_folder_of_hidden_files_alone_has_none(tmp_path: Path) -> None:
    part(tmp_path / "_a.parquet", 0)
    with pytest.raises(ValueError, match=r"holds no \.parquet files"):
        read(tmp_path, kind="numbers")


def test_a_column_in_the_names_of_folders_is_read(tmp_path: Path) -> None:
    part(tmp_path / "year=2024" / "a.parquet", 0)
    part(tmp_path / "year=2025" / "a.parquet", 0)
    table = read(tmp_path, kind="numbers")
    assert table.columns == ["a", "b", "year"]
    assert [float(row[2]) for block in table.blocks() for row in block] == [2024.0] * 3 + [2025.0] * 3


def test_a_link_to_a_folder_is_refused(tmp_path: Path) -> None:
    part(tmp_path / "rows" / "a.parquet", 0)
    part(tmp_path / "other" / "b.parquet", 0)
    (tmp_path / "rows" / "more").symlink_to(tmp_path / "other")
    with pytest.raises(ValueError, match=r"a link to another folder, 'more'"):
        read(tmp_path / "rows", kind="numbers")


def test_tables_of_other_formats_in_the_folder_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    part(tmp_path / "a.parquet", 0)
    (tmp_path / "more.csv").write_text("a,b\n1,2\n")
    (tmp_path / "embedding.json").write_text("{}")
    with caplog.at_level(logging.WARNING, "horoball"):
        assert read(tmp_path, kind="numbers").rows == 3
    assert "more.csv" in caplog.text
    assert "embedding.json" not in caplog.text
