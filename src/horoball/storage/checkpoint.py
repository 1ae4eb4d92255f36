"""Checkpoints: tensors and a header of JSON in one safetensors file, without pickle; how they are written and refused.

What a file holds is compared with what it describes before it is used, for it may be anybody's; names are tensors too.
Adam's fused kernel takes a moment for as large as its parameter without looking: one of another shape would be read and
written beyond its end.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from horoball.plugins import UnknownNameError
from horoball.storage.outputs import open_file
from horoball.storage.stores import local_copy, located
from horoball.storage.whole import write_whole


def names_to_tensors(names: np.ndarray | None) -> dict[str, Tensor]:
    """Names as tensors: numbers, or the bytes of UTF-8 and where each name ends."""
    if names is None:
        return {}
    if names.dtype.kind == "i":
        return {"names.numbers": torch.from_numpy(names)}
    encoded = [name.encode("utf-8", "surrogatepass") for name in names.tolist()]
    ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
    text = np.frombuffer(b"".join(encoded), np.uint8).copy()
    return {"names.text": torch.from_numpy(text), "names.ends": torch.from_numpy(ends)}


def names_from_tensors(tensors: dict[str, Tensor], n: int) -> np.ndarray | None:
    """The names that `names_to_tensors` wrote; refuses what it cannot have written.

    Text comes as Python strings in an array of objects, so that it takes about as much memory as in the file. In one of
    fixed width a single long name would make all others as long.
    """
    if "names.numbers" in tensors:
        numbers = tensors["names.numbers"]
        if numbers.dtype != torch.int64 or numbers.shape != (n,):
            raise ValueError(f"it does not have a number for each of {n} points.")
        return numbers.numpy()
    if "names.text" not in tensors:
        return None
    text, ends = tensors["names.text"], tensors["names.ends"]
    if text.dtype != torch.uint8 or ends.dtype != torch.int64 or text.dim() != 1 or ends.shape != (n,):
        raise ValueError(f"it does not have a name for each of {n} points.")
    edges = np.concatenate(([0], ends.numpy()))
    if (np.diff(edges) < 0).any() or edges[-1] != len(text):
        raise ValueError("its names do not follow each other.")
    raw = text.numpy().tobytes()
    pairs = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    return np.fromiter((raw[a:b].decode("utf-8", "surrogatepass") for a, b in pairs), object, n)


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
    about = state.get("about")  # where format 1 has it
    said = state.get("version", about.get("version") if isinstance(about, dict) else None)
    if isinstance(said, str) and len(said) < 40 and said.isascii() and said.isprintable():
        return f"horoball {said}"
    return "a version of horoball that it does not name"


def _read(path: Path, *, tensors: bool) -> tuple[dict[str, str], dict[str, Tensor]]:
    path = located(path)
    with ExitStack() as stack:
        try:
            copy = stack.enter_context(local_copy(path))
            with open_file(copy):  # safetensors takes a path, and would wait for a pipe
                pass
        except FileNotFoundError:
            raise FileNotFoundError(f"There is no checkpoint {path}.") from None
        return _read_local(copy, path, tensors=tensors)


def _read_local(copy: Path, path: Path, *, tensors: bool) -> tuple[dict[str, str], dict[str, Tensor]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(copy, "pt") as file:
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


M = TypeVar("M", bound=nn.Module)
S = TypeVar("S")
_PREFIX = "model."
_LONGEST = 300  # characters of what was wrong, which may repeat what a file says
# Of a prior and a posterior, which the record of a fit has too: files of version 0.1 do not have them.
_DESCRIBED = ("family", "fixed_scale")
_PRECISIONS = (torch.float32, torch.float64)


@contextmanager
def reject_incomplete(path: Path, otherwise: str) -> Iterator[None]:
    """Say of which file it is that something is missing or wrong.

    Example:
        >>> with reject_incomplete(Path("model.safetensors"), "does not hold a whole model"):
        ...     {}["columns"]
        Traceback (most recent call last):
        ...
        ValueError: model.safetensors does not hold a whole model: it lacks 'columns'.
    """
    try:
        yield
    except UnknownNameError as error:
        raise UnknownNameError(f"{path} needs what is not installed: {error}") from None
    except KeyError as error:
        raise ValueError(f"{path} {otherwise}: it lacks {str(error)[:_LONGEST]}.") from None
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if type(error) is ValueError and str(path) in str(error):
            raise  # which says more
        first = next(iter(str(error).splitlines()), type(error).__name__)  # torch goes on for a line per weight
        raise ValueError(f"{path} {otherwise}: {first[:_LONGEST]}") from None


def check_tensors(held: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Refuse tensors that are not those wanted: by name, shape, dtype, or because they are not finite.

    Args:
        held: What a file holds.
        wanted: Tensors like those it should hold; their numbers are not looked at, and may be missing.

    Example:
        >>> check_tensors({"w": torch.ones(1)}, {"w": torch.ones(2, device="meta")})
        Traceback (most recent call last):
        ...
        ValueError: its w has shape (1,), expected (2,).
    """
    for name in sorted(wanted.keys() ^ held.keys()):
        if name in wanted and name.rpartition(".")[2] in _DESCRIBED:
            continue
        raise ValueError(f"it lacks {name}." if name in wanted else f"it has {name}, which does not belong there.")
    for name, like in wanted.items():
        if name not in held:
            continue
        tensor = held[name]
        if tensor.shape != like.shape:
            raise ValueError(f"its {name} has shape {tuple(tensor.shape)}, expected {tuple(like.shape)}.")
        if tensor.dtype != like.dtype:
            raise ValueError(f"its {name} is {_word(tensor.dtype)}, expected {_word(like.dtype)}.")
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"its {name} has values that are not finite.")


