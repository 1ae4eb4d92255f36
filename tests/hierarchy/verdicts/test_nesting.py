from __future__ import annotations

import math

import numpy as np

from horoball.hierarchy.verdicts.nesting import nesting


def test_independent_centers_are_rarely_nested() -> None:
    found = [nesting(np.random.default_rng(seed).normal(size=(8, 4)), seed).nested for seed in range(40)]
    assert sum(found) <= 5  # 40 draws at an error of 4 %: more than 5 in 1 of 200 tries


def test_corners_of_a_cube_are_not_nested() -> None:
    corners = np.stack(np.meshgrid([0.0, 1.0], [0.0, 1.0], [0.0, 1.0]), -1).reshape(8, 3)
    assert not nesting(corners + 0.01 * np.random.default_rng(0).normal(size=(8, 3))).nested


def test_three_centers_cannot_be_nested() -> None:
    found = nesting(np.eye(3))
    assert not found.nested
    assert math.isnan(found.p_conflict)


def test_one_center_far_away_is_no_level() -> None:
    centers = np.random.default_rng(0).normal(size=(6, 4))
    centers[0] += 1000
    assert nesting(centers).labels is None
