"""Trees, groups and places as data frames of pandas, with the labels of the rows."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

from horoball.trees import Placed, Taxonomy, Tree, taxonomy, tree

NAMES = [f"row {i}" for i in range(60)]


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    rng = np.random.default_rng(0)
    return 20 * rng.normal(size=(3, 6)).repeat(20, 0) + rng.normal(size=(60, 6))


@pytest.fixture(scope="module")
def some(x: np.ndarray) -> Tree:
    return tree(x, draws=20, names=NAMES)


def test_a_tree_has_a_row_for_every_branch(some: Tree) -> None:
    frame = some.to_frame()
    assert frame.index.name == "node"
    assert frame.index.tolist() == list(range(some.leaves, some.nodes - 1))
    for node, row in frame.iterrows():
        assert row["parent"] == some.parent[node]
        assert row["leaves"] == len(some.members(node))
        assert row["rows"] == some.rows[node]
        assert row["length"] == some.depth[node] - some.depth[some.parent[node]]
        assert set(row["examples"]) <= {some.names[i] for i in some.members(node)}
    np.testing.assert_array_equal(frame["support"], some.support[some.leaves : -1])
    np.testing.assert_array_equal(frame["chance"], some.chance[some.leaves : -1])
    np.testing.assert_array_equal(frame["above_chance"], some.supported[some.leaves : -1])


def test_leaves_have_their_names_where_they_are_asked_for(some: Tree) -> None:
    frame = some.to_frame(leaves=True)
    assert len(frame) == some.nodes
    assert frame["name"].tolist()[: some.leaves] == NAMES
    assert frame["name"].isna().sum() == some.nodes - some.leaves
    assert np.isnan(frame["length"].iloc[-1])


def test_a_tree_without_support_has_none_in_its_frame() -> None:
    frame = Tree.from_merges([[0, 1], [2, 3]], [1.0, 3.0]).to_frame()
    assert frame[["support", "chance"]].isna().all(axis=None)
    assert frame["above_chance"].all()


def test_a_tree_of_one_branch_has_an_empty_frame() -> None:
    assert Tree.from_merges([[0, 1]], [1.0]).to_frame().empty


def test_a_taxonomy_has_a_row_for_every_group(some: Tree, x: np.ndarray) -> None:
    found = taxonomy(some, [2, 3], x=x, columns=list("abcdef"))
    frame = found.to_frame()
    assert list(frame.columns) == ["parent", "name", "rows", "support", "chance", "exemplars"]
    for level, groups in enumerate(found.groups, 1):
        for group in groups:
            row = frame.loc[(level, group.number)]
            assert row[["name", "rows", "support", "exemplars"]].tolist() == [
                group.name,
                group.rows,
                group.support,
                group.exemplars,
            ]
            assert row["support"] > row["chance"]
            assert (row["parent"] is pd.NA) == (group.parent is None)


def test_rows_of_a_taxonomy_keep_their_labels(some: Tree, x: np.ndarray) -> None:
    made = taxonomy(some, [3], x=x)
    found = Taxonomy(made.levels, made.groups, NAMES)
    frame = found.to_frame(rows=True)
    assert frame.index.tolist() == NAMES
    assert frame["level_1"].tolist() == found.names[0]
    first = found.groups[0][0]
    assert found.to_frame()["exemplars"].iloc[0] == tuple(NAMES[row] for row in first.exemplars)


def test_a_taxonomy_without_groups_has_an_empty_frame() -> None:
    none = Taxonomy(np.full((3, 1), -1), ((),))
    assert none.to_frame().empty
    assert none.to_frame(rows=True)["level_1"].tolist() == [None] * 3


def test_places_have_a_row_for_every_row() -> None:
    names, path = (("fruit",), ("apple", "pear")), np.array([[0, 1], [0, -1]])
    sure = np.array([[0.9, 0.4], [0.5, 0.0]])
    frame = Placed(path, sure, names, np.array([[0.97, 0.6], [0.2, 0.0]]), index=["a", "b"]).to_frame()
    assert frame.index.tolist() == ["a", "b"]
    assert frame["level_2"].tolist() == ["pear", None]
    assert frame["place"].tolist() == ["fruit", None]
    assert frame["probability_2"].isna().tolist() == [False, True]
    assert "place" not in Placed(path, sure, names).to_frame()


def test_without_pandas_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch, some: Tree) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    for made in (some, Taxonomy(np.zeros((1, 1), int), ((),)), Placed(np.zeros((1, 1), int), np.ones((1, 1)))):
        with pytest.raises(ImportError, match=r"needs pandas\. Install it with: pip install pandas"):
            made.to_frame()
