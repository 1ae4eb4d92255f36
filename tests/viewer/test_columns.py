from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from horoball.viewer.payload import make_column, make_columns
from tests.late import late

pl = late("polars")


def test_few_whole_numbers_are_categories_in_their_order() -> None:
    column = make_column("digit", np.array([10, 9, 10, 2]))
    assert (column.kind, column.categories) == ("category", ["2", "9", "10"])
    assert column.values.tolist() == [2, 1, 2, 0]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [(range(100), "u1"), (range(-100, 100), "i2"), (range(60_000), "u2"), (range(-70_000, 0), "i4")],
)
def test_many_whole_numbers_are_exact_in_few_bytes(values: range, dtype: str) -> None:
    column = make_column("count", np.array(values))
    assert column.kind == "number"
    assert column.values.dtype == np.dtype(dtype)
    assert column.values.tolist() == list(values)


def test_very_large_whole_numbers_are_not_cut() -> None:
    assert make_column("id", np.arange(2**40, 2**40 + 50)).values.tolist() == list(range(2**40, 2**40 + 50))


def test_missing_values_are_a_category_of_their_own() -> None:
    column = make_column("type", ["b", None, float("nan"), "a"])
    assert column.categories == ["a", "b", "missing"]
    assert column.missing == 2
    assert column.values.tolist() == [1, 2, 2, 0]


def test_a_pandas_categorical_keeps_its_order() -> None:
    values = pd.Series(pd.Categorical(["low", "high", "low"], categories=["low", "mid", "high"]))
    assert make_column("dose", values).categories == ["low", "high"]


def test_texts_with_many_values_have_no_legend() -> None:
    assert make_column("id", [f"cell {k}" for k in range(500)]).kind == "text"


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_are_taken(frame: type) -> None:
    made = make_columns(frame({"type": ["a", "b"], "size": [0.5, 1.5], "seen": [True, False]}), 2)
    assert [(column.name, column.kind) for column in made] == [
        ("type", "category"),
        ("size", "number"),
        ("seen", "category"),
    ]


def test_tensors_are_taken() -> None:
    assert make_column("x", torch.tensor([0.5, 1.5], requires_grad=True)).kind == "number"


def test_bad_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="'x' has 3 values for 2 points"):
        make_columns({"x": [1, 2, 3]}, 2)
    with pytest.raises(ValueError, match="expected one value per point"):
        make_columns({"x": np.zeros((2, 2))}, 2)
    with pytest.raises(TypeError, match="a dict or a data frame, got list"):
        make_columns([1, 2], 2)
    with pytest.raises(ValueError, match="same name"):
        make_columns({1: [0, 1], "1": [0, 1]}, 2)


def test_dates_are_shown_as_dates() -> None:
    days = make_column("day", pd.Series(pd.to_datetime(["2021-05-05", None, "2020-01-01"])))
    assert (days.categories, days.values.tolist()) == (["2020-01-01", "2021-05-05", "missing"], [1, 2, 0])
    assert make_column("time", np.array(["2020-01-01T10:00"], "datetime64[ns]")).categories == ["2020-01-01T10:00:00"]


@pytest.mark.parametrize("values", [[123456789.0, 1.5], [123456789.0, np.nan], [1e300, 16777217.0]])
def test_ids_among_floats_are_not_rounded(values: list[float]) -> None:
    np.testing.assert_array_equal(make_column("id", values).values, values)


def test_other_floats_take_four_bytes() -> None:
    assert make_column("x", [0.1, 1e9 + 0.5, np.inf]).values.dtype == np.float32
