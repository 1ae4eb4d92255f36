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


@pytest.mark.parametrize("seed", [0, 1])
def test_a_category_and_a_date_count_as_one_column_each(seed: int) -> None:
    # Of eleven numbers, five are those of a date that says nothing: they hid the groups.
    rng = np.random.default_rng(seed)
    group = rng.integers(4, size=200)
    center = 6 * np.array([[0, 0], [0, 1], [1, 0], [1, 1]])[group] + rng.normal(size=(200, 2))
    frame = pd.DataFrame(center, columns=["age", "income"])
    frame["plan"] = np.array(["basic", "plus", "pro", "team"])[group]
    frame["signup"] = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(700, size=200), unit="D")
    found = hb.groups(frame)
    level = found.groups[-1]
    assert len(level) == 4
    assert min(one.support or 0.0 for one in level) > 0.8
    assert len({(int(a), int(b)) for a, b in zip(group, found.levels[:, -1], strict=True)}) == 4
