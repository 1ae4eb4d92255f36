"""Filled tables: what was observed comes back bit for bit, in all columns, with the input's types and format."""

from __future__ import annotations

import csv
import datetime
import decimal
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import horoball as hb
from tests.commands import done

FIT = ["--quiet", "--hidden", "8", "--max-epochs", "2", "--drop", "dropped"]
IMPUTE = ["--samples", "5"]
ROWS = 80


def holes(values: list[Any], every: int, first: int = 1) -> list[Any]:
    return [None if i % every == first else value for i, value in enumerate(values)]


def table() -> pa.Table:
    """Columns of many types, most of them with gaps, of amounts that float32 cannot hold."""
    rng = np.random.default_rng(0)
    amounts = (5e8 + rng.normal(size=ROWS) * 1e6).tolist()
    day = datetime.date(2024, 1, 31)
    days = [day + datetime.timedelta(days=int(d)) for d in rng.integers(0, 400, ROWS)]
    zone = datetime.UTC
    kinds = [f"k{i % 3}" for i in range(ROWS)]
    return pa.table(
        {
            "id": pa.array([f"{i:05d}" for i in range(ROWS)]),
            "income": pa.array(holes(amounts, 9)),
            "small": pa.array(holes(rng.normal(size=ROWS).astype(np.float32).tolist(), 7), pa.float32()),
            "nan": pa.array([np.nan if v is None else v for v in holes(rng.normal(size=ROWS).tolist(), 6)]),
            "visits": pa.array(holes(rng.poisson(3, ROWS).tolist(), 8), pa.uint8()),
            "price": pa.array(
                holes([decimal.Decimal(int(v)) / 100 for v in rng.integers(100, 99999, ROWS)], 5), pa.decimal128(9, 2)
            ),
            "kind": pa.array(holes(kinds, 10)).dictionary_encode(),
            "plan": pa.array(holes(["free", "plus"] * (ROWS // 2), 11), pa.large_string()),
            "news": pa.array(holes([i % 4 == 0 for i in range(ROWS)], 12)),
            "day": pa.array(holes(days, 13), pa.date32()),
            "at": pa.array(
                holes([datetime.datetime(d.year, d.month, d.day, 7, 5, 3, 1, zone) for d in days], 9),
                pa.timestamp("us", "UTC"),
            ),
            "note": pa.array(holes([f"remark {i}, of mine" for i in range(ROWS)], 4)),
            "dropped": pa.array(holes(amounts, 3)),
            "same": pa.array(["EUR"] * ROWS),
        },
        metadata={"origin": "here"},
    )


def is_gap(column: Any) -> np.ndarray:
    gone = pc.is_null(column, nan_is_null=pa.types.is_floating(column.type))
    return np.asarray(gone)


USED = ("income", "small", "nan", "visits", "price", "kind", "plan", "news", "day", "at")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    pq.write_table(table(), folder / "rows.parquet")
    done("fit", folder / "rows.parquet", "-o", folder / "run", "--id", "id", *FIT)
    return folder


@pytest.mark.parametrize("draw", [[], ["--draw"]])
def test_a_parquet_file_comes_back_with_its_gaps_filled(fitted: Path, tmp_path: Path, draw: list[str]) -> None:
    done("impute", fitted / "run", fitted / "rows.parquet", "-o", tmp_path / "filled.parquet", *IMPUTE, *draw)
    before, after = table(), pq.read_table(tmp_path / "filled.parquet")
    assert after.schema.equals(pq.read_schema(fitted / "rows.parquet"), check_metadata=True)
    for name in before.column_names:
        gaps = is_gap(before[name])
        there = pa.array(~gaps)
        assert after[name].filter(there).to_pylist() == before[name].filter(there).to_pylist(), name
        assert is_gap(after[name]).any() == (gaps.any() and name not in USED), name


def test_a_folder_of_files_comes_back_as_one(fitted: Path, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for number in (0, 1):
        pq.write_table(table().slice(40 * number, 40), tmp_path / "parts" / f"{number}.parquet")
    done("impute", fitted / "run", tmp_path / "parts", "-o", tmp_path / "filled.parquet", *IMPUTE)
    after = pq.read_table(tmp_path / "filled.parquet")
    assert after["id"].to_pylist() == table()["id"].to_pylist()
    assert not is_gap(after["income"]).any()


@pytest.mark.filterwarnings("ignore:1 value that the model has not seen")
def test_a_category_that_the_model_has_not_seen_is_no_gap(fitted: Path, tmp_path: Path) -> None:
    rows = table()
    kinds = rows["kind"].to_pylist()
    kinds[0] = "new"
    pq.write_table(rows.set_column(rows.column_names.index("kind"), "kind", [kinds]), tmp_path / "rows.parquet")
    done("impute", fitted / "run", tmp_path / "rows.parquet", "-o", tmp_path / "filled.parquet", *IMPUTE)
    assert pq.read_table(tmp_path / "filled.parquet")["kind"][0].as_py() == "new"


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_other_formats_have_all_columns_too(fitted: Path, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"filled{ending}"
    done("impute", fitted / "run", fitted / "rows.parquet", "-o", path, *IMPUTE)
    before = table()
    if ending == ".csv":
        after = pd.read_csv(path, dtype={"id": str}, float_precision="round_trip")
    else:
        after = pd.DataFrame([json.loads(line) for line in path.read_text().splitlines()])
    assert list(after) == before.column_names
    assert after["id"].tolist() == before["id"].to_pylist()
    there = ~is_gap(before["income"])
    assert after["income"].to_numpy()[there].tolist() == before["income"].to_numpy()[there].tolist()
    assert not after[list(USED)].isna().any().any()


def lines_of(delimiter: str, point: str) -> list[list[str]]:
    rng = np.random.default_rng(1)
    header = ["id", "amount", "age", "kind", "news", "since", "note", "dropped"]
    lines = [header]
    for i in range(ROWS):
        amount = f"{5e8 + rng.normal() * 1e6:.3f}0".replace(".", point)
        age, kind, news = f"{rng.normal(40, 5):.1f}".replace(".", point), f"k{i % 3}", ("True", "False")[i % 2]
        since = f"{1 + i % 28:02d}.{1 + i % 12:02d}.{2000 + i % 20}"
        gap = ("", "NA", "?", "n/a")[i % 4]
        line = [f"{i:04d}", amount, age, kind, news, since, f'a "note", no{delimiter} {i}\nof mine', f"00{i}"]
        for column, every in ((1, 9), (2, 7), (3, 8), (4, 10), (5, 11), (6, 3), (7, 5)):
            line[column] = gap if i % every == 1 else line[column]
        lines.append(line)
    return lines


@pytest.mark.parametrize(("delimiter", "point"), [(",", "."), (";", ","), ("\t", ".")])
def test_cells_of_a_text_file_stay_as_they_are_written(tmp_path: Path, delimiter: str, point: str) -> None:
    ending = ".tsv" if delimiter == "\t" else ".csv"
    data, filled = tmp_path / f"rows{ending}", tmp_path / f"filled{ending}"
    lines = lines_of(delimiter, point)
    with data.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows(lines)
    done("fit", data, "-o", tmp_path / "run", "--id", "id", *FIT)
    done("impute", tmp_path / "run", data, "-o", filled, *IMPUTE)
    with filled.open(newline="", encoding="utf-8") as file:
        after = list(csv.reader(file, delimiter=delimiter))
    assert after[0] == lines[0]
    assert len(after) == len(lines)
    patterns = {1: rf"\d+(\{point}\d+)?", 2: rf"-?\d+(\{point}\d+)?", 3: r"k\d", 4: "True|False"}
    patterns[5] = r"\d{2}\.\d{2}\.\d{4}"
    for before, now in zip(lines[1:], after[1:], strict=True):
        for column, (was, cell) in enumerate(zip(before, now, strict=True)):
            if was in ("", "NA", "?", "n/a") and column in patterns:
                assert re.fullmatch(patterns[column], cell), (lines[0][column], cell)
            else:
                assert cell == was


def test_a_text_file_becomes_a_typed_one(tmp_path: Path) -> None:
    data = tmp_path / "rows.csv"
    lines = lines_of(",", ".")
    with data.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(lines)
    done("fit", data, "-o", tmp_path / "run", "--id", "id", *FIT)
    done("impute", tmp_path / "run", data, "-o", tmp_path / "filled.parquet", *IMPUTE)
    after = pq.read_table(tmp_path / "filled.parquet")
    assert after.column_names == lines[0]
    assert after["id"].to_pylist() == [line[0] for line in lines[1:]]
    assert after["dropped"].to_pylist()[0] == "000"  # a number would lose its zeros
    for line, amount in zip(lines[1:], after["amount"].to_pylist(), strict=True):
        assert amount is not None
        assert line[1] in ("", "NA", "?", "n/a") or amount == float(line[1])
    assert after["since"].null_count == 0


def test_a_spreadsheet_comes_back_with_all_columns(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "id": [f"{i:03d}" for i in range(ROWS)],
            "amount": holes((5e8 + rng.normal(size=ROWS) * 1e6).tolist(), 9),
            "kind": holes([f"k{i % 3}" for i in range(ROWS)], 8),
            "note": [f"remark {i}" for i in range(ROWS)],
        }
    )
    frame.to_excel(tmp_path / "rows.xlsx", index=False)
    done("fit", tmp_path / "rows.xlsx", "-o", tmp_path / "run", "--id", "id", *FIT[:-2])
    done("impute", tmp_path / "run", tmp_path / "rows.xlsx", "-o", tmp_path / "filled.parquet", *IMPUTE)
    after = pd.read_parquet(tmp_path / "filled.parquet")
    frame = pd.read_excel(tmp_path / "rows.xlsx", dtype={"id": str})  # which holds 16 digits of a number
    there = frame["amount"].notna()
    assert list(after) == list(frame)
    assert after["id"].tolist() == frame["id"].tolist()
    assert after["amount"][there].tolist() == frame["amount"][there].tolist()
    assert not after.isna().any().any()


def test_lines_of_json_keep_their_values(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    said = [
        {
            "id": f"{i:03d}",
            "amount": float(a),
            "since": f"2024-01-{1 + i % 28:02d}",
            "kind": f"k{i % 3}",
            "more": {"a": [i]},
        }
        for i, a in enumerate(5e8 + rng.normal(size=ROWS) * 1e6)
    ]
    for i, line in enumerate(said):
        if i % 5 == 1:
            line["amount"] = None
        if i % 7 == 1:
            del line["kind"]
        if i % 9 == 1:
            line["since"] = None
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in said))
    done("fit", tmp_path / "rows.jsonl", "-o", tmp_path / "run", "--id", "id", "--drop", "more", *FIT[:-2])
    done("impute", tmp_path / "run", tmp_path / "rows.jsonl", "-o", tmp_path / "filled.jsonl", *IMPUTE)
    after = [json.loads(line) for line in (tmp_path / "filled.jsonl").read_text().splitlines()]
    for was, now in zip(said, after, strict=True):
        assert list(now) == ["id", "amount", "since", "kind", "more"]
        assert now["amount"] is not None
        assert now["kind"] in ("k0", "k1", "k2")
        assert all(now[name] == value for name, value in was.items() if value is not None)
        assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", now["since"])


def test_a_table_without_gaps_comes_back_as_it_is(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = pa.table({"id": [f"{i:03d}" for i in range(ROWS)]} | {name: 0.1 + rng.normal(size=ROWS) for name in "abc"})
    pq.write_table(rows, tmp_path / "rows.parquet")
    done("fit", tmp_path / "rows.parquet", "-o", tmp_path / "run", "--id", "id", *FIT[:-2])
    done("impute", tmp_path / "run", tmp_path / "rows.parquet", "-o", tmp_path / "filled.parquet", *IMPUTE)
    assert pq.read_table(tmp_path / "filled.parquet").equals(rows)


def test_an_estimator_gives_data_frames_back_with_all_columns() -> None:
    frame = table().to_pandas().drop(columns="price")
    model = hb.PoincareVAE(max_epochs=2, hidden=(8,), random_state=0).fit(frame)
    for filled in (model.impute(frame, samples=5), *model.impute(frame, samples=5, draws=2)):
        assert list(filled) == list(frame)
        assert filled.index.equals(frame.index)
        for name in frame:
            there = frame[name].notna()
            assert filled[name][there].tolist() == frame[name][there].tolist(), name
            if name in USED:
                assert not filled[name].isna().any(), name
        for name in ("income", "small", "nan", "kind", "at"):
            assert filled[name].dtype == frame[name].dtype, name


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_words_that_the_user_calls_gaps_are_filled(tmp_path: Path, ending: str) -> None:
    rng = np.random.default_rng(0)
    ages = [f"{age:.1f}" for age in rng.normal(40, 5, ROWS)]
    ages[3], ages[4] = "unknown", "-999"
    kinds = [f"k{i % 3}" for i in range(ROWS)]
    kinds[5] = "unknown"
    pd.DataFrame({"age": ages, "kind": kinds}).to_csv(tmp_path / "rows.csv", index=False)
    done("fit", tmp_path / "rows.csv", "-o", tmp_path / "run", "--na", "unknown,-999", *FIT[:-2])
    done("impute", tmp_path / "run", tmp_path / "rows.csv", "-o", tmp_path / f"filled{ending}", *IMPUTE)
    text = ending == ".csv"
    after = pd.read_csv(tmp_path / "filled.csv", dtype=str) if text else pd.read_parquet(tmp_path / "filled.parquet")
    assert after["kind"][5] in ("k0", "k1", "k2")
    assert after["kind"].drop(index=5).tolist() == [kind for i, kind in enumerate(kinds) if i != 5]
    for i, (was, now) in enumerate(zip(ages, after["age"], strict=True)):
        assert 0 < float(now) < 100
        assert i in (3, 4) or now == (was if text else float(was))
