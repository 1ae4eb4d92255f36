"""Random pairs in tiles: uniform, without edges, shared by ranks, and no worse than independent pairs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from horoball.datasets import preferential_attachment
from horoball.geometry import PoincareBall
from horoball.graphs import Graph
from horoball.graphs.model import TanhEdges
from horoball.graphs.pair_sums import log_prob_of_non_edges, log_prob_of_pairs, log_prob_of_tiles
from horoball.graphs.pairs import Tiles, draw_tiles


def _everything(tiles: Tiles) -> torch.Tensor:
    """All pairs, edges included."""
    return tiles._replace(edges=tiles.edges[:0]).pairs()


# With one pair a node, few and many; more pairs than a tile of the largest side gives; no more than two nodes.
SIZES = [(40, 3, 40), (40, 3, 7), (41, 3, 400), (600, 20, 600 * 600), (9, 4, 1000), (3, 1, 30), (2, 1, 10)]


@pytest.mark.parametrize(("nodes", "each", "pairs"), SIZES)
def test_pairs_are_two_nodes_and_edges_are_found(nodes: int, each: int, pairs: int) -> None:
    graph = preferential_attachment(nodes, each)
    tiles = draw_tiles(graph, pairs, np.random.default_rng(0))
    drawn, free = _everything(tiles), tiles.pairs()
    assert len(drawn) == tiles.total
    assert (drawn[:, 0] != drawn[:, 1]).all()
    assert torch.equal(free, drawn[~graph.holds(drawn)])
    assert (tiles.edges[:, 0].diff() >= 0).all()


@pytest.mark.parametrize(("nodes", "pairs"), [(1000, 10_000), (1000, 1000), (1000, 300_000), (1000, 100)])
def test_there_are_about_as_many_as_asked_for(nodes: int, pairs: int) -> None:
    tiles = draw_tiles(preferential_attachment(nodes, 2), pairs, np.random.default_rng(0))
    assert 0.8 * pairs < tiles.total < 1.2 * pairs


@pytest.mark.parametrize("pairs", [3, 8, 14, 60])
def test_every_pair_is_as_likely(pairs: int) -> None:
    generator, graph = np.random.default_rng(0), Graph.of([(0, 1)], nodes=7)
    counts = torch.zeros(7, 7)
    for _ in range(2000):
        drawn = _everything(draw_tiles(graph, pairs, generator))
        counts.index_put_(tuple(drawn.T), torch.ones(len(drawn)), accumulate=True)
    expected = counts.sum() / 42
    apart = ~torch.eye(7, dtype=torch.bool)
    assert ((counts[apart] - expected).abs() < 4 * expected.sqrt()).all()


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_together_draw_what_one_would(ranks: int) -> None:
    graph = preferential_attachment(100, 5)
    whole = draw_tiles(graph, 1000, np.random.default_rng(5))
    parts = [draw_tiles(graph, 1000, np.random.default_rng(5), rank, ranks) for rank in range(ranks)]
    assert {part.total for part in parts} == {whole.total}
    together = torch.cat([part.pairs() for part in parts])
    assert sorted(map(tuple, together.tolist())) == sorted(map(tuple, whole.pairs().tolist()))


@pytest.mark.parametrize("c", [0.0, 1.0])
@pytest.mark.parametrize("pairs", [2000, 100_000])
def test_the_sum_is_that_of_the_pairs(c: float, pairs: int) -> None:
    graph, ball = preferential_attachment(500, 20), PoincareBall(c)
    z = torch.randn(500, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    tiles = draw_tiles(graph, pairs, np.random.default_rng(0))
    assert len(tiles.edges) > 0
    sums = [
        log_prob_of_tiles(TanhEdges(), z, ball, tiles),
        log_prob_of_pairs(TanhEdges(), z, ball, tiles.pairs(), joined=False),
    ]
    gradients = [torch.autograd.grad(value, z)[0] for value in sums]
    torch.testing.assert_close(*sums, rtol=1e-6, atol=0)
    assert (gradients[0] - gradients[1]).norm() < 1e-6 * gradients[1].norm()


def test_a_rank_without_a_tile_adds_nothing() -> None:
    graph, z = preferential_attachment(100, 2), torch.zeros(100, 2, requires_grad=True)
    tiles = draw_tiles(graph, 1, np.random.default_rng(0), rank=1, ranks=2)
    value = log_prob_of_tiles(TanhEdges(), z, PoincareBall(1.0), tiles)
    value.backward()
    assert float(value.detach()) == 0
    assert not z.grad.any()  # type: ignore[union-attr]


def test_the_sum_of_all_pairs_is_its_expectation_and_varies_no_more_than_by_independent_pairs() -> None:
    graph, ball, law, n = preferential_attachment(300, 3), PoincareBall(1.0), TanhEdges(), 300
    z = torch.randn(n, 2, generator=torch.Generator().manual_seed(1)) / 2
    exact = float(log_prob_of_non_edges(law, z, ball, graph.adjacency()))
    generator, tiled, independent = np.random.default_rng(0), [], []
    for _ in range(300):
        tiles = draw_tiles(graph, 3000, generator)
        tiled.append(float(log_prob_of_tiles(law, z, ball, tiles)) * n * (n - 1) / tiles.total)
        i, j = generator.integers(0, n, tiles.total), generator.integers(0, n - 1, tiles.total)
        pairs = torch.from_numpy(np.stack([i, j + (j >= i)], 1))
        free = pairs[~graph.holds(pairs)]
        independent.append(float(log_prob_of_pairs(law, z, ball, free, joined=False)) * n * (n - 1) / tiles.total)
    assert abs(np.mean(tiled) - exact) < 3 * np.std(tiled) / 300**0.5
    assert np.std(tiled) < np.std(independent)
