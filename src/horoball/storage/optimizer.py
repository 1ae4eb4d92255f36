"""The state of Adam as named tensors, which are checked before Adam sees them.

Adam's fused kernel takes a moment for as large as its parameter without looking: one of another shape would be read and
written beyond its end.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.optim import Adam

from horoball.storage.restore import check_tensors

__all__ = ["load_optimizer", "optimizer_tensors"]

_PREFIX = "optimizer."


def optimizer_tensors(optimizer: Adam) -> dict[str, Tensor]:
    """The state of an optimizer as named tensors; none before its first step.

    A parameter that has had no gradient yet has the state that Adam would begin with.

    Example:
        >>> w = torch.nn.Parameter(torch.ones(2)); optimizer = torch.optim.Adam([w])
        >>> w.sum().backward(); optimizer.step()
        >>> sorted(optimizer_tensors(optimizer))
        ['optimizer.0.exp_avg', 'optimizer.0.exp_avg_sq', 'optimizer.0.step']
    """
    state = optimizer.state_dict()["state"]
    if not state:
        return {}
    start = {name: torch.zeros_like(like) for name, like in _wanted(optimizer).items()}
    return start | {f"{_PREFIX}{index}.{key}": value for index, held in state.items() for key, value in held.items()}


def load_optimizer(optimizer: Adam, tensors: dict[str, Tensor]) -> None:
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
    held = {name: tensor for name, tensor in tensors.items() if name.startswith(_PREFIX)}
    if not held:
        return
    check_tensors(held, _wanted(optimizer))
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in held.items():
        index, key = name.removeprefix(_PREFIX).split(".")
        if key != "exp_avg" and bool((tensor < 0).any()):
            raise ValueError(f"its {name} is negative.")
        if key == "step" and float(tensor) != int(tensor):
            raise ValueError(f"its {name} is {float(tensor):g}, not a number of steps.")
        state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})


def _wanted(optimizer: Adam) -> dict[str, Tensor]:
    """Tensors like those of the whole state, without their numbers."""
    wanted: dict[str, Tensor] = {}
    index = 0
    for group in optimizer.param_groups:
        moments = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else [])]
        for parameter in group["params"]:
            wanted |= {f"{_PREFIX}{index}.{moment}": parameter.detach() for moment in moments}
            wanted[f"{_PREFIX}{index}.step"] = torch.zeros((), dtype=torch.float32)
            index += 1
    return wanted
