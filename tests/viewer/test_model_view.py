"""A map of rows, nodes or cells in one line, by the model that embeds them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import horoball as hb
from horoball.viewer import View

FAST = {"max_epochs": 1, "hidden": (8,), "random_state": 0}
EDGES = [("cat", "animal"), ("dog", "animal"), ("lion", "cat")]


def meta(made: View) -> dict[str, Any]:
    """What a page tells of its rows."""
    return json.loads(re.search(r'id="meta">(.*?)</script>', made.html, re.DOTALL)[1])


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = 20 * rng.normal(size=(3, 4)).repeat(10, 0) + rng.normal(size=(30, 4))
    return pd.DataFrame(x, columns=list("abcd"), index=[f"row {i}" for i in range(30)])


@pytest.fixture(scope="module")
def model(frame: pd.DataFrame) -> hb.PoincareVAE:
    return hb.PoincareVAE(**FAST).fit(frame)


def test_rows_are_colored_by_their_labels_and_found_by_the_index(
    model: hb.PoincareVAE, frame: pd.DataFrame, tmp_path: Path
) -> None:
    page = model.view(frame, labels=["x", "y"] * 15, title="Rows", path=tmp_path / "map.html")
    told = meta(page)
    assert told["title"] == "Rows"
    assert [column["name"] for column in told["columns"]] == ["label", "a", "b", "c", "d"]
    assert told["names"] == list(frame.index)
    assert (tmp_path / "map.html").read_text(encoding="utf-8") == page.html


def test_names_columns_tree_and_groups_are_those_given(model: hb.PoincareVAE, frame: pd.DataFrame) -> None:
    tree = model.tree(frame, draws=5)
    groups = model.taxonomy(frame, [3], tree=tree)
    names, columns = [f"n{i}" for i in range(30)], {"size": np.arange(30)}
    told = meta(model.view(frame, names=names, columns=columns, tree=tree, taxonomy=groups))
    assert told["names"] == names
    assert told["columns"][0]["name"] == "size"
    assert "tree" in told
    assert "levels" in told


def test_an_array_has_a_map_too(frame: pd.DataFrame) -> None:
    x = frame.to_numpy()
    assert "names" not in meta(hb.PoincareVAE(**FAST).fit(x).view(x))


def test_nodes_are_shown_with_their_edges() -> None:
    model = hb.PoincareGraphVAE(max_epochs=1, directed=True, random_state=0).fit(EDGES)
    told = meta(model.view(labels=["k", "s", "s", "s"]))
    assert told["names"] == model.nodes_.tolist()
    assert [column["name"] for column in told["columns"]] == ["label", "degree"]
    flat = meta(hb.PoincareGraphVAE(c=0, max_epochs=1, random_state=0).fit(EDGES).view())
    assert flat["c"] == 0


def test_cells_are_colored_by_a_column_of_obs() -> None:
    cells = hb.cells.simulate(depth=2, cells=60, genes=30)
    model = hb.cells.fit(cells, max_epochs=1, hidden=(8,), n_neighbors=None)
    told = meta(model.view(cells, "branch"))
    assert told["columns"][0]["name"] == "branch"
    assert told["names"] == list(cells.obs_names)
    assert meta(model.view(cells, ["a", "b"] * 30))["columns"][0]["name"] == "label"
    with pytest.raises(ValueError, match="obs has no column 'kind' to color by"):
        model.view(cells, "kind")
    with pytest.raises(TypeError, match="Cells come as AnnData"):
        model.view(np.zeros((3, 30)))


def test_a_model_that_is_not_fitted_has_no_map(frame: pd.DataFrame) -> None:
    with pytest.raises(NotFittedError):
        hb.PoincareVAE().view(frame)
    with pytest.raises(NotFittedError):
        hb.PoincareGraphVAE().view()
