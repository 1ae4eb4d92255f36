from __future__ import annotations

import numpy as np

from horoball.trees.chance import related_columns


def test_columns_of_noise_are_left_out_and_related_ones_kept() -> None:
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 6)) + 0.1 * rng.normal(size=(300, 6))
    kept = related_columns(np.hstack((signal / signal.std(0), rng.normal(size=(300, 8)))))
    assert kept.tolist() == [True] * 6 + [False] * 8


def test_independent_columns_are_all_kept() -> None:
    assert related_columns(np.random.default_rng(0).normal(size=(300, 6))).all()
    assert related_columns(np.ones((300, 3))).all()


def test_a_column_of_several_numbers_is_judged_as_one() -> None:
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(300, 1)) + 0.1 * rng.normal(size=(300, 3))
    levels = np.eye(4)[rng.integers(4, size=300)]  # each level says what the others are not
    owners = np.array([0, 1, 2, 3, 3, 3, 3])
    assert related_columns(np.hstack((signal, levels)), owners).tolist() == [True] * 3 + [False] * 4
