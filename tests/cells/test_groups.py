"""Groups of cells: labels that are missing, categories that no cell is of, and names that say too little."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from horoball.cells import CellModel, fit, simulate, transfer_labels
from tests.cells.conftest import FAST


def test_cells_without_a_label_do_not_vote(fitted: tuple[Any, CellModel]) -> None:
    reference = fitted[0].copy()
    reference.obs["type"] = reference.obs["branch"].where(~reference.obs["branch"].str.startswith("00"))
    query = reference.copy()
    given = transfer_labels(query, reference, "type", tree=None)
    assert list(given.columns) == ["0", "01", "010", "011"]
    assert set(query.obs["type_predicted"]) <= {"0", "01", "010", "011", "unknown"}
    labeled = reference[reference.obs["type"].notna()].copy()
    alone = query.copy()
    assert transfer_labels(alone, labeled, "type", tree=None).sub(given).abs().to_numpy().max() < 0.2  # other draws


@pytest.mark.parametrize("empty", [None, np.nan, "", " "])
def test_a_missing_label_is_no_group(cells: Any, empty: Any) -> None:
    model = fit(cells, **FAST)
    cells.obs["type"] = np.where(cells.obs["branch"] == "01", empty, cells.obs["branch"].to_numpy(object))
    found = model.differential_expression(cells, "type", draws=20)
    assert set(found["comparison"]) == {"0 vs rest", "00 vs rest"}
    with pytest.raises(ValueError, match=r"30 of 90 cells have no group in obs\['type'\]: it is missing or empty\."):
        model.tree(cells, "type", root="0", draws=2)
    cells.obs["type"] = None
    with pytest.raises(ValueError, match=r"No cell has a group in obs\['type'\]"):
        model.differential_expression(cells, "type")


def test_a_category_that_no_cell_is_of_is_no_leaf(cells: Any) -> None:
    model = fit(cells, **FAST)
    cells.obs["type"] = pd.Categorical(cells.obs["branch"], categories=["old name", "01", "00", "0"])
    tree = model.tree(cells, "type", root="0", draws=2)
    assert sorted(tree.names) == ["0", "00", "01"]
    assert len(cells.uns["dendrogram_type"]["categories_ordered"]) == 3
    with pytest.raises(ValueError, match="no column 'nope' to group cells by"):
        model.markers(cells, tree, "nope")


@pytest.mark.parametrize("root", ["a", None])
def test_two_groups_make_a_tree_without_a_branch(cells: Any, root: str | None) -> None:
    model = fit(cells, **FAST)
    cells.obs["half"] = ["a", "b"] * 45
    tree = model.tree(cells, "half", root=root, draws=3)
    assert (tree.leaves, tree.nodes) == (2, 3)


def test_a_batch_of_two_keys_says_of_which(cells: Any) -> None:
    cells.obs["donor"], cells.obs["batch"] = np.arange(90) % 3 + 1, (np.arange(90) // 3) % 2 + 1.0
    model = fit(cells, batch_key=["donor", "batch"], **FAST)

    def decoded(batch: Any) -> np.ndarray:
        found: np.ndarray = model.normalized_expression(cells, batch=batch, draws=0).to_numpy()
        return found

    with pytest.raises(
        ValueError, match=r"'1' is a category of 'donor' and of 'batch'\. Say of which: batch=\{'donor': '1'\}"
    ):
        decoded("1")
    assert np.array_equal(decoded(3), decoded({"donor": "3"}))
    own = decoded({"batch": 1})
    assert np.array_equal(own[:3], decoded(None)[:3])  # their own batch
    assert not np.allclose(own, decoded({"donor": 1}))
    assert np.allclose(decoded({"donor": 1, "batch": 2})[3], decoded({"donor": 1})[3])
    for wrong, message in (
        ([], "got none"),
        ({"lane": 1}, "no batch key 'lane'"),
        ({"batch": 3}, "not know the batch '3'"),
    ):
        with pytest.raises(ValueError, match=message):
            decoded(wrong)


def test_comparisons_that_say_nothing_are_refused(cells: Any) -> None:
    model = fit(cells, **FAST)
    for options, message in (
        ({"group1": "0", "group2": "0"}, "Expected two groups .* got '0' twice"),
        ({"delta": float("nan")}, "delta >= 0"),
        ({"draws": 0}, "draws >= 1"),
        ({"pseudocount": -1.0}, "pseudocount is a positive number"),
    ):
        with pytest.raises(ValueError, match=message):
            model.differential_expression(cells, "branch", **options)
    with pytest.raises(ValueError, match="n_neighbors is at least 1, got 0"):
        transfer_labels(cells.copy(), cells, "branch", n_neighbors=0)


def test_a_column_is_a_batch_or_a_number(cells: Any) -> None:
    cells.obs["lane"] = np.arange(90) % 2
    with pytest.raises(ValueError, match="'lane' is given as a batch and as a number"):
        fit(cells, batch_key="lane", continuous_key="lane", **FAST)
    model = fit(cells, continuous_key="lane", **FAST)
    new = simulate(depth=1, cells=20, genes=40)
    new.obs["lane"] = np.where(np.arange(20) == 3, np.nan, 0.0)
    with pytest.raises(ValueError, match="The covariate 'lane' is missing or infinite in some rows"):
        model.embed(new)
