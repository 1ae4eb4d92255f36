"""Nodes that are added to a fitted model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from horoball.graphs import Graph, growth, read_graph
from horoball.graphs.fit import DIRECTED_TRAINING, TAXONOMY_TRAINING
from horoball.graphs.graph import transitive_closure
from horoball.graphs.lineage import Lineage, add_nodes, remove_nodes
from horoball.graphs.run import GraphRun, train_graph

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # of Fabric, at import
NAMES = np.array([f"n{i:02}" for i in range(15)])
TREE = Graph.of([(i, (i - 1) // 2) for i in range(1, 15)], 15, NAMES, directed=True)


@pytest.fixture(scope="module")
def run() -> GraphRun:
    model = {"d": 3, "edges": "fermi_dirac", "transitive": True}
    return train_graph(TREE, model, TAXONOMY_TRAINING.replace(max_epochs=100))


def test_a_node_is_placed_below_its_parent_and_the_others_stay(run: GraphRun, tmp_path: Path) -> None:
    larger = add_nodes(run, [("x", "n04"), ("y", "n06")], steps=100)
    assert larger.graph.names.tolist() == [*NAMES.tolist(), "x", "y"]
    torch.testing.assert_close(larger.points()[:15], run.points(), rtol=0, atol=0)
    larger.save(tmp_path)
    lineage = Lineage(GraphRun.load(tmp_path))
    assert lineage.ancestors(15).nodes.tolist() == [4, 1, 0]
    assert lineage.ancestors(16).nodes.tolist() == [6, 2, 0]


def test_what_cannot_be_placed_is_refused(run: GraphRun) -> None:
    with pytest.raises(ValueError, match="new node to a known one"):
        add_nodes(run, [("n01", "n02")])
    with pytest.raises(ValueError, match="pairs of a new and a known node"):
        add_nodes(run, [])
    unnamed = train_graph(Graph.of([(0, 1), (1, 2)]), {"edges": "fermi_dirac"}, DIRECTED_TRAINING.replace(max_epochs=1))
    with pytest.raises(ValueError, match="no names"):
        add_nodes(unnamed, [(3, 0)])


def test_an_undirected_node_is_placed_beside_its_neighbor() -> None:
    star = read_graph([("a", "b"), ("a", "c"), ("d", "e"), ("d", "f"), ("a", "d")])
    run = train_graph(star, {"d": 3, "edges": "fermi_dirac"}, DIRECTED_TRAINING.replace(max_epochs=200))
    larger = add_nodes(run, [("x", "d")], steps=100)
    p = larger.model.edge_probability(larger.points(), torch.tensor([[6, 3], [6, 0]]))
    assert p[0] > 0.5 > p[1]


def test_near_nodes_and_some_that_are_drawn_place_a_node_as_all_do(
    run: GraphRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("_ALL", 5), ("_NEAR", 3), ("_DRAWN", 4)):
        monkeypatch.setattr(growth, name, value)
    lineage = Lineage(add_nodes(run, [("x", "n04"), ("y", "n06")], steps=100))
    assert lineage.ancestors(15).nodes.tolist() == [4, 1, 0]
    assert lineage.ancestors(16).nodes.tolist() == [6, 2, 0]


def test_every_known_node_counts_once_on_average(run: GraphRun, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_ALL", 5), ("_NEAR", 3), ("_DRAWN", 15_000)):
        monkeypatch.setattr(growth, name, value)
    z = run.points().float()
    above = torch.tensor([[0, 4], [1, 4], [1, 1]])
    beside = growth._Beside(above, torch.tensor([[0, 9]]), 2, 15)
    with torch.no_grad():
        neighbors, joined = beside.of(torch.arange(2))
        others = growth._Others(growth._Known(z, run.model), neighbors, joined, z[:2])
        (_, _, edges, used), (near, *_), (_, _, no_edges, weight) = others.pairs(z[:2], torch.Generator())
    assert edges is not None
    assert no_edges is None
    assert edges.sum((1, 2)).tolist() == [3, 1]  # above, below
    assert used.sum(1).tolist() == [2, 2]
    torch.testing.assert_close(used.sum(1) + near.shape[1] + weight.sum(1), torch.full((2,), 15.0), rtol=0.05, atol=0.0)


def test_new_leaves_get_the_ancestors_of_all_their_parents(run: GraphRun) -> None:
    with pytest.warns(UserWarning, match="3 of 3 edges of the new nodes are not held"):  # in one step
        grown = add_nodes(run, [("x", "n04"), ("x", "n06"), ("y", "n06")], steps=1).graph
    edges = torch.cat((TREE.edges, torch.tensor([[15, 4], [15, 6], [16, 6]])))
    wanted = transitive_closure(Graph.of(edges, 17, directed=True))
    torch.testing.assert_close(grown.edges, wanted.edges)


def test_nodes_with_many_and_few_neighbors_are_placed_in_turns(run: GraphRun, monkeypatch: pytest.MonkeyPatch) -> None:
    edges = [("x", "n04"), ("z", "n03"), ("z", "n06"), ("y", "n06")]
    told = "edges of the new nodes are not held: z below n03"  # n06 lies elsewhere
    with pytest.warns(UserWarning, match=told):
        together = add_nodes(run, edges, steps=50)
    monkeypatch.setattr(growth, "_PAIRS", 1)
    with pytest.warns(UserWarning, match=told):
        apart = add_nodes(run, edges, steps=50)
    assert together.graph.names.tolist() == apart.graph.names.tolist()
    for placed in (together, apart):
        lineage = Lineage(placed)
        assert [sorted(lineage.ancestors(i).nodes.tolist())[:2] for i in (15, 17)] == [[0, 1], [0, 2]]


def test_removed_nodes_leave_the_others_where_they_are(run: GraphRun, tmp_path: Path) -> None:
    smaller = remove_nodes(run, ["n01", "n14"])
    kept = [i for i in range(15) if i not in (1, 14)]
    assert smaller.graph.names.tolist() == NAMES[kept].tolist()
    torch.testing.assert_close(smaller.points(), run.points()[kept], rtol=0, atol=0)
    smaller.save(tmp_path)
    again = GraphRun.load(tmp_path)
    assert [again.graph.names[i] for i in Lineage(again).ancestors(2).nodes] == ["n00"]  # n03, once below n01


def test_what_cannot_be_removed_is_refused(run: GraphRun) -> None:
    with pytest.raises(ValueError, match="list of names"):
        remove_nodes(run, "n01")
    with pytest.raises(ValueError, match="no edge is left"):
        remove_nodes(run, NAMES[1:])
    with pytest.raises(ValueError, match="no node"):
        remove_nodes(run, ["nobody"])
