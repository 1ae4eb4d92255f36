"""GraphRun: what a folder keeps of a model of a graph."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from horoball.datasets import preferential_attachment
from horoball.graphs import Graph, read_graph
from horoball.graphs.fit import FREE_TRAINING
from horoball.graphs.run import GraphRun, non_edges_for, train_graph
from horoball.storage.checkpoint import load_checkpoint, save_checkpoint
from horoball.training.progress import Silent
from horoball.training.state import GRAPH as GRAPH_FILE

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of Fabric, at import
    pytest.mark.filterwarnings("ignore::horoball.graphs.LeakWarning"),
]
FAST = FREE_TRAINING.replace(max_epochs=3)
NAMES = np.array(["", "Ωραία", "名前", "a b", "e\u0301", 'quo"te', "new\nline", "🐘"])
GRAPH = preferential_attachment(40, 2, seed=0)


class StopAt(Silent):
    """Stops the run at the end of so many epochs."""

    def __init__(self, epochs: int) -> None:
        self.left = epochs

    def epoch(self, line: dict[str, float]) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)


def assert_same(first: GraphRun, second: GraphRun) -> None:
    assert torch.equal(first.embed(), second.embed())
    assert torch.equal(first.graph.edges, second.graph.edges)
    assert first.graph.nodes == second.graph.nodes
    assert first.history == second.history
    assert first.record == second.record


def test_names_features_and_held_out_pairs_come_back(tmp_path: Path) -> None:
    features = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    edges = [(i, j) for i in range(8) for j in range(i) if (i + j) % 3]
    graph = Graph.of(edges, 8, NAMES, features)
    run = train_graph(graph, {"d": 3, "learn_c": True, "edges": "fermi_dirac"}, FAST, tmp_path, test=0.2)
    again = GraphRun.load(tmp_path)
    assert_same(run, again)
    assert again.graph.names is not None
    assert again.graph.names.tolist() == NAMES.tolist()
    assert torch.equal(again.graph.features, features)
    assert again.held_out is not None
    assert torch.equal(again.held_out.pairs, run.held_out.pairs)
    assert torch.equal(again.held_out.is_edge, run.held_out.is_edge)
    assert not again.graph.holds(again.held_out.pairs).any()
    assert len(again.graph.edges) + int(again.held_out.is_edge.sum()) == len(graph.edges)
    assert again.model.config == run.model.config
    assert not again.model.training


def test_a_graph_without_names_and_features_has_none_afterwards(tmp_path: Path) -> None:
    run = train_graph(Graph.of(GRAPH.edges, 43), {}, FAST, tmp_path)  # the last three have no edge
    again = GraphRun.load(tmp_path)
    assert_same(run, again)
    assert again.graph.names is again.graph.features is again.held_out is None
    assert again.embed().shape == (43, 2)
    assert {path.name for path in tmp_path.iterdir()} == {
        "model.safetensors",
        "last.safetensors",
        "metrics.jsonl",
        "graph.safetensors",
    }


def test_a_run_that_was_stopped_can_be_read_and_gone_on_with(tmp_path: Path) -> None:
    whole = train_graph(GRAPH, {}, FAST.replace(batch_size=30), tmp_path / "whole")
    parts = tmp_path / "parts"
    with pytest.raises(KeyboardInterrupt):
        train_graph(GRAPH, {}, FAST.replace(batch_size=30), parts, progress=StopAt(1))
    assert len(GraphRun.load(parts).history) == 1
    assert_same(train_graph(GRAPH, {}, FAST.replace(batch_size=30), parts, resume=True), whole)
    longer = train_graph(GRAPH, {}, FAST.replace(batch_size=30, max_epochs=5), parts, resume=True)
    assert longer.history[:3] == whole.history
    assert len(longer.history) == 5


@pytest.mark.parametrize("other", ["edges", "nodes", "features", "split", "model"])
def test_resuming_with_something_else_is_refused_and_leaves_the_run_alone(tmp_path: Path, other: str) -> None:
    features = torch.randn(40, 3)
    graph = Graph.of(GRAPH.edges, 40, features=features)
    run = train_graph(graph, {}, FAST, tmp_path)
    changed, model, test = graph, {}, 0.0
    if other == "edges":
        changed = graph.with_edges(graph.edges[1:])
    elif other == "nodes":
        changed = Graph.of(GRAPH.edges, 41, features=torch.randn(41, 3))
    elif other == "features":
        changed = Graph.of(GRAPH.edges, 40, features=features + 1)
    elif other == "split":
        test = 0.1
    else:
        model = {"d": 5}
    told = r"has d = 2, not 5. Resume with the options" if other == "model" else "is of another graph. Resume with"
    with pytest.raises(ValueError, match=told):
        train_graph(changed, model, FAST, tmp_path, test=test, resume=True)
    again = GraphRun.load(tmp_path)
    assert_same(run, again)
    assert torch.equal(again.graph.features, features)


def test_a_folder_without_a_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds no model of a graph: neither model.safetensors nor last"):
        GraphRun.load(tmp_path)
    train_graph(GRAPH, {}, FAST, tmp_path)
    (tmp_path / "graph.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"graph.safetensors is not there"):
        GraphRun.load(tmp_path)


def test_large_graphs_are_sampled_and_small_ones_are_not(caplog: pytest.LogCaptureFixture) -> None:
    assert non_edges_for(Graph.of([(0, 2999)])) is None
    assert non_edges_for(Graph.of([(0, 3000)])) == 10
    assert train_graph(GRAPH, {}, FAST).record.non_edges is None
    with caplog.at_level("INFO", "horoball"):
        assert train_graph(GRAPH, {}, FAST, non_edges=3).record.non_edges == 3
    assert "an unbiased estimate of the sum over all pairs" in caplog.text
    with pytest.raises(ValueError, match="number, None or \"auto\", got 'many'"):
        train_graph(GRAPH, {}, FAST, non_edges="many")


def test_names_that_were_read_reach_the_run(tmp_path: Path) -> None:
    graph = read_graph([("lion", "cat"), ("cat", "mammal"), ("dog", "mammal")])
    train_graph(graph, {}, FAST, tmp_path)
    assert GraphRun.load(tmp_path).graph.names.tolist() == ["cat", "dog", "lion", "mammal"]  # type: ignore[union-attr]


def test_names_that_are_numbers_come_back_as_text(tmp_path: Path) -> None:
    graph = Graph.of(np.array([[0, 1], [1, 2]]), names=np.array([30, 10, 20], np.int32))
    train_graph(graph, {"d": 2}, FAST, tmp_path)
    names = GraphRun.load(tmp_path).graph.names
    assert names is not None
    assert names.tolist() == ["30", "10", "20"]


OTHERS: dict[str, Graph] = {
    "other names": Graph.of([(0, 1), (1, 2), (2, 3)], names=np.array(["a", "b", "d", "c"])),
    "other edges": Graph.of([(0, 1), (1, 2), (1, 3)], names=np.array(["a", "b", "c", "d"])),
    "no names": Graph.of([(0, 1), (1, 2), (2, 3)]),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("stopped", [False, True])
def test_a_graph_of_another_run_is_refused(other: str, stopped: bool, tmp_path: Path) -> None:
    mine, foreign = tmp_path / "mine", tmp_path / "foreign"
    graph = Graph.of([(0, 1), (1, 2), (2, 3)], names=np.array(["a", "b", "c", "d"]))
    train_graph(graph, {}, FAST, mine)
    train_graph(OTHERS[other], {}, FAST, foreign)
    if stopped:
        (mine / "model.safetensors").unlink()
    assert GraphRun.load(mine).graph.names.tolist() == ["a", "b", "c", "d"]  # type: ignore[union-attr]
    (mine / GRAPH_FILE).write_bytes((foreign / GRAPH_FILE).read_bytes())
    with pytest.raises(ValueError, match=r"graph\.safetensors .*it is the graph of another run, or was changed"):
        GraphRun.load(mine)


def test_pairs_held_out_and_features_of_another_run_are_refused(tmp_path: Path) -> None:
    features = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    for number, name in enumerate(("mine", "foreign")):
        graph = Graph.of(GRAPH.edges, 40, features=features + number)
        train_graph(graph, {}, FAST, tmp_path / name, test=0.1)
    (mine, header), (foreign, _) = (load_checkpoint(tmp_path / name / GRAPH_FILE) for name in ("mine", "foreign"))
    for change in ({"features": foreign["features"]}, {"held_out": mine["held_out"].flip(0)}):
        save_checkpoint(tmp_path / "mine" / GRAPH_FILE, mine | change, {"nodes": header["nodes"]})
        with pytest.raises(ValueError, match="it is the graph of another run, or was changed"):
            GraphRun.load(tmp_path / "mine")
