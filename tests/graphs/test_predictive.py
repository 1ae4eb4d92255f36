"""The probability of an edge, averaged over the nodes' posteriors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from horoball.datasets import random_tree
from horoball.graphs import Graph, predictive
from horoball.graphs.fit import training_for
from horoball.graphs.predictive import EdgeProbability
from horoball.graphs.run import GraphRun, train_graph

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # of Fabric, at import
TREE = random_tree(60, seed=0)
TAXONOMY = Graph.of([(i, (i - 1) // 3) for i in range(1, 60)], directed=True)
KINDS: dict[str, tuple[Graph, dict[str, Any]]] = {
    "free": (TREE, {"encoder": "free"}),
    "riemannian": (TREE, {"encoder": "free", "posterior": "riemannian"}),
    "gcn": (TREE, {"encoder": "gcn"}),
    "directed": (TAXONOMY, {"encoder": "free", "edges": "fermi_dirac"}),
    "closure": (TAXONOMY, {"encoder": "free", "edges": "fermi_dirac", "transitive": True}),
}
PAIRS = torch.tensor([[1, 0], [5, 17], [20, 6], [3, 2]])


def fitted(kind: str) -> GraphRun:
    graph, model = KINDS[kind]
    training = training_for(model["encoder"], directed=graph.directed, transitive="transitive" in model)
    return train_graph(graph, {"d": 3, **model}, training.replace(max_epochs=3))


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_mean_over_independent_draws(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictive, "_DRAWS", 4000)
    monkeypatch.setattr(predictive, "_POSSIBLE", 0.0)
    run = fitted(kind)
    model, graph = run.model, run.graph
    with torch.no_grad():
        q = model.posterior(graph.features, model.propagation(graph))
        z = q.rsample((4000,), generator=torch.Generator().manual_seed(9)).double().transpose(0, 1)
        drawn = model.edge_probability(z, PAIRS)
    error = (2 / 4000) ** 0.5 * drawn.std(1)
    assert ((EdgeProbability(run).of(PAIRS) - drawn.mean(1)).abs() < 4 * error + 1e-9).all()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_said_of_a_pair_does_not_depend_on_what_else_is_asked(kind: str) -> None:
    run = fitted(kind)
    probability = EdgeProbability(run)
    whole = probability.of(PAIRS)
    for (i, j), p in zip(PAIRS.tolist(), whole, strict=True):
        torch.testing.assert_close(probability.of(torch.tensor([[i, j]]))[0], p)
        torch.testing.assert_close(probability.to_all(torch.tensor([i]))[0, j], p)
        torch.testing.assert_close(probability.to_all(torch.tensor([j]), up=False)[0, i], p)
    if not run.graph.directed:
        assert torch.equal(probability.of(PAIRS.flip(1)), whole)


@pytest.mark.filterwarnings("ignore::horoball.graphs.evaluation.LeakWarning")
def test_pairs_that_were_not_trained_on_are_told_apart_better_than_at_the_posterior_means() -> None:
    """At the means, hundreds of pairs pass for edges that are none."""
    graph = random_tree(100, seed=0)
    training = training_for("free").replace(max_epochs=200)
    run = train_graph(graph, {"encoder": "free", "d": 5}, training, test=0.2)
    pairs = torch.cartesian_prod(torch.arange(100), torch.arange(100))
    pairs = pairs[(pairs[:, 0] != pairs[:, 1]) & ~run.graph.holds(pairs)]
    edge = graph.holds(pairs)
    loss, false = [], []
    for p in (EdgeProbability(run).of(pairs), run.model.edge_probability(run.points(), pairs)):
        loss.append(-torch.where(edge, p, 1 - p).log().sum())
        false.append(int(((p >= 0.5) & ~edge).sum()))
    assert loss[0] < 0.5 * loss[1]
    assert false[0] < 0.1 * false[1]
