"""Checkpoints: one safetensors file with the tensors, and JSON in its header. Nothing is ever unpickled."""

from __future__ import annotations

import json
import math
import re
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch import Tensor

from horoball.storage.atomic import write_whole
from horoball.storage.folder import open_file

__all__ = ["FORMAT", "load_checkpoint", "load_header", "save_checkpoint", "this_version", "written_by"]

FORMAT = 2  # raised when a file of an older version can no longer be read
_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:\.dev(\d{1,9}))?")


def save_checkpoint(path: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Write tensors and a JSON state to a file, whole or not at all.

    Example:
        >>> import tempfile, torch
        >>> path = Path(tempfile.mkdtemp()) / "last.safetensors"
        >>> save_checkpoint(path, {"w": torch.ones(2)}, {"step": 3})
        >>> load_checkpoint(path)[1]["step"]
        3
    """
    from safetensors.torch import save

    header = {"horoball": json.dumps(state | {"format": FORMAT, "version": this_version()})}
    # Cloned, because modules may share a parameter (the ball's c) and safetensors wants every tensor by itself.
    data = save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}, header)
    write_whole(path, data, alone=False)


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the state of a checkpoint.

    The state also says its "format" and the "version" of horoball that wrote it.

    Raises:
        ValueError: The file is not a whole checkpoint of this format, or of a newer version; the message says which.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "x.safetensors"
        >>> _ = path.write_bytes(b"garbage")
        >>> load_checkpoint(path)
        Traceback (most recent call last):
        ...
        ValueError: ...x.safetensors is not a whole safetensors file...
    """
    metadata, tensors = _read(path, tensors=True)
    return tensors, _state(path, metadata)


def load_header(path: Path) -> dict[str, Any]:
    """The state of a checkpoint alone, which is small.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "last.safetensors"
        >>> save_checkpoint(path, {}, {"step": 3})
        >>> load_header(path)["step"]
        3
    """
    return _state(path, _read(path, tensors=False)[0])


@cache  # it is read from a file
def this_version() -> str:
    """The version of horoball that runs now.

    Example:
        >>> this_version().split(".")[0]
        '0'
    """
    return version("horoball")


def written_by(state: dict[str, Any]) -> str:
    """Which version of horoball wrote a checkpoint, for messages.

    Example:
        >>> written_by({"version": "0.3.1"}), written_by({})
        ('horoball 0.3.1', 'a version of horoball that it does not name')
    """
    said = state.get("version")
    if isinstance(said, str) and len(said) < 40 and said.isascii() and said.isprintable():
        return f"horoball {said}"
    return "a version of horoball that it does not name"


def _read(path: Path, *, tensors: bool) -> tuple[dict[str, str], dict[str, Tensor]]:
    from safetensors import SafetensorError, safe_open

    try:
        with open_file(path):  # safetensors takes a path, and would wait for a pipe
            pass
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no checkpoint {path}.") from None
    try:
        with safe_open(path, "pt") as file:
            names = file.keys() if tensors else ()
            return file.metadata() or {}, {name: file.get_tensor(name) for name in names}
    except (SafetensorError, ValueError, OSError) as error:
        first = next(iter(str(error).splitlines()), "")[:200]  # it may repeat a name of any length
        raise ValueError(
            f"{path} is not a whole safetensors file ({first}). It may be cut short or of another kind; pickled "
            "checkpoints are not read. Use another copy, or train again."
        ) from None


def _state(path: Path, metadata: dict[str, str]) -> dict[str, Any]:
    if "horoball" not in metadata:
        raise ValueError(f"{path} is a safetensors file, but not a checkpoint of horoball.")
    try:
        state = json.loads(metadata["horoball"])
    except (ValueError, RecursionError):  # no JSON, numbers of thousands of digits, nested without an end
        state = None
    if not isinstance(state, dict):
        raise ValueError(f"{path} is a safetensors file, but not a checkpoint of horoball: its header cannot be read.")
    if state.get("format") != FORMAT:
        raise ValueError(
            f"{path} has checkpoint format {str(state.get('format'))[:20]} and was written by {written_by(state)}; "
            f"this is horoball {this_version()}, which reads format {FORMAT}. Use the version that wrote it, or "
            "train again."
        )
    if _order(state.get("version")) > _order(this_version()):
        raise ValueError(
            f"{path} was written by {written_by(state)}, which is newer than this one, horoball {this_version()}, and "
            "may mean what this one does not know. Use that version, or a newer one."
        )
    return state


def _order(said: Any) -> tuple[float, ...]:
    """What versions are compared by: one under development comes before its release, one that is not named first."""
    found = _VERSION.fullmatch(said) if isinstance(said, str) else None
    if found is None:
        return ()
    *release, under_development = found.groups()
    return (*map(float, release), math.inf if under_development is None else float(under_development))
