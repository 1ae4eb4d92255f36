"""Models of strangers: what a file says of itself is not believed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from horoball.cells import CellModel
from horoball.graphs import Graph, PoincareGraphVAE, read_graph
from horoball.graphs.run import GraphRun, train_graph
from horoball.storage.checkpoint import load_checkpoint, save_checkpoint
from horoball.tables import ArrayTable
from horoball.training import TrainConfig
from horoball.training.state import FINAL, GRAPH, LAST
from horoball.vae import VAE
from horoball.vae.estimator import PoincareVAE
from horoball.vae.run import Run
from horoball.vae.train import train

NAN = math.nan
UNDESCRIBED = "(holds weights without a description of their model|does not hold a whole model: )"
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
    record: dict[str, Any] | None = None,
    tensors: dict[str, Tensor] | None = None,
    header: dict[str, Any] | None = None,
) -> Path:
    """The run with another description or another tensor, or without a part of it or a tensor."""
    held, said = load_checkpoint(folder / FINAL)
    tensors, header = held | (tensors or {}), said | (header or {})
    if header["record"] is said["record"]:
        header["record"]["model"] |= model or {}
        header["record"] |= record or {}
    if drop is not None:
        header["record"].pop(drop, None)
        tensors.pop(drop, None)
    save_checkpoint(to / FINAL, tensors, {name: header[name] for name in ("record", "history")})
    return to


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"model": {"hidden": [10**6]}},
            r"its encoder.network.0.weight has shape \(8, 4\), expected \(1000000, 4\)",
        ),
        ({"model": {"features": 10**13}}, "does not hold a whole model"),
        ({"model": {"d": 3}}, "does not hold a whole model"),
        (
            {"model": {"learn_c": True}},
            "it has decoder.ball.c, which does not belong there",
        ),
        ({"model": {"posterior": "square"}}, "Unknown posterior 'square'"),
        (
            {"model": {"depth": 3}},
            "its model has the field 'depth', which horoball .* does not know. It was written by horoball",
        ),
        ({"drop": "columns"}, "it lacks 'columns'"),
        ({"drop": "model.encoder.network.0.bias"}, "it lacks encoder.network.0.bias"),
        ({"drop": "scaler.std"}, "it lacks 'scaler.std'"),
        ({"drop": "model"}, "weights without a description of their model"),
        ({"record": {"columns": ["a"]}}, "its columns are not the names of 4 features"),
        ({"record": {"columns": 4}}, "its columns are not the names of 4 features"),
        ({"record": {"covariates": [1]}}, "its covariates is"),
        ({"record": {"label": {"a": "b" * 999}}}, "its label is"),
        ({"record": {"model": 3}}, "weights without a description of their model"),
        (
            {"tensors": {"scaler.mean": torch.ones(3), "scaler.std": torch.ones(3)}},
            "its scaling is not of 4 columns",
        ),
        ({"tensors": {"scaler.mean": torch.full((4,), NAN)}}, "its scaling is not finite"),
        ({"tensors": {"scaler.std": torch.zeros(4)}}, "its scaling divides by 0 or less"),
        ({"tensors": {"model.encoder.network.0.bias": torch.full((8,), NAN)}}, "0.bias has values that are not finite"),
        ({"tensors": {"model.encoder.network.0.bias": torch.full((8,), -math.inf)}}, "has values that are not finite"),
        ({"tensors": {"model.encoder.network.0.bias": torch.zeros(8).half()}}, "0.bias is float16, expected float32"),
        ({"tensors": {"model.encoder.network.0.bias": torch.zeros(8).int()}}, "0.bias is int32, expected float32"),
        ({"tensors": {"model.wings": torch.zeros(8)}}, "it has wings, which does not belong there"),
        ({"record": {"rows": -3}}, "its number of rows is '-3'"),
        ({"record": {"rows": "many"}}, "its number of rows is 'many'"),
        ({"drop": "rows"}, "it lacks 'rows'"),
        ({"drop": "training"}, "it lacks 'training'"),
        ({"record": {"training": {"wings": 2}}}, "its training has the field 'wings', .* It was written by horoball"),
        ({"record": {"training": {"seed": "one"}}}, "seed is a whole number"),
        ({"record": {"covariates": {"batch": ["a"]}}}, "its covariates are not those of its model"),
        ({"record": {"covariates": {"batch": [1]}}}, "its covariates have categories that are not texts"),
        ({"record": {"reading": {"wings": 2}}}, "its reading has the field 'wings'"),
        ({"header": {"history": [{"epoch": 1.0}]}}, "its history has no 'loss' in epoch 1"),
        ({"header": {"history": [{"epoch": 1.0, "loss": "$(touch x)"}]}}, "its history has no number for 'loss'"),
        ({"header": {"history": [{"epoch": 1.0, "loss": True}]}}, "its history has no number for 'loss'"),
        ({"header": {"history": [{"epoch": 1.0, "loss": NAN}]}}, "its history has no number for 'loss'"),
        ({"header": {"history": [{"$(touch x)": 1.0}]}}, "which is no name"),
        ({"header": {"history": [{"epoch": 7.0, "loss": 1.0, "kl": 1.0, "c": 1.0}]}}, "its history has epoch 7 in"),
        ({"header": {"record": 1.5}}, "weights without a description of their model"),
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
    ["[" * 100_000 + "]" * 100_000, '{"format": 1, "record": ' + "9" * 5000 + "}", "{", "3"],
    ids=["nested without an end", "a number of thousands of digits", "half", "a number"],
)
def test_a_header_that_python_does_not_parse_is_refused(state: str, tmp_path: Path) -> None:
    safetensors.torch.save_file({"w": torch.ones(1)}, tmp_path / FINAL, {"horoball": state})
    with pytest.raises(ValueError, match=r"model\.safetensors is a safetensors file, but not a checkpoint of horoball"):
        Run.load(tmp_path)


def test_half_precision_is_refused(folder: Path, tmp_path: Path) -> None:
    held, _ = load_checkpoint(folder / FINAL)
    half = {name: tensor.half() for name, tensor in held.items() if name.startswith("model.")}
    with pytest.raises(ValueError, match="its weights are float16, expected float32 or float64"):
        Run.load(changed(folder, tmp_path, tensors=half))


def test_more_layers_than_weights_are_refused_before_any_is_made(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = changed(folder, tmp_path, model={"hidden": [1] * 20_000})
    monkeypatch.setattr(VAE, "from_config", lambda config: pytest.fail("a model was made"))
    with pytest.raises(ValueError, match=r"it describes 20,000 layers, and holds \d+ weights"):
        Run.load(deep)


def test_weights_so_large_that_coordinates_overflow_are_told(folder: Path, tmp_path: Path) -> None:
    held, _ = load_checkpoint(folder / FINAL)
    name = "model.encoder.network.2.weight"
    run = Run.load(changed(folder, tmp_path, tensors={name: torch.full_like(held[name], 3e38)}))
    with pytest.raises(FloatingPointError, match="gives no finite coordinates for row 0"):
        list(run.embed(TABLE))


@pytest.mark.parametrize("record", [{"depth": 3}, {"n_components": 2, "wings": 2}])
def test_an_estimator_with_other_settings_is_refused_by_its_folder(
    folder: Path, tmp_path: Path, record: dict[str, int]
) -> None:
    with pytest.raises(
        ValueError,
        match=f"{tmp_path.name} does not hold a whole estimator: its estimator has the field .* written by horoball",
    ):
        PoincareVAE.load(changed(folder, tmp_path, record={"estimator": record}))


def test_a_record_of_cells_that_cannot_be_shown_is_refused_when_it_is_loaded(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not hold a whole model: it lacks 'rows'"):
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
    "one name that is far longer than the others": (
        {
            "nodes": 5000,
            "names.text": torch.full((90_000,), 97, dtype=torch.uint8),
            "names.ends": torch.cat((torch.zeros(4999, dtype=torch.int64), torch.tensor([90_000]))),
        },
        "its longest name has 90,000 bytes, too many beside 5,000 names",
    ),
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


def test_a_graph_estimator_without_its_settings_is_refused_by_its_folder(
    graph_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("storage.checkpoint", "training.config"):  # a released version has all fields
        monkeypatch.setattr(f"horoball.{module}.this_version", lambda: "0.2.0")
    tensors, header = load_checkpoint(graph_folder / FINAL)
    del header["record"]["training"]["learning_rate"]
    save_checkpoint(tmp_path / FINAL, tensors, {name: header[name] for name in ("record", "history")})
    (tmp_path / GRAPH).write_bytes((graph_folder / GRAPH).read_bytes())
    with pytest.raises(ValueError, match="does not hold a whole model: it lacks 'learning_rate'"):
        PoincareGraphVAE.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"record": 3}, UNDESCRIBED),
        ({"record": {"model": []}}, UNDESCRIBED),
        (
            {"record": {"model": {}, "training": 3}},
            UNDESCRIBED,
        ),
        ({"state": {"speed": 3}}, "is not a checkpoint to resume from"),
        ({"state": None}, "is not a checkpoint to resume from"),
        ({"tensors": {"optimizer.x.step": torch.ones(1)}}, "is not a checkpoint to resume from"),
        ({"tensors": {"model.encoder.network.0.bias": torch.ones(7)}}, "is not a checkpoint to resume from"),
    ],
)
def test_a_checkpoint_that_no_run_left_is_not_gone_on_from(
    folder: Path, tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    tensors, header = load_checkpoint(folder / LAST)
    header = {name: change.get(name, header[name]) for name in ("record", "state")}
    save_checkpoint(tmp_path / LAST, tensors | change.get("tensors", {}), header)
    with pytest.raises(ValueError, match=rf"last\.safetensors {says}") as caught:
        train(TABLE, {"hidden": (8,)}, TrainConfig(max_epochs=1), tmp_path, resume=True)
    assert "\n" not in str(caught.value)
