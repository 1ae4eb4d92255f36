"""Average linkage is scipy's, Gromov's tree is the tree that distances come from."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import pdist, squareform

from horoball.hierarchy import Space
from horoball.hierarchy.delta import random_tree
from horoball.trees.linkage import average_linkage, center_radius, join, path_lengths


@pytest.mark.parametrize("n", [2, 3, 10, 300])
def test_heights_and_clades_are_those_of_scipy(n: int) -> None:
    x = np.random.default_rng(n).standard_normal((n, 4))
    expected = linkage(pdist(x), "average")
    merges, height = average_linkage(squareform(pdist(x)).astype(np.float32))
    np.testing.assert_allclose(height, expected[:, 2], rtol=1e-5)
    ours = np.column_stack([merges, height, expected[:, 3]])
    np.testing.assert_allclose(cophenet(ours), cophenet(expected), rtol=1e-5)


def test_weights_count_as_copies_of_a_row() -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((40, 3)), rng.integers(1, 5, 40)
    copies = np.repeat(x, weight, axis=0)
    expected = np.sort(linkage(pdist(copies), "average")[:, 2])[-39:]
    _, height = average_linkage(squareform(pdist(x)).astype(np.float32), weight)
    np.testing.assert_allclose(np.sort(height), expected, rtol=1e-5)


def test_equal_distances_end() -> None:
    merges, height = average_linkage((1 - np.eye(50)).astype(np.float32))
    assert merges.shape == (49, 2)
    np.testing.assert_allclose(height, 1)


@pytest.mark.parametrize("seed", range(3))
def test_path_lengths_of_a_tree_are_its_distances(seed: int) -> None:
    d = random_tree(120, seed).matrix()
    found = path_lengths(join(d, "gromov", radius=d[0]), 120)
    np.testing.assert_allclose(found, squareform(d), atol=1e-4)


def test_average_linkage_cannot_show_rows_at_inner_nodes() -> None:
    d = random_tree(120, 0).matrix()
    assert np.abs(path_lengths(join(d, "average"), 120) - squareform(d)).max() > 1


def test_the_center_is_that_of_flat_space() -> None:
    x = np.random.default_rng(0).standard_normal((30, 4))
    expected = np.linalg.norm(x - x.mean(0), axis=1)
    np.testing.assert_allclose(center_radius(Space.of_points(x).matrix()), expected)


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(ValueError, match="gromov, average, got 'ward'"):
        join(np.zeros((3, 3)), "ward")  # type: ignore[arg-type]
