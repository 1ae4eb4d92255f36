"""Hand-written gradients that say so when a second derivative is asked of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

__all__ = ["first_order"]


class _NoSecondDerivative(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        raise RuntimeError(
            "Second derivatives of this operation are not implemented. Use horoball.manifolds.gyrovector, which can be "
            "differentiated any number of times, or a gradient without create_graph=True."
        )


def first_order(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a backward as giving first derivatives only.

    `torch.autograd.function.once_differentiable` stays silent when the incoming gradient needs no gradient itself: a
    gradient penalty would then count for nothing. Here differentiating the result raises.

    Example:
        >>> from horoball.manifolds import PoincareBall
        >>> z = torch.ones(2, requires_grad=True)
        >>> (g,) = torch.autograd.grad(PoincareBall().dist(z, torch.zeros(2)), z, create_graph=True)
        >>> g.sum().backward()
        Traceback (most recent call last):
        ...
        RuntimeError: Second derivatives of this operation are not implemented...
    """

    @wraps(backward)
    def guarded(ctx: Any, *grads: Tensor) -> Any:
        if torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return backward(ctx, *grads)
        with torch.no_grad():
            result = backward(ctx, *grads)
        parts = result if isinstance(result, tuple) else (result,)
        marked = tuple(_NoSecondDerivative.apply(x.requires_grad_()) if isinstance(x, Tensor) else x for x in parts)
        return marked if isinstance(result, tuple) else marked[0]

    return guarded
