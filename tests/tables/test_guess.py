from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from horoball.tables.encoding import decode, encode
from horoball.tables.guess import guess_schema, parse_kinds
from horoball.tables.profile import profile_batches
from horoball.tables.read import read
from horoball.tables.schema import OTHER, Column, Schema
from tests.tables.messy import KINDS, messy

RNG = np.random.default_rng(0)
N = 200
GUESSES: dict[str, tuple[Any, str]] = {
    "real": (RNG.normal(size=N), "real"),
    "prices": (RNG.lognormal(3, 1, N), "positive"),
    "heights": (RNG.normal(170, 9, N), "real"),
    "years": (RNG.integers(1950, 2020, N), "real"),
    "counts": (RNG.poisson(3, N), "count"),
    "stars": (RNG.integers(1, 6, N), "ordinal"),
    "zero and one": (RNG.integers(0, 2, N), "binary"),
    "truths": (RNG.random(N) < 0.5, "binary"),
    "two texts": (RNG.choice(["yes", "no"], N), "binary"),
    "texts": (RNG.choice(["a", "b", "c"], N), "category"),
    "text in every row": ([f"t{i}" for i in range(N)], "skip"),
    "numbered": (np.arange(N) + 7, "skip"),
    "shuffled numbers": (RNG.permutation(N), "skip"),
    "user_id": (RNG.permutation(10**6)[:N], "skip"),
    "population": (RNG.permutation(10**6)[:N] + 10**4, "real"),
    "constant": (np.full(N, 7), "skip"),
    "empty": ([None] * N, "skip"),
    "days": (np.datetime64("2026-01-01") + RNG.integers(0, 500, N), "date"),
    "unix seconds": (1_700_000_000 + RNG.integers(0, 10**7, N), "date"),
    "unix milliseconds": (1_700_000_000_000 + RNG.integers(0, 10**10, N), "date"),
    "mood": (pd.Categorical(RNG.choice(["low", "mid", "top"], N), ["low", "mid", "top"], ordered=True), "ordinal"),
}


def schema_of(given: dict[str, str] | None = None, **columns: Any) -> Schema:
    table = pa.Table.from_pandas(pd.DataFrame(columns), preserve_index=False)
    return guess_schema(profile_batches(table.schema, table.to_batches()), given or {}, "The table")


@pytest.mark.parametrize("name", GUESSES)
def test_a_column_is_taken_for_what_it_is(name: str) -> None:
    values, kind = GUESSES[name]
    (column,) = schema_of(**{name: values}).columns
    assert column.kind == kind, column.reason
    assert column.reason


def test_all_columns_of_a_messy_table_are_guessed_right() -> None:
    schema = read(messy(), "segment").schema
    assert schema is not None
    assert {column.name: column.kind for column in schema.columns} == KINDS
    copy = next(column for column in schema.columns if column.name == "age_again")
    assert copy.reason == "the same as age"


def test_rare_categories_are_pooled() -> None:
    texts = [*RNG.choice(["a", "b", "c"], 1000), *(f"rare {i}" for i in range(100))]
    (column,) = schema_of(text=texts).columns
    assert column.levels == ("a", "b", "c", OTHER)
    codes = encode(Schema((column,)), pa.table({"text": ["b", "rare 7", "never seen", None]})).ravel()
    np.testing.assert_array_equal(codes, [1, 3, 3, np.nan])


def test_a_description_outlives_json_and_damage_is_refused() -> None:
    schema = read(messy()).schema
    assert schema is not None
    said = schema.as_json()
    assert Schema.from_json(said) == schema
    bad: Any
    for bad in (
        {},
        [1],
        [said[0] | {"more": 1}],
        [said[0] | {"kind": "gauss"}],
        [said[3] | {"levels": "ab"}],
        [said[3] | {"levels": ["a", "a"]}],
        [said[3] | {"levels": ["a"]}],
        [said[0], said[0]],
        [said[2] | {"start": float("nan")}],
        [said[2] | {"period": 3}],
        [said[2] | {"form": "century"}],
    ):
        with pytest.raises(ValueError, match=r"its |column|Column"):
            Schema.from_json(bad)


def test_values_come_back_as_they_were() -> None:
    frame = messy()
    table = read(frame, "segment")
    assert table.schema is not None
    back = decode(table.schema, next(table.blocks()).numpy()).to_pandas()
    used = [column.name for column in table.schema.used]
    assert list(back.columns) == used
    for name in used:
        mine, other = frame[name], back[name]
        assert (mine.isna().to_numpy() == other.isna().to_numpy()).all(), name
        there = mine.notna().to_numpy()
        if name == "income":
            np.testing.assert_allclose(other[there].astype(float), mine[there].astype(float), rtol=1e-6)
        elif name == "last_seen":  # float32 has seconds of a day to about ten
            np.testing.assert_allclose(other[there].astype(float), mine[there].astype(float), atol=10)
        else:
            assert [str(v) for v in other[there].convert_dtypes()] == [str(v) for v in mine[there]], name


REFUSED = {
    "agee:real": "has no column 'agee'. Did you mean 'age'?",
    "age:reel": "is to be 'reel', which is no kind. Did you mean 'real'?",
    "country:real": "cannot be real: it holds text such as",
    "balance:positive": "cannot be positive: it holds -",
    "balance:count": "cannot be count: it holds numbers that are not whole",
    "age:binary": "cannot be binary: it has",
    "country:date": "cannot be date: it holds no dates",
    "balance:circular": "cannot be circular",
}


@pytest.mark.parametrize("said", REFUSED)
def test_a_kind_that_a_column_cannot_be_is_refused(said: str) -> None:
    frame = messy().assign(balance=RNG.normal(size=300))
    with pytest.raises(ValueError, match=REFUSED[said].replace(".", r"\.").replace("?", r"\?")):
        read(frame, columns=parse_kinds(said))


def test_kinds_are_overruled() -> None:
    given = parse_kinds("visits:circular, age:category,rating:real,customer_id:count,country:ordinal")
    schema = read(messy(), "segment", columns=given).schema
    assert schema is not None
    assert {c.name: c.kind for c in schema.columns} | given == {c.name: c.kind for c in schema.columns}
    with pytest.raises(ValueError, match='given as "age:real,rating:ordinal", got'):
        parse_kinds("age")


def test_columns_need_levels_and_circles_points() -> None:
    for bad in ({"kind": "category"}, {"kind": "circular"}, {"kind": "binary", "levels": ("a",)}):
        with pytest.raises(ValueError, match="Column 'a'"):
            Column("a", reason="", **bad)  # type: ignore[arg-type]


def test_the_page_shows_what_the_command_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs/tutorials/spreadsheet.md").read_text(encoding="utf-8")
    script = re.search(r"<<'END'\n(.*?)\nEND", page, re.DOTALL)
    shown = re.search(r"```text\n(Columns:\n.*?)```", page, re.DOTALL)
    assert script
    assert shown
    monkeypatch.chdir(tmp_path)
    exec(compile(script[1], "page", "exec"), {})  # noqa: S102
    schema = read(tmp_path / "customers.csv", "segment", ids="customer_id").schema
    assert schema is not None
    assert ["Columns:", *(f"  {line}" for line in schema.lines())] == shown[1].splitlines()
