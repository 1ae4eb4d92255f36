from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse

from horoball.data import branching_diffusion
from horoball.hierarchy import Space, Verdict, verdict
from tests.hierarchy.measured import cells, edges, needs_data
from tests.hierarchy.spaces import cycle, graph, grid, torus


def quick(x: np.ndarray | Space, **options: int) -> Verdict:
    return verdict(x, landmarks=70, draws=4, **options)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_branching_diffusion_is_hierarchical(seed: int) -> None:
    found = quick(branching_diffusion(seed=seed).x.numpy())
    assert found.answer == "hierarchical"
    assert found.position.high < 0.3


def test_noise_as_strong_as_the_leaves_does_not_hide_a_hierarchy() -> None:
    x = branching_diffusion(seed=0).x.numpy()
    assert quick(x + np.random.default_rng(0).normal(scale=0.5, size=x.shape)).answer == "hierarchical"


@pytest.mark.parametrize(("d", "seed"), [(2, 0), (10, 0), (10, 1), (100, 0)])
def test_a_normal_cloud_is_not(d: int, seed: int) -> None:
    found = quick(np.random.default_rng(seed).normal(size=(1000, d)))
    assert found.answer == "no"
    assert found.position.value == pytest.approx(1, abs=0.1)


def test_a_cloud_with_a_steep_spectrum_is_not() -> None:
    x = np.random.default_rng(0).normal(size=(600, 30)) / np.arange(1, 31)
    assert quick(x).answer == "no"


@pytest.mark.parametrize("seed", [0, 1])
def test_a_torus_is_not(seed: int) -> None:
    assert quick(torus(1000, seed)).answer == "no"


@pytest.mark.parametrize("adjacency", [grid(15, periodic=True), grid(15), cycle(200)], ids=["torus", "grid", "cycle"])
def test_graphs_without_a_tree_are_not(adjacency: object) -> None:
    assert quick(Space.of_graph(adjacency)).answer == "no"


def test_a_line_is_not_for_it_does_not_branch() -> None:
    found = quick(Space.of_graph(graph([(i, i + 1) for i in range(100)])))
    assert found.answer == "no"
    assert math.isnan(found.position.value)


def test_points_that_are_all_equally_far_apart_are_not() -> None:
    assert quick(Space.of_matrix(np.ones((20, 20)) - np.eye(20))).answer == "no"


def test_the_same_seed_gives_the_same_verdict() -> None:
    x = np.random.default_rng(0).normal(size=(200, 3))
    assert str(quick(x)) == str(quick(x))
    assert quick(x, rows=100).data.n == 100


def test_one_cloud_is_not_enough() -> None:
    with pytest.raises(ValueError, match="at least two clouds"):
        verdict(np.zeros((5, 2)), draws=1)


@needs_data
def test_the_phylogenetic_tree_is_hierarchical() -> None:
    found = quick(Space.of_graph(edges("phylogenetic")))
    assert found.answer == "hierarchical"
    assert found.data.delta == found.position.value == 0


@needs_data
@pytest.mark.parametrize("seed", [0, 1])
def test_cells_are_not_once_their_columns_are_shuffled(seed: int) -> None:
    x, _ = cells("Olsson")
    rng = np.random.default_rng(seed)
    assert quick(np.stack([rng.permutation(column) for column in x.T], 1)).answer == "no"


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "answer"), [("Olsson", "partly"), ("krumsiek11_blobs", "hierarchical"), ("Moignard2015", "hierarchical")]
)
def test_cells_as_they_are(name: str, answer: str) -> None:
    assert verdict(cells(name)[0]).answer == answer


def test_what_has_no_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="All points are the same"):
        verdict(np.ones((50, 3)))
    parts = scipy.sparse.csr_array(np.kron(np.eye(2), np.ones((20, 20)) - np.eye(20)))
    with pytest.raises(ValueError, match=r"infinitely far apart\. Take one connected part"):
        verdict(Space.of_graph(parts, allow_parts=True))
