"""Attempts at better settling, on a small taxonomy."""

from __future__ import annotations

import pytest
import torch

from experiments.settling import ATTEMPTS, _step, parents_of, published_objective
from horoball.geometry import PoincareBall
from horoball.graphs import Graph, ranking
from horoball.graphs.graph import transitive_closure
from horoball.graphs.start import nested_cones

TREE = Graph.of([(i, (i - 1) // 3) for i in range(1, 40)] + [(30, 2), (35, 1)], 40, directed=True)


def test_the_published_objective_brings_ancestors_nearer() -> None:
    closure = transitive_closure(TREE)
    z = nested_cones(closure, 3)
    moved = published_objective(z, closure, 0, steps=10)
    before, after = (ranking(closure.relation(), x.double(), PoincareBall(1.0)).map for x in (z, moved))
    assert after > before


@pytest.mark.parametrize("kind", ["settled", "softmax", "briefly"])
def test_settled_cones_are_below_all_of_their_parents(kind: str) -> None:
    closure = transitive_closure(TREE)
    z = _step(kind, nested_cones(closure, 3), closure, parents_of(closure), 0).double()
    offset = torch.linalg.vector_norm(z, dim=1)
    assert ranking(closure.relation(), z, PoincareBall(1.0), offset=offset).map > 0.9


def test_every_attempt_has_steps_of_its_own() -> None:
    assert len({(d, steps) for _, d, steps in ATTEMPTS.values()}) == len(ATTEMPTS)
