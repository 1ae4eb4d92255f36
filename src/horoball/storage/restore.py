"""Models from files that may be anybody's: what a file holds is compared with what it describes before it is used."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from horoball.runtime.registry import UnknownNameError
from horoball.storage.checkpoint import this_version, written_by

__all__ = [
    "check_fields",
    "check_tensors",
    "check_weights",
    "model_tensors",
    "reject_incomplete",
    "stored_model",
    "stored_settings",
    "tensors_digest",
]

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
