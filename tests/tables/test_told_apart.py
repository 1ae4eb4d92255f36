"""Rows and columns that were taken for something else, or overwritten, without a word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.csv
import pytest
from typer.testing import CliRunner

from horoball import PoincareVAE, check, groups
from horoball.cli import app
from horoball.tables import read
from horoball.vae.files import own_name

runner = CliRunner()


def three_groups(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.normal(size=(120, 4)) + 8 * np.eye(4)[rng.integers(0, 3, 120)], columns=list("abcd"))


def model() -> PoincareVAE:
    return PoincareVAE(max_epochs=2, hidden=8, random_state=0)


def test_groups_belong_to_the_model_that_they_were_made_with(tmp_path: Path) -> None:
    rows = three_groups()
    first = model().fit(rows)
    first.taxonomy(rows, [3])
    first.save(tmp_path / "run")
    kept = (tmp_path / "run" / "places.safetensors").read_bytes()
    assert (PoincareVAE.load(tmp_path / "run").place(rows).path >= 0).any()
    second = model().fit(3 * rows + 100)
    second.save(tmp_path / "run")
    assert not (tmp_path / "run" / "places.safetensors").exists()
    (tmp_path / "run" / "places.safetensors").write_bytes(kept)
    with pytest.raises(ValueError, match="it belongs to another model"):
        PoincareVAE.load(tmp_path / "run")


@pytest.mark.parametrize("pattern", ["%d-%m-%y", "%d.%m.%y", "%y/%m/%d"])
def test_years_of_two_digits_are_no_dates(pattern: str, caplog: pytest.LogCaptureFixture) -> None:
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(60) * 30, unit="D")
    frame = pd.DataFrame({"day": day.strftime(pattern), "x": np.random.default_rng(0).normal(size=60)})
    assert "date" not in check(frame).columns[1].split()
    assert "has years of two digits" in caplog.text
    frame["day"] = day.strftime(pattern.replace("%y", "%Y"))
    assert "date" in check(frame).columns[1].split()


@pytest.mark.parametrize("rows", [[5], [5, 9, 11]])
def test_a_blank_row_is_named(rows: list[int]) -> None:
    frame = three_groups()
    frame.iloc[rows] = np.nan
    with pytest.raises(ValueError, match="Row 5, counted from 0, holds no value at all"):
        check(frame)


def test_a_level_called_missing_is_no_gap() -> None:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 150)
    frame = pd.DataFrame(
        {
            "status": np.array(["found", "missing"])[(kind == 1) * 1],
            "x": rng.normal(np.array([0, 5, 10])[kind]),
            "y": rng.normal(np.array([5, 0, 10])[kind]),
        }
    )
    names = " ".join(groups(frame).names[0])
    assert "status = 'missing'" in names
    assert "known" not in names


def test_columns_of_one_name_in_a_frame_are_no_damaged_file() -> None:
    twice = pd.DataFrame(np.eye(6)[:, :3], columns=list("aab"))
    with pytest.raises(ValueError, match="The DataFrame has columns of the same name: a"):
        check(twice)
    with pytest.raises(TypeError, match="A Series is one column"):
        check(twice["b"])


def test_counts_are_what_was_counted() -> None:
    counts = np.random.default_rng(0).integers(50, 200, (120, 5))
    found = PoincareVAE(kind="counts", max_epochs=1, hidden=8, random_state=0).fit(counts)
    assert found.likelihood_ == "negative_binomial"
    for wrong in (counts - 60.0, counts + 0.5):
        with pytest.raises(ValueError, match="Counts are whole numbers from 0 on, and the ndarray holds"):
            read(wrong, kind="counts")


def test_ids_keep_their_column(tmp_path: Path) -> None:
    assert own_name("place", ["place", "place_id"]) == "place_id_id"
    rows = three_groups().assign(place=[f"row {i}" for i in range(120)])
    rows.to_csv(tmp_path / "rows.csv", index=False)
    run, data = str(tmp_path / "run"), str(tmp_path / "rows.csv")
    commands = (
        ["fit", data, "-o", run, "--id", "place", "--max-epochs", "5", "--distance-weight", "0", "--quiet"],
        ["tree", run, data, "-o", str(tmp_path / "groups.csv"), "--levels", "3"],
        ["place", run, data, "-o", str(tmp_path / "places.csv")],
    )
    for words in commands:
        done = runner.invoke(app, words)
        assert done.exit_code == 0, done.output
    found = pyarrow.csv.read_csv(tmp_path / "places.csv").to_pandas()
    assert found["place_id"].tolist() == rows["place"].tolist()
    assert found["place"].notna().any()


@pytest.mark.parametrize("command", ["tree", "view", "report"])
def test_columns_are_said_where_data_stand_alone(command: str) -> None:
    told = runner.invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
    assert "--columns" in told
    assert "--drop" in told


def test_a_tree_of_data_leaves_columns_out(tmp_path: Path) -> None:
    three_groups().to_csv(tmp_path / "rows.csv", index=False)
    words = ["tree", str(tmp_path / "rows.csv"), "-o", str(tmp_path / "t.json"), "--draws", "5"]
    assert runner.invoke(app, [*words, "--drop", "a", "--columns", "b:skip"]).exit_code == 0
    refused = runner.invoke(app, [*words, "--drop", "e", "--force"])
    assert refused.exit_code == 1
    assert "'e'" in refused.output or " e" in refused.output


def test_categories_of_numbers_are_categories_in_their_order() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    store = np.array([10, 20, 30])[rng.integers(0, 3, 60)]
    with_store = frame.assign(store=pd.Categorical(store))
    assert check(with_store).columns[-1].split()[:2] == ["store", "category"]
    rank = pd.Categorical(np.array([3, 1, 2])[rng.integers(0, 3, 60)], categories=[3, 1, 2], ordered=True)
    schema = read(frame.assign(rank=rank)).schema
    assert schema is not None
    assert schema.used[-1].kind == "ordinal"
    assert schema.used[-1].levels == ("3", "1", "2")
    cut = read(frame.assign(cut=pd.cut(frame["a"], 3))).schema
    assert cut is not None
    assert cut.used[-1].kind == "ordinal"
    fitted = model().fit(with_store)
    np.testing.assert_array_equal(fitted.transform(with_store), fitted.transform(frame.assign(store=store)))
