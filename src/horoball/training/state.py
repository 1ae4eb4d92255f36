"""Where a run stands, and the files of a folder that say so.

`last.safetensors` is what a run goes on from, `best.safetensors` the weights of its best validation loss,
`metrics.jsonl` a line of numbers for every epoch, and `model.safetensors` what it came to.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from horoball.training.about import expect_same
from horoball.training.checkpoint import load_checkpoint, load_optimizer, optimizer_tensors, save_checkpoint
from horoball.training.stored import expect_whole
from horoball.training.whole import whole_file

__all__ = ["BEST", "FINAL", "LAST", "METRICS", "State", "expect_room", "expect_to_go_on", "restore", "save"]

LAST, BEST, METRICS, FINAL = "last.safetensors", "best.safetensors", "metrics.jsonl", "model.safetensors"


@dataclass
class State:
    """Where a run stands; what a checkpoint holds beside the weights and the optimiser.

    Example:
        >>> State().epoch
        0
    """

    epoch: int = 0
    step: int = 0  # next step of this epoch
    sums: list[float] = field(default_factory=list)  # of the objective's terms, over the rows of this epoch
    rows: int = 0
    best: float = math.inf
    best_epoch: int = -1
    history: list[dict[str, float]] = field(default_factory=list)
    done: bool = False
    kept: dict[str, Tensor] | None = field(default=None, repr=False)  # best weights, of a run without a folder


def save(
    folder: Path,
    state: State,
    objective: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    extra: dict[str, Tensor],
    about: dict[str, Any],
) -> None:
    """Write the metrics, and a checkpoint to go on from.

    Args:
        folder: The run's.
        state: Where it stands.
        objective: What is minimised, with all its weights.
        optimizer: The optimiser, before the engine has wrapped it.
        extra: Tensors to keep beside them.
        about: JSON to keep beside them.

    Example:
        >>> import tempfile
        >>> folder, linear = Path(tempfile.mkdtemp()), torch.nn.Linear(2, 1)
        >>> save(folder, State(epoch=3), linear, torch.optim.Adam(linear.parameters()), {}, {})
        >>> restore(folder, linear, torch.optim.Adam(linear.parameters()), {}).epoch
        3
    """
    if state.history:
        # Written whole, so that a resumed run leaves no line twice; which writes it anew: no need to flush.
        with whole_file(folder / METRICS, flush=False) as part:
            part.write_text("".join(json.dumps(entry) + "\n" for entry in state.history))
    plain = {name: value for name, value in vars(state).items() if name != "kept"}
    tensors = objective.state_dict() | extra | optimizer_tensors(optimizer)
    save_checkpoint(folder / LAST, tensors, {"state": plain, "about": about})


def restore(folder: Path, objective: torch.nn.Module, optimizer: torch.optim.Optimizer, about: dict[str, Any]) -> State:
    """Put weights and optimiser back to where a folder's run stood; refuses another run than `about` describes.

    Example:
        >>> restore(Path("run"), torch.nn.Linear(2, 1), torch.optim.Adam([torch.zeros(1)]), {})
        Traceback (most recent call last):
        ...
        FileNotFoundError: There is no checkpoint run/last.safetensors.
    """
    tensors, header = _last(folder, about)
    names = objective.state_dict().keys()
    if ("distances.log_scale" in tensors) != ("distances.log_scale" in names):
        has = "a" if "distances.log_scale" in tensors else "no"
        raise ValueError(f"The run in {folder} has {has} distance term. Resume with the options of the first fit.")
    with expect_whole(folder / LAST, "is not a checkpoint to go on from"):
        objective.load_state_dict({name: tensors[name] for name in names})
        load_optimizer(optimizer, tensors)
        return State(**header["state"])


def expect_room(folder: Path | None, *, resume: bool) -> None:
    """Refuse to begin a run in a folder that holds one, and to go on with one that has nothing to go on from.

    Example:
        >>> expect_room(Path("no such folder"), resume=True)
    """
    if folder is None:
        return
    last, final = ((folder / name).exists() for name in (LAST, FINAL))
    if (last or final) and not resume:
        raise ValueError(
            f"{folder} already holds a run. Choose another folder, or go on with --resume, in Python resume=True."
        )
    if final and not last:
        raise ValueError(
            f"{folder} holds a model, but no {LAST} to go on from. Choose another folder: this one would be replaced."
        )


def expect_to_go_on(folder: Path | None, about: dict[str, Any]) -> None:
    """Refuse to go on with a folder's run if it is another than `about` describes; none there is as good.

    `restore` does so too; this is for who has long work to do before.

    Example:
        >>> expect_to_go_on(Path("no such folder"), {})
    """
    if folder is not None and (folder / LAST).exists():
        _last(folder, about)


def _last(folder: Path, about: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors, header = load_checkpoint(folder / LAST)
    said = header.get("about")
    if not isinstance(said, dict) or not all(isinstance(said.get(part, {}), dict) for part in ("model", "training")):
        raise ValueError(f"{folder / LAST} does not say what its run is of. Start anew, or use another copy.")
    expect_same(folder, said, about)
    return tensors, header
