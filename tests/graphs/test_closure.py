"""Closures and reductions of directed graphs."""

from __future__ import annotations

import numpy as np
import pytest

from horoball.graphs import Graph
from horoball.graphs.graph import CycleError, transitive_closure, transitive_reduction

DIAMOND = Graph.of([(3, 1), (3, 2), (1, 0), (2, 0), (4, 3)], names=np.array(list("abcde")), directed=True)


def test_a_closure_has_all_ancestors_and_keeps_names() -> None:
    closed = transitive_closure(DIAMOND)
    assert closed.edges.tolist() == [[1, 0], [2, 0], [3, 0], [3, 1], [3, 2], [4, 0], [4, 1], [4, 2], [4, 3]]
    assert closed.names.tolist() == list("abcde")


def test_a_reduction_undoes_a_closure() -> None:
    assert transitive_reduction(transitive_closure(DIAMOND)).edges.tolist() == DIAMOND.edges.tolist()


def test_a_cycle_is_refused_by_name() -> None:
    with pytest.raises(CycleError, match="'a' is its own ancestor"):
        transitive_closure(Graph.of([(0, 1), (1, 0)], names=np.array(["a", "b"]), directed=True))
    with pytest.raises(ValueError, match="directed=True"):
        transitive_closure(Graph.of([(0, 1)]))