def check_fields(said: Any, known: set[str], what: str, header: dict[str, Any]) -> None:
    """Refuse fields that this version of horoball does not know, and say which version wrote them.

    Example:
        >>> check_fields({"depth": 3}, {"d"}, "model", {"version": "9.0.0"})
        Traceback (most recent call last):
        ...
        ValueError: its model has the field 'depth', which horoball ... does not know. ...
    """
    if not isinstance(said, dict):
        raise ValueError(f"its {what} is {str(said)[:40]!r}, not a record.")
    for name in sorted(said.keys() - known):
        raise ValueError(
            f"its {what} has the field {name[:40]!r}, which horoball {this_version()} does not know. It was written by "
            f"{written_by(header)}: use that version, or a newer one."
        )


def stored_settings(kind: type[S], said: Any, what: str, header: dict[str, Any]) -> S:
    """Settings of a dataclass as a file has them.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Cake:
        ...     layers: int = 2
        >>> stored_settings(Cake, {"layers": 3}, "cake", {})
        Cake(layers=3)
    """
    check_fields(said, {field.name for field in fields(kind)}, what, header)  # type: ignore[arg-type]
    return kind(**said)


def stored_model(make: Callable[[], M], tensors: dict[str, Tensor], layers: int = 0) -> M:
    """Make a model and give it its weights.

    Args:
        make: Makes the model as the file describes it. It is called twice, first without memory for the weights, so
            that a description of a huge model beside a few weights takes none.
        tensors: What is in the file; weights have names that begin with "model.".
        layers: How many layers the description has. With fewer weights than that nothing is made.

    Raises:
        ValueError: The weights are not those of the description.

    Example:
        >>> held = {"model.weight": torch.ones(1, 2), "model.bias": torch.zeros(1)}
        >>> stored_model(lambda: nn.Linear(2, 1), held).weight.data
        tensor([[1., 1.]])
        >>> stored_model(lambda: nn.Linear(10**12, 1), held)
        Traceback (most recent call last):
        ...
        ValueError: its weight has shape (1, 2), expected (1, 1000000000000).
    """
    weights = _weights(tensors)
    if layers > len(weights):
        raise ValueError(f"it describes {layers:,} layers, and holds {len(weights)} weights.")
    of_weights = (tensor.dtype for tensor in weights.values() if tensor.is_floating_point() and tensor.dim())
    precision = next(of_weights, torch.float32)
    if precision not in _PRECISIONS:
        raise ValueError(f"its weights are {_word(precision)}, expected float32 or float64.")
    with torch.device("meta"):
        check_tensors(weights, make().to(precision).state_dict())
    model = make().to(precision)  # the file's, whatever torch's default is now
    model.load_state_dict(weights)
    return model


