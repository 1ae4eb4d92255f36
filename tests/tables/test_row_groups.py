from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from horoball.tables import read
from horoball.tables.parquet import ParquetTable
from horoball.tables.row_groups import ParquetFiles, RowReader, Stretch

ROWS, GROUP = 300, 100


def written(path: Path, *, checksums: bool) -> Path:
    table = pa.table({"a": np.arange(float(ROWS)), "kind": ["x", "y", "z"] * (ROWS // 3)})
    options = {"row_group_size": GROUP, "use_dictionary": False, "compression": None}
    pq.write_table(table, path, write_page_checksum=checksums, **options)
    return path


def flipped(path: Path, column: int, *, value: bool) -> str:
    """Damage to row group 1: to the header of a page, or to the last value of it."""
    chunk = pq.read_metadata(path).row_group(1).column(column)
    first = chunk.data_page_offset + (chunk.total_compressed_size - 8 if value else 0)
    data = bytearray(path.read_bytes())
    data[first : first + 8] = bytes(byte ^ 0x5A for byte in data[first : first + 8])
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "in stretches"])
@pytest.mark.parametrize("value", [True, False], ids=["value", "header"])
def test_a_damaged_row_group_is_refused_by_its_number(tmp_path: Path, whole: bool, value: bool) -> None:
    path = flipped(written(tmp_path / "rows.parquet", checksums=value), 0, value=value)
    reader = RowReader(ParquetFiles([path]), ["a"])
    rows = GROUP if whole else GROUP // 2
    assert reader.read([Stretch(0, 0, rows=rows, first=0, whole=whole)])[-1] == rows - 1
    with pytest.raises(ValueError, match=r"rows\.parquet is damaged in row group 1: .*Use another copy") as caught:
        reader.read([Stretch(0, 1, rows=rows, first=GROUP - rows, whole=whole)])
    assert str(caught.value).isprintable()


def test_damaged_labels_are_refused_too(tmp_path: Path) -> None:
    path = flipped(written(tmp_path / "rows.parquet", checksums=True), 1, value=True)
    table = ParquetTable([path], label="kind")
    assert sum(map(len, table.blocks())) == ROWS
    with pytest.raises(ValueError, match=r"rows\.parquet is damaged in row group 1: .*CRC"):
        table.read_labels()


@pytest.mark.parametrize("label", [None, "kind"])
@pytest.mark.parametrize("damage", ["footer", "half", "empty"])
def test_a_file_that_is_not_whole_is_refused_by_its_name(tmp_path: Path, damage: str, label: str | None) -> None:
    path = written(tmp_path / "rows.parquet", checksums=False)
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    broken = {"footer": data[:footer] + bytes(20) + data[footer + 20 :], "half": data[: len(data) // 2], "empty": b""}
    path.write_bytes(broken[damage])
    with pytest.raises(ValueError, match=r"rows\.parquet is not a Parquet file, or not a whole one: ") as caught:
        read(path, label, label_may_miss=True, kind="numbers")
    assert str(caught.value).isprintable()


def test_a_file_with_fewer_rows_than_it_says_is_refused(tmp_path: Path) -> None:
    path = str(written(tmp_path / "rows.parquet", checksums=False))
    reader = RowReader(ParquetFiles([path]), ["a"])
    with pytest.raises(ValueError, match="damaged in row group 2: it has 100 rows, not 150"):
        reader.read([Stretch(0, 2, rows=150, first=0, whole=True)])
    with pytest.raises(ValueError, match="damaged in row group 2: it ends after 100 rows"):
        reader.read([Stretch(0, 2, rows=150, first=0, whole=False)])


def test_errors_of_the_system_stay_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"gone\.parquet"):
        ParquetTable([str(tmp_path / "gone.parquet")])
