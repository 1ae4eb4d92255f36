"""Graph: one form for edges in any order; the paper's graphs and random ones."""

import logging
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import connected_components

from horoball.datasets import paper_graph, preferential_attachment, random_tree
from horoball.graphs import Graph
from tests.late import late

nx = late("networkx")

needs_graphs = pytest.mark.skipif(
    not (Path(os.environ.get("HOROBALL_DATA", "")) / "graphs").is_dir(), reason="HOROBALL_DATA has no folder of graphs"
)


def messy(seed: int = 0) -> tuple[np.ndarray, set[tuple[int, int]]]:
    """Pairs with loops and repetitions, and the edges they stand for."""
    pairs = np.random.default_rng(seed).integers(0, 30, (300, 2))
    return pairs, {(min(i, j), max(i, j)) for i, j in pairs.tolist() if i != j}


def test_edges_come_once_sorted_and_without_loops():
    pairs, expected = messy()
    graph = Graph.of(pairs, nodes=40)
    assert graph.edges.dtype == torch.int64
    assert [tuple(edge) for edge in graph.edges.tolist()] == sorted(expected)
    assert graph.nodes == 40


def test_dropped_edges_are_counted_in_one_line_of_the_log(caplog):
    with caplog.at_level(logging.INFO, "horoball"):
        Graph.of([(0, 0), (1, 1), (2, 2), (0, 1), (1, 0), (0, 1)])
        Graph.of([(0, 1), (1, 2)])
    assert caplog.messages == ["Dropped 3 self-loops and 2 duplicate edges."]


def test_degrees_and_adjacency_agree_with_networkx():
    pairs, expected = messy()
    graph, other = Graph.of(pairs, nodes=40), nx.Graph(list(expected))
    other.add_nodes_from(range(40))
    assert graph.degrees().tolist() == [other.degree(i) for i in range(40)]
    adjacency = graph.adjacency()
    assert adjacency.dtype == np.float32
    np.testing.assert_array_equal(adjacency.toarray(), nx.to_numpy_array(other, nodelist=range(40)))


def test_holds_answers_for_every_pair():
    pairs, expected = messy()
    graph = Graph.of(pairs, nodes=31)
    everything = torch.cartesian_prod(torch.arange(31), torch.arange(31))
    answer = [(min(i, j), max(i, j)) in expected for i, j in everything.tolist()]
    assert graph.holds(everything).tolist() == answer
    assert not graph.with_edges(torch.empty(0, 2, dtype=torch.int64)).holds(everything).any()


def test_numbers_beyond_two_to_the_31_do_not_overflow():
    graph = Graph.of([(2**31 + 5, 3), (2**31 + 4, 2**31 + 5)])
    assert graph.nodes == 2**31 + 6
    assert graph.edges.tolist() == [[3, 2**31 + 5], [2**31 + 4, 2**31 + 5]]
    assert graph.holds(torch.tensor([[2**31 + 5, 3], [4, 2**31 + 5]])).tolist() == [True, False]


def test_with_edges_keeps_nodes_names_and_features():
    graph = Graph.of([(0, 1)], 3, np.array(["a", "b", "c"]), torch.eye(3, dtype=torch.float64))
    other = graph.with_edges(torch.tensor([[2, 1]]))
    assert other.edges.tolist() == [[1, 2]]
    assert other.names is graph.names
    assert torch.equal(other.features, torch.eye(3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([(0, -1)],), "numbered from 0, got -1"),
        (([(0, 5)], 3), "names node 5, but the graph has 3 nodes"),
        (([(0, 2**40)],), "too large"),
        (([(0.5, 1.0)],), "Expected pairs of node numbers, got list"),
        ((torch.zeros(3, 2),), "got torch.float32"),
        ((np.zeros((3, 3), int),), r"got shape \(3, 3\)"),
        (([(0, 1)], 2, np.array(["a"])), "one name for each of 2 nodes, got 1"),
        (([(0, 1)], 2, None, torch.zeros(3, 1)), r"each of 2 nodes, got features of shape \(3, 1\)"),
    ],
)
def test_what_is_no_graph_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Graph.of(*arguments)


