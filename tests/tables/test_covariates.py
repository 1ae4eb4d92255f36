"""Categories that a model is given."""

from __future__ import annotations

import numpy as np
import pytest

from horoball.tables.covariates import Covariates


def test_numbers_are_told_apart_by_their_value() -> None:
    for values in ([1, 2, 1], [1.0, 2.0, 1.0], np.array([1, 2, 1], np.float32), ["1", "2", "1"]):
        assert Covariates.of({"batch": values}).categories == {"batch": ["1", "2"]}
    assert Covariates.of({"dose": [0.5, 10.0]}).categories == {"dose": ["0.5", "10"]}


def test_what_names_rows_does_not_group_them() -> None:
    for values in (np.random.default_rng(0).random(120), [f"cell{i}" for i in range(120)]):
        with pytest.raises(ValueError, match=r"'frac' has 120 values in 120 rows, such as .* does not group them"):
            Covariates.of({"frac": values})
    assert Covariates.of({"donor": list("abcdefghij")}).sizes == (10,)
