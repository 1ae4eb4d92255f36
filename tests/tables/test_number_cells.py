"""A numeric column with a few cells that are no numbers: they are named, and are gaps only if the user says so."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from horoball import PoincareVAE
from horoball.tables.cell_values import GAP_WORDS, NumberCellWarning
from horoball.tables.read import Reading, read
from horoball.tables.table import Table
from tests.commands import done, refused

FAST = ["--quiet", "--hidden", "8", "--max-epochs", "1", "--batch-size", "64"]


def cells(rows: int = 400, bad: tuple[tuple[int, str], ...] = ()) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    ages = [str(age) for age in rng.integers(18, 91, rows)]
    for row, value in bad:
        ages[row] = value
    return pd.DataFrame({"age": ages, "x": rng.normal(size=rows).round(6), "kind": rng.choice(["a", "b", "c"], rows)})


def text_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """As pandas reads a .csv file of it."""
    return pd.read_csv(io.StringIO(frame.to_csv(index=False)), keep_default_na=False)


def as_sheet(frame: pd.DataFrame, path: Path) -> None:
    """Numbers as numbers, the rest as text, as people type them."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(list(frame.columns))
    for row in frame.itertuples(index=False):
        book.active.append([_typed(cell) for cell in row])
    book.save(path)


def _typed(cell: Any) -> Any:
    try:
        return cell if cell in GAP_WORDS else float(cell)
    except ValueError:
        return cell


WRITERS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "x.csv": lambda frame, path: frame.to_csv(path, index=False),
    "x.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "x.csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "x.xlsx": as_sheet,
    "x.feather": lambda frame, path: feather.write_feather(pa.Table.from_pandas(frame), path),
    "x.parquet": lambda frame, path: pq.write_table(pa.Table.from_pandas(frame), path),
    "x.jsonl": lambda frame, path: as_lines(frame, path),
}


def as_lines(frame: pd.DataFrame, path: Path) -> None:
    rows = ({name: _typed(cell) for name, cell in row.items()} for row in frame.to_dict("records"))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def described(table: Table) -> dict[str, str]:
    assert table.schema is not None
    return {column.name: column.kind for column in table.schema.columns}


def column_of(table: Table, name: str) -> np.ndarray:
    return next(table.blocks())[:, table.columns.index(name)].numpy()


@pytest.mark.parametrize("name", WRITERS)
def test_a_cell_that_is_no_number_is_named_with_its_row(name: str, tmp_path: Path) -> None:
    WRITERS[name](cells(bad=((17, "unknown"),)), tmp_path / name)
    with pytest.raises(ValueError, match=r"column 'age'.*'unknown' in row 17.*na"):
        read(tmp_path / name)


@pytest.mark.parametrize("name", WRITERS)
def test_it_is_a_gap_if_the_user_says_so(name: str, tmp_path: Path) -> None:
    WRITERS[name](cells(bad=((17, "unknown"), (30, "ERR"))), tmp_path / name)
    table = read(tmp_path / name, na=["unknown", "ERR"])
    assert described(table)["age"] == "real"
    assert np.flatnonzero(np.isnan(column_of(table, "age"))).tolist() == [17, 30]


@pytest.mark.parametrize("word", ["NA", "#N/A", "#DIV/0!", "n/a", "NaN", "?", "None"])
@pytest.mark.parametrize("name", WRITERS)
def test_gap_words_are_the_same_in_all_formats(name: str, word: str, tmp_path: Path) -> None:
    assert word in GAP_WORDS
    WRITERS[name](cells(bad=((17, word),)).replace({"kind": {"c": word}}), tmp_path / name)
    table = read(tmp_path / name)
    assert described(table) == {"age": "real", "x": "real", "kind": "binary"}
    assert np.flatnonzero(np.isnan(column_of(table, "age"))).tolist() == [17]
    assert np.isnan(column_of(table, "kind")).sum() == (cells()["kind"] == "c").sum()


def test_a_kind_that_is_told_makes_gaps_of_the_others_and_says_which(tmp_path: Path) -> None:
    frame = cells(bad=((17, "unknown"), (30, "ERR")))
    with pytest.warns(NumberCellWarning, match=r"'age'.*'unknown' in row 17, 'ERR' in row 30"):
        table = read(frame, columns={"age": "real"})
    assert np.flatnonzero(np.isnan(column_of(table, "age"))).tolist() == [17, 30]
    assert table.schema is not None
    again = read(frame, like=Reading("mixed", table.schema.names, table.schema))  # the model knows them
    assert np.array_equal(column_of(again, "age"), column_of(table, "age"), equal_nan=True)
    assert described(read(frame, columns={"age": "category"}))["age"] == "category"
    assert described(read(frame, columns={"age": "skip"}))["age"] == "skip"
    assert "age" not in described(read(frame, drop=["age"]))


def test_gap_words_of_the_fit_are_those_of_new_rows(tmp_path: Path) -> None:
    frame = cells(bad=((17, "unknown"),))
    fitted = read(frame, na=["unknown"]).schema
    assert fitted is not None
    assert np.isnan(column_of(read(frame, like=Reading("mixed", fitted.names, fitted)), "age")[17])
    other = cells(bad=((5, "ERR"),))
    for name in ("x.csv", "x.parquet", "x.xlsx"):
        WRITERS[name](other, tmp_path / name)
        with pytest.raises(ValueError, match=r"Column 'age'.*'ERR' in row 5"):
            read(tmp_path / name, like=Reading("mixed", fitted.names, fitted))
        assert np.isnan(
            column_of(read(tmp_path / name, like=Reading("mixed", fitted.names, fitted), na=["ERR"]), "age")[5]
        )


