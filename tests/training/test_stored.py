"""Models of strangers: what a file says of itself is not believed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from horoball.cells import CellModel
from horoball.data import ArrayTable, Graph, read_graph
from horoball.estimator import PoincareVAE
from horoball.graphs import PoincareGraphVAE
from horoball.training import TrainConfig
from horoball.training.checkpoint import load_checkpoint, save_checkpoint
from horoball.training.graph_run import GRAPH, GraphRun, train_graph
from horoball.training.run import Run, train
from horoball.training.state import FINAL, LAST

TABLE = ArrayTable(torch.randn(60, 4, generator=torch.Generator().manual_seed(0)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run")
    train(TABLE, {"hidden": (8,)}, TrainConfig(max_epochs=1), path)
    return path


def changed(
    folder: Path,
    to: Path,
    model: dict[str, Any] | None = None,
    drop: str | None = None,
    about: dict[str, Any] | None = None,
    tensors: dict[str, Tensor] | None = None,
    header: dict[str, Any] | None = None,
) -> Path:
    """The run with another description or another tensor, or without a part of it or a tensor."""
    held, said = load_checkpoint(folder / FINAL)
    tensors, header = held | (tensors or {}), said | (header or {})
    if header["about"] is said["about"]:
        header["about"]["model"] |= model or {}
        header["about"] |= about or {}
    if drop is not None:
        header["about"].pop(drop, None)
        tensors.pop(drop, None)
    save_checkpoint(to / FINAL, tensors, {name: header[name] for name in ("about", "history")})
    return to


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"model": {"hidden": [10**12]}},
            r"Its encoder.network.0.weight has shape \(8, 4\), and its description wants",
        ),
        ({"model": {"features": 10**13}}, "does not hold a whole model"),
        ({"model": {"d": 3}}, "does not hold a whole model"),
        ({"model": {"learn_c": True}}, "Its description wants"),
        ({"model": {"posterior": "square"}}, "Unknown posterior 'square'"),
        ({"model": {"depth": 3}}, "does not hold a whole model"),
        ({"drop": "columns"}, "it lacks 'columns'"),
        ({"drop": "model.encoder.network.0.bias"}, "Its description wants encoder.network.0.bias"),
        ({"drop": "scaler.std"}, "it lacks 'scaler.std'"),
        ({"drop": "model"}, "weights without a description of their model"),
        ({"about": {"columns": ["a"]}}, "its columns are not the names of 4 features"),
        ({"about": {"columns": 4}}, "its columns are not the names of 4 features"),
        ({"about": {"covariates": [1]}}, "its covariates is"),
        ({"about": {"label": {"a": "b" * 999}}}, "its label is"),
        ({"about": {"model": 3}}, "weights without a description of their model"),
        ({"tensors": {"scaler.mean": torch.ones(3), "scaler.std": torch.ones(3)}}, "its scaling is not of 4 columns"),
        ({"header": {"about": 1.5}}, "weights without a description of their model"),
        ({"header": {"history": "long"}}, "its history is no list of epochs"),
    ],
)
def test_a_file_that_is_not_what_it_says_is_refused_in_one_sentence(
    folder: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Run.load(changed(folder, tmp_path, **change))
    assert Run.load(folder).columns == ["x0", "x1", "x2", "x3"]


@pytest.mark.parametrize(
    "state",
    ["[" * 100_000 + "]" * 100_000, '{"format": 1, "about": ' + "9" * 5000 + "}", "{", "3"],
    ids=["nested without an end", "a number of thousands of digits", "half", "a number"],
)
def test_a_header_that_python_does_not_parse_is_refused(state: str, tmp_path: Path) -> None:
    safetensors.torch.save_file({"w": torch.ones(1)}, tmp_path / FINAL, {"horoball": state})
    with pytest.raises(ValueError, match=r"model\.safetensors is a safetensors file, but not a checkpoint of horoball"):
        Run.load(tmp_path)


@pytest.mark.parametrize("record", [{"depth": 3}, {"n_components": 2, "wings": 2}])
def test_an_estimator_with_other_settings_is_refused_by_its_folder(
    folder: Path, tmp_path: Path, record: dict[str, int]
) -> None:
    with pytest.raises(ValueError, match=f"{tmp_path.name} does not hold a whole estimator"):
        PoincareVAE.load(changed(folder, tmp_path, about={"estimator": record}))


def test_a_record_of_cells_that_cannot_be_shown_is_refused_when_it_is_loaded(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not hold a whole model of cells: it lacks 'rows'"):
        CellModel.load(changed(folder, tmp_path, drop="rows"))


@pytest.fixture(scope="module")
def graph_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graph")
    pairs = [("cat", "animal"), ("dog", "animal"), ("lion", "cat"), ("puma", "cat"), ("wolf", "dog")]
    train_graph(read_graph(pairs), {"d": 2}, TrainConfig(max_epochs=1), path, test=0.2)
    return path


GRAPHS: dict[str, tuple[dict[str, Any], str]] = {
    "no edges": ({"edges": None}, "it lacks 'edges'"),
    "edges that are no numbers of nodes": ({"edges": torch.ones(4, 2)}, "Expected pairs of node numbers"),
    "an edge beyond the nodes": ({"edges": torch.tensor([[0, 99]])}, "names node 99, but the graph has 6 nodes"),
    "an edge before the nodes": ({"edges": torch.tensor([[0, -9]])}, "numbered from 0, got -9"),
    "names of other lengths": ({"names.ends": torch.tensor([1, 2])}, "does not have a name for each of 6 points"),
    "names before the first": ({"names.ends": torch.tensor([-5, 25, 24, 24, 24, 24])}, "do not follow each other"),
    "names without ends": ({"names.ends": None}, "it lacks 'names.ends'"),
    "ends that are fractions": ({"names.ends": torch.ones(6)}, "does not have a name for each of 6 points"),
    "names that are not UTF-8": ({"names.text": torch.full((24,), 255, dtype=torch.uint8)}, "utf-8"),
    "features of a model without": ({"features": torch.ones(6, 2)}, "6 nodes of 2 features"),
    "pairs without a word": ({"held_out_is_edge": None}, "it lacks 'held_out_is_edge'"),
    "pairs of other nodes": ({"held_out": torch.tensor([[0, 77], [1, 2]])}, "not of 6 nodes"),
    "pairs that are no pairs": ({"held_out": torch.ones(2, 2)}, "are no pairs"),
    "other nodes": ({"nodes": 10**6}, "a name for each of 1000000 points"),
    "no number of nodes": ({"nodes": "six"}, "six"),
}


@pytest.mark.parametrize("case", GRAPHS)
def test_a_graph_that_is_not_its_models_is_refused(case: str, graph_folder: Path, tmp_path: Path) -> None:
    change, says = GRAPHS[case]
    tensors, header = load_checkpoint(graph_folder / GRAPH)
    nodes = change["nodes"] if "nodes" in change else header["nodes"]
    tensors = {name: tensor for name, tensor in (tensors | change).items() if isinstance(tensor, Tensor)}
    save_checkpoint(tmp_path / GRAPH, tensors, {"nodes": nodes})
    (tmp_path / FINAL).write_bytes((graph_folder / FINAL).read_bytes())
    with pytest.raises(ValueError, match=rf"graph\.safetensors does not hold the graph of its model: .*({says})"):
        GraphRun.load(tmp_path)
    assert isinstance(GraphRun.load(graph_folder).graph, Graph)


def test_a_graph_estimator_without_its_settings_is_refused_by_its_folder(graph_folder: Path, tmp_path: Path) -> None:
    tensors, header = load_checkpoint(graph_folder / FINAL)
    del header["about"]["training"]["learning_rate"]
    save_checkpoint(tmp_path / FINAL, tensors, {name: header[name] for name in ("about", "history")})
    (tmp_path / GRAPH).write_bytes((graph_folder / GRAPH).read_bytes())
    with pytest.raises(ValueError, match="does not hold a whole estimator: it lacks 'learning_rate'"):
        PoincareGraphVAE.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"about": 3}, "does not say what its run is of"),
        ({"about": {"model": []}}, "does not say what its run is of"),
        ({"about": {"model": {}, "training": 3}}, "does not say what its run is of"),
        ({"state": {"speed": 3}}, "is not a checkpoint to go on from"),
        ({"state": None}, "is not a checkpoint to go on from"),
        ({"tensors": {"optimizer.x.step": torch.ones(1)}}, "is not a checkpoint to go on from"),
        ({"tensors": {"model.encoder.network.0.bias": torch.ones(7)}}, "is not a checkpoint to go on from"),
    ],
)
def test_a_checkpoint_that_no_run_left_is_not_gone_on_from(
    folder: Path, tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    tensors, header = load_checkpoint(folder / LAST)
    header = {name: change.get(name, header[name]) for name in ("about", "state")}
    save_checkpoint(tmp_path / LAST, tensors | change.get("tensors", {}), header)
    with pytest.raises(ValueError, match=rf"last\.safetensors {says}") as caught:
        train(TABLE, {"hidden": (8,)}, TrainConfig(max_epochs=1), tmp_path, resume=True)
    assert "\n" not in str(caught.value)