def check_weights(tensors: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """The weights that a checkpoint has for a model, under the model's names; refuses those of another model.

    Example:
        >>> linear = nn.Linear(2, 1)
        >>> list(check_weights(model_tensors(linear), linear))
        ['weight', 'bias']
    """
    weights = _weights(tensors)
    check_tensors(weights, model.state_dict())
    return weights


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """A model's weights under the names that they have in a file.

    Example:
        >>> list(model_tensors(nn.Linear(2, 1)))
        ['model.weight', 'model.bias']
    """
    return {f"{_PREFIX}{name}": tensor for name, tensor in model.state_dict().items()}


def tensors_digest(tensors: Mapping[str, Tensor], more: str = "") -> str:
    """A digest of tensors with their names, shapes and dtypes, and of some text.

    Example:
        >>> tensors_digest({"a": torch.zeros(2)}) == tensors_digest({"a": torch.zeros(2, 1)})
        False
    """
    digest = hashlib.sha256(more.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\0{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()[:32]


def _weights(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(_PREFIX): tensor for name, tensor in tensors.items() if name.startswith(_PREFIX)}


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


_OPTIMIZER = "optimizer."
_LOST = f"{_OPTIMIZER}lost"  # marks a state of which a part is neither a tensor nor a number


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """The state of an optimizer as named tensors; none before its first step.

    A parameter that has had no gradient yet has the state that Adam would begin with. Of other optimizers, numbers are
    kept as tensors of one number; what is neither is left out, and whoever resumes is told.

    Example:
        >>> w = torch.nn.Parameter(torch.ones(2)); optimizer = torch.optim.Adam([w])
        >>> w.sum().backward(); optimizer.step()
        >>> sorted(optimizer_tensors(optimizer))
        ['optimizer.0.exp_avg', 'optimizer.0.exp_avg_sq', 'optimizer.0.step']
    """
    state = optimizer.state_dict()["state"]
    if not state:
        return {}
    if not isinstance(optimizer, Adam):
        held = {f"{_OPTIMIZER}{index}.{key}": value for index, kept in state.items() for key, value in kept.items()}
        tensors = {name: value for name, value in held.items() if isinstance(value, Tensor)}
        tensors |= {
            name: torch.tensor(value, dtype=torch.float64)
            for name, value in held.items()
            if isinstance(value, float | int)
        }
        lost = any(value is not None for name, value in held.items() if name not in tensors)
        return tensors | ({_LOST: torch.ones(1)} if lost else {})
    start = {name: torch.zeros_like(like) for name, like in _wanted(optimizer).items()}
    return start | {f"{_OPTIMIZER}{index}.{key}": value for index, held in state.items() for key, value in held.items()}


def load_optimizer(optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put back the state that `optimizer_tensors` gave.

    Args:
        optimizer: A new optimizer of the same parameters.
        tensors: What a checkpoint holds; names of this state begin with "optimizer.".

    Raises:
        ValueError: It is not the whole state of this optimizer.

    Example:
        >>> optimizer = torch.optim.Adam([torch.nn.Parameter(torch.ones(2))])
        >>> load_optimizer(optimizer, {})
        >>> load_optimizer(optimizer, {"optimizer.0.step": torch.tensor(1.0)})
        Traceback (most recent call last):
        ...
        ValueError: it lacks optimizer.0.exp_avg.
    """
    held = {name: tensor for name, tensor in tensors.items() if name.startswith(_OPTIMIZER)}
    if not held:
        return
    if not isinstance(optimizer, Adam):
        _load_other(optimizer, held)
        return
    check_tensors(held, _wanted(optimizer))
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in held.items():
        index, key = name.removeprefix(_OPTIMIZER).split(".")
        if key != "exp_avg" and bool((tensor < 0).any()):
            raise ValueError(f"its {name} is negative.")
        if key == "step" and float(tensor) != int(tensor):
            raise ValueError(f"its {name} is {float(tensor):g}, not a number of steps.")
        state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})


def _load_other(optimizer: Optimizer, held: dict[str, Tensor]) -> None:
    """Put back the state of an optimizer whose moments have names that are not known here."""
    if held.pop(_LOST, None) is not None:
        warnings.warn(
            f"The state of {type(optimizer).__name__} is not of tensors and numbers alone; the rest is not in the "
            "checkpoint and starts anew. The run will not end with the same numbers as without the stop.",
            UserWarning,
            stacklevel=4,
        )
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state: dict[int, dict[str, Any]] = {}
    for name, tensor in held.items():
        place, _, key = name.removeprefix(_OPTIMIZER).partition(".")
        if not (place.isdecimal() and int(place) < len(parameters) and key.isidentifier()):
            raise ValueError(f"it has {name[:60]!r}, which is no state of this optimizer.")
        wanted = parameters[int(place)]
        # A fused kernel reads as much as the parameter has, whatever is there.
        short = optimizer.defaults.get("fused") and key != "step" and tensor.shape != wanted.shape
        if short or tensor.numel() > max(1, wanted.numel()) or not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"its {name[:60]} is not finite, or not of the size of the parameter.")
        number = tensor.dim() == 0 and tensor.dtype == torch.float64
        state.setdefault(int(place), {})[key] = float(tensor) if number else tensor
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})


def _wanted(optimizer: Adam) -> dict[str, Tensor]:
    """Tensors like those of the whole state, without their numbers."""
    wanted: dict[str, Tensor] = {}
    index = 0
    for group in optimizer.param_groups:
        moments = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else [])]
        for parameter in group["params"]:
            wanted |= {f"{_OPTIMIZER}{index}.{moment}": parameter.detach() for moment in moments}
            wanted[f"{_OPTIMIZER}{index}.step"] = torch.zeros((), dtype=torch.float32)
            index += 1
    return wanted
