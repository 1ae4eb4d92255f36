"""Buffers that follow from a module's settings, and are no part of its weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

__all__ = ["Constants"]


class Constants(nn.Module):
    """A module with constant buffers, which are not in its state dict.

    Made on the meta device they have no numbers, and no state dict brings them: `to_empty` would leave whatever is in
    memory. They are made anew instead.

    Example:
        >>> class Shifted(Constants):
        ...     def __init__(self) -> None:
        ...         super().__init__()
        ...         self.keep_constants()
        ...     def constants(self) -> dict[str, Tensor]:
        ...         return {"shift": torch.ones(2)}
        >>> with torch.device("meta"):
        ...     module = Shifted()
        >>> module.to_empty(device="cpu").shift
        tensor([1., 1.])
    """

    def constants(self) -> dict[str, Tensor]:
        """The buffers by name, from the module's settings alone.

        Example:
            >>> Constants().constants()
            {}
        """
        return {}

    def keep_constants(self) -> None:
        """Register the buffers; to be called when the settings are known.

        Example:
            >>> Constants().keep_constants()
        """
        for name, value in self.constants().items():
            self.register_buffer(name, value, persistent=False)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        names = (
            self.constants() if any(buffer is not None and buffer.is_meta for buffer in self._buffers.values()) else {}
        )
        before = {name: held for name in names if (held := self._buffers[name]) is not None and held.is_meta}
        super()._apply(fn, recurse)
        if any(not getattr(self, name).is_meta for name in before):
            with torch.device("cpu"):
                made = self.constants()
            for name, was in before.items():
                now = getattr(self, name)
                # By way of the dtype that it had: a change of precision does not bring digits.
                self._buffers[name] = made[name].to(was.dtype).to(device=now.device, dtype=now.dtype)
        return self
