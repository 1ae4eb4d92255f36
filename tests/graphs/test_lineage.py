"""Who is below whom in a fitted taxonomy."""

from __future__ import annotations

import pytest
import torch

from horoball.graphs import Graph
from horoball.graphs.fit import DIRECTED_TRAINING, TAXONOMY_TRAINING
from horoball.graphs.lineage import Lineage
from horoball.graphs.run import train_graph

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # of Fabric, at import
TREE = Graph.of([(i, (i - 1) // 2) for i in range(1, 15)], directed=True)


@pytest.fixture(scope="module", params=[True, False], ids=["closure", "parents"])
def lineage(request: pytest.FixtureRequest) -> Lineage:
    model = {"d": 3, "edges": "fermi_dirac", "transitive": request.param}
    training = TAXONOMY_TRAINING if request.param else DIRECTED_TRAINING
    return Lineage(train_graph(TREE, model, training.replace(max_epochs=200)))


def test_the_relations_are_those_of_the_tree(lineage: Lineage) -> None:
    assert lineage.parents(13).nodes.tolist() == [6]
    assert lineage.ancestors(13).nodes.tolist() == [6, 2, 0]
    assert sorted(lineage.descendants(2).nodes.tolist()) == [5, 6, 11, 12, 13, 14]
    is_a = lineage.is_a(torch.tensor([[13, 0], [0, 13], [13, 1]]))
    assert is_a[0] > 0.5
    assert (is_a[1:] < 0.5).all()


def test_a_node_is_not_its_own_relative(lineage: Lineage) -> None:
    assert lineage.above(torch.tensor([3, 4]))[torch.arange(2), torch.tensor([3, 4])].tolist() == [0, 0]


def test_a_threshold_is_a_probability(lineage: Lineage) -> None:
    assert len(lineage.ancestors(13, 1e-6).nodes) >= 3
    with pytest.raises(ValueError, match="threshold"):
        lineage.ancestors(13, 0.0)


@pytest.mark.filterwarnings("ignore::horoball.graphs.evaluation.LeakWarning")
def test_held_out_pairs_of_a_closure_are_refused() -> None:
    with pytest.raises(ValueError, match="transitive=False"):
        train_graph(TREE, {"edges": "fermi_dirac", "transitive": True}, DIRECTED_TRAINING, test=0.1)
    run = train_graph(TREE, {"edges": "fermi_dirac"}, DIRECTED_TRAINING.replace(max_epochs=1), test=0.2)
    assert run.held_out is not None
    assert not TREE.holds(run.held_out.pairs[~run.held_out.is_edge]).any()


class Known:
    """Probabilities that are given."""

    def __init__(self, p: dict[tuple[int, int], float], nodes: int) -> None:
        self.p = torch.zeros(nodes, nodes, dtype=torch.float64)
        for (i, j), probability in p.items():
            self.p[i, j] = probability

    def of(self, pairs: torch.Tensor) -> torch.Tensor:
        return self.p[pairs[:, 0], pairs[:, 1]]

    def to_all(self, nodes: torch.Tensor, *, up: bool = True) -> torch.Tensor:
        return self.p[nodes] if up else self.p[:, nodes].T


@pytest.mark.parametrize("lineage", [True], ids=["closure"], indirect=True)
def test_a_parent_is_told_from_a_sibling_that_is_barely_likely_and_from_its_own_ancestors(
    lineage: Lineage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Node 4 is below 2, and that below 1 and 0; 3 is a sibling. Distances from the origin say nothing of it."""
    known = {(4, 0): 0.99, (4, 1): 0.98, (4, 2): 0.97, (4, 3): 0.55, (1, 0): 0.99}
    known |= dict.fromkeys(((2, 0), (2, 1), (3, 0), (3, 1), (3, 2)), 0.97)
    monkeypatch.setattr(lineage, "probability", Known(known, 5))
    monkeypatch.setattr(lineage, "radius", torch.tensor([0.5, 4.0, 1.0, 5.0, 4.0]))
    assert lineage.parents(4, k=2).nodes.tolist()[0] == 2
    assert lineage.ancestors(4).nodes.tolist() == [2, 3, 1, 0]
    assert lineage.parents(1).nodes.tolist() == [0]
    assert lineage.parents(0, k=4).probability.tolist() == [0, 0, 0, 0]
