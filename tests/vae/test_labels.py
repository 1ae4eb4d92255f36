"""Groups as scikit-learn's clusterers give them, coordinates for its pipelines, and frames that keep their index."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import horoball as hb
from horoball.trees import branches, taxonomy

FAST = {"max_epochs": 3, "hidden": (16,), "random_state": 0}
KIND = np.repeat([0, 1, 2], 20)
COLUMNS = ["height", "width", "depth", "mass", "age", "hue"]


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    rng = np.random.default_rng(0)
    return 20 * rng.normal(size=(3, 6)).repeat(20, 0) + rng.normal(size=(60, 6))


@pytest.fixture(scope="module")
def frame(x: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(x, columns=COLUMNS, index=[f"row {i}" for i in range(60)])


@pytest.fixture(scope="module")
def model(frame: pd.DataFrame) -> hb.PoincareVAE:
    return hb.PoincareVAE(**FAST).fit(frame)


def test_labels_are_the_groups_of_the_tree(x: np.ndarray) -> None:
    model = hb.PoincareVAE(**FAST)
    labels = model.fit_predict(x)
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(labels, model.labels_)
    np.testing.assert_array_equal(labels, KIND)


@pytest.mark.parametrize("seed", range(3))
def test_rows_without_structure_are_in_no_group(seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(60, 4))
    assert (hb.PoincareVAE(**FAST).fit_predict(x) == -1).all()


def test_a_fit_makes_no_labels_and_forgets_those_of_another(x: np.ndarray) -> None:
    model = hb.PoincareVAE(**FAST).fit(x)
    assert not hasattr(model, "labels_")
    model.fit_predict(x)
    model.fit(x)
    assert not hasattr(model, "labels_")
    assert not hasattr(model, "places_")


def test_where_there_are_no_groups_nothing_is_placed(x: np.ndarray) -> None:
    model = hb.PoincareVAE(**FAST).fit(x)
    model.taxonomy(x, [3], draws=5)
    none = model.tree(x, draws=5)
    none = dataclasses.replace(none, chance=np.ones(none.nodes))
    assert not any(model.taxonomy(x, [3], tree=none).groups)
    with pytest.raises(ValueError, match="no groups to place rows in"):
        model.place(x)


def test_the_tangent_chart_is_that_of_the_ball(x: np.ndarray) -> None:
    ball = hb.PoincareVAE(**FAST).fit(x)
    tangent = clone(ball).set_params(chart="tangent").fit(x)
    z, v = ball.transform(x), tangent.transform(x)
    assert v.dtype == np.float64
    expected = hb.PoincareBall(ball.c_).from_ball(torch.from_numpy(z)).numpy()
    np.testing.assert_allclose(v, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(tangent.inverse_transform(v), ball.inverse_transform(z), rtol=1e-4, atol=1e-4)


def test_the_tangent_chart_goes_through_a_pipeline_and_a_file(x: np.ndarray, tmp_path: Path) -> None:
    pipe = make_pipeline(hb.PoincareVAE(chart="tangent", **FAST), PCA(2), LogisticRegression()).fit(x, KIND)
    assert pipe.score(x, KIND) > 0.9
    pipe[0].save(tmp_path / "run")
    loaded = hb.PoincareVAE.load(tmp_path / "run")
    assert loaded.chart == "tangent"
    np.testing.assert_array_equal(loaded.transform(x), pipe[0].transform(x))


def test_a_chart_that_is_none_is_refused_before_the_fit(x: np.ndarray) -> None:
    with pytest.raises(ValueError, match="Expected a chart of ball, tangent, got 'klein'"):
        hb.PoincareVAE(chart="klein", **FAST).fit(x)


def test_coordinates_keep_the_index(model: hb.PoincareVAE, frame: pd.DataFrame) -> None:
    shown = clone(model).set_output(transform="pandas").fit(frame).transform(frame[::2])
    assert shown.index.equals(frame.index[::2])


def test_a_tree_has_the_index_as_its_names(model: hb.PoincareVAE, frame: pd.DataFrame) -> None:
    made = model.tree(frame, draws=0)
    assert made.names == tuple(frame.index)
    assert made.to_frame(leaves=True)["name"].tolist()[:60] == frame.index.tolist()
    assert model.tree(frame, names=[f"n{i}" for i in range(60)], draws=0).names[0] == "n0"
    assert model.tree(frame, labels=KIND, draws=0).names == ("0", "1", "2")
    assert model.tree(frame.reset_index(drop=True), draws=0).names[:2] == ("0", "1")
    for found in (hb.tree(frame, draws=0), hb.trees.tree(frame, draws=0)):
        assert found.names == tuple(frame.index)
    assert hb.trees.tree(frame, labels=KIND, draws=0).names == ("0", "1", "2")


def test_branches_keep_the_names_of_columns_and_rows(frame: pd.DataFrame) -> None:
    found = hb.trees.tree(frame, draws=0, method="average")
    described = branches(found, frame)
    plain = branches(found, frame.to_numpy())
    assert {one.column for branch in described for one in branch.differences} <= set(COLUMNS)
    for ours, other in zip(described, plain, strict=True):
        assert ours.exemplars == other.exemplars
        assert ours.exemplar_names == tuple(frame.index[list(ours.exemplars)])
        assert other.exemplar_names == ()
        assert ours.exemplar_names[0] in ours._repr_html_()


def test_groups_and_places_keep_the_index(model: hb.PoincareVAE, frame: pd.DataFrame) -> None:
    made = model.taxonomy(frame, [3], draws=5)
    assert made.to_frame(rows=True).index.equals(frame.index)
    assert set(made.to_frame()["exemplars"].iloc[0]) <= set(frame.index)
    assert any(column in made.groups[0][0].name for column in COLUMNS)
    placed = model.place(frame[:5])
    assert placed.to_frame().index.equals(frame.index[:5])
    assert "row 4" in placed._repr_html_()
    assert frame.join(made.to_frame(rows=True)).notna().any(axis=None)


def test_groups_without_a_model_keep_index_and_columns(frame: pd.DataFrame) -> None:
    made = taxonomy(hb.trees.tree(frame, draws=5), [3], x=frame)
    assert made.to_frame(rows=True).index.equals(frame.index)
    assert made.groups[0][0].words
    assert set(made.groups[0][0].words[0].split()) & set(COLUMNS)
