"""The state of a run, and the files that hold it.

`last.safetensors` is the checkpoint to resume from, `best.safetensors` the weights of the best validation loss,
`metrics.jsonl` a line of numbers for every epoch, and `model.safetensors` the finished model. All but the metrics carry
the run's digest, so that files of different runs are not mixed up.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from horoball.geometry.manifold import curvatures
from horoball.options import OPTIONS_FILE
from horoball.storage.checkpoint import (
    check_fields,
    check_tensors,
    check_weights,
    load_checkpoint,
    load_header,
    load_optimizer,
    model_tensors,
    optimizer_tensors,
    reject_incomplete,
    save_checkpoint,
    stored_settings,
    tensors_digest,
    this_version,
    written_by,
)
from horoball.storage.outputs import check_folder, read_file
from horoball.storage.stores import located
from horoball.storage.whole import write_whole
from horoball.training.config import FitRecord, TrainConfig, stored_record

__all__ = [
    "BEST",
    "FINAL",
    "GRAPH",
    "LAST",
    "METRICS",
    "PLACES",
    "RUN_FILES",
    "SHOWN",
    "State",
    "check_output_dir",
    "check_resumable",
    "check_trained",
    "load_best",
    "restore",
    "run_digest",
    "save",
    "save_best",
    "stored_history",
]

SHOWN = ("loss", "kl")  # what `info` shows of an epoch
_NAME = 40  # characters of a metric's name, at most


def stored_history(lines: Any, wanted: Sequence[str] = SHOWN) -> list[dict[str, float]]:
    """The metrics of the epochs 1, 2, … in their order; refuses what no run can have left.

    A line is a dict from names to finite numbers: it is written to `metrics.jsonl` again when a run goes on.

    Example:
        >>> stored_history([{"epoch": 1.0, "loss": 3.0}], ["loss"])
        [{'epoch': 1.0, 'loss': 3.0}]
        >>> stored_history([{"epoch": 1.0, "loss": "$(rm)"}], ["loss"])
        Traceback (most recent call last):
        ...
        ValueError: its history has no number for 'loss' in epoch 1.
    """
    if not isinstance(lines, list) or not all(isinstance(line, dict) for line in lines):
        raise ValueError("its history is no list of epochs.")
    for number, line in enumerate(lines, 1):
        for name, value in line.items():
            if not name.isidentifier() or not name.isascii() or len(name) > _NAME:
                raise ValueError(f"its history has the metric {name[:_NAME]!r}, which is no name.")
            if type(value) not in (int, float) or not math.isfinite(value):
                raise ValueError(f"its history has no number for {name!r} in epoch {number}.")
        for name in ("epoch", *wanted):
            if name not in line:
                raise ValueError(f"its history has no {name!r} in epoch {number}.")
        if line["epoch"] != number:
            raise ValueError(f"its history has epoch {line['epoch']:g} in place {number}.")
    return lines


LAST, BEST, METRICS, FINAL = "last.safetensors", "best.safetensors", "metrics.jsonl", "model.safetensors"
GRAPH, PLACES = "graph.safetensors", "places.safetensors"  # of a graph, and of the groups of a tree
RUN_FILES = (LAST, BEST, METRICS, FINAL, GRAPH, PLACES, OPTIONS_FILE)
_DIGEST = 32  # characters
_LINE = 1 << 16  # bytes of the metrics of one epoch, at most


class OtherVersionWarning(UserWarning):
    """A run goes on that another version of horoball has left."""


@dataclass
class State:
    """State of a run: what a checkpoint holds beside the weights and the optimizer."""

    epoch: int = 0
    step: int = 0  # next step of this epoch
    sums: list[float] = field(default_factory=list)  # of the objective's terms, over the rows of this epoch
    rows: int = 0
    best: float = math.inf
    best_epoch: int = -1
    history: list[dict[str, float]] = field(default_factory=list)
    first_loss: float | None = None  # per row, of the first step: before any update
    done: bool = False
    run: str = ""  # the run's digest; see `run_digest`
    kept: dict[str, Tensor] | None = field(default=None, repr=False)  # best weights, of a run without a folder


def run_digest(objective: torch.nn.Module, config: TrainConfig, record: FitRecord | None) -> str:
    """The identity of a run: a digest of its settings, its data's fingerprint and its initial weights.

    Runs with the same digest end with the same weights, so their files may stand for each other.

    Example:
        >>> len(run_digest(torch.nn.Linear(2, 1), TrainConfig(seed=0), None))
        32
    """
    described = None if record is None else record.as_json() | {"training": record.training.identity}
    settings = [config.identity, described]
    return tensors_digest(objective.state_dict(), json.dumps(settings, sort_keys=True))


def save(
    folder: Path,
    state: State,
    objective: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    extra: dict[str, Tensor],
    record: FitRecord | None,
) -> None:
    """Write the metrics, and a checkpoint to resume from.

    Example:
        >>> import tempfile
        >>> folder, linear = Path(tempfile.mkdtemp()), torch.nn.Linear(2, 1)
        >>> linear.terms = ("loss",)
        >>> state = State(step=3, rows=96, sums=[1.0], run="0" * 32)
        >>> save(folder, state, linear, torch.optim.Adam(linear.parameters()), {}, None)
        >>> restore(folder, linear, torch.optim.Adam(linear.parameters()), None).step
        3
    """
    if state.history:
        # Written whole, so that a resumed run leaves no line twice; which writes it anew: no need to flush.
        write_whole(folder / METRICS, "".join(json.dumps(entry) + "\n" for entry in state.history), flush=False)
    plain = {name: value for name, value in vars(state).items() if name != "kept"}
    tensors = objective.state_dict() | optimizer_tensors(optimizer)
    check_trained(tensors, state)
    # A scaling has infinite limits in columns without outliers, so it is not looked at.
    save_checkpoint(
        folder / LAST, tensors | extra, {"state": plain, "record": None if record is None else record.as_json()}
    )


def check_trained(tensors: dict[str, Tensor], state: State) -> None:
    """Stop training whose weights are no numbers anymore: a step's loss is that of the weights before it.

    Example:
        >>> check_trained({"weight": torch.tensor(torch.inf)}, State(epoch=2))
        Traceback (most recent call last):
        ...
        FloatingPointError: Training stopped: weight is not finite in epoch 3. Lower the learning rate.
    """
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise FloatingPointError(
                f"Training stopped: {name} is not finite in epoch {state.epoch + 1}. Lower the learning rate."
            )


def save_best(folder: Path, state: State, objective: Any) -> None:
    """Write the model's weights of the best validation loss.

    Example:
        >>> import tempfile
        >>> folder, objective = Path(tempfile.mkdtemp()), torch.nn.ModuleDict({"model": torch.nn.Linear(2, 1)})
        >>> save_best(folder, State(run="0" * 32), objective)
        >>> [file.name for file in folder.iterdir()]
        ['best.safetensors']
    """
    save_checkpoint(folder / BEST, model_tensors(objective.model), {"epoch": state.epoch, "run": state.run})


def load_best(folder: Path, state: State, model: torch.nn.Module) -> None:
    """Put the weights of the best validation loss into a model; refuses those of another run.

    Example:
        >>> load_best(Path("run"), State(), torch.nn.Linear(2, 1))
        Traceback (most recent call last):
        ...
        FileNotFoundError: There is no checkpoint run/best.safetensors.
    """
    tensors = _best(folder, state, model)
    with reject_incomplete(folder / BEST, "does not hold the best weights of its run"):
        model.load_state_dict(check_weights(tensors, model))


def _best(folder: Path, state: State, model: torch.nn.Module) -> dict[str, Tensor]:
    tensors, header = load_checkpoint(folder / BEST)
    _check_run(folder, BEST, header.get("run"), state.run)
    with reject_incomplete(folder / BEST, "does not hold the best weights of its run"):
        check_tensors(tensors, model_tensors(model))
    return tensors


def restore(folder: Path, objective: Any, optimizer: torch.optim.Optimizer, record: FitRecord | None) -> State:
    """Restore weights and optimizer from a folder's last checkpoint; refuses a run of another record.

    Everything is checked first: weights and moments by name, shape, dtype and finiteness, counters by their ranges, the
    other files by the run's digest. A run that another version has left goes on with a warning.

    Example:
        >>> restore(Path("run"), torch.nn.Linear(2, 1), torch.optim.Adam([torch.zeros(1)]), None)
        Traceback (most recent call last):
        ...
        FileNotFoundError: There is no checkpoint run/last.safetensors.
    """
    tensors, header = _last(folder, record)
    wanted = objective.state_dict()
    if ("term.log_scale" in tensors) != ("term.log_scale" in wanted):
        has = "a" if "term.log_scale" in tensors else "no"
        raise ValueError(f"The run in {folder} has {has} distance term. Resume with the options of the first fit.")
    with reject_incomplete(folder / LAST, "is not a checkpoint to resume from"):
        state = _state(header, objective.terms, curvatures(getattr(getattr(objective, "model", None), "ball", None)))
        weights = {name: held for name, held in tensors.items() if name in wanted or name.startswith("model.")}
        check_tensors(weights, wanted)
        load_optimizer(optimizer, tensors)
    if state.best_epoch >= 0:
        _best(folder, state, objective.model)
    if (folder / FINAL).exists():
        _check_run(folder, FINAL, load_header(folder / FINAL).get("run"), state.run)
    with reject_incomplete(folder / LAST, "is not a checkpoint to resume from"):
        objective.load_state_dict(weights)  # refuses those of another curvature
    if header.get("version") != this_version():
        warnings.warn(
            f"The run in {folder} was left by {written_by(header)} and goes on with horoball {this_version()}: from "
            "here on its numbers may differ from those that the other version would have come to. Fit again in another "
            "folder to have them all from one version.",
            OtherVersionWarning,
            stacklevel=3,
        )
    return state


def _state(header: dict[str, Any], terms: tuple[str, ...], space: Collection[str]) -> State:
    """The state that a checkpoint has; refuses one that no run can have left."""
    said = header["state"]
    state = stored_settings(State, said, "state", header)
    for name in ("epoch", "step", "rows", "best_epoch"):
        least, value = -1 if name == "best_epoch" else 0, said[name]
        if type(value) is not int or not least <= value < 1 << 53:
            raise ValueError(f"its {name} is {str(value)[:40]}, expected a whole number from {least} on.")
    if type(state.done) is not bool:
        raise ValueError(f"its done is {str(state.done)[:40]!r}, expected true or false.")
    first = state.first_loss
    if first is not None and not _is_finite(first):
        raise ValueError(f"its first loss is {str(first)[:40]!r}.")
    numbers = state.sums if isinstance(state.sums, list) else [None]
    if len(numbers) != len(terms) or not all(map(_is_finite, numbers)):
        raise ValueError(f"its sums are not {len(terms)} finite numbers.")
    if (state.step == 0) != (state.rows == 0):
        raise ValueError(f"it has seen {state.rows} rows in {state.step} steps.")
    metrics = (*terms, *space, *(["validation"] if state.best_epoch >= 0 else []))
    for line in stored_history(state.history, metrics):
        check_fields(line, {"epoch", *metrics}, "history", header)
    if len(state.history) != state.epoch:
        raise ValueError(f"it has a history of {len(state.history)} epochs, expected {state.epoch}.")
    known = type(state.best) is float and not math.isnan(state.best)
    if not known or math.isinf(state.best) != (state.best_epoch < 0) or state.best_epoch >= max(state.epoch, 1):
        raise ValueError(f"its best loss is {str(state.best)[:40]} in epoch {state.best_epoch} of {state.epoch}.")
    if not isinstance(state.run, str) or len(state.run) != _DIGEST or state.kept is not None:
        raise ValueError("it does not name its run.")
    return state


def check_output_dir(folder: Path | None, *, resume: bool, graph: bool = False) -> None:
    """Refuse to start a run in a folder that holds one, or files of others, and to resume one without a checkpoint.

    Args:
        folder: The folder; None for none.
        resume: Whether a run in it is to be resumed.
        graph: Whether the run is that of a graph, which is written too.

    Example:
        >>> check_output_dir(Path("no such folder"), resume=True)
    """
    if folder is None:
        return
    folder = located(folder)
    check_folder(folder)
    last, final = ((folder / name).exists() for name in (LAST, FINAL))
    if (last or final) and not resume:
        raise ValueError(
            f"{folder} already holds a run. Choose another folder, or resume it with --resume, in Python resume=True."
        )
    if final and not last:
        raise ValueError(
            f"{folder} holds a model, but no {LAST} to resume from. Choose another folder: this one would be replaced."
        )
    for name in () if last else (BEST, METRICS, *([GRAPH] if graph else [])):
        if ((folder / name).exists() or (folder / name).is_symlink()) and not _is_left(folder / name):
            raise ValueError(
                f"{folder} holds a file {name}, but no run that it belongs to. Choose another folder: it would be "
                "replaced."
            )


def _is_left(path: Path) -> bool:
    """Whether a file is what a run that was killed in its first epoch has left, before its first checkpoint."""
    try:
        if path.name == METRICS:
            line = json.loads(read_file(path, _LINE))
            return isinstance(line, dict) and line.get("epoch") == 1 and "loss" in line
        header = load_header(path)
    except (OSError, ValueError, RecursionError):
        return False
    return "nodes" in header if path.name == GRAPH else "run" in header and header.get("epoch") == 0


def check_resumable(folder: Path | None, record: FitRecord) -> None:
    """Refuse to resume a folder's run if it has another record; an empty folder passes.

    `restore` checks this too; callers with long work to do before training check it first.

    Example:
        >>> from horoball.graphs import GraphConfig
        >>> from horoball.graphs.run import GraphRecord
        >>> record = GraphRecord(model=GraphConfig(nodes=4), training=TrainConfig(), edges=3, digest="0f")
        >>> check_resumable(Path("no such folder"), record)
    """
    if folder is not None and (folder / LAST).exists():
        _last(folder, record)


def _last(folder: Path, record: FitRecord | None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors, header = load_checkpoint(folder / LAST)
    old = stored_record(folder / LAST, header)
    if old is not None and record is not None:
        record.check_resumes(folder, old)
    return tensors, header


def _check_run(folder: Path, name: str, said: Any, run: str) -> None:
    if said != run:
        raise ValueError(
            f"{folder / name} is of another run than {LAST} beside it. Put the run's own file back, or fit again in "
            "another folder."
        )


def _is_finite(value: Any) -> bool:
    """Whether a value of a file is a number that a float can hold; JSON has whole numbers of any length."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max
