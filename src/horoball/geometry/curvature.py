"""The curvature parameter c: a plain number, or a tensor of one element when its gradient is wanted.

Kernels and autograd functions take either; whether it is a tensor is asked here alone. Of a space it may be a parameter
too, and is a part of the weights that were learned with it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor, nn

from horoball.devices import has_float64
from horoball.geometry.kernels import wide

Curvature = float | Tensor
"""c ≥ 0: a number, or a tensor of one element when its gradient is wanted."""


def widened(c: Curvature) -> Any:
    """c in the wide dtype, see `wide`."""
    return wide(c) if isinstance(c, Tensor) else c


def value(c: Curvature) -> float:
    """c as a plain number, without a gradient."""
    return c.item() if isinstance(c, Tensor) else c


def is_zero(c: Curvature | None) -> bool:
    """Whether c is the number 0; a tensor never is, as its gradient at 0 is that of the limit."""
    return not isinstance(c, Tensor) and c == 0


def root(c: Curvature) -> Any:
    """√c."""
    return wide(c).sqrt() if isinstance(c, Tensor) else math.sqrt(c)


def positive(c: Curvature) -> Any:
    """c where it may divide: 1 stands for 0 in branches that are not taken.

    Example:
        >>> positive(0.0), positive(2.0)
        (1.0, 2.0)
    """
    return torch.where(c > 0, wide(c), 1.0) if isinstance(c, Tensor) else (c or 1.0)


def positive_root(c: Curvature) -> Any:
    """√c, and 1e-150 for c = 0, where it divides nothing but zeros; without the infinite slope of √ at 0."""
    if not isinstance(c, Tensor):
        return max(math.sqrt(c), 1e-150)
    least = 1e-150 if has_float64(c.device) else 1e-18  # whose square is still a number
    size = positive(c).sqrt()
    return torch.where(c > 0, size, least * size)  # two numbers alone would be of float32


def save(ctx: Any, c: Curvature, *tensors: Tensor) -> None:
    """Keep c and tensors for the backward of an autograd function; `load` gives them back."""
    ctx.c = None if isinstance(c, Tensor) else c
    ctx.save_for_backward(*tensors, *((c,) if isinstance(c, Tensor) else ()))


def load(ctx: Any) -> tuple[Any, list[Tensor]]:
    """What `save` kept: c and the tensors."""
    saved = list(ctx.saved_tensors)
    return (saved.pop() if ctx.c is None else ctx.c), saved


def grad_in(c: Tensor, terms: Tensor) -> Tensor:
    """The gradient in c, the sum of its terms, in the shape and dtype of c."""
    return terms.sum().to(c.dtype).reshape(c.shape)


class CurvedSpace(nn.Module):
    """A space of constant curvature −c ≤ 0; `PoincareBall` has its geometry.

    Args:
        c: Minus the curvature, c ≥ 0: a number, or a tensor of one element.
        learnable: Makes c a parameter: `c` is the softplus of `raw_c`, and starts at the given value.

    Example:
        >>> CurvedSpace(0.5, learnable=True).c_value
        0.5
    """

    def __init__(self, c: float | Tensor = 1.0, *, learnable: bool = False) -> None:
        super().__init__()
        if isinstance(c, Tensor) and c.numel() != 1:
            raise ValueError(f"PoincareBall expects one curvature, got c of shape {tuple(c.shape)}.")
        start = float(value(c))
        if not (math.isfinite(start) and start >= 0):
            hint = f" Pass c = {-start:g}?" if start < 0 else ""
            raise ValueError(f"PoincareBall expects c >= 0 (the curvature is -c), got c = {start:g}.{hint}")
        kind = c.dtype if isinstance(c, Tensor) and c.is_floating_point() else torch.get_default_dtype()
        if learnable:
            if start == 0:
                raise ValueError("A learnable c must start above 0, got 0. Start it small, for example at c = 0.1.")
            raw = start + math.log(-math.expm1(-start))  # the inverse of softplus
            self.raw_c = nn.Parameter(torch.full((), raw, dtype=kind))
            self._tied = [self.raw_c]  # one list for all views of the space; see `view`
        elif isinstance(c, Tensor):
            c = c.to(kind)
            self.register_buffer("_c", c.reshape(()) if c.dim() else c, persistent=False)
        else:
            self._c = start
        self.learnable = learnable

    @property
    def c(self) -> Curvature:
        """Minus the curvature."""
        return nn.functional.softplus(self.raw_c) if self.learnable else self._c

    def view(self) -> Self:
        """The same space for another module to hold: itself, or, where c is learned, one that shares the parameter.

        `torch.func.functional_call` puts another tensor in place of a parameter, and the parameter back afterwards,
        once for every path to it. In a module that has several paths it would leave the other tensor behind, and c
        would never be learned again.

        Example:
            >>> space = CurvedSpace(0.5, learnable=True)
            >>> space.view() is space, space.view().raw_c is space.raw_c, (fixed := CurvedSpace(0.5)).view() is fixed
            (False, True, True)
        """
        if not self.learnable:
            return self
        other = copy.copy(self)
        for name in ("_parameters", "_buffers", "_modules"):
            _set(other, name, dict(getattr(self, name)))
        return other

    def here(self) -> Self:
        """The space with the c that it has now, for what is used later: within a functional call, that of the call.

        Example:
            >>> space = CurvedSpace(0.5, learnable=True)
            >>> space.here() is space
            True
        """
        if not self.learnable or self.raw_c is self._tied[0] or torch.compiler.is_compiling():
            return self
        now = copy.copy(self)
        for name, held in (("_parameters", {}), ("_buffers", {"_c": self.c}), ("_modules", {})):
            _set(now, name, held)
        _set(now, "_non_persistent_buffers_set", {"_c"})
        _set(now, "learnable", False)
        return now

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        """Views that share a parameter go on sharing it when it is replaced, as by `to_empty`."""
        with self._sharing():
            return super()._apply(fn, recurse)

    @contextmanager
    def _sharing(self) -> Iterator[None]:
        first = self.learnable and self.raw_c is self._tied[0]  # no other view has been here before
        yield
        if first:
            self._tied[0] = self.raw_c
        elif self.learnable:
            self.raw_c = self._tied[0]

    @property
    def c_value(self) -> float:
        """c as a plain number, with all its digits and without a gradient."""
        return value(self.c)

    @property
    def is_euclidean(self) -> bool:
        """Whether c is the number 0, so that the Euclidean formulas are used as they stand."""
        return is_zero(None if self.learnable else self._c)

    def extra_repr(self) -> str:
        """The part of repr between parentheses."""
        return f"c={self.c_value:.6g}" + (", learnable=True" if self.learnable else "")

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """A fixed c goes with the weights: they mean something else on another ball."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if not self.learnable and not (isinstance(self._c, Tensor) and self._c.is_meta):
            destination[prefix + "c"] = torch.tensor(self.c_value, dtype=torch.float64, device="cpu")

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Refuse weights of another c; those that an earlier version has written do not say theirs."""
        held = None if self.learnable else state_dict.pop(prefix + "c", None)
        if held is not None and float(held) != self.c_value:
            errors = rest[-1]
            errors.append(
                f"The weights are of a ball with c = {float(held):g}, this one has c = {self.c_value:g}. Make it with "
                f"PoincareBall({float(held):g})."
            )
        with self._sharing():
            super()._load_from_state_dict(state_dict, prefix, *rest)


def _set(module: nn.Module, name: str, value: Any) -> None:
    """Set an attribute of a module as it stands, past what torch makes of parameters and buffers."""
    object.__setattr__(module, name, value)
