"""The graph of nearest cells: exact, and weighted as UMAP has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from horoball.cells import CellModel, neighbors
from horoball.cells.anndata import fuzzy_weights, nearest
from horoball.geometry import PoincareBall


def cloud(n: int = 60, d: int = 3) -> torch.Tensor:
    return 2 * torch.randn(n, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("c", [0.0, 0.7])
def test_neighbors_are_the_nearest_by_the_distance_of_the_ball(c: float) -> None:
    z, ball = cloud(), PoincareBall(c)
    all_pairs = torch.stack([ball.dist(p.expand_as(z), z) for p in z]).fill_diagonal_(torch.inf)
    index, distance = nearest(z, ball, 5)
    expected = all_pairs.sort(1)
    assert np.array_equal(index, expected.indices[:, :5].numpy())
    np.testing.assert_allclose(distance, expected.values[:, :5].numpy(), rtol=1e-12)


def test_cells_that_are_alike_are_neighbors_at_distance_zero() -> None:
    z = torch.cat((torch.ones(4, 2), 3 * torch.ones(2, 2)))
    index, distance = nearest(z, PoincareBall(1.0), 3)
    assert all(i not in row for i, row in enumerate(index))
    assert distance[:4].max() < 1e-12
    weights = fuzzy_weights(index, distance)
    assert np.isfinite(weights.data).all()
    assert (weights.data <= 1).all()


def test_weights_are_the_fuzzy_union_of_exponentials_that_sum_to_a_logarithm() -> None:
    index, distance = nearest(cloud(), PoincareBall(1.0), 14)
    one_way = np.zeros((60, 60))
    for i, (row, d) in enumerate(zip(index, distance, strict=True)):

        def excess(s: float, d: np.ndarray = d) -> float:
            return float(np.exp(-(d - d[0]) / s).sum() - np.log2(14))

        one_way[i, row] = np.exp(-(d - d[0]) / brentq(excess, 1e-6, 1e6, xtol=1e-14))
    weights = fuzzy_weights(index, distance)
    np.testing.assert_allclose(weights.toarray(), one_way + one_way.T - one_way * one_way.T, atol=1e-9)
    assert abs(weights - weights.T).max() == 0


@pytest.mark.parametrize("k", [0, 1, 2])
def test_few_neighbors_are_joined_as_well(k: int) -> None:
    weights = fuzzy_weights(*nearest(cloud(5), PoincareBall(1.0), k))
    assert weights.shape == (5, 5)
    assert np.isfinite(weights.data).all()
    assert weights.nnz >= 5 * (k > 0)


def test_the_graph_is_laid_out_as_scanpy_has_it(fitted: tuple[Any, CellModel]) -> None:
    cells = fitted[0].copy()
    neighbors(cells, 6)
    distances = cells.obsp["poincare_distances"]
    assert np.array_equal(np.diff(distances.indptr), np.full(280, 5))
    assert (distances.diagonal() == 0).all()
    assert cells.uns["poincare"]["params"]["n_neighbors"] == 6
    assert cells.uns["poincare"]["params"]["c"] == 1.0
    with pytest.raises(ValueError, match="n_neighbors >= 2, got 1"):
        neighbors(cells, 1)
    with pytest.raises(ValueError, match=r"no embedding in obsm\['X_pca'\]"):
        neighbors(cells, key="pca")
