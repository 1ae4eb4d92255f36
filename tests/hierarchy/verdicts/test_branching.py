from __future__ import annotations

import numpy as np
import pytest

from horoball.hierarchy.delta import Estimate
from horoball.hierarchy.space import Space
from horoball.hierarchy.verdicts.branching import Branching, branching


@pytest.mark.parametrize(
    ("value", "low", "high", "arms", "answer"),
    [
        (0.3, 0.2, 0.5, 0.2, "yes"),
        (0.3, 0.2, 0.5, 0.01, "no"),  # a line
        (0.6, 0.3, 1.2, 0.2, "undecided"),
        (0.75, 0.7, 0.9, 0.2, "no"),
        (0.95, 0.4, 2.0, 0.2, "no"),
        (np.nan, np.nan, np.nan, 0.2, "no"),
    ],
)
def test_a_position_whose_interval_crosses_a_mark_is_undecided(
    value: float, low: float, high: float, arms: float, answer: str
) -> None:
    assert Branching(100, 0.1, Estimate(value, low, high), arms, 1).answer == answer


def test_three_arms_that_meet_branch() -> None:
    rng = np.random.default_rng(1)
    x = np.eye(5)[rng.integers(0, 3, 300)] * rng.uniform(size=(300, 1)) + 0.03 * rng.normal(size=(300, 5))
    found = branching(x, Space.of_neighbors)
    assert found.answer == "yes"
    assert found.arms > 0.05


@pytest.mark.parametrize("k", [3, 6])
def test_overlapping_blobs_do_not(k: int) -> None:
    rng = np.random.default_rng(0)
    x = 1.5 * rng.normal(size=(k, 5)).repeat(60, 0) + rng.normal(size=(60 * k, 5))
    assert branching(x, Space.of_neighbors, draws=4).answer != "yes"
