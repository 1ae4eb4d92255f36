"""PairSource: the edges and non-edges of a graph, in steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from horoball.datasets import preferential_attachment
from horoball.graphs import Graph
from horoball.graphs.pairs import PairBatch, PairSource
from horoball.tables.table import Order

GRAPH = preferential_attachment(120, 3, seed=0)
M, N = len(GRAPH.edges), GRAPH.nodes


def keys(pairs: torch.Tensor) -> list[tuple[int, int]]:
    return sorted((min(i, j), max(i, j)) for i, j in pairs.tolist())


def same(first: PairBatch, second: PairBatch) -> bool:
    assert first.non_edges is not None
    assert second.non_edges is not None
    pairs = torch.equal(first.non_edges.pairs(), second.non_edges.pairs())
    return pairs and torch.equal(first.edges, second.edges)


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [1, 50, 10**9])
@pytest.mark.parametrize("non_edges", [None, 4])
def test_an_epoch_visits_every_edge_once(non_edges: int | None, batch_size: int, ranks: int) -> None:
    source = PairSource(GRAPH, non_edges)
    epoch = [list(source.batches(Order(batch_size, 5, 2, rank, ranks))) for rank in range(ranks)]
    assert {len(batches) for batches in epoch} == {source.steps(Order(batch_size))} == {-(-M // batch_size)}
    edges = torch.cat([batch.edges for batches in epoch for batch in batches])
    assert keys(edges) == keys(GRAPH.edges)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_ranks_share_a_step_as_one_would_have_it(ranks: int) -> None:
    source = PairSource(GRAPH, non_edges=4)
    alone = list(source.batches(Order(50, 5, 2)))
    shared = zip(*(source.batches(Order(50, 5, 2, rank, ranks)) for rank in range(ranks)), strict=True)
    for whole, batches in zip(alone, shared, strict=True):
        assert keys(torch.cat([batch.edges for batch in batches])) == keys(whole.edges)
        drawn = [batch.non_edges.pairs() for batch in batches if batch.non_edges is not None]
        assert whole.non_edges is not None
        assert sorted(torch.cat(drawn).tolist()) == sorted(whole.non_edges.pairs().tolist())
        for batch in batches:
            assert batch.edge_weight == whole.edge_weight == pytest.approx(2 * M / len(whole.edges))
            assert batch.non_edge_weight == whole.non_edge_weight
            assert batch.total == N
            assert batch.noise == "same"
            assert batch.share[1] == ranks


def test_the_weights_are_those_of_all_pairs_over_the_drawn_ones() -> None:
    for batch in PairSource(GRAPH, non_edges=4).batches(Order(50)):
        assert batch.non_edges is not None
        places = batch.non_edges.rows.numel() * batch.non_edges.columns.shape[1]
        assert places == batch.non_edges.total == len(batch.non_edges.pairs()) + len(batch.non_edges.edges)
        assert batch.non_edge_weight == pytest.approx(N * (N - 1) / places)
        assert places == pytest.approx(4 * len(batch.edges), rel=0.3)
    exact = next(iter(PairSource(GRAPH).batches(Order(50))))
    assert exact.non_edges is None
    assert exact.non_edge_weight == 1.0


def test_the_same_numbers_give_the_same_pairs_and_others_do_not() -> None:
    source = PairSource(GRAPH, non_edges=4)
    first, again = (list(source.batches(Order(50, 5, 2))) for _ in range(2))
    assert all(map(same, first, again))
    assert all(map(same, first[3:], source.batches(Order(50, 5, 2, start=3))))  # where a resumed run goes on
    for other in (Order(50, 6, 2), Order(50, 5, 3)):
        assert not any(map(same, first, source.batches(other)))
    assert not same(first[0], first[1])


def test_all_edges_in_one_step_stand_in_their_order() -> None:
    (batch,) = PairSource(GRAPH).batches(Order(10**9))
    assert torch.equal(batch.edges, GRAPH.edges)


def test_edges_and_pairs_of_the_first_step_are_drawn_apart() -> None:
    # numpy fills the numbers of a seed up with zeros, so that (seed, epoch) and (seed, epoch, 0) are one seed.
    ring = Graph.of([(i, (i + 1) % 90) for i in range(90)])
    batch = next(iter(PairSource(ring, non_edges=4).batches(Order(60, 5, 2))))
    order = np.random.default_rng((5, 2)).permutation(90)
    assert torch.equal(batch.edges, ring.edges[order[:60]])
    assert batch.non_edges is not None
    members = torch.from_numpy(order[: batch.non_edges.rows.numel()]).view_as(batch.non_edges.rows)
    assert not torch.equal(batch.non_edges.rows, members)


@pytest.mark.parametrize("nodes", [2, 3, 5, 30])
@pytest.mark.parametrize("non_edges", [1, 7, 100])
def test_no_drawn_pair_is_an_edge_or_a_loop(nodes: int, non_edges: int) -> None:
    graph = Graph.of([(i, i + 1) for i in range(nodes - 1)], nodes)
    for epoch in range(10):
        for batch in PairSource(graph, non_edges).batches(Order(10, 0, epoch)):
            if batch.non_edges is None:  # as many are asked for as there are: it takes them all
                assert non_edges * len(batch.edges) >= nodes * (nodes - 1)
                assert batch.non_edge_weight == 1.0
                continue
            found = batch.non_edges.pairs()
            assert not graph.holds(found).any()
            assert not (found[:, 0] == found[:, 1]).any()


def test_what_cannot_be_learned_is_refused() -> None:
    with pytest.raises(ValueError, match="two nodes or more to be learned, got 1"):
        PairSource(Graph.of([], nodes=1))
    with pytest.raises(ValueError, match="5 nodes and no edge"):
        PairSource(Graph.of([], nodes=5))
    for number in (0, -3):
        with pytest.raises(ValueError, match=f"non_edges must be at least 1 .* got {number}"):
            PairSource(GRAPH, non_edges=number)


def test_a_step_says_what_it_is() -> None:
    (batch,) = PairSource(GRAPH).batches(Order(10**9))
    assert batch.describe() == f"{M} edges of a graph of {N} nodes"
    assert batch.rows == M
    assert batch._replace(edges=batch.edges[:0]).rows == 1
