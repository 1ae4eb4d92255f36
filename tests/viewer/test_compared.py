"""Which columns a page holds to compare rows by, and how exactly."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import horoball as hb
from horoball.tables import ArrayTable
from horoball.viewer import view
from horoball.viewer.compared import cells_of, coarse, compared_columns
from horoball.viewer.payload import Column
from tests.viewer.conftest import spiral
from tests.viewer.test_view import unpack


def decoded(column: Column) -> np.ndarray:
    """The numbers as the page has them."""
    steps = column.steps
    assert steps is not None
    x = steps["low"] + (steps["high"] - steps["low"]) * column.values.astype(float) / steps["last"]
    x = steps["middle"] + steps["spread"] * np.sinh(x) if "spread" in steps else x
    return np.where(column.values > steps["last"], np.nan, x)


@pytest.mark.parametrize(
    "values", [np.arange(-3, 250), np.array([5.1, 4.9, 7.0]), np.array([0.25, -1.5]), np.full(3, 8.0)]
)
def test_counts_and_short_decimals_are_exact(values: np.ndarray) -> None:
    np.testing.assert_allclose(decoded(coarse("x", values)), values, rtol=1e-12)


def test_one_huge_value_does_not_flatten_the_others() -> None:
    x = np.random.default_rng(0).normal(size=2000)
    x[7] = 1e9
    shown = decoded(coarse("x", x))
    near = np.abs(x) < 2
    assert np.abs(shown - x)[near].max() < 0.25
    np.testing.assert_allclose(shown[7], 1e9, rtol=1e-6)


def test_means_of_groups_are_kept_to_a_hundredth_of_a_spread() -> None:
    rng = np.random.default_rng(0)
    for x in (
        rng.normal(size=3000),
        rng.lognormal(sigma=1.5, size=3000),
        rng.standard_t(3, 3000),
        rng.uniform(size=3000),
    ):
        error = decoded(coarse("x", x)).reshape(10, -1).mean(1) - x.reshape(10, -1).mean(1)
        assert np.abs(error).max() < 0.01 * x.std()


def test_gaps_stay_gaps() -> None:
    shown = decoded(coarse("x", np.array([0.1234, np.nan, np.inf, 7.77777])))
    assert np.isnan(shown).tolist() == [False, True, True, False]
    assert np.isnan(decoded(coarse("x", np.full(3, np.nan)))).all()


def test_cells_are_parts_of_the_map_of_equal_size() -> None:
    cells = cells_of(640, spiral(640), None)
    assert np.bincount(cells).tolist() == [10] * 64
    assert cells_of(15, spiral(15), None).tolist() == [0] * 15


def test_columns_that_differ_across_the_map_come_first() -> None:
    rng = np.random.default_rng(0)
    z = spiral(800)
    noise = rng.normal(size=(800, 30))
    x = np.column_stack([noise, 5 * z[:, 0] + rng.normal(size=800), 1e6 + z[:, 1]])
    found, of = compared_columns(ArrayTable(x), cells_of(800, z, None), most=2)
    assert [column.name for column in found] == ["x31", "x30"]
    assert of == 32


def test_categories_of_a_data_frame_are_compared_too() -> None:
    z = spiral(400)
    side = np.where(z[:, 0] > 0, "right", "left")
    frame = pd.DataFrame(
        {"noise": np.random.default_rng(0).normal(size=400), "side": side, "id": [f"i{k}" for k in range(400)]}
    )
    meta, arrays = unpack(view(z, rows=frame))
    assert [(column["name"], column["kind"]) for column in meta["columns"]] == [
        ("side", "category"),
        ("noise", "number"),
    ]
    assert meta["compared"] == {"held": 2, "of": 2}
    assert (arrays["side"] == (side == "right")).all()


def test_a_page_holds_as_many_columns_as_were_asked_for() -> None:
    z, x = spiral(300), np.random.default_rng(0).normal(size=(300, 90))
    for details, held in ((0, None), (3, 3), (75, 75), ("auto", 60)):
        meta, _ = unpack(view(z, rows=x, details=details))
        assert meta.get("compared") == (None if held is None else {"held": held, "of": 90})
    with pytest.raises(ValueError, match='number of columns from 0, or "auto", got -1'):
        view(z, rows=x, details=-1)
    with pytest.raises(ValueError, match="299 rows for 300 points"):
        view(z, rows=x[1:])


def test_columns_that_are_shown_anyway_are_not_held_twice() -> None:
    x = np.random.default_rng(0).normal(size=(100, 2))
    meta, _ = unpack(view(spiral(100), columns={"x0": x[:, 0]}, rows=x))
    assert [column["name"] for column in meta["columns"]] == ["x0", "x1"]
    assert "steps" not in meta["columns"][0]


def test_columns_to_compare_by_make_a_page_a_fifth_larger_at_most() -> None:
    n = 10_000
    rng = np.random.default_rng(0)
    z, label = spiral(n), rng.integers(0, 6, n)
    scale, x = rng.uniform(0.1, 1, n), rng.normal(size=(n, 80))
    page = view(z, columns={"type": label}, scale=scale, rows=x)
    meta, _ = unpack(page)
    assert 2 < meta["compared"]["held"] < 80
    # Before pages held such columns: 94 kB of program, and 11 bytes a row in base64.
    assert len(page.html.encode()) <= 1.2 * (94_000 + 4 / 3 * 11 * n)


def test_rows_are_compared_where_the_tree_has_no_groups_and_columns_are_numbered() -> None:
    x = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 3)))
    tree = hb.tree(x, draws=5)
    assert (tree.cut(3) < 0).any()  # rows in no group
    meta, _ = unpack(view(tree, x))
    assert meta["compared"] == {"held": 3, "of": 3}
    assert meta["columns"][0]["categories"][-1] == "in no group"
