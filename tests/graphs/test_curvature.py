"""Which curvature a graph wants, by the bounds of models of each."""

from __future__ import annotations

import networkx as nx
import pytest

from horoball.graphs import PoincareGraphVAE
from horoball.graphs.curvature import choose_curvature
from horoball.graphs.read import read_graph
from horoball.graphs.run import graph_fit


@pytest.mark.parametrize(("graph", "c"), [(nx.balanced_tree(3, 4), 1.0), (nx.grid_2d_graph(9, 9), 0.0)])
def test_a_tree_wants_curvature_and_a_grid_does_not(graph: nx.Graph, c: float) -> None:
    model = PoincareGraphVAE(c="auto", max_epochs=300, random_state=0).fit(graph)
    assert model.c_ == c
    flat, curved = model.evidence_
    assert (flat.c, flat.gain, flat.error) == (0.0, 0.0, 0.0)
    assert curved.gain == pytest.approx(curved.bound - flat.bound)
    assert (curved.gain > 2 * curved.error) == bool(c)


def test_equal_models_keep_the_simplest() -> None:
    graph = read_graph(nx.path_graph(10))
    run, evidence = choose_curvature(graph, *graph_fit(graph, max_epochs=5), curvatures=(0.0, 0.0))
    assert [each.gain for each in evidence] == [0.0, 0.0]
    assert run.model.ball.c_value == 0.0
