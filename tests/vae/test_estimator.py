from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import horoball as hb
from horoball.datasets import branching_diffusion
from horoball.tables import ArrayTable
from horoball.training import TrainConfig
from horoball.vae.train import train
from tests.late import late

anndata = late("anndata")
pl = late("polars")

X = branching_diffusion(depth=3).x.numpy()
FAST = {"max_epochs": 3, "hidden": (16,), "random_state": 0}


def by_name(estimator: object) -> dict[str, str]:
    """The one check that is not kept; tests/vae/test_column_order.py has what holds in its place."""
    return {
        "check_dataframe_column_names_consistency": "columns are found by name, in any order, as ColumnTransformer does"
    }


@parametrize_with_checks([hb.PoincareVAE(max_epochs=2, hidden=(16,))], expected_failed_checks=by_name)
def test_it_keeps_scikit_learns_contract(estimator: hb.PoincareVAE, check: object) -> None:
    check(estimator)  # type: ignore[operator]


def test_a_map_lies_in_the_disc_and_comes_again_with_the_seed() -> None:
    z = hb.PoincareVAE(**FAST).fit_transform(X)
    assert z.dtype == np.float64
    assert (np.linalg.norm(z, axis=1) < 1).all()
    np.testing.assert_array_equal(z, hb.PoincareVAE(**FAST).fit_transform(X))


