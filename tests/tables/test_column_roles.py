"""Columns of tables: found by their names, names of rows kept aside, headers that are none."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from horoball.tables import read

FRAME = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0], "kind": ["x", "y", "x"]}, index=["r", "s", "t"])
WRITERS: dict[str, Callable[[pd.DataFrame, Path], object]] = {
    ".csv": lambda frame, path: frame.to_csv(path),
    ".tsv": lambda frame, path: frame.to_csv(path, sep="\t"),
    ".parquet": lambda frame, path: pq.write_table(pa.Table.from_pandas(frame), path),
}
endings = pytest.mark.parametrize("ending", WRITERS)


def written(frame: pd.DataFrame, folder: Path, ending: str) -> Path:
    path = folder / f"rows{ending}"
    WRITERS[ending](frame, path)
    return path


@endings
def test_an_index_of_pandas_is_the_names_of_rows(ending: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "horoball"):
        table = read(written(FRAME, tmp_path, ending), "kind", kind="numbers")
    assert table.columns == ["a", "b"]
    assert (list(map(str, table.read_names())), table.name_column) == (["r", "s", "t"], "name")
    assert "an index that was written with the table" in caplog.text


def test_an_index_that_was_read_and_written_again_is_one_too(tmp_path: Path) -> None:
    written(FRAME, tmp_path, ".csv")
    pd.read_csv(tmp_path / "rows.csv").to_csv(tmp_path / "again.csv", index=False)
    assert "Unnamed: 0" in (tmp_path / "again.csv").read_text()
    assert read(tmp_path / "again.csv", "kind", kind="numbers").columns == ["a", "b"]


@endings
def test_columns_are_found_by_name_among_others_in_any_order(ending: str, tmp_path: Path) -> None:
    path = written(FRAME.assign(day="Monday"), tmp_path, ending)
    table = read(path, columns=["b", "a"], kind="numbers")
    assert table.columns == ["b", "a"]
    np.testing.assert_array_equal(next(table.blocks()), FRAME[["b", "a"]])
    with pytest.raises(ValueError, match=r"lacks 1 of the model's 2 columns: c. Give all columns of the fit"):
        read(path, columns=["a", "c"], kind="numbers")


def test_columns_of_a_data_frame_are_found_by_name_too() -> None:
    table = read(
        FRAME.rename_axis("id").reset_index(), "kind", ids="id", ids_may_miss=True, columns=["b"], kind="numbers"
    )
    assert (table.columns, list(table.read_names())) == (["b"], ["r", "s", "t"])
    assert read(FRAME, ids="id", ids_may_miss=True, columns=["a"], kind="numbers").names is None


def test_a_first_line_of_numbers_is_no_header_unless_they_are_in_order(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("0.5,-1.25,3\n1,2,3\n4,5,6\n")
    with pytest.raises(ValueError, match=r"has no header: its first line holds numbers, 0.5, -1.25, 3. Put a line"):
        read(path, kind="numbers")
    for header in ("400.5,401,401.5", "2021,2020,2019", "0,1,2"):
        path.write_text(f"{header}\n1,2,3\n4,5,6\n")
        assert read(path, kind="numbers").columns == header.split(",")


def test_a_column_that_is_empty_is_told_from_one_with_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,\n2,\n")
    with pytest.raises(ValueError, match=r"Column 'b' of .* is empty. Drop the column"):
        read(path, kind="numbers")
    path.write_text("a,b\n1,3\n2,\n")
    with pytest.raises(ValueError, match=r"missing value in row 1 \(line 3\), column 'b'. Fill or drop such rows"):
        read(path, kind="numbers")


def test_whole_numbers_that_float32_cannot_tell_apart_are_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,key\n" + "".join(f"{i},{10**15 + i}\n" for i in range(50)))
    read(path, kind="numbers")
    assert "Rounding: key vary by little of their size" in caplog.text
