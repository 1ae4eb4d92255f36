"""Columns of dates with a cell that is none: it is named, and the column stays one of dates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from horoball.tables.encoding import odd_dates, parse_dates
from horoball.tables.read import Reading, read

DAYS = {
    "iso": [f"2024-{i % 12 + 1:02}-{i % 28 + 1:02}" for i in range(40)],
    "points": [f"{i % 28 + 1:02}.{i % 12 + 1:02}.2024" for i in range(40)],
    "times": [f"2024-{i % 12 + 1:02}-{i % 28 + 1:02} 12:{i:02}:00" for i in range(40)],
}


def written(path: Path, days: list[str]) -> str:
    rows = [f"{i * 0.5},{day}" for i, day in enumerate(days)]
    path.write_text("\n".join(["x,when", *rows]) + "\n")
    return str(path)


@pytest.mark.parametrize("form", DAYS)
@pytest.mark.parametrize("row", [0, 30])
@pytest.mark.parametrize("text", ["soon", "2024-02-31"])
def test_a_cell_that_is_no_date_is_named(tmp_path: Path, form: str, row: int, text: str) -> None:
    days = list(DAYS[form])
    days[row] = text
    said = rf"column 'when' holds dates, except '{text}' in row {row} \(line {row + 2}\)\. Correct that cell; .* --na"
    with pytest.raises(ValueError, match=said):
        read(written(tmp_path / "rows.csv", days))


@pytest.mark.parametrize(
    ("texts", "read"),
    [
        (["31.12.2024", "1.1.2024", "29.02.2024"], True),
        (["31.12.2024", "31.04.2024"], False),
        (["2024-02-29", "2023-02-28"], True),
        (["2023-02-29"], False),
        (["02/30/2024"], False),
        (["1.3.2024", "2.3.2024", "3.3.2024"], True),
    ],
)
def test_a_day_that_a_month_does_not_have_is_no_date(texts: list[str], read: bool) -> None:
    assert (parse_dates(pa.chunked_array([texts])) is not None) == read


def test_words_for_missing_dates_are_told_and_kept_for_later_rows(tmp_path: Path) -> None:
    days = [*DAYS["points"]]
    days[3] = "soon"
    path = written(tmp_path / "rows.csv", days)
    table = read(path, na=["soon"])
    assert table.schema is not None
    assert [column.kind for column in table.schema.columns] == ["real", "date"]
    x = next(iter(table.blocks())).numpy()
    assert np.flatnonzero(np.isnan(x).any(1)).tolist() == [3]
    assert np.array_equal(
        next(iter(read(path, like=Reading("mixed", table.schema.names, table.schema)).blocks())).numpy()[4:], x[4:]
    )


def test_new_rows_with_a_bad_date_are_refused_by_their_row(tmp_path: Path) -> None:
    schema = read(written(tmp_path / "rows.csv", DAYS["iso"])).schema
    assert schema is not None
    days = [*DAYS["iso"]]
    days[7] = "unknown"
    with pytest.raises(ValueError, match="Column 'when' holds dates, except 'unknown' in row 7"):
        read(written(tmp_path / "new.csv", days), like=Reading("mixed", schema.names, schema))


def test_a_kind_that_is_given_decides(tmp_path: Path) -> None:
    days = [*(DAYS["iso"][:4] * 10)]
    days[7] = "never"
    path = written(tmp_path / "rows.csv", days)
    table = read(path, columns={"when": "category"})
    assert table.schema is not None
    assert "never" in table.schema.columns[1].levels
    with pytest.raises(ValueError, match="holds dates, except 'never'"):
        read(path, columns={"when": "date"})


def test_data_frames_of_text_are_looked_at_alike() -> None:
    days = [*DAYS["iso"]]
    days[5] = "soon"
    with pytest.raises(ValueError, match="holds dates, except 'soon' in row 5"):
        read(pd.DataFrame({"x": np.arange(40) * 0.5, "when": days}))


@pytest.mark.parametrize(
    "texts", [[*["2024-01-31"] * 5, *["a"] * 5], ["a", "b"], [], [None, None], [*["2024-01-31"] * 8, "x", "y"]]
)
def test_other_text_has_no_odd_dates(texts: list[str | None]) -> None:
    assert odd_dates(pa.chunked_array([pa.array(texts, pa.string())])) == []


def test_a_column_that_begins_with_gaps_is_looked_at_whole() -> None:
    days = ["NA"] * 300 + DAYS["points"]
    table = read(pd.DataFrame({"x": np.arange(340) * 0.5, "when": days}))
    assert table.schema is not None
    assert table.schema.columns[1].kind == "date"


def test_each_text_is_counted() -> None:
    found = odd_dates(pa.chunked_array([["2024-01-31"] * 30, ["x", "y", "x", None]]))
    assert [(cell.text, cell.row, cell.times) for cell in found] == [("x", 30, 2), ("y", 31, 1)]


@pytest.mark.parametrize("pattern", ["%Y-%m-%d", "%d.%m.%Y", "%Y-%m-%d %H:%M"])
def test_dates_as_text_in_parquet_are_those_of_a_frame(pattern: str, tmp_path: Path) -> None:
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(60) * 11, unit="h")
    frame = pd.DataFrame({"day": day.strftime(pattern), "x": np.random.default_rng(0).normal(size=60)})
    frame.loc[7, "day"] = None
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=13)
    held, read_back = read(frame), read(tmp_path / "rows.parquet")
    assert held.schema is not None
    assert read_back.schema is not None
    assert read_back.schema.lines() == held.schema.lines()
    assert "date" in held.schema.lines()[0]
    rows = [torch.cat(list(table.blocks())) for table in (held, read_back)]
    torch.testing.assert_close(*rows, equal_nan=True)


def test_a_word_among_dates_is_named_in_parquet_too(tmp_path: Path) -> None:
    day = (pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(60), unit="D")).strftime("%Y-%m-%d").to_series()
    day.iloc[3] = "soon"
    pd.DataFrame({"day": day.to_numpy(), "x": np.arange(60) / 7}).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="'soon'"):
        read(tmp_path / "rows.parquet")


def test_dates_in_parquet_are_those_of_their_column_in_any_order(tmp_path: Path) -> None:
    day = (pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(60), unit="D")).strftime("%Y-%m-%d")
    frame = pd.DataFrame({"x": np.random.default_rng(0).normal(size=60), "kind": ["a", "b", "c"] * 20, "day": day})
    frame.to_parquet(tmp_path / "rows.parquet")
    asked = ["day", "kind", "x"]
    held, found = read(frame, columns=asked).schema, read(tmp_path / "rows.parquet", columns=asked).schema
    assert held is not None
    assert found is not None
    assert found.lines() == held.lines()
