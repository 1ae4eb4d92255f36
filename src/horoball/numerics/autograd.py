"""Hand-written gradients, and what becomes of them when they are differentiated again.

A backward that is written by hand is fast and accurate, and knows first derivatives only. Asked for more, it either
hands over to a plain formula that autograd differentiates as often as it likes (`differentiated_by`), or raises
(`first_order`). `torch.func` sees neither: inside its transforms (`kernels.transformed`) functions take
the plain formula from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from horoball.numerics.curvature import load

__all__ = ["differentiated_by", "first_order"]


class _NoSecondDerivative(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *linked: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        raise RuntimeError(
            "Second derivatives of this operation are not implemented. Use horoball.manifolds.gyrovector, which can be "
            "differentiated any number of times, or a gradient without create_graph=True."
        )


def first_order(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a backward as giving first derivatives only: differentiating its result raises.

    `torch.autograd.function.once_differentiable` stays silent when the incoming gradient needs no gradient itself: a
    gradient penalty would then count for nothing. The result is linked to all that it was computed from, so that
    `torch.autograd.functional.hessian` meets the error too, and not a gradient of zeros. The inputs have to be saved.

    Example:
        >>> from horoball import HyperbolicRadius, PoincareBall
        >>> scale = torch.ones((), requires_grad=True)
        >>> r = HyperbolicRadius(3, scale, PoincareBall()).rsample()
        >>> (g,) = torch.autograd.grad(r, scale, create_graph=True)
        >>> torch.autograd.grad(g, scale)
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
        linked = [x for x in (*grads, *ctx.saved_tensors) if isinstance(x, Tensor) and x.requires_grad]
        parts = result if isinstance(result, tuple) else (result,)
        marked = tuple(_NoSecondDerivative.apply(x, *linked) if isinstance(x, Tensor) else x for x in parts)
        return marked if isinstance(result, tuple) else marked[0]

    return guarded


def differentiated_by(plain: Callable[..., Tensor]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a backward as giving first derivatives, with a plain formula of the same function for higher ones.

    The plain formula takes the inputs of the function, whose tensors are the first that `curvature.save` has kept.

    Example:
        >>> from horoball.manifolds import PoincareBall
        >>> y = torch.zeros(2)
        >>> torch.autograd.functional.hessian(lambda z: PoincareBall().dist(z, y), torch.tensor([0.0, 2.0])).diag()[0]
        tensor(0.5000)
    """

    def mark(backward: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(backward)
        def guarded(ctx: Any, grad: Tensor, *rest: Any) -> Any:
            if torch.compiler.is_compiling() or not torch.is_grad_enabled():
                return backward(ctx, grad, *rest)
            c, saved = load(ctx)
            # Views, because a tensor that is two of the inputs would be given the gradient of both twice.
            given = *saved[: len(ctx.needs_input_grad) - 1], c
            inputs = [x.view_as(x) if isinstance(x, Tensor) else x for x in given]
            wanted = [i for i, needed in enumerate(ctx.needs_input_grad) if needed]
            found = torch.autograd.grad(
                plain(*inputs), [inputs[i] for i in wanted], grad, create_graph=True, materialize_grads=True
            )
            by_place = dict(zip(wanted, found, strict=True))
            return tuple(by_place.get(i) for i in range(len(inputs)))

        return guarded

    return mark
