"""Checkpoints: one safetensors file with the tensors, and JSON in its header. Nothing is ever unpickled.

A checkpoint is written under another name, flushed to the disk and renamed: a reader finds the old one or the new one,
whole, whenever the writer is killed; see `whole`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from horoball.training.whole import whole_file

__all__ = ["FORMAT", "clear_parts", "load_checkpoint", "load_optimizer", "optimizer_tensors", "save_checkpoint"]

FORMAT = 1  # raised when a file of an older version can no longer be read


def save_checkpoint(path: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Write tensors and a JSON state to a file, atomically.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "last.safetensors"
        >>> save_checkpoint(path, {"w": torch.ones(2)}, {"step": 3})
        >>> load_checkpoint(path)[1]["step"]
        3
    """
    from safetensors.torch import save

    header = {"horoball": json.dumps({"format": FORMAT} | state)}
    # Cloned, because modules may share a parameter (the ball's c) and safetensors wants every tensor by itself.
    data = save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}, header)
    with whole_file(path, mark=f".{os.getpid()}") as part:
        part.write_bytes(data)


def clear_parts(folder: Path) -> None:
    """Remove what writers that were killed have left in a folder that nobody is writing to.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "last.safetensors.123.part").write_bytes(b"half")
        >>> clear_parts(folder)
        >>> list(folder.iterdir())
        []
    """
    for part in folder.glob("*.safetensors.*.part"):
        part.unlink(missing_ok=True)


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the state of a checkpoint.

    Raises:
        ValueError: The file is not a whole checkpoint of this version; the message says which.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "x.safetensors"
        >>> _ = path.write_bytes(b"garbage")
        >>> load_checkpoint(path)
        Traceback (most recent call last):
        ...
        ValueError: ...x.safetensors is not a whole safetensors file...
    """
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        raise FileNotFoundError(f"There is no checkpoint {path}.")
    try:
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  a handle, not a dict
    except (SafetensorError, ValueError, OSError) as error:
        first = next(iter(str(error).splitlines()), "")[:200]  # it may repeat a name of any length
        raise ValueError(
            f"{path} is not a whole safetensors file ({first}). It may be cut short or of another kind; pickled "
            "checkpoints are not read. Use another copy, or train again."
        ) from None
    if "horoball" not in header:
        raise ValueError(f"{path} is a safetensors file, but not a checkpoint of horoball.")
    try:
        state = json.loads(header["horoball"])
    except (ValueError, RecursionError):  # no JSON, numbers of thousands of digits, nested without an end
        state = None
    if not isinstance(state, dict):
        raise ValueError(f"{path} is a safetensors file, but not a checkpoint of horoball: its header cannot be read.")
    if state.get("format") != FORMAT:
        raise ValueError(
            f"{path} has checkpoint format {state.get('format')}, this version of horoball reads {FORMAT}. "
            "Use the version that wrote it, or train again."
        )
    return tensors, state


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """The state of an optimiser as named tensors.

    Example:
        >>> w = torch.nn.Parameter(torch.ones(2)); optimizer = torch.optim.Adam([w])
        >>> w.sum().backward(); optimizer.step()
        >>> sorted(optimizer_tensors(optimizer))
        ['optimizer.0.exp_avg', 'optimizer.0.exp_avg_sq', 'optimizer.0.step']
    """
    state = optimizer.state_dict()["state"]
    return {
        f"optimizer.{index}.{key}": value if isinstance(value, Tensor) else torch.tensor(float(value))
        for index, fields in state.items()
        for key, value in fields.items()
    }


def load_optimizer(optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put back the state that `optimizer_tensors` gave.

    Example:
        >>> optimizer = torch.optim.Adam([torch.nn.Parameter(torch.ones(2))])
        >>> load_optimizer(optimizer, {})
    """
    whole = optimizer.state_dict()
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, index, key = name.split(".", 2)
            state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict(whole | {"state": state})
