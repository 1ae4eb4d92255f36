from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pytest
import scipy.sparse

from horoball.data import branching_diffusion
from horoball.hierarchy import Space, Verdict, verdict
from tests.hierarchy.measured import cells, edges, needs_data
from tests.hierarchy.spaces import cycle, graph, grid, torus


def quick(x: np.ndarray | Space, **options: int) -> Verdict:
    return verdict(x, landmarks=40, draws=4, **options)


def blobs(k: int, d: int = 5, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 20 * rng.normal(size=(k, d)).repeat(40, 0) + rng.normal(size=(40 * k, d))


def nested(noise: int = 0) -> np.ndarray:
    rng = np.random.default_rng(0)
    centers = 80 * rng.normal(size=(4, 1, 5)) + 10 * rng.normal(size=(4, 4, 5))
    x = centers.reshape(16, 5).repeat(20, 0) + rng.normal(size=(320, 5))
    return np.hstack((x / x.std(0), rng.normal(size=(320, noise))))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_branching_diffusion_branches(seed: int) -> None:
    found = quick(branching_diffusion(depth=5, seed=seed).x.numpy())
    assert found.answer == "branching"
    assert found.hierarchical
    assert found.position.high < 1


@pytest.mark.parametrize(("d", "seed"), [(2, 0), (10, 0), (10, 1), (100, 0)])
def test_a_normal_cloud_has_no_structure(d: int, seed: int) -> None:
    found = quick(np.random.default_rng(seed).normal(size=(300, d)))
    assert (found.answer, found.groups, found.levels) == ("none", 1, 0)
    assert found.position.value == pytest.approx(1, abs=0.15)


def test_a_cloud_with_a_steep_spectrum_has_none() -> None:
    assert quick(np.random.default_rng(0).normal(size=(300, 30)) / np.arange(1, 31)).answer == "none"


def test_coin_flips_beside_normal_columns_are_no_hierarchy() -> None:
    rng = np.random.default_rng(0)
    x = np.hstack((rng.normal(size=(400, 4)), 2 * rng.integers(0, 2, (400, 2)) - 1))
    assert not quick(x).hierarchical


@pytest.mark.parametrize("k", [2, 3, 6, 10])
def test_unrelated_blobs_are_clusters_and_are_counted(k: int) -> None:
    found = quick(blobs(k))
    assert (found.answer, found.groups, found.levels) == ("clusters", k, 1)
    assert f"clusters ({k} of them), no nesting that can be supported" in str(found)


@pytest.mark.parametrize("noise", [0, 10])
def test_groups_of_groups_are_nested(noise: int) -> None:
    found = quick(nested(noise))
    assert (found.answer, found.groups, found.levels) == ("nested", 16, 2)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_torus_is_no_hierarchy(seed: int) -> None:
    assert quick(torus(400, seed)).answer == "none"


def test_an_arc_is_a_tree_that_does_not_branch() -> None:
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, np.pi, 300)
    found = quick(np.stack((np.cos(angle), np.sin(angle)), 1) + 0.02 * rng.normal(size=(300, 2)))
    assert found.answer == "none"
    assert found.branching is not None
    assert found.branching.arms < 0.05


@pytest.mark.parametrize("adjacency", [grid(15, periodic=True), grid(15), cycle(200)], ids=["torus", "grid", "cycle"])
def test_graphs_without_a_tree_have_none(adjacency: object) -> None:
    assert not quick(Space.of_graph(adjacency)).hierarchical


def test_a_line_has_none_for_it_does_not_branch() -> None:
    assert quick(Space.of_graph(graph([(i, i + 1) for i in range(100)]))).answer == "none"


def test_points_that_are_all_equally_far_apart_have_no_position() -> None:
    found = quick(Space.of_matrix(np.ones((20, 20)) - np.eye(20)))
    assert found.answer == "none"
    assert math.isnan(found.position.value)
    assert "nan" not in str(found)


def test_counts_on_a_lattice_are_not_clusters() -> None:
    assert quick(np.random.default_rng(0).poisson(2.0, size=(400, 3))).groups == 1


def test_the_same_seed_gives_the_same_verdict() -> None:
    x = np.random.default_rng(0).normal(size=(200, 3))
    assert str(quick(x)) == str(quick(x))
    assert len(quick(x, rows=100).gaps.labels) == 100
    assert asdict(quick(x))["answer"] == "none"


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="draws >= 2"):
        verdict(np.zeros((5, 2)), draws=1)
    with pytest.raises(ValueError, match="at least four points"):
        verdict(np.eye(3))
    with pytest.raises(ValueError, match="finite points in two axes"):
        verdict(np.full((30, 2), np.nan))
    with pytest.raises(ValueError, match="All points are the same"):
        verdict(np.ones((50, 3)))
    parts = scipy.sparse.csr_array(np.kron(np.eye(2), np.ones((20, 20)) - np.eye(20)))
    with pytest.raises(ValueError, match=r"infinitely far apart\. Take one connected part"):
        verdict(Space.of_graph(parts, allow_parts=True))


@needs_data
def test_the_phylogenetic_tree_branches() -> None:
    found = quick(Space.of_graph(edges("phylogenetic")))
    assert found.answer == "branching"
    assert found.position.value == 0


@needs_data
@pytest.mark.parametrize("seed", [0, 1])
def test_cells_are_no_hierarchy_once_their_columns_are_shuffled(seed: int) -> None:
    x, _ = cells("Olsson")
    rng = np.random.default_rng(seed)
    assert not quick(np.stack([rng.permutation(column) for column in x.T], 1)).hierarchical


def test_masks_are_refused() -> None:
    x = branching_diffusion(seed=0).x.numpy()
    with pytest.raises(ValueError, match=r"^x has 1 masked value. Masks are not read"):
        quick(np.ma.masked_equal(x, x[0, 0]))
