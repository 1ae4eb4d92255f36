"""The loss of a graph, exactly and from samples, and training with it."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from horoball.datasets import paper_graph, random_tree
from horoball.graphs import Graph, GraphConfig, GraphVAE, fit_graph, link_scores, ranking
from horoball.graphs import fit as graph_objective
from horoball.graphs.fit import PAPER_TRAINING, TAXONOMY_TRAINING, GraphObjective
from horoball.graphs.graph import transitive_closure
from horoball.graphs.model import FreeEncoder
from horoball.graphs.pairs import PairSource
from horoball.graphs.start import nested_cones
from horoball.storage.settings import SettingError
from horoball.tables.table import Order
from horoball.training import TrainConfig
from tests.vae.test_fit import ENVIRONMENT, ROOT, StopAt, assert_same, weights

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # of Fabric, at import
needs_graphs = pytest.mark.skipif(
    not (Path(os.environ.get("HOROBALL_DATA", "")) / "graphs").is_dir(), reason="HOROBALL_DATA has no folder of graphs"
)
DRAWS = 200
TREE = random_tree(80, seed=1)


def model_of(graph: Graph, **fields: object) -> GraphVAE:
    torch.manual_seed(0)
    features = 0 if graph.features is None else graph.features.shape[1]
    return GraphVAE.from_config(GraphConfig(graph.nodes, features, **fields))  # type: ignore[arg-type]


def evaluated(objective: GraphObjective, *inputs: object) -> torch.Tensor:
    """The loss and some coordinates of its gradient, with the same noise whenever it is asked."""
    torch.manual_seed(3)
    objective.zero_grad()
    losses = objective(*inputs)
    losses[0].backward()
    model = objective.model
    learned = (model.encoder.second.bias, model.ball.raw_c, *model.edges.parameters())  # type: ignore[union-attr]
    return torch.cat([losses[:1].detach(), *(p.grad.double().flatten() for p in learned)])  # type: ignore[union-attr]


@needs_graphs
@pytest.mark.parametrize("batch_size", [400, 10**9])
def test_sampled_pairs_give_the_full_objective_in_expectation(batch_size: int) -> None:
    graph = paper_graph("diseases")
    objective = GraphObjective(model_of(graph, d=3, learn_c=True, edges="fermi_dirac"), graph, TrainConfig())
    full = evaluated(objective, graph.edges)
    source = PairSource(graph, non_edges=10)
    steps = source.steps(Order(batch_size))
    drawn = []
    for draw in range(DRAWS):  # all the steps of an epoch in turn, the last and smaller one too
        batch = next(iter(source.batches(Order(batch_size, 0, draw, start=draw % steps))))
        drawn.append(evaluated(objective, *batch.inputs))
    found = torch.stack(drawn)
    off = (found.mean(0) - full) / (found.std(0) / math.sqrt(DRAWS))
    assert float(off.abs().max()) < 3
    assert float(found[:, 0].std() / full[0]) < 0.1  # of one draw


def test_exact_shares_of_ranks_add_up_to_the_loss() -> None:
    objective = GraphObjective(model_of(TREE, learn_c=True, edges="fermi_dirac"), TREE, TrainConfig(beta=0.7))
    whole = evaluated(objective, TREE.edges)
    for ranks in (2, 3):
        shares = [
            evaluated(objective, *next(iter(PairSource(TREE).batches(Order(10**9, 0, 0, rank, ranks)))).inputs)
            for rank in range(ranks)
        ]
        torch.testing.assert_close(torch.stack(shares).sum(0), whole, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("c", [0.0, 1.0])
def test_posteriors_sampled_in_parts_have_the_bound_of_their_sample(monkeypatch: pytest.MonkeyPatch, c: float) -> None:
    """What is made twice is the same twice, and the shares of ranks add up."""
    monkeypatch.setattr(graph_objective, "_NODES", 7)
    model = model_of(TREE, encoder="free", c=c, edges="fermi_dirac")
    objective, loc = GraphObjective(model, TREE, TrainConfig()), model.encoder.loc

    def found(ranks: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
        objective.zero_grad()
        losses = []
        for rank in range(ranks):
            generator = torch.Generator().manual_seed(0)
            losses.append(objective(TREE.edges[rank::ranks], share=(rank, ranks), generator=generator))
            losses[-1][0].backward()
        assert isinstance(loc.grad, torch.Tensor)
        return torch.stack(losses).sum(0).detach(), loc.grad.clone()

    in_parts, by_ranks = found(), found(ranks=3)
    monkeypatch.setattr(graph_objective, "checkpoint", lambda part, nodes, seed, **_: part(nodes, seed))
    for ours, kept, shared in zip(in_parts, found(), by_ranks, strict=True):
        assert torch.equal(ours, kept)
        torch.testing.assert_close(ours, shared, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("c", [0.0, 1.0])
@pytest.mark.parametrize("non_edges", [None, 5])
def test_training_lowers_the_loss_and_tells_edges_apart(non_edges: int | None, c: float) -> None:
    model, graph = model_of(TREE, c=c), TREE
    pairs = torch.triu_indices(graph.nodes, graph.nodes, 1).T

    def auc() -> float:
        return link_scores(model.edge_probability(model.embed(graph), pairs), graph.holds(pairs)).auc

    before = auc()
    config = PAPER_TRAINING.replace(max_epochs=200, learning_rate=3e-2)
    history = fit_graph(model, graph, config, non_edges=non_edges).history
    losses = [line["loss"] for line in history]
    assert sum(losses[-10:]) < 0.8 * sum(losses[:10])
    assert auc() > max(0.9, before)
    assert all(math.isclose(line["loss"], line["reconstruction"] + line["kl"], rel_tol=1e-9) for line in history)


def test_features_of_nodes_are_learned_from() -> None:
    side = torch.arange(30) % 2  # only nodes of one side are joined
    pairs = torch.triu_indices(30, 30, 1).T
    graph = Graph.of(pairs[side[pairs[:, 0]] == side[pairs[:, 1]]], 30, features=torch.eye(2)[side])
    model = model_of(graph)
    fit_graph(model, graph, PAPER_TRAINING.replace(max_epochs=100))
    scores = model.edge_probability(model.embed(graph), pairs)
    assert link_scores(scores, graph.holds(pairs)).auc > 0.99


@pytest.mark.parametrize("non_edges", [None, 3])
def test_same_seed_same_weights_and_no_trace_in_the_global_generator(non_edges: int | None) -> None:
    config = PAPER_TRAINING.replace(max_epochs=3, batch_size=30)
    found = []
    for seed in (0, 0, 1):
        model = model_of(TREE)
        before = torch.get_rng_state()
        history = fit_graph(model, TREE, config.replace(seed=seed), non_edges=non_edges).history
        assert torch.equal(torch.get_rng_state(), before)
        found.append((history, model.state_dict()))
    assert found[0][0] == found[1][0] != found[2][0]
    assert_same(found[0][1], found[1][1])


@pytest.mark.parametrize("non_edges", [None, 3])
def test_a_run_that_was_interrupted_ends_like_one_that_was_not(tmp_path: Path, non_edges: int | None) -> None:
    config = PAPER_TRAINING.replace(max_epochs=4, batch_size=20)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    expected = fit_graph(model_of(TREE), TREE, config, whole, non_edges=non_edges)
    for step in (3, 4, 2):
        with pytest.raises(KeyboardInterrupt, match="Stopped in epoch"):
            fit_graph(model_of(TREE), TREE, config, parts, non_edges=non_edges, resume=True, progress=StopAt(step))
    state = fit_graph(model_of(TREE), TREE, config, parts, non_edges=non_edges, resume=True)
    assert state.history == expected.history
    assert_same(weights(whole), weights(parts))


def test_a_loss_that_is_not_finite_stops_with_the_term_and_the_graph() -> None:
    features = torch.ones(80, 2)
    features[17] = math.inf
    graph = Graph.of(TREE.edges, 80, features=features)
    with pytest.raises(FloatingPointError, match=r"not finite in epoch 1, step 1, on 79 edges of a graph of 80 nodes"):
        fit_graph(model_of(graph), graph, PAPER_TRAINING.replace(max_epochs=1))


@pytest.mark.slow  # starts three processes, which import torch and Fabric
@pytest.mark.parametrize("arguments", [[], ["--non-edges", "4"]], ids=["exact", "sampled"])
def test_two_ranks_do_what_one_does(tmp_path: Path, arguments: list[str]) -> None:
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    for name, launcher in (("one", []), ("two", torchrun)):
        command = [sys.executable, *launcher, "-m", "tests.graphs.graph_script", str(tmp_path / name), *arguments]
        subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, timeout=180, check=True)
    assert_same(weights(tmp_path / "one"), weights(tmp_path / "two"), tolerance=1e-5)


MEMORY = """
import re, torch
from pathlib import Path
from horoball.datasets import random_tree
from horoball.graphs.pairs import PairSource
from horoball.graphs.start import nested_cones
from horoball.tables.table import Order
from horoball.graphs import GraphConfig, GraphVAE
from horoball.training import TrainConfig
from horoball.graphs.fit import GraphObjective

