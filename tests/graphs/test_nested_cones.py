"""Taxonomies in nested cones."""

from __future__ import annotations

import pytest
import torch

from horoball.datasets import random_tree
from horoball.geometry import PoincareBall
from horoball.graphs import Graph, ranking
from horoball.graphs.graph import transitive_closure
from horoball.graphs.start import nested_cones

# a balanced tree of 121 nodes, and a forest of two of them
TREE = Graph.of([(i, (i - 1) // 3) for i in range(1, 121)], directed=True)
FOREST = Graph.of(torch.cat((TREE.edges, TREE.edges + 121)), directed=True)


@pytest.mark.parametrize("graph", [TREE, FOREST], ids=["tree", "forest"])
@pytest.mark.parametrize("d", [2, 5, 10])
def test_ancestors_are_the_nearest_on_the_way_to_the_origin(graph: Graph, d: int) -> None:
    z = nested_cones(graph, d).double()
    found = ranking(transitive_closure(graph).relation(), z, PoincareBall(1.0), offset=z.norm(dim=1))
    assert found.map > 0.97


def test_a_child_is_farther_out_than_its_parent() -> None:
    radius = nested_cones(TREE, 3).norm(dim=1)
    child, parent = TREE.edges.T
    assert (radius[child] > radius[parent]).all()


def test_a_closure_has_the_cones_of_its_parents() -> None:
    torch.testing.assert_close(nested_cones(transitive_closure(TREE), 3, seed=1), nested_cones(TREE, 3, seed=1))
    assert not torch.equal(nested_cones(TREE, 3, seed=1), nested_cones(TREE, 3, seed=2))


def test_a_line_has_no_cones() -> None:
    with pytest.raises(ValueError, match="two dimensions"):
        nested_cones(Graph.of(random_tree(5).edges, directed=True), 1)
