"""The curvature of a space: a number, a tensor or a parameter, and a part of the weights that were learned with it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from horoball.numerics.curvature import Curvature, is_zero, value

__all__ = ["CurvedSpace"]


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
        elif isinstance(c, Tensor):
            c = c.to(kind)
            self.register_buffer("_c", c.reshape(()) if c.dim() else c, persistent=False)
        else:
            self._c = start
        self.learnable = learnable

    @property
    def c(self) -> Curvature:
        """Minus the curvature.

        Example:
            >>> CurvedSpace(0.5, learnable=True).c
            tensor(0.5000, grad_fn=<SoftplusBackward0>)
        """
        return nn.functional.softplus(self.raw_c) if self.learnable else self._c

    @property
    def c_value(self) -> float:
        """c as a plain number, with all its digits and without a gradient.

        Example:
            >>> CurvedSpace(0.3).c_value, CurvedSpace(0.5, learnable=True).c_value
            (0.3, 0.5)
        """
        return value(self.c)

    @property
    def is_euclidean(self) -> bool:
        """Whether c is the number 0, so that the Euclidean formulas are used as they stand.

        Example:
            >>> CurvedSpace(0.0).is_euclidean
            True
        """
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
        super()._load_from_state_dict(state_dict, prefix, *rest)
