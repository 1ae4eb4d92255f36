"""Tables that hold more than numbers: names of rows, columns in another order, columns that no model was fitted to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

from tests.commands import done, refused

FAST = ["--quiet", "--hidden", "8", "--max-epochs", "2", "--batch-size", "32"]


@pytest.fixture(autouse=True)
def _a_process_of_its_own() -> Iterator[None]:
    """Commands seed the global generator."""
    with torch.random.fork_rng(devices=[]):
        yield


def frame() -> pd.DataFrame:
    x = np.random.default_rng(0).normal(size=(60, 3)) + 5
    kinds, keys = [f"k{i % 3}" for i in range(60)], [f"SKU-{i:03}" for i in range(60)]
    return pd.DataFrame({"sku": keys, "a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "kind": kinds})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("catalog")
    frame().to_csv(folder / "rows.csv", index=False)
    done("fit", folder / "rows.csv", "-o", folder / "run", "--label", "kind", "--id", "sku", *FAST)
    return folder


def test_a_table_with_names_can_be_fitted_and_used_as_it_is(run: Path) -> None:
    told = json.loads(done("info", run / "run").stdout)
    assert (told["rows"], told["columns"]) == (60, 3)
    asked = {"hidden": [8], "batch size": 32, "seed": 0, "label": "kind", "ids": "sku"}
    assert {name: told["settings"][name] for name in asked} == asked
    assert json.loads(done("evaluate", run / "run", run / "rows.csv", "--samples", 5).stdout)["rows"] == 60
    done("embed", run / "run", run / "rows.csv", "-o", run / "z.parquet")
    assert pq.read_table(run / "z.parquet")["sku"].to_pylist() == frame()["sku"].tolist()
    done("view", run / "run", run / "rows.csv", "-o", run / "map.html", "--column", "a", "--column", "kind")
    assert "SKU-059" in (run / "map.html").read_text()


def test_columns_may_stand_in_any_order_among_others(run: Path, tmp_path: Path) -> None:
    frame()[["c", "kind", "b", "a"]].assign(day="Monday").to_csv(tmp_path / "other.csv", index=False)
    for source, output in ((run / "rows.csv", "one.parquet"), (tmp_path / "other.csv", "two.parquet")):
        done("embed", run / "run", source, "-o", tmp_path / output)
    one, two = (pq.read_table(tmp_path / name).select(["z0", "z1"]) for name in ("one.parquet", "two.parquet"))
    assert one.equals(two)


def test_what_cannot_be_colored_by_is_told(run: Path, tmp_path: Path) -> None:
    told = refused("view", run / "run", run / "rows.csv", "-o", tmp_path / "map.html", "--column", "day")
    assert "was not fitted to a column 'day', but to: a, b, c" in told


def test_a_map_can_be_colored_by_a_column_that_was_not_fitted(run: Path, tmp_path: Path) -> None:
    frame().assign(day=["Monday", "Sunday"] * 30).to_csv(tmp_path / "other.csv", index=False)
    done("view", run / "run", tmp_path / "other.csv", "-o", tmp_path / "map.html", "--column", "day")
    assert '["Monday","Sunday"]' in (tmp_path / "map.html").read_text()


def test_cells_have_names_already(tmp_path: Path) -> None:
    assert "--id is for tables" in refused("fit", "cells.h5ad", "-o", tmp_path / "run", "--id", "cell", *FAST)


def test_text_that_is_different_in_every_row_is_skipped_and_named(run: Path, tmp_path: Path) -> None:
    told = done("fit", run / "rows.csv", "-o", tmp_path / "run", *FAST).stderr
    assert re.search(r"sku +skip +text that is different in every row", told)


@pytest.mark.filterwarnings("ignore::horoball.tables.outliers.OutlierWarning")
def test_a_column_with_an_outlier_beside_others_is_fitted_and_resumed(tmp_path: Path) -> None:
    rows = frame()[["a", "b", "c"]]
    rows.loc[7, "b"] = 1e6
    rows.to_csv(tmp_path / "rows.csv", index=False)
    fit = ("fit", tmp_path / "rows.csv", "-o", tmp_path / "run", "--quiet", "--hidden", 8, "--batch-size", 32)
    done(*fit, "--max-epochs", 2)
    done(*fit, "--max-epochs", 3, "--resume")
    done("embed", tmp_path / "run", tmp_path / "rows.csv", "-o", tmp_path / "z.csv")