def test_arrays_sparse_matrices_and_frames_give_the_same_model() -> None:
    names = [f"g{i}" for i in range(X.shape[1])]
    expected = hb.PoincareVAE(**FAST).fit_transform(X)
    for other in (scipy.sparse.csr_matrix(X), pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        np.testing.assert_allclose(hb.PoincareVAE(**FAST).fit_transform(other), expected, atol=1e-5)


def test_set_output_and_names_are_honored() -> None:
    model = hb.PoincareVAE(**FAST).set_output(transform="pandas")
    frame = model.fit_transform(pd.DataFrame(X))
    assert list(frame.columns) == ["poincarevae0", "poincarevae1"] == list(model.get_feature_names_out())


def test_scores_samples_and_inverse_have_the_shapes_of_the_data() -> None:
    model = hb.PoincareVAE(**FAST).fit(X)
    assert model.score_samples(X, samples=20).shape == (len(X),)
    assert model.sample(7, random_state=0).shape == (7, X.shape[1])
    assert model.inverse_transform(model.transform(X[:5])).shape == (5, X.shape[1])
    with pytest.raises(ValueError, match="expects shape"):
        model.inverse_transform(np.zeros((2, 3)))


def test_save_and_load_give_the_same_map(tmp_path: Path) -> None:
    model = hb.PoincareVAE(**FAST, c="learn").fit(X)
    model.save(tmp_path)
    again = hb.PoincareVAE.load(tmp_path)
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert again.c_ == model.c_ != 1.0


def test_parameters_of_numpy_lists_and_words_survive_save_and_load(tmp_path: Path) -> None:
    given = FAST | {"max_epochs": np.int64(1), "hidden": [8], "prior_scale": "learn", "n_components": np.int32(2)}
    hb.PoincareVAE(**given).fit(X).save(tmp_path)
    again = hb.PoincareVAE.load(tmp_path)
    params = again.get_params()
    assert [params[name] for name in ("max_epochs", "hidden", "prior_scale", "n_components")] == [1, [8], "learn", 2]
    clone(again).fit(X)


def test_the_run_of_a_command_comes_with_its_parameters(tmp_path: Path) -> None:
    config = TrainConfig(max_epochs=1, patience=3, learning_rate=0.01, beta=2.0, validation=0.3)
    fields = {"hidden": (8,), "learn_c": True, "prior_scale": 2.0, "decoder": "log0", "posterior": "wrapped"}
    train(ArrayTable(X), fields, config).save(tmp_path)
    again = hb.PoincareVAE.load(tmp_path)
    expected = {"hidden": (8,), "c": "learn", "prior_scale": 2.0, "decoder": "log0", "posterior": "wrapped"}
    expected |= {"beta": 2.0, "max_epochs": 1, "patience": 3, "learning_rate": 0.01, "validation_fraction": 0.3}
    assert {name: again.get_params()[name] for name in expected} == expected


@pytest.mark.parametrize("model", [hb.PoincareVAE, hb.PoincareGraphVAE])
def test_a_fit_leaves_the_global_generator_alone(model: Any) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(123)
        expected = torch.rand(1)
        torch.manual_seed(123)
        model(max_epochs=1, random_state=0).fit(X if model is hb.PoincareVAE else [(0, 1), (1, 2)])
        assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("model", [hb.PoincareVAE, hb.PoincareGraphVAE])
@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("c", "lern", "c is a number or \"learn\", got 'lern'"),
        ("c", None, 'c is a number or "learn", got None'),
        ("prior_scale", "wide", "prior_scale is a number or \"learn\", got 'wide'"),
        ("n_components", 2.7, r"n_components is a whole number, got 2\.7"),
        ("hidden", "64", "hidden is a whole number, got '64'"),
    ],
)
def test_a_parameter_of_another_kind_is_refused(model: Any, name: str, value: object, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        model(max_epochs=1, **{name: value}).fit(X if model is hb.PoincareVAE else [(0, 1), (1, 2)])


@pytest.mark.parametrize(
    ("likelihood", "x", "bad", "told"),
    [
        (
            "poisson",
            np.arange(40.0).reshape(20, 2) % 3,
            0.5,
            r"Row 5 holds 0\.5, but the model is one of counts \(poisson\)",
        ),
        (
            "poisson",
            np.arange(40.0).reshape(20, 2) % 3,
            -2.0,
            r"Row 5 holds -2, but the model is one of counts \(poisson\)",
        ),
        ("bernoulli", np.eye(20), 1.5, r"Row 5 holds 1\.5, but the model is one of values in \[0, 1\]"),
        ("categorical", np.arange(40.0).reshape(20, 2) % 3, 7.0, "Row 5 holds 7, but .* of categories 0 to 2"),
    ],
)
def test_rows_without_a_probability_are_refused(likelihood: str, x: np.ndarray, bad: float, told: str) -> None:
    model = hb.PoincareVAE(**FAST, likelihood=likelihood).fit(x)
    x = x.copy()
    x[5, 1] = bad
    for method in (model.transform, model.score_samples):
        with pytest.raises(ValueError, match=told):
            method(x)


def test_seconds_since_1970_are_no_counts_and_their_rounding_is_told(caplog: pytest.LogCaptureFixture) -> None:
    model = hb.PoincareVAE(**FAST).fit(1.7e9 + 100 * X.astype(float))
    assert model.likelihood_ == "normal"
    assert "Rounding: x0" in caplog.text


def test_counts_and_binary_values_are_recognized() -> None:
    rng = np.random.default_rng(0)
    for values, expected in (
        (rng.poisson(2.0, size=(100, 5)), "poisson"),
        (rng.negative_binomial(1, 0.1, size=(100, 5)), "negative_binomial"),
        (rng.integers(0, 2, size=(100, 5)), "bernoulli"),
        (rng.normal(size=(100, 5)), "normal"),
    ):
        model = clone(hb.PoincareVAE(**FAST)).fit(values.astype(float))
        assert model.run_.record.model.likelihood == expected


def test_without_a_folder_the_best_weights_are_kept_too() -> None:
    model = hb.PoincareVAE(**(FAST | {"max_epochs": 30, "learning_rate": 0.05, "patience": 2})).fit(X)
    watched = [line["validation"] for line in model.run_.history]
    assert watched.index(min(watched)) == len(watched) - 3


def test_counts_that_were_not_whole_when_fitted_need_not_be_later() -> None:
    x = np.random.default_rng(0).gamma(2.0, size=(30, 3))
    assert np.isfinite(hb.PoincareVAE(**FAST, likelihood="poisson").fit(x).score(x))


def test_what_is_no_table_of_numbers_is_refused_by_its_place() -> None:
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])]).astype(float)
    model = hb.PoincareVAE(**FAST)
    with pytest.raises(ValueError, match="holds an infinite number in column 'f0'"):
        model.fit(frame.assign(f0=frame["f0"].where(frame.index != 3, np.inf)))
    for bad, told in (
        ("rows.csv", "got the path 'rows.csv'. Read it first"),
        (anndata.AnnData(X.astype(np.float32)), r"got AnnData. Use horoball.cells.fit"),
        (pl.DataFrame(X).lazy(), r"got a LazyFrame. Collect it first"),
    ):
        with pytest.raises(TypeError, match=told):
            model.fit(bad)