@needs_graphs
@pytest.mark.parametrize(
    ("name", "nodes", "edges"), [("phylogenetic", 344, 343), ("csphd", 1025, 1043), ("diseases", 516, 1188)]
)
def test_the_papers_graphs_have_their_sizes_and_are_connected(name, nodes, edges):
    graph = paper_graph(name)
    assert (graph.nodes, len(graph.edges)) == (nodes, edges)
    assert nx.is_connected(nx.Graph(graph.edges.tolist()))


def test_a_graph_that_is_not_the_papers_is_refused(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="graphs are: phylogenetic, csphd, diseases"):
        paper_graph("diseasome")
    monkeypatch.setenv("HOROBALL_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="set HOROBALL_DATA"):
        paper_graph("phylogenetic")
    (tmp_path / "graphs").mkdir()
    (tmp_path / "graphs" / "csphd.edges").write_text("0 1\n")
    with pytest.raises(ValueError, match="is not the paper's graph 'csphd'"):
        paper_graph("csphd")


def test_a_random_tree_is_a_tree_of_logarithmic_depth():
    graph = random_tree(2000, seed=1)
    tree = nx.Graph(graph.edges.tolist())
    assert nx.is_tree(tree)
    depth = nx.single_source_shortest_path_length(tree, 0)
    # The expected depth of node n is the harmonic number of n − 1, here 7.2 on average over nodes.
    assert abs(np.mean(list(depth.values())) - 7.2) < 2
    assert torch.equal(graph.edges, random_tree(2000, seed=1).edges)
    assert not torch.equal(graph.edges, random_tree(2000, seed=2).edges)
    assert random_tree(1).nodes == 1


@pytest.mark.parametrize("m", [1, 2, 5])
def test_preferential_attachment_has_the_degrees_of_barabasi_and_albert(m):
    n = 50_000
    graph = preferential_attachment(n, m, seed=3)
    assert (n - 1) * m * 0.995 < len(graph.edges) <= (n - 1) * m
    assert connected_components(graph.adjacency())[0] == 1
    degrees = graph.degrees().double()
    for k in (3 * m, 10 * m):  # P(degree ≥ k) → m (m + 1) / (k (k + 1))
        expected = m * (m + 1) / (k * (k + 1))
        error = 5 * (expected / n) ** 0.5 + 0.02 * expected  # five standard errors, and edges that were drawn twice
        assert abs(float((degrees >= k).double().mean()) - expected) < error


def test_sizes_that_make_no_graph_are_refused():
    with pytest.raises(ValueError, match="at least one node, got nodes=0"):
        random_tree(0)
    with pytest.raises(ValueError, match="edges_per_node=0"):
        preferential_attachment(10, 0)


def test_pairs_of_other_nodes_are_refused() -> None:
    graph = Graph.of([(0, 1), (1, 2)])
    for pair in ((0, 5), (-1, 0)):
        with pytest.raises(ValueError, match="Nodes are numbered from 0 to 2, got pairs of"):
            graph.holds(torch.tensor([pair]))
    assert graph.holds(torch.empty(0, 2, dtype=torch.int64)).shape == (0,)


def test_a_directed_graph_keeps_who_is_the_parent() -> None:
    graph = Graph.of([(2, 1), (1, 2), (2, 0), (2, 1)], directed=True)
    assert graph.edges.tolist() == [[1, 2], [2, 0], [2, 1]]
    assert graph.holds(torch.tensor([[0, 2], [2, 0]])).tolist() == [False, True]
    assert graph.relation().toarray().tolist() == [[0, 0, 0], [0, 0, 1], [1, 1, 0]]
    assert graph.adjacency().toarray().tolist() == [[0, 0, 1], [0, 0, 1], [1, 1, 0]]
    assert graph.undirected().edges.tolist() == [[0, 2], [1, 2]]
    assert graph.with_edges(graph.edges[1:]).directed


def test_nodes_are_found_by_name_or_number() -> None:
    named = Graph.of([(0, 1)], names=np.array(["b", "a"]))
    assert named.numbers([["a", "b"]]).tolist() == [[1, 0]]
    assert Graph.of([(0, 1)]).numbers([1]).tolist() == [1]
    with pytest.raises(ValueError, match="no node 'c'"):
        named.numbers(["c"])
