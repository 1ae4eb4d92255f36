from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.spatial.distance import cdist

from horoball.tables.geodesics import geodesics, neighbor_graph


def floyd(weights: np.ndarray) -> np.ndarray:
    d = np.where(weights > 0, weights, np.inf)
    np.fill_diagonal(d, 0)
    for k in range(len(d)):
        d = np.minimum(d, d[:, k : k + 1] + d[k])
    return d


@pytest.mark.parametrize("d", [3, 12])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_geodesics_agree_with_brute_force(dtype: type, d: int) -> None:
    x = np.random.default_rng(0).normal(size=(60, d)).astype(dtype)
    straight = cdist(x, x)
    rank = straight.argsort(1).argsort(1)
    near = (rank <= 4) | (rank.T <= 4)
    expected = floyd(np.where(near, straight, 0))
    found = geodesics(x, 4)
    assert found.dtype == np.float32
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert np.array_equal(geodesics(x, 4, sources=[7, 3]), found[[7, 3]])


def test_parts_are_joined_by_the_links_of_the_spanning_tree() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([center + 0.1 * rng.normal(size=(12, 2)) for center in rng.normal(size=(6, 2)) * 10])
    apart, joined = neighbor_graph(x, 3, join=False), neighbor_graph(x, 3)
    parts = connected_components(apart, directed=False)[0]
    assert parts >= 6
    assert connected_components(joined, directed=False)[0] == 1
    links = (joined - apart).tocoo()
    assert links.nnz == 2 * (parts - 1)
    tree = minimum_spanning_tree(cdist(x, x)).toarray()
    assert (np.maximum(tree, tree.T)[links.row, links.col] > 0).all()
    assert np.isinf(geodesics(x, 3, sources=[0], join=False)).any()


@pytest.mark.parametrize("d", [1, 10])
def test_equal_points_are_neighbors_at_no_distance(d: int) -> None:
    x = np.repeat(np.arange(5.0), 3)[:, None] * np.eye(d)[:1] + 1000
    found = geodesics(x, 3)
    assert np.allclose(found, cdist(x, x), atol=1e-6)


def test_few_points_and_bad_ones() -> None:
    assert np.allclose(geodesics([[0.0], [3.0]]), [[0, 3], [3, 0]])
    with pytest.raises(ValueError, match="at least two points"):
        geodesics([[0.0]])
    with pytest.raises(ValueError, match="finite"):
        geodesics([[0.0], [np.nan]])
    with pytest.raises(ValueError, match="Pass sources="):
        geodesics(np.zeros((6000, 1)))
    with pytest.raises(ValueError, match="neighbors >= 1"):
        neighbor_graph([[0.0], [1.0]], 0)


@pytest.mark.parametrize("offset", [1e4, 1e9])
def test_neighbors_do_not_depend_on_where_the_origin_is(offset: float) -> None:
    x = np.round(np.random.default_rng(0).normal(size=(200, 10)), 3)
    near, far = neighbor_graph(x, 5), neighbor_graph(x + offset, 5)
    assert ((near > 0) != (far > 0)).nnz == 0


def test_sources_may_be_a_mask() -> None:
    x = np.random.default_rng(0).normal(size=(6, 2))
    mask = np.arange(6) == 4
    assert np.array_equal(geodesics(x, 2, sources=mask), geodesics(x, 2, sources=[4]))
