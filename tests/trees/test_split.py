"""The main split of a tree: two clusters of unequal sizes are found, and what is no two clusters is not."""

from __future__ import annotations

import numpy as np
import pytest

from horoball.trees import Verdict, tree, tree_from_json, tree_to_json
from horoball.trees.split import beyond, main_split


def pair(small: int, rows: int, columns: int, apart: float, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    way = rng.normal(size=columns)
    x = rng.normal(size=(rows, columns))
    x[:small] += apart * way / np.linalg.norm(way)
    return x


def judged(x: np.ndarray, **options: object) -> Verdict:
    found = tree(x, draws=40, **options).verdict  # type: ignore[arg-type]
    assert found is not None
    return found


def test_the_share_is_that_of_the_sums_of_squares() -> None:
    x = np.random.default_rng(0).normal(size=(12, 3))
    x[:4] += 20
    found = tree(x, draws=0, method="average", standardize=False)
    split = main_split(found.to_linkage()[:, :2].astype(int), x)
    within = sum(np.square(part - part.mean(0)).sum() for part in (x[:4], x[4:]))
    assert split.share == pytest.approx(1 - within / np.square(x - x.mean(0)).sum(), rel=1e-12)
    assert set(found.members(12 + split.branch).tolist()) == set(range(4))
    assert split.between == 0


def test_an_outlier_that_parts_before_does_not_hide_two_clusters() -> None:
    x = np.concatenate([np.zeros(5), np.full(7, 10.0), [60.0]])[:, None] + np.linspace(0, 1, 13)[:, None]
    made = tree(x, draws=0, method="average").to_linkage()[:, :2].astype(int)
    assert main_split(made, x[:, :1]).branch >= 0


@pytest.mark.parametrize("seed", [1, 2])
def test_two_clusters_of_unequal_sizes_are_clusters(seed: int) -> None:
    found = tree(pair(12, 120, 10, 15, seed), draws=40)
    assert found.verdict is not None
    assert (found.verdict.answer, found.verdict.two) == ("clusters", True)
    assert str(found.verdict).startswith("clusters: two sides of the tree lie apart (p ")
    assert sorted(np.bincount(found.levels()[:, -1])) == [12, 108]
    assert tree_from_json(tree_to_json(found)).verdict == found.verdict


def test_two_equal_clusters_of_vectors_are_clusters() -> None:
    assert judged(pair(30, 60, 50, 12), method="consensus", standardize=False).answer == "clusters"


@pytest.mark.parametrize("columns", [2, 50])
def test_a_ring_is_no_two_clusters(columns: int) -> None:
    rng = np.random.default_rng(3)
    angle = rng.uniform(0, 2 * np.pi, 120)
    x = np.stack([np.cos(angle), np.sin(angle)], 1) @ (np.eye(2) if columns == 2 else rng.normal(size=(2, columns)))
    assert not judged(x + 0.05 * rng.normal(size=x.shape)).two


def test_equal_flat_tables_say_nothing() -> None:
    assert beyond(0.9, [0.3, 0.3, 0.3]) == 1


def test_equal_points_have_no_split() -> None:
    assert main_split(np.array([[0, 1], [2, 3]]), np.zeros((3, 2))).branch == -1
