"""Nodes that are added to a fitted model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from horoball.graphs import Graph, read_graph
from horoball.graphs.fit import DIRECTED_TRAINING, TAXONOMY_TRAINING
from horoball.graphs.lineage import Lineage, add_nodes
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
