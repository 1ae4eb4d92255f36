"""split_links: what is held out, what is left, and the warning of the leak."""

import os
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from horoball.datasets import paper_graph, preferential_attachment, random_tree
from horoball.graphs import Graph, LeakWarning, split_links

needs_graphs = pytest.mark.skipif(
    not (Path(os.environ.get("HOROBALL_DATA", "")) / "graphs").is_dir(), reason="HOROBALL_DATA has no folder of graphs"
)


def keys(pairs: torch.Tensor) -> set[tuple[int, int]]:
    return {(min(i, j), max(i, j)) for i, j in pairs.tolist()}


@needs_graphs
@pytest.mark.filterwarnings("ignore::horoball.graphs.LeakWarning")
@pytest.mark.parametrize("name", ["phylogenetic", "csphd", "diseases"])
def test_the_parts_are_disjoint_and_of_kipf_and_wellings_sizes(name):
    graph = paper_graph(name)
    m = len(graph.edges)
    split = split_links(graph, seed=3)
    validation, test = split.validation, split.test
    assert len(validation.pairs) == 2 * int(m * 0.05)
    assert len(test.pairs) == 2 * int(m * 0.1)
    assert validation.is_edge.sum() * 2 == len(validation.pairs)
    for part in (validation, test):
        assert torch.equal(graph.holds(part.pairs), part.is_edge)
        assert not split.train.holds(part.pairs).any()
    held = [*keys(validation.pairs), *keys(test.pairs)]
    assert len(set(held)) == len(held) == len(validation.pairs) + len(test.pairs)
    edges = [keys(part.pairs[part.is_edge]) for part in (validation, test)]
    assert set.union(keys(split.train.edges), *edges) == keys(graph.edges)
    assert split.train.nodes == graph.nodes


@pytest.mark.filterwarnings("ignore::horoball.graphs.LeakWarning")
def test_the_same_seed_gives_the_same_split():
    graph = random_tree(500)
    first, again, other = split_links(graph, seed=1), split_links(graph, seed=1), split_links(graph, seed=2)
    assert torch.equal(first.test.pairs, again.test.pairs)
    assert not torch.equal(first.test.pairs, other.test.pairs)


@needs_graphs
def test_isolated_nodes_are_counted_and_warned_of_once():
    graph = paper_graph("phylogenetic")
    with pytest.warns(LeakWarning, match="31 nodes without any edge") as caught:
        split = split_links(graph)
    assert len(caught) == 1
    assert split.isolated == int((split.train.degrees() == 0).sum()) == 31


def test_nodes_that_had_no_edge_are_no_leak():
    ring = torch.stack([torch.arange(50), (torch.arange(50) + 1) % 50], 1)
    graph = Graph.of(torch.cat([ring, torch.stack([torch.arange(50), (torch.arange(50) + 2) % 50], 1)]), nodes=60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert split_links(graph, validation=0.01, test=0.02).isolated == 0


def test_a_part_may_be_empty():
    graph = preferential_attachment(200, 4)
    split = split_links(graph, validation=0, test=0.1)
    assert split.validation.pairs.shape == (0, 2)
    assert split_links(graph, validation=0.1, test=0).test.is_edge.shape == (0,)
    assert torch.equal(split_links(graph, 0, 0).train.edges, graph.edges)


@pytest.mark.filterwarnings("ignore::horoball.graphs.LeakWarning")
@pytest.mark.parametrize("nodes", [6, 40])
def test_every_non_edge_is_drawn_as_often(nodes):
    # 6 nodes list all pairs, 40 draw and reject.
    graph = random_tree(nodes, seed=5)
    count = np.zeros((nodes, nodes))
    draws = 1000
    for seed in range(draws):
        pairs = split_links(graph, 0, 0.4, seed=seed).test
        i, j = pairs.pairs[~pairs.is_edge].T.numpy()
        count[i, j] += 1
    free = np.triu(np.ones((nodes, nodes)), 1) - np.triu(graph.adjacency().toarray(), 1) > 0
    assert count[~free].sum() == 0
    p = int((nodes - 1) * 0.4) / free.sum()
    z = (count[free] - draws * p) / np.sqrt(draws * p * (1 - p))
    assert np.abs(z).max() < 5
    assert 0.7 < z.std() < 1.3


def test_the_split_can_use_up_all_non_edges():
    n = 20
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    graph = Graph.of(pairs[19:], n)  # node 0 is joined to none: 19 non-edges, 171 edges
    split = split_links(graph, validation=0, test=19.5 / 171)
    assert keys(split.test.pairs[~split.test.is_edge]) == set(pairs[:19])


@pytest.mark.parametrize(
    ("graph", "parts", "message"),
    [
        (Graph.of([], nodes=1), {}, "A graph of 1 node has no links"),
        (Graph.of([], nodes=5), {}, "has 0 edges, too few"),
        (Graph.of([(0, 1), (1, 2), (2, 3)]), {}, "has 3 edges, too few to hold out a part of 0.05 for validation"),
        (
            Graph.of([(i, j) for i in range(9) for j in range(i)]),
            {"test": 0.2},
            "needs 8 pairs .* has 0. It is too dense",
        ),
        (Graph.of([(0, 1)]), {"test": 1.0}, "from 0 to below 1, got 1.0"),
        (Graph.of([(0, 1)]), {"validation": 0.5, "test": 0.5}, "leave none to train on"),
    ],
)
def test_graphs_that_cannot_be_split_are_refused(graph, parts, message):
    with pytest.raises(ValueError, match=message):
        split_links(graph, **parts)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::horoball.graphs.LeakWarning")
def test_five_million_edges_are_split_in_seconds():
    graph = preferential_attachment(1_000_000, 5)
    start = time.perf_counter()
    split = split_links(graph)
    assert time.perf_counter() - start < 30
    assert torch.equal(graph.holds(split.test.pairs), split.test.is_edge)
