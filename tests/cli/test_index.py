"""Commands that keep an index: rows are found, moved and removed as by `Index` in Python."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from horoball.neighbors import Index
from horoball.vae.run import Run
from tests.commands import done, refused

pytest.importorskip("faiss")


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(80, 4)), columns=list("abcd"))
    frame.assign(key=[f"k{i}" for i in range(80)]).to_csv(folder / "rows.csv", index=False)
    frame[:3].assign(key=["k7", "k8", "new"]).to_csv(folder / "changed.csv", index=False)
    for seed, name in enumerate(("run", "other")):
        options = ["--id", "key", "--quiet", "--hidden", 8, "--max-epochs", 2, "--seed", seed]
        done("fit", folder / "rows.csv", "-o", folder / name, *options)
    return folder


@pytest.fixture
def index(there: Path, tmp_path: Path) -> Path:
    told = json.loads(done("index", "build", there / "run", there / "rows.csv", "-o", tmp_path / "index").stdout)
    assert told == {"index": str(tmp_path / "index"), "rows": 80}
    return tmp_path / "index"


def test_the_neighbors_of_rows_are_those_of_the_model(there: Path, index: Path, tmp_path: Path) -> None:
    done("index", "search", index, there / "run", there / "rows.csv", "-o", tmp_path / "near.csv", "-k", 4)
    found = pd.read_csv(tmp_path / "near.csv")
    assert list(found.columns) == ["key", "rank", "neighbor", "distance"]
    assert found["rank"].tolist() == [1, 2, 3, 4] * 80
    run = Run.load(there / "run")
    z = np.concatenate([block.numpy() for block in run.embed(run.read(there / "rows.csv"))])
    names = [f"k{i}" for i in range(80)]
    # Brute force by the definition of the distance, in ball coordinates.
    far = 1 - (z**2).sum(1)
    squared = ((z[:, None] - z) ** 2).sum(-1)
    distances = np.arccosh(1 + 2 * squared / (far[:, None] * far))
    order = np.argsort(distances, axis=1, kind="stable")[:, :4]
    np.testing.assert_allclose(
        found["distance"].to_numpy().reshape(80, 4), np.take_along_axis(distances, order, 1), atol=1e-5
    )
    assert found["neighbor"].tolist() == [names[i] for i in order.ravel()]
    assert found["key"].tolist() == np.repeat(names, 4).tolist()


def test_rows_that_moved_are_found_where_they_are(there: Path, index: Path, tmp_path: Path) -> None:
    result = done("index", "update", index, there / "run", there / "changed.csv")
    assert "1 rows are new and 2 moved" in result.stderr
    assert json.loads(result.stdout)["rows"] == 81
    done("index", "search", index, there / "run", there / "changed.csv", "-o", tmp_path / "near.csv", "-k", 2)
    found = pd.read_csv(tmp_path / "near.csv").query("distance < 1e-5").groupby("key")["neighbor"].apply(set)
    # two batches of other sizes may be summed in another order
    assert found.to_dict() == {"k7": {"k7", "k0"}, "k8": {"k8", "k1"}, "new": {"new", "k2"}}


def test_rows_that_are_removed_are_not_found(there: Path, index: Path, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("k3\nk4\n")
    told = done("index", "remove", index, "k1", "--names", tmp_path / "names.txt").stdout
    assert json.loads(told)["rows"] == 77
    left = Index.load(index)
    assert not {"k1", "k3", "k4"} & set(left.names(range(77)).tolist())
    assert "No point has the name 'k1'" in refused("index", "remove", index, "k1")


def test_rows_without_names_are_called_by_their_numbers(there: Path, tmp_path: Path) -> None:
    rows = pd.read_csv(there / "rows.csv").drop(columns="key")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    done("fit", tmp_path / "rows.csv", "-o", tmp_path / "run", "--quiet", "--hidden", 8, "--max-epochs", 1)
    done("index", "build", tmp_path / "run", tmp_path / "rows.csv", "-o", tmp_path / "index")
    done("index", "remove", tmp_path / "index", 0, 79)
    assert Index.load(tmp_path / "index").names([0, 77]).tolist() == [1, 78]
    assert "whole numbers" in refused("index", "remove", tmp_path / "index", "k1")
    assert "--id" in refused("index", "update", tmp_path / "index", tmp_path / "run", tmp_path / "rows.csv")


def test_what_would_not_be_meant_is_refused(there: Path, index: Path, tmp_path: Path) -> None:
    search = ["-o", tmp_path / "near.csv"]
    said = refused("index", "search", index, there / "other", there / "rows.csv", *search)
    assert "no index of this run" in said
    assert "no index of this run" in refused("index", "update", index, there / "other", there / "changed.csv")
    assert "--force" in refused("index", "build", there / "run", there / "rows.csv", "-o", index)
    assert "is a file" in refused("index", "build", there / "run", there / "rows.csv", "-o", there / "rows.csv")
    assert "No names were given" in refused("index", "remove", index)
    assert "from 1 to the number of points, 80" in refused(
        "index", "search", index, there / "run", there / "rows.csv", *search, "-k", 81
    )
    assert not (tmp_path / "near.csv").exists()
