"""Cones of a taxonomy, settled."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from horoball.geometry import PoincareBall
from horoball.graphs import Graph, Ranking, ranking
from horoball.graphs.graph import transitive_closure
from horoball.graphs.model import DETOUR, FreeEncoder
from horoball.graphs.settle import settle_cones
from horoball.graphs.start import distance_cones, nested_cones, place_nodes

TREE = Graph.of([(i, (i - 1) // 3) for i in range(1, 121)], directed=True)
# the same with second parents, which lie in cones of others
TWICE = Graph.of(torch.cat((TREE.edges, torch.tensor([(i, (i + 7) // 3 % 13) for i in range(40, 60)]))), directed=True)
FOREST = Graph.of(torch.cat((TREE.edges, TREE.edges + 121)), directed=True)


def _found(graph: Graph, z: torch.Tensor) -> Ranking:
    return ranking(graph.relation(), z.double(), PoincareBall(1.0), offset=z.double().norm(dim=1))


@pytest.mark.parametrize("graph", [TREE, TWICE, FOREST], ids=["tree", "second parents", "forest"])
def test_settled_cones_tell_ancestors_from_all_others(graph: Graph) -> None:
    closure = transitive_closure(graph)
    encoder = FreeEncoder(graph.nodes, 5, PoincareBall(1.0))
    place_nodes(encoder, closure, seed=0)
    z = encoder.loc.detach()
    before, after = _found(closure, nested_cones(graph, 5)), _found(closure, z)
    assert after.map >= before.map
    assert after.map > 0.99
    assert after.mean_rank < 1.1


def test_settled_cones_fit_balls_of_any_curvature() -> None:
    closure = transitive_closure(TREE)
    encoders = [FreeEncoder(closure.nodes, 3, PoincareBall(c)) for c in (1.0, 4.0)]
    for encoder in encoders:
        place_nodes(encoder, closure, seed=1)
    torch.testing.assert_close(encoders[0].loc, 2 * encoders[1].loc)


def test_a_model_of_parents_alone_keeps_the_nested_cones() -> None:
    encoder = FreeEncoder(TREE.nodes, 3, PoincareBall(1.0))
    place_nodes(encoder, TREE, seed=1)
    torch.testing.assert_close(encoder.loc.detach(), nested_cones(TREE, 3, seed=1))


def test_chains_too_deep_are_left_as_they_are() -> None:
    chain = transitive_closure(Graph.of([(i, i - 1) for i in range(1, 150)], directed=True))
    z = nested_cones(chain, 2)
    assert settle_cones(z, chain, np.arange(-1, 149), *DETOUR) is z


def test_cones_settled_by_distance_have_their_ancestors_nearest() -> None:
    closure = transitive_closure(TREE)
    z, cones = distance_cones(TREE, 5).double(), nested_cones(TREE, 5).double()
    before, after = (ranking(closure.relation(), points, PoincareBall(1.0)) for points in (cones, z))
    assert after.map > 0.93 > before.map + 0.3