@pytest.mark.parametrize("odd", ["1,000", "5%", "$3.5", "7,5", "1'000.5", "€ 20", "1 234,5"])
def test_numbers_in_another_dress_are_named_and_not_taken_for_text(odd: str) -> None:
    with pytest.raises(ValueError, match=rf"column 'age'.*{re.escape(repr(odd))} in row 3"):
        read(cells(bad=((3, odd),)))
    with pytest.raises(ValueError, match=rf"{re.escape(repr(odd))} in row 3"):  # it has a value, which no gap may hide
        read(cells(bad=((3, odd),)), columns={"age": "real"})


@pytest.mark.parametrize("dress", ["{:,}", "{}%", "${}", "{} €"])
def test_a_column_of_such_numbers_is_refused_too(dress: str) -> None:
    frame = pd.DataFrame({"x": np.arange(50.0) ** 0.5, "paid": [dress.format(1000 + 7 * i) for i in range(50)]})
    with pytest.raises(ValueError, match=r"column 'paid'.*plain"):
        read(frame)


@pytest.mark.parametrize("row", [0, 25, 49])
def test_a_decimal_point_among_decimal_commas_is_named(row: int, tmp_path: Path) -> None:
    values = [f"{i},5" for i in range(50)]
    values[row] = "7.5"
    text = "a;b\n" + "".join(f"{i % 7};{value}\n" for i, value in enumerate(values))
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(ValueError, match=rf"column 'b'.*'7.5' in row {row} \(line {row + 2}\)"):
        read(tmp_path / "x.csv")


def test_nine_in_ten_decide() -> None:
    words = cells(100, bad=tuple((i, f"word {i}") for i in range(11)))
    assert described(read(words))["age"] in {"skip", "category"}
    with pytest.raises(ValueError, match="'word 0' in row 0"):
        read(cells(100, bad=tuple((i, f"word {i}") for i in range(10))))


def test_codes_that_begin_with_zero_stay_text_where_the_source_says_text() -> None:
    frame = pd.DataFrame({"zip": [f"0{i % 5}139" for i in range(60)], "x": np.arange(60) ** 0.5})
    assert described(read(frame))["zip"] == "category"


def test_numbers_that_are_stored_as_text_are_numbers_and_said_to_be(tmp_path: Path) -> None:
    table = read(cells())
    assert table.schema is not None
    reason = table.schema.columns[0].reason
    assert described(table)["age"] == "real"
    assert "written as text" in reason
    assert column_of(table, "age").tolist() == [float(age) for age in cells()["age"]]


def test_a_number_may_stand_for_a_gap(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "kind": rng.choice(["u", "v", "w"], 60)})
    frame.loc[7, "a"] = -999.0
    frame.to_csv(tmp_path / "x.csv", index=False)
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "x.parquet")
    for source in (frame, tmp_path / "x.csv", tmp_path / "x.parquet"):
        table = read(source, na=["-999"])
        assert np.flatnonzero(np.isnan(column_of(table, "a"))).tolist() == [7]
    with pytest.raises(ValueError, match=r"row 7.*column 'a'"):
        read(frame[["a"]], na=["-999"], kind="numbers")


def test_columns_of_several_types_in_pandas_are_named_too() -> None:
    frame = pd.DataFrame({"a": pd.Series([*np.arange(50.0), "ERR"], dtype=object), "b": np.arange(51) ** 0.5})
    with pytest.raises(ValueError, match=r"column 'a'.*'ERR' in row 50"):
        PoincareVAE(max_epochs=1, hidden=(8,)).fit(frame)
    model = PoincareVAE(max_epochs=1, hidden=(8,), na=["ERR"]).fit(frame)
    assert model.transform(frame).shape == (51, 2)


def test_a_whole_column_is_no_longer_lost_in_silence(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=5000).astype(str), "y": rng.normal(size=5000)})
    frame.loc[2345, "x"] = "ERR"
    frame.to_csv(tmp_path / "x.csv", index=False)
    told = refused("fit", tmp_path / "x.csv", "-o", tmp_path / "run", *FAST)
    assert "'ERR' in row 2345 (line 2347)" in told
    assert "--na ERR" in told
    done("fit", tmp_path / "x.csv", "-o", tmp_path / "run", "--na", "ERR", *FAST)
    done("embed", tmp_path / "run", tmp_path / "x.csv", "-o", tmp_path / "z.csv")
    frame.replace({"x": {"ERR": "bad"}}).to_csv(tmp_path / "new.csv", index=False)
    assert "'bad' in row 2345" in refused("embed", tmp_path / "run", tmp_path / "new.csv", "-o", tmp_path / "a.csv")
    for command in (["embed", "-o", "b.csv"], ["evaluate", "--samples", "2"], ["impute", "-o", "c.csv"]):
        told_ = [tmp_path / word if word.endswith(".csv") else word for word in command[1:]]
        done(command[0], tmp_path / "run", tmp_path / "new.csv", "--na", "bad", *told_)
