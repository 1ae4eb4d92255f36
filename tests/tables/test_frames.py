"""Files with columns of any type: every format gives the same table, and what is no table is refused in one line."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from horoball.tables import read
from horoball.tables.table import Table
from tests.late import late
from tests.tables.messy import KINDS, messy

pl = late("polars")

FRAME = messy().drop(columns=["segment"])


def text(delimiter: str = ",", decimal: str = ".", encoding: str = "utf-8") -> bytes:
    file = io.StringIO()
    FRAME.to_csv(file, index=False, sep=delimiter, decimal=decimal)
    return file.getvalue().encode(encoding)


def zipped(path: Path, names: tuple[str, ...] = ("rows.csv",)) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, text())
        archive.writestr("__MACOSX/._rows.csv", b"junk")


def excel(path: Path) -> None:
    pytest.importorskip("openpyxl")
    FRAME.assign(signup=pd.to_datetime(FRAME["signup"])).to_excel(path, index=False)


WRITERS: dict[str, Callable[[Path], Any]] = {
    "x.csv": lambda path: path.write_bytes(text()),
    "x.tsv": lambda path: path.write_bytes(text("\t")),
    "semicolons.csv": lambda path: path.write_bytes(text(";")),
    "commas.csv": lambda path: path.write_bytes(text(";", ",")),
    "tabs.csv": lambda path: path.write_bytes(text("\t")),
    "bom.csv": lambda path: path.write_bytes(text(encoding="utf-8-sig")),
    "wide.csv": lambda path: path.write_bytes(text(encoding="utf-16")),
    "x.csv.gz": lambda path: path.write_bytes(gzip.compress(text())),
    "x.tsv.gz": lambda path: path.write_bytes(gzip.compress(text("\t"))),
    "x.zip": zipped,
    "x.jsonl": lambda path: FRAME.to_json(path, orient="records", lines=True),
    "x.feather": lambda path: feather.write_feather(pa.Table.from_pandas(FRAME), path),
    "x.parquet": lambda path: pq.write_table(
        pa.Table.from_pandas(FRAME.assign(signup=pd.to_datetime(FRAME["signup"]))), path
    ),
    "x.xlsx": excel,
}


def kinds(table: Table) -> dict[str, str]:
    assert table.schema is not None
    return {column.name: column.kind for column in table.schema.columns}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_rows(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / name)
    table, expected = read(tmp_path / name), read(FRAME)
    assert kinds(table) == KINDS
    np.testing.assert_allclose(next(table.blocks()).numpy(), next(expected.blocks()).numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    "make", [pa.Table.from_pandas, pl.from_pandas, lambda frame: pa.Table.from_pandas(frame).to_reader()]
)
def test_arrow_data_go_in(make: Callable[[pd.DataFrame], Any]) -> None:
    assert kinds(read(make(FRAME))) == KINDS
    assert read(make(FRAME[["visits"]]), kind="numbers").columns == ["visits"]


def test_a_relation_of_duckdb_goes_in() -> None:
    duckdb = pytest.importorskip("duckdb")
    assert kinds(read(duckdb.sql("select * from FRAME"))) == KINDS


def test_a_folder_of_parquet_files_goes_in_and_large_ones_are_streamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pa.Table.from_pandas(FRAME.assign(signup=pd.to_datetime(FRAME["signup"])))
    for part in (0, 1):
        pq.write_table(whole.slice(150 * part, 150), tmp_path / f"{part}.parquet", row_group_size=50)
    held = read(tmp_path)
    monkeypatch.setattr("horoball.tables.parquet.MAX_BYTES_IN_MEMORY", 0)
    streamed = read(tmp_path)
    assert type(streamed).__name__ == "MixedParquetTable"
    assert streamed.schema == held.schema
    np.testing.assert_array_equal(next(streamed.blocks()).numpy(), next(held.blocks()).numpy())


def test_columns_are_dropped_by_name(tmp_path: Path) -> None:
    WRITERS["x.csv"](tmp_path / "x.csv")
    table = read(tmp_path / "x.csv", drop=["income", "name"], ids="customer_id")
    assert not {"income", "name", "customer_id"} & set(kinds(table))
    assert table.read_names()[0].as_py() == "100000"


def test_dates_in_other_formats_are_dates(tmp_path: Path) -> None:
    for form in ("%d.%m.%Y", "%m/%d/%Y", "%Y/%m/%d", "%d.%m.%Y %H:%M"):
        days = pd.Series(pd.date_range("2025-01-01", periods=40, freq="37h")).dt.strftime(form)
        pd.DataFrame({"day": days, "x": np.arange(40) ** 1.5}).to_csv(tmp_path / "x.csv", index=False)
        assert kinds(read(tmp_path / "x.csv"))["day"] == "date", form


REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "two.zip": (lambda path: zipped(path, ("a.csv", "b.csv")), "holds 2 tables, expected one: a.csv, b.csv"),
    "none.zip": (lambda path: zipped(path, ("a.txt",)), "holds 0 tables, expected one"),
    "cut.csv.gz": (lambda path: path.write_bytes(gzip.compress(text())[:200]), "is not a readable"),
    "no.csv.gz": (lambda path: path.write_bytes(b"a,b"), "is not a readable"),
    "no.feather": (lambda path: path.write_bytes(b"ARROW1"), "is not a readable"),
    "no.jsonl": (lambda path: path.write_bytes(b"{"), "is not a readable"),
    "null.jsonl": (lambda path: path.write_bytes(b' null\n{"a": 1}\n'), "line 1 is null"),
    "empty.csv": (lambda path: path.write_bytes(b""), "is not a table: Empty"),
    "header.csv": (lambda path: path.write_bytes(b"a;b\n"), "has no rows"),
    "ragged.csv": (lambda path: path.write_bytes(b"a;b\nx;2\n1;2;3\n"), "Expected 2 columns, got 3"),
    "constants.csv": (lambda path: path.write_bytes(b"a;b\nx;2\nx;2\n"), "has no column to fit a model to"),
    "infinite.csv": (lambda path: path.write_bytes(b"a;b\nx;2.5\ny;inf\nx;1\n"), "holds an infinite number"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_table_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    write, says = REFUSED[name]
    write(tmp_path / name)
    with pytest.raises((ValueError, OSError)) as caught:
        read(tmp_path / name)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
