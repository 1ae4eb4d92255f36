from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
import torch
from scipy.sparse import block_diag

from horoball.datasets import branching_diffusion
from horoball.geometry import PoincareBall
from horoball.hierarchy import Space, delta, references, suggest_c
from horoball.hierarchy.delta import four_point
from tests.hierarchy.spaces import cycle, grid, small_spaces

SPACES = small_spaces()


def sums(d: np.ndarray) -> np.ndarray:
    """S, M, L of each quadruple, one after the other."""
    return np.array(
        [
            sorted((d[i, j] + d[k, m], d[i, k] + d[j, m], d[i, m] + d[j, k]))
            for i, j, k, m in itertools.combinations(range(len(d)), 4)
        ]
    )


def test_there_are_twenty_spaces() -> None:
    assert len(SPACES) == 20


@pytest.mark.parametrize("name", SPACES)
def test_delta_agrees_with_brute_force(name: str) -> None:
    d = SPACES[name]
    expected = sums(d)
    found = delta(Space.of_matrix(d))
    assert found.exact
    assert found.delta == pytest.approx((expected[:, 2] - expected[:, 1]).max() / 2, abs=1e-12)
    assert found.mean.value == pytest.approx((expected[:, 2] - expected[:, 1]).mean() / 2, abs=1e-12)
    branch = (expected[:, 2] - expected[:, 0]).sum()
    if branch > 1e-9:
        assert found.conflict.value == pytest.approx((expected[:, 2] - expected[:, 1]).sum() / branch, abs=1e-12)
    else:
        assert math.isnan(found.conflict.value)
    assert found.mean.low == found.mean.high == found.mean.value
    assert found.relative == pytest.approx(2 * found.delta / d.max())


@pytest.mark.parametrize(
    ("name", "expected"), [("tree 25", 0.0), ("clique 10", 0.0), ("cycle 16", 4.0), ("cycle 11", 2.0), ("grid 4", 3.0)]
)
def test_delta_of_known_spaces(name: str, expected: float) -> None:
    assert delta(Space.of_matrix(SPACES[name])).delta == expected


def test_sums_of_points_are_those_of_their_quadruples() -> None:
    d = SPACES["random"]
    found = four_point(d)
    assert found.quadruples == math.comb(len(d), 4)
    every = sums(d)
    members = np.array(list(itertools.combinations(range(len(d)), 4)))
    for point in range(len(d)):
        mine = every[(members == point).any(1)]
        assert found.gap[point] == pytest.approx((mine[:, 2] - mine[:, 1]).sum())
        assert found.branch[point] == pytest.approx((mine[:, 2] - mine[:, 0]).sum())


def long_spaces() -> dict[str, Space]:
    rng = np.random.default_rng(0)
    return {
        "cloud": Space.of_points(rng.normal(size=(100, 5))),
        "heavy tails": Space.of_points(rng.standard_t(2, size=(100, 3))),
        "branching": Space.of_matrix(Space.of_neighbors(branching_diffusion(depth=4, copies=4).x).matrix()),
        "grid": Space.of_matrix(Space.of_graph(grid(10)).matrix()),
    }


@pytest.mark.parametrize("name", list(long_spaces()))
def test_the_interval_of_a_sample_covers_the_exact_value(name: str) -> None:
    space = long_spaces()[name]
    exact = delta(space)
    assert exact.exact
    draws = [delta(space, landmarks=30, seed=seed) for seed in range(100)]
    assert sum(draw.mean.low <= exact.mean.value <= draw.mean.high for draw in draws) >= 90
    assert sum(draw.conflict.low <= exact.conflict.value <= draw.conflict.high for draw in draws) >= 90
    assert all(draw.delta <= exact.delta for draw in draws)
    assert not any(draw.exact for draw in draws)


def test_the_conflict_does_not_change_with_scale_and_delta_does() -> None:
    d = SPACES["points 18 10"]
    one, ten = delta(Space.of_matrix(d)), delta(Space.of_matrix(10 * d))
    assert ten.conflict.value == pytest.approx(one.conflict.value)
    assert ten.delta == pytest.approx(10 * one.delta)
    assert ten.relative == pytest.approx(one.relative)


@pytest.mark.slow
def test_a_hundred_thousand_points_take_less_than_a_minute() -> None:
    x = np.random.default_rng(0).normal(size=(100_000, 50)).astype(np.float32)
    start = time.process_time()
    found = delta(Space.of_points(x))
    assert time.process_time() - start < 60
    assert found.conflict.high - found.conflict.low < 0.02


def test_delta_of_the_hyperbolic_plane_is_log_two() -> None:
    r = torch.arange(1, 13) * 1.0
    angle = torch.arange(4) * math.pi / 2
    z = torch.cat([step * torch.stack((angle.cos(), angle.sin()), 1) for step in r])
    for c in (0.25, 1.0, 4.0):
        found = delta(Space.of_points(z / math.sqrt(c), PoincareBall(c)))
        assert found.delta == pytest.approx(math.log(2) / math.sqrt(c), rel=1e-4)
        assert suggest_c(found, median=found.median) == pytest.approx(c, rel=1e-3)


def test_a_suggestion_is_for_a_scale() -> None:
    found = delta(Space.of_graph(cycle(12)))
    assert suggest_c(found, median=1.0) == pytest.approx(4 * suggest_c(found, median=2.0))
    assert suggest_c(delta(Space.of_matrix(SPACES["tree 25"]))) == math.inf
    with pytest.raises(ValueError, match="median distance above 0"):
        suggest_c(found, median=0.0)


def test_references_are_ordered_as_they_should_be() -> None:
    known = references(200, 2, landmarks=50)
    assert known["tree"].delta == 0
    assert known["hyperbolic"].relative < known["cloud"].relative < known["sphere"].relative
    assert known["hyperbolic"].conflict.high < known["cloud"].conflict.low


def test_distances_of_a_space_come_in_blocks_as_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(40, 3))
    whole = Space.of_points(x).matrix()
    monkeypatch.setattr("horoball.hierarchy.space._ELEMENTS", 100)
    assert np.array_equal(Space.of_points(x).matrix(), whole)
    index = np.array([3, 1, 20])
    assert np.array_equal(Space.of_points(x).take(index).matrix(), whole[np.ix_(index, index)])


def test_a_ball_without_curvature_has_straight_distances() -> None:
    x = np.random.default_rng(0).normal(size=(10, 3))
    assert np.allclose(Space.of_points(x, PoincareBall(0.0)).matrix(), Space.of_points(x).matrix())


@pytest.mark.parametrize("matrix", [np.ones((3, 3)), np.array([[0.0, 1.0], [2.0, 0.0]]), np.zeros((2, 3))])
def test_what_is_no_distance_matrix_is_refused(matrix: np.ndarray) -> None:
    with pytest.raises(ValueError, match="square symmetric matrix"):
        Space.of_matrix(matrix)


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="got 2 parts"):
        Space.of_graph(block_diag((cycle(4), cycle(4))))
    with pytest.raises(ValueError, match="four points"):
        delta(Space.of_points(np.eye(3)))
    with pytest.raises(ValueError, match="finite"):
        Space.of_points([[np.nan, 1.0], [0.0, 1.0]])
