"""The verdict: what it claims of tables whose structure is known, and that it claims no more."""

from __future__ import annotations

import math

import numpy as np
import pytest

from horoball.datasets import branching_diffusion
from horoball.hierarchy import Space
from horoball.trees import Verdict, tree, verdict
from horoball.trees.chance import FlatTables
from horoball.trees.verdict import nesting


def quick(x: np.ndarray) -> Verdict:
    return verdict(x, seeds=1, draws=40)


def blobs(k: int, d: int = 5, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 20 * rng.normal(size=(k, d)).repeat(20, 0) + rng.normal(size=(20 * k, d))


def nested(noise: int = 0) -> np.ndarray:
    rng = np.random.default_rng(0)
    centers = 80 * rng.normal(size=(4, 1, 5)) + 10 * rng.normal(size=(4, 4, 5))
    x = centers.reshape(16, 5).repeat(10, 0) + rng.normal(size=(160, 5))
    return np.hstack((x / x.std(0), rng.normal(size=(160, noise))))


def test_a_branching_diffusion_branches() -> None:
    found = quick(branching_diffusion(depth=4, seed=1).x.numpy())
    assert (found.answer, found.hierarchical, found.along) == ("branching", True, True)
    assert str(found).startswith("a branching tree: ")


@pytest.mark.parametrize(("d", "seed"), [(2, 0), (10, 0), (10, 1), (100, 0)])
def test_in_a_normal_cloud_nothing_is_detected(d: int, seed: int) -> None:
    found = quick(np.random.default_rng(seed).normal(size=(150, d)))
    assert found.answer == "not detected"
    assert "where 0.05 is needed" in str(found)


@pytest.mark.parametrize("k", [2, 3, 6])
def test_unrelated_blobs_are_clusters(k: int) -> None:
    found = quick(blobs(k))
    assert (found.answer, found.groups, found.levels) == ("clusters", k, 1)


def test_blobs_in_a_plane_are_clusters() -> None:
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [30.0, 5.0], [10.0, 40.0], [50.0, 60.0]])
    assert quick(centers.repeat(30, 0) + rng.normal(size=(120, 2))).answer == "clusters"


@pytest.mark.parametrize("noise", [0, 10])
def test_groups_of_groups_are_nested(noise: int) -> None:
    found = quick(nested(noise))
    assert found.answer == "nested"
    assert found.groups >= 12
    assert found.levels >= 2


def test_draws_are_counted_and_the_same_seed_gives_the_same_verdict() -> None:
    x = blobs(3)
    found = verdict(x, seeds=2, draws=20)
    assert (found.draws, found.agreed) == (2, 2)
    assert str(found).endswith("; in 2 of 2 draws")
    assert found == verdict(x, seeds=2, draws=20)


def test_the_verdict_is_the_tree_s() -> None:
    x = blobs(3)
    assert tree(x, draws=40).verdict == quick(x)


def test_what_cannot_be_judged_is_refused() -> None:
    with pytest.raises(ValueError, match="seeds >= 1 and draws >= 20"):
        verdict(np.zeros((5, 2)), draws=1)
    with pytest.raises(ValueError, match="All rows are the same"):
        verdict(np.ones((50, 3)))
    with pytest.raises(ValueError, match=r"needs rows: distances alone have no replicates\. `delta`"):
        verdict(Space.of_points(np.eye(5)))  # type: ignore[arg-type]
    x = branching_diffusion(seed=0).x.numpy()
    with pytest.raises(ValueError, match=r"^x has 1 masked value. Masks are not read"):
        quick(np.ma.masked_equal(x, x[0, 0]))


def test_independent_centers_are_rarely_nested() -> None:
    found = [nesting(np.random.default_rng(seed).normal(size=(8, 4)), seed) <= 0.02 for seed in range(40)]
    assert sum(found) <= 5  # 40 draws at an error of 4 %: more than 5 in 1 of 200 tries


def test_corners_of_a_cube_are_not_nested() -> None:
    corners = np.stack(np.meshgrid([0.0, 1.0], [0.0, 1.0], [0.0, 1.0]), -1).reshape(8, 3)
    assert nesting(corners + 0.01 * np.random.default_rng(0).normal(size=(8, 3))) > 0.02


def test_three_centers_cannot_be_nested() -> None:
    assert math.isnan(nesting(np.eye(3)))


def test_one_center_far_away_is_no_level() -> None:
    centers = np.random.default_rng(0).normal(size=(5, 4))
    centers[0] += 1000
    assert nesting(centers) > 0.02


def test_columns_in_clumps_are_flat_with_one_mode() -> None:
    rng = np.random.default_rng(0)
    x = np.array([0.0, 40.0, 80.0])[rng.integers(0, 3, (400, 2))] + rng.normal(size=(400, 2))
    made = FlatTables(x, rng).draw("columns", 400, rng)
    counts = np.histogram(made[:, 0], 6)[0]
    assert (np.diff(np.sign(np.diff(counts)[np.abs(np.diff(counts)) > 30])) <= 0).all()  # up, then down
    skewed = np.exp(rng.normal(size=(400, 2)))
    made = FlatTables(skewed, rng).draw("columns", 400, rng)
    assert np.abs(np.quantile(made, [0.1, 0.5, 0.9], 0) / np.quantile(skewed, [0.1, 0.5, 0.9], 0) - 1).max() < 0.1
