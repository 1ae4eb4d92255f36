"""Folders that no run has left: they are not gone on with, and the message says why in one line."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from horoball.datasets import preferential_attachment
from horoball.graphs.fit import FREE_TRAINING
from horoball.graphs.run import train_graph
from horoball.storage.checkpoint import load_checkpoint, save_checkpoint, this_version
from horoball.tables import ArrayTable
from horoball.training import TrainConfig, state
from horoball.training.state import BEST, FINAL, LAST, METRICS, State, save
from horoball.vae.run import Run
from horoball.vae.train import train

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # of Fabric, at import
X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
SHORT = TrainConfig(max_epochs=2)
LINE = {"epoch": 1.0, "loss": 1.0, "reconstruction": 1.0, "kl": 1.0, "c": 1.0, "validation": 1.0}


def fitted(folder: Path, seed: int = 0, epochs: int = 2, **model: Any) -> Path:
    train(ArrayTable(X), {"hidden": (8,), **model}, SHORT.replace(seed=seed, max_epochs=epochs), folder)
    return folder


def resume(folder: Path) -> Run:
    return train(ArrayTable(X), {"hidden": (8,)}, SHORT.replace(max_epochs=3), folder, resume=True)


def with_state(folder: Path, **change: Any) -> None:
    tensors, header = load_checkpoint(folder / LAST)
    header["state"] |= change
    save_checkpoint(folder / LAST, tensors, header)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    for file in whole.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


STATES: dict[str, tuple[dict[str, Any], str]] = {
    "a negative step": ({"step": -3}, "its step is -3, expected a whole number from 0 on"),
    "a negative epoch": ({"epoch": -1}, "its epoch is -1, expected"),
    "half an epoch": ({"epoch": 1.5}, "its epoch is 1.5, expected"),
    "an epoch that is true": ({"epoch": True}, "its epoch is True, expected"),
    "no rows": ({"rows": None}, "its rows is None, expected"),
    "a step beyond all": ({"step": 10**400}, "its step is 1000"),
    "steps without rows": ({"step": 3}, "it has seen 0 rows in 3 steps"),
    "a history that is a number": ({"history": 5}, "its history is no list of epochs"),
    "a history of numbers": ({"history": [5]}, "its history is no list of epochs"),
    "a history that is too short": ({"history": [LINE]}, "it has a history of 1 epochs, expected 2"),
    "a history without a term": ({"history": [{"epoch": 1.0}]}, "its history has no 'loss' in epoch 1"),
    "a history without a curvature": (
        {"history": [{name: value for name, value in LINE.items() if name != "c"}]},
        "its history has no 'c' in epoch 1",
    ),
    "a history without validation": (
        {"history": [{name: value for name, value in LINE.items() if name != "validation"}]},
        "its history has no 'validation' in epoch 1",
    ),
    "a metric of a newer version": ({"history": [LINE | {"norm": 1.0}]}, "its history has the field 'norm', which"),
    "a command in a history": ({"history": [LINE | {"loss": "$(touch owned)"}]}, "has no number for 'loss'"),
    "a command as a name": ({"history": [LINE | {"$(touch owned)": 1}]}, "which is no name"),
    "a history that is not finite": ({"history": [LINE | {"kl": math.inf}]}, "has no number for 'kl' in epoch 1"),
    "a huge number": ({"history": [LINE | {"kl": 10**400}]}, "too large"),
    "other sums": ({"sums": [1.0]}, "its sums are not 3 finite numbers"),
    "sums that are a number": ({"sums": 3}, "its sums are not 3 finite numbers"),
    "sums that are not finite": ({"sums": [1.0, math.nan, 0.0]}, "its sums are not 3 finite numbers"),
    "a best loss that is none": ({"best": math.nan}, "its best loss is nan in epoch"),
    "a best loss of text": ({"best": "low"}, "its best loss is low in epoch"),
    "a best epoch to come": ({"best_epoch": 7}, "its best loss is .* in epoch 7 of 2"),
    "a best epoch without a loss": ({"best": math.inf}, "its best loss is inf in epoch"),
    "done, in a word": ({"done": "no"}, "its done is 'no'"),
    "weights in the state": ({"kept": {"w": 1}}, "does not name its run"),
    "no run": ({"run": 3}, "does not name its run"),
    "a field of a newer version": ({"momentum": 3}, "its state has the field 'momentum', .*written by horoball"),
}


@pytest.mark.parametrize("case", STATES)
def test_a_state_that_no_run_left_is_refused(case: str, folder: Path) -> None:
    change, says = STATES[case]
    metrics = (folder / METRICS).read_bytes()
    with_state(folder, **change)
    with pytest.raises(ValueError, match=rf"last\.safetensors is not a checkpoint to resume from: .*{says}") as caught:
        resume(folder)
    assert "\n" not in str(caught.value)
    assert (folder / METRICS).read_bytes() == metrics


def test_a_step_beyond_its_epoch_is_refused(folder: Path) -> None:
    with_state(folder, step=9, rows=99)
    with pytest.raises(ValueError, match=r"is at step 9 of an epoch that has \d. Resume with"):
        resume(folder)


def test_a_run_that_was_left_goes_on(folder: Path) -> None:
    assert len(resume(folder).history) == 3


def written_by(folder: Path, version: str, *, without: str | None = None) -> None:
    """Make the files of a run those of another version, which may lack a setting of the training."""
    for name in (LAST, BEST, FINAL):
        tensors, header = load_checkpoint(folder / name)
        if "record" in header:
            header["record"]["version"] = version
            header["record"]["training"].pop(without or "", None)
        metadata = {"horoball": json.dumps(header | {"version": version})}
        safetensors.torch.save_file(tensors, folder / name, metadata)


def test_a_run_of_an_older_version_is_gone_on_with_and_says_so(folder: Path) -> None:
    written_by(folder, "0.1.0", without="locality")
    says = rf"was left by horoball 0\.1\.0 and goes on with horoball {re.escape(this_version())}: from here on"
    with pytest.warns(UserWarning, match=says):
        assert len(resume(folder).history) == 3
    assert load_checkpoint(folder / LAST)[1]["version"] == this_version()
    assert Run.load(folder).record.version == this_version()


def test_a_run_of_a_newer_version_is_not_gone_on_with(folder: Path) -> None:
    written_by(folder, "7.8.9")
    before = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    with pytest.raises(ValueError, match=r"last\.safetensors was written by horoball 7\.8\.9, which is newer"):
        resume(folder)
    with pytest.raises(ValueError, match=r"model\.safetensors was written by horoball 7\.8\.9, which is newer"):
        Run.load(folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()} == before


def other_seed(to: Path) -> Path:
    return fitted(to, seed=1)


def other_rate(to: Path) -> Path:
    train(ArrayTable(X), {"hidden": (8,)}, SHORT.replace(learning_rate=0.01), to)
    return to


def other_model(to: Path) -> Path:
    return fitted(to, hidden=(9,))


def a_graph(to: Path) -> Path:
    graph = preferential_attachment(40, 2, seed=0)
    train_graph(graph, {}, FREE_TRAINING.replace(max_epochs=1), to)
    (to / LAST).rename(to / BEST)  # graphs have none
    return to


@pytest.mark.parametrize("other", [other_seed, other_rate, other_model, a_graph])
@pytest.mark.parametrize("name", [BEST, FINAL])
def test_a_file_of_another_run_is_refused(other: Any, name: str, folder: Path, tmp_path: Path) -> None:
    foreign = other(tmp_path / "foreign")
    (folder / name).write_bytes((foreign / name).read_bytes())
    before = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    with pytest.raises(ValueError, match=rf"{name} is of another run than last\.safetensors beside it"):
        resume(folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()} == before


@pytest.mark.parametrize("change", ["shape", "dtype", "nan", "missing", "more", "model.more", "distances.log_scale"])
def test_best_weights_that_are_not_the_models_are_refused(change: str, folder: Path) -> None:
    tensors, header = load_checkpoint(folder / BEST)
    name = "model.encoder.network.0.bias"
    if change == "missing":
        del tensors[name]
    elif change in ("shape", "dtype", "nan"):
        changed = {"shape": torch.zeros(7), "dtype": torch.zeros(8).double(), "nan": torch.full((8,), math.nan)}
        tensors[name] = changed[change]
    else:
        tensors[change] = torch.zeros(())
    save_checkpoint(folder / BEST, tensors, header)
    with pytest.raises(ValueError, match=r"best\.safetensors does not hold the best weights of its run: it"):
        resume(folder)


def test_the_best_weights_are_those_of_the_model_alone(folder: Path, tmp_path: Path) -> None:
    """The distance term has a weight of its own, which is no part of the model."""
    with_distances = tmp_path / "distances"
    train(ArrayTable(X), {"hidden": (8,)}, SHORT.replace(distance_weight=1.0), with_distances)
    assert "term.log_scale" in load_checkpoint(with_distances / LAST)[0]
    assert list(load_checkpoint(with_distances / BEST)[0]) == list(load_checkpoint(folder / BEST)[0])
    longer = SHORT.replace(distance_weight=1.0, max_epochs=3)
    assert len(train(ArrayTable(X), {"hidden": (8,)}, longer, with_distances, resume=True).history) == 3


def test_a_weight_that_the_model_does_not_have_is_not_gone_on_with(folder: Path) -> None:
    tensors, header = load_checkpoint(folder / LAST)
    save_checkpoint(folder / LAST, tensors | {"model.more": torch.zeros(())}, header)
    with pytest.raises(ValueError, match=r"is not a checkpoint to resume from: it has model\.more"):
        resume(folder)


def test_best_weights_that_are_gone_are_missed(folder: Path) -> None:
    (folder / BEST).unlink()
    with pytest.raises(FileNotFoundError, match=r"There is no checkpoint .*best\.safetensors"):
        resume(folder)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_not_gone_on_with(value: float, folder: Path) -> None:
    tensors, header = load_checkpoint(folder / LAST)
    tensors["model.encoder.network.0.bias"][3] = value
    save_checkpoint(folder / LAST, tensors, header)
    with pytest.raises(ValueError, match=r"is not a checkpoint to resume from: its model.*values that are not finite"):
        resume(folder)


def test_runs_with_the_same_digest_end_alike(tmp_path: Path) -> None:
    """The digest is one of settings and starting weights, so the same command writes the same bytes."""
    first, second = (fitted(tmp_path / name) for name in ("a", "b"))
    for name in (BEST, FINAL, LAST, METRICS):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_weights_that_overflow_in_the_last_step_are_not_written(tmp_path: Path) -> None:
    weight = torch.nn.Parameter(torch.full((2,), torch.finfo(torch.float32).max))
    module = torch.nn.ParameterDict({"weight": weight})
    weight.data.mul_(2)
    with pytest.raises(FloatingPointError, match="weight is not finite in epoch 1"):
        save(tmp_path, State(sums=[0.0], run="0" * 32), module, torch.optim.Adam([weight]), {}, {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["riemannian", 10**400, [1.0], True, float("nan")])
def test_a_number_that_is_none_is_found_before_it_is_used(value: object) -> None:
    assert not state._is_finite(value)


def test_rates_that_group_the_optimizer_are_those_of_the_first_fit(folder: Path) -> None:
    config = SHORT.replace(max_epochs=3, encoder_rate=0.2)
    with pytest.raises(
        ValueError, match=r"has encoder_rate = 1\.0, not 0\.2\. Resume with the options of the first fit"
    ):
        train(ArrayTable(X), {"hidden": (8,)}, config, folder, resume=True)