def peak_of_a_step(nodes):
    graph = random_tree(nodes)
    objective = GraphObjective(GraphVAE.from_config(GraphConfig(nodes, encoder="free")), graph, TrainConfig())
    batch = next(PairSource(graph, 10).batches(Order(1 << 40)))
    objective(*batch.inputs)[0].backward()
    # not of `resource`, which knows the peak of the process that started this one
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

torch.set_num_threads(1)
small = peak_of_a_step(1000)
print((peak_of_a_step(600_000) - small) * 1024 / 600_000)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peaks are read from /proc")
def test_a_node_with_a_posterior_of_its_own_takes_a_few_hundred_bytes() -> None:
    """Ten million of them are to fit; autograd of all at once took 1,200 bytes a node."""
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True, timeout=120)
    assert 100 < float(done.stdout) < 600


def test_a_fit_that_finds_nothing_better_keeps_its_start(caplog: pytest.LogCaptureFixture) -> None:
    model = model_of(TREE, encoder="free", edges="fermi_dirac")
    training = PAPER_TRAINING.replace(max_epochs=200, learning_rate=0.2)
    fit_graph(model, TREE, training)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    with caplog.at_level("WARNING", "horoball"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it diverged
        fit_graph(model, TREE, training.replace(max_epochs=2, learning_rate=9.0))
    assert "nothing better than its start" in caplog.text
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


def test_training_does_not_lose_what_nested_cones_have() -> None:
    graph = transitive_closure(Graph.of([(i, (i - 1) // 3) for i in range(1, 1093)], directed=True))
    model = model_of(graph, encoder="free", edges="fermi_dirac", d=5, directed=True)
    assert isinstance(model.encoder, FreeEncoder)
    model.encoder.start_in(nested_cones(graph, 5))

    def found() -> float:
        z = model.embed(graph).double()
        return ranking(graph.relation(), z, model.ball, offset=model.offset(z)).map

    before = found()
    fit_graph(model, graph, TAXONOMY_TRAINING.replace(max_epochs=30), non_edges=10)
    assert found() >= before - 0.002


def test_settings_of_tables_are_refused_where_a_graph_would_not_use_them() -> None:
    """Nothing that was asked for is left out without a word."""
    model, graph = GraphVAE.from_config(GraphConfig(nodes=4)), Graph.of([(0, 1), (1, 2), (2, 3)])
    for name, value in {"kl_warmup": 0.1, "distance_weight": 1.0, "samples": 2, "scale_rate": 2.0}.items():
        with pytest.raises(SettingError, match=f"{name} belongs to models of tables, got {value}"):
            fit_graph(model, graph, PAPER_TRAINING.replace(**{name: value}))
