"""A model from a file that may be anybody's: what it says of itself is compared with what it holds first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

__all__ = ["expect_whole", "load_weights", "stored_history", "stored_model"]

M = TypeVar("M", bound=nn.Module)
_PREFIX = "model."
_LONGEST = 300  # characters of what was wrong, which may repeat what a file says


@contextmanager
def expect_whole(path: Path, otherwise: str) -> Iterator[None]:
    """Say of which file it is that something is missing or wrong.

    Example:
        >>> with expect_whole(Path("model.safetensors"), "does not hold a whole model"):
        ...     {}["columns"]
        Traceback (most recent call last):
        ...
        ValueError: model.safetensors does not hold a whole model: it lacks 'columns'.
    """
    try:
        yield
    except KeyError as error:
        raise ValueError(f"{path} {otherwise}: it lacks {str(error)[:_LONGEST]}.") from None
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if type(error) is ValueError and str(path) in str(error):
            raise  # which says more
        first = next(iter(str(error).splitlines()), type(error).__name__)  # torch goes on for a line per weight
        raise ValueError(f"{path} {otherwise}: {first[:_LONGEST]}") from None


def stored_model(make: Callable[[], M], tensors: dict[str, Tensor]) -> M:
    """Make a model and give it its weights.

    Args:
        make: Makes the model as the file describes it. It is called twice, first without memory for the weights, so
            that a description of a huge model beside a few weights takes none.
        tensors: What is in the file; weights have names that begin with "model.".

    Raises:
        ValueError: The weights are not those of the description.

    Example:
        >>> held = {"model.weight": torch.ones(1, 2), "model.bias": torch.zeros(1)}
        >>> stored_model(lambda: nn.Linear(2, 1), held).weight.data
        tensor([[1., 1.]])
        >>> stored_model(lambda: nn.Linear(10**12, 1), held)
        Traceback (most recent call last):
        ...
        ValueError: Its weight has shape (1, 2), and its description wants (1, 1000000000000).
    """
    weights = _weights(tensors)
    with torch.device("meta"):
        wanted = {name: tuple(tensor.shape) for name, tensor in make().state_dict().items()}
    for name in sorted(wanted.keys() ^ weights.keys()):
        raise ValueError(f"Its description {'wants' if name in wanted else 'has no'} {name}.")
    for name, shape in wanted.items():
        if tuple(weights[name].shape) != shape:
            raise ValueError(f"Its {name} has shape {tuple(weights[name].shape)}, and its description wants {shape}.")
    # In the file's precision, whatever torch's default is now.
    model = make().to(next((tensor.dtype for tensor in weights.values() if tensor.is_floating_point()), torch.float32))
    model.load_state_dict(weights)
    return model


def stored_history(header: dict[str, Any]) -> list[dict[str, float]]:
    """The metrics of every epoch that a checkpoint holds, at its top or within the state of a run that goes on.

    Example:
        >>> stored_history({"state": {"history": [{"loss": 1.0}]}})
        [{'loss': 1.0}]
    """
    history = header.get("history") or header.get("state", {}).get("history", [])
    if not isinstance(history, list) or not all(isinstance(line, dict) for line in history):
        raise ValueError("its history is no list of epochs.")
    return history


def load_weights(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Put the weights of a checkpoint into a model that is there.

    Example:
        >>> linear = nn.Linear(2, 1)
        >>> load_weights(linear, {f"model.{name}": tensor for name, tensor in linear.state_dict().items()})
    """
    model.load_state_dict(_weights(tensors))


def _weights(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(_PREFIX): tensor for name, tensor in tensors.items() if name.startswith(_PREFIX)}
