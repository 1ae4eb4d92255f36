from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import horoball as hb
from horoball.data import branching_diffusion

X = branching_diffusion(depth=3).x.numpy()
FAST = {"max_epochs": 3, "hidden": (16,), "random_state": 0}


@parametrize_with_checks([hb.PoincareVAE(max_epochs=2, hidden=(16,))])
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


def test_set_output_and_names_are_honoured() -> None:
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


def test_counts_and_binary_values_are_recognised() -> None:
    rng = np.random.default_rng(0)
    for values, expected in (
        (rng.poisson(2.0, size=(100, 5)), "poisson"),
        (rng.negative_binomial(1, 0.1, size=(100, 5)), "negative_binomial"),
        (rng.integers(0, 2, size=(100, 5)), "bernoulli"),
        (rng.normal(size=(100, 5)), "normal"),
    ):
        model = clone(hb.PoincareVAE(**FAST)).fit(values.astype(float))
        assert model.run_.about["model"]["likelihood"] == expected


def test_without_a_folder_the_best_weights_are_kept_too() -> None:
    model = hb.PoincareVAE(**(FAST | {"max_epochs": 30, "learning_rate": 0.05, "patience": 2})).fit(X)
    watched = [line["validation"] for line in model.run_.history]
    assert watched.index(min(watched)) == len(watched) - 3
