from __future__ import annotations

import numpy as np
import pytest

from horoball.hierarchy import Placer, calibration_error


def data(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping groups, three by three; the last has no finer level."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(9).normal(size=(3, 1, 12)) * 1.5 + np.random.default_rng(8).normal(size=(3, 3, 12))
    coarse, fine = rng.integers(0, 3, n), rng.integers(0, 3, n)
    x = centers[coarse, fine] + 1.6 * rng.normal(size=(n, 12))
    return x, np.stack([coarse, np.where(coarse == 2, -1, 3 * coarse + fine)], 1)


def test_new_rows_find_their_groups_and_probabilities_are_calibrated() -> None:
    placer = Placer.fit(*data(900, 0))
    x, truth = data(2000, 1)
    placed = placer.place(x)
    right = np.cumprod(placed.path == truth, axis=1).astype(bool)
    assert right[:, 0].mean() > 0.85
    assert 0.5 < right[:, 1].mean() < 0.95  # some overlap
    for level in (0, 1):
        asked = placed.path[:, level] >= 0
        assert calibration_error(placed.probability[asked, level], right[asked, level]) < 0.06
    deep = placed.depth(0.8)
    shown = np.flatnonzero(deep > 0)
    assert right[shown, deep[shown] - 1].mean() > 0.8


def test_a_path_never_becomes_likelier_and_ends_where_its_group_does() -> None:
    placer = Placer.fit(*data(300, 0), names=[["a", "b", "c"], [f"part {i}" for i in range(6)]])
    placed = placer.place(data(100, 1)[0])
    assert (np.diff(placed.probability, axis=1) <= 0).all()
    ended = placed.path[:, 1] < 0
    assert ended.any()
    assert (placed.probability[ended, 1] == 0).all()
    assert (placed.path[ended, 0] == 2).all()
    assert placed.names[int(np.argmax(ended))] == ["c"]
    assert placer.place(np.empty((0, 12))).path.shape == (0, 2)
    assert set(placed.deepest(0.0)) <= {"c", *(f"part {i}" for i in range(6))}
    assert placed.deepest(1.0) == [None] * 100


def test_rows_of_length_1_are_compared_by_their_cosine() -> None:
    x, levels = data(300, 0)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    placed = Placer.fit(x[:250], levels[:250]).place(x[250:])
    assert (placed.path[:, 0] == levels[250:, 0]).mean() > 0.7


def test_what_cannot_be_fitted_is_refused() -> None:
    x = np.eye(4)
    with pytest.raises(ValueError, match="Every group has a single row"):
        Placer.fit(x, np.arange(4)[:, None])
    with pytest.raises(ValueError, match="a group that some of them are in"):
        Placer.fit(x, np.full((4, 1), -1))
    with pytest.raises(ValueError, match=r"got \(4, 4\) and \(4,\)"):
        Placer.fit(x, np.arange(4))
    with pytest.raises(ValueError, match="Expected rows of 12 columns"):
        Placer.fit(*data(50, 0)).place(x)
