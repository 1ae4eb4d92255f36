"""`check`: what a table is taken for, and whether it has structure."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import horoball as hb


def test_a_gap_counts_once_however_many_features_its_column_has() -> None:
    days = pd.to_datetime(["2020-01-01", None, "2020-03-01"] * 10)
    found = hb.check(pd.DataFrame({"day": days, "size": [1.5, 2.5, None] * 10, "kind": ["x", "y", "z"] * 10}))
    assert found.gaps == {"day": 10, "size": 10}
    assert "20 missing values: day 10, size 10." in str(found)


@pytest.mark.parametrize(("spread", "answer"), [(0.0, "not detected"), (20.0, "clusters")])
def test_it_says_what_to_do_next(spread: float, answer: str) -> None:
    rng = np.random.default_rng(0)
    found = hb.check(spread * rng.normal(size=(3, 5)).repeat(30, 0) + rng.normal(size=(90, 5)))
    assert found.verdict is not None
    assert found.verdict.answer == answer
    assert ("Not detected is not no" in found.advice) == (answer == "not detected")
    assert ("horoball tree" in found.advice) == (answer == "clusters")
