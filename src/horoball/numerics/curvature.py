"""The curvature parameter c in kernels: a plain number, or a tensor of one element when its gradient is wanted.

Kernels and autograd functions take either. Whether it is a tensor is asked here alone.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from horoball.numerics.kernels import wide
from horoball.runtime.devices import has_float64

__all__ = ["Curvature", "grad_in", "is_zero", "load", "positive", "positive_root", "root", "save", "value", "widened"]

Curvature = float | Tensor
"""c ≥ 0: a number, or a tensor of one element when its gradient is wanted."""


def widened(c: Curvature) -> Any:
    """c in the wide dtype, see `wide`.

    Example:
        >>> widened(torch.tensor(2.0)).dtype, widened(2.0)
        (torch.float64, 2.0)
    """
    return wide(c) if isinstance(c, Tensor) else c


def value(c: Curvature) -> float:
    """c as a plain number, without a gradient.

    Example:
        >>> value(torch.tensor(2.0))
        2.0
    """
    return c.item() if isinstance(c, Tensor) else c


def is_zero(c: Curvature | None) -> bool:
    """Whether c is the number 0; a tensor never is, as its gradient at 0 is that of the limit.

    Example:
        >>> is_zero(0.0), is_zero(torch.tensor(0.0))
        (True, False)
    """
    return not isinstance(c, Tensor) and c == 0


def root(c: Curvature) -> Any:
    """√c.

    Example:
        >>> root(4.0)
        2.0
    """
    return wide(c).sqrt() if isinstance(c, Tensor) else math.sqrt(c)


def positive(c: Curvature) -> Any:
    """c where it may divide: 1 stands for 0 in branches that are not taken.

    Example:
        >>> positive(0.0), positive(2.0)
        (1.0, 2.0)
    """
    return torch.where(c > 0, wide(c), 1.0) if isinstance(c, Tensor) else (c or 1.0)


def positive_root(c: Curvature) -> Any:
    """√c, and 1e-150 for c = 0, where it divides nothing but zeros; without the infinite slope of √ at 0.

    Example:
        >>> positive_root(4.0)
        2.0
    """
    if not isinstance(c, Tensor):
        return max(math.sqrt(c), 1e-150)
    least = 1e-150 if has_float64(c.device) else 1e-18  # whose square is still a number
    return positive(c).sqrt() * torch.where(c > 0, 1.0, least)


def save(ctx: Any, c: Curvature, *tensors: Tensor) -> None:
    """Keep c and tensors for the backward of an autograd function; `load` gives them back.

    Example:
        >>> class Scaled(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x, c):
        ...         save(ctx, c, x)
        ...         return c * x
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         c, (x,) = load(ctx)
        ...         return c * grad, grad_in(c, grad * x) if ctx.needs_input_grad[1] else None
        >>> c = torch.tensor(2.0, requires_grad=True)
        >>> Scaled.apply(torch.tensor([1.0, 3.0]), c).sum().backward(); c.grad
        tensor(4.)
    """
    ctx.c = None if isinstance(c, Tensor) else c
    ctx.save_for_backward(*tensors, *((c,) if isinstance(c, Tensor) else ()))


def load(ctx: Any) -> tuple[Any, list[Tensor]]:
    """What `save` kept: c and the tensors.

    Example:
        >>> from types import SimpleNamespace
        >>> load(SimpleNamespace(c=2.0, saved_tensors=(torch.ones(1),)))
        (2.0, [tensor([1.])])
    """
    saved = list(ctx.saved_tensors)
    return (saved.pop() if ctx.c is None else ctx.c), saved


def grad_in(c: Tensor, terms: Tensor) -> Tensor:
    """The gradient in c, the sum of its terms, in the shape and dtype of c.

    Example:
        >>> grad_in(torch.tensor([1.0]), torch.ones(3, dtype=torch.float64))
        tensor([3.])
    """
    return terms.sum().to(c.dtype).reshape(c.shape)
