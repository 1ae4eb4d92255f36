"""Commands on vectors: a column of lists among others."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.commands import done, refused

FAST = ["--hidden", "8", "--max-epochs", "1"]


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors")
    rng = np.random.default_rng(0)
    columns = {"sku": [f"item {i}" for i in range(60)], "kind": [f"k{i % 3}" for i in range(60)]}
    pd.DataFrame(columns | {"embedding": list(rng.normal(size=(60, 8)))}).to_parquet(folder / "items.parquet")
    return folder / "items.parquet"


def test_a_map_of_vectors_is_drawn_beside_their_column_of_lists(items: Path, tmp_path: Path) -> None:
    done("fit", items, "-o", tmp_path / "run", "--kind", "vectors", "--id", "sku", "--quiet", *FAST)
    done("view", tmp_path / "run", items, "-o", tmp_path / "map.html")
    assert "k2" in (tmp_path / "map.html").read_text(encoding="utf-8")
    said = refused("view", tmp_path / "run", items, "-o", tmp_path / "other.html", "--column", "embedding")
    assert "several values in a cell" in said


def test_a_report_takes_vectors(items: Path, tmp_path: Path) -> None:
    words = ["report", items, "--kind", "vectors", "--label", "kind", "--seeds", "2", *FAST]
    done(*words, "-o", tmp_path / "report.html", "--column", "embedding")
    assert json.loads((tmp_path / "report.json").read_text())["rows"] == 60
    assert "--kind vectors" in refused("report", items, "--column", "embedding", "-o", tmp_path / "other.html")
