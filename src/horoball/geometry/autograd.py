"""Hand-written gradients, and what becomes of them when they are differentiated again.

A backward that is written by hand is fast and accurate, and knows first derivatives only. Asked for more, it either
hands over to a plain formula that autograd differentiates as often as it likes (`differentiated_by`, `again`), or
raises (`first_order`). `torch.func` sees neither: inside its transforms (`kernels.transformed`) functions take the
plain formula from the start.

`constant_when_compiled` and `Constants` keep what follows from settings out of compiled graphs and state dicts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn

from horoball.geometry.curvature import load

F = TypeVar("F", bound=Callable[..., object])


def constant_when_compiled(function: F) -> F:
    """Let a compiled graph hold the result as a constant, and not trace through the function.

    `torch.compiler.assume_constant_result` sets the same mark, but imports all of Dynamo to do so, a second and more
    whenever a program starts. The tests that compile without a graph break hold torch to it.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


class Constants(nn.Module):
    """A module with constant buffers, which are not in its state dict.

    Made on the meta device they have no numbers, and no state dict brings them: `to_empty` would leave whatever is in
    memory. They are made anew instead.
    """

    def constants(self) -> dict[str, Tensor]:
        """The buffers by name, from the module's settings alone."""
        return {}

    def keep_constants(self) -> None:
        """Register the buffers; to be called when the settings are known."""
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


class _NoSecondDerivative(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *linked: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        raise RuntimeError(
            "Second derivatives of this operation are not implemented. Use horoball.geometry.gyrovector, which can be "
            "differentiated any number of times, or a gradient without create_graph=True."
        )


def first_order(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a backward as giving first derivatives only: differentiating its result raises.

    `torch.autograd.function.once_differentiable` stays silent when the incoming gradient needs no gradient itself: a
    gradient penalty would then count for nothing. The result is linked to all that it was computed from, so that
    `torch.autograd.functional.hessian` meets the error too, and not a gradient of zeros. The inputs have to be saved.
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
    """

    def mark(backward: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(backward)
        def guarded(ctx: Any, grad: Tensor, *rest: Any) -> Any:
            if torch.compiler.is_compiling() or not torch.is_grad_enabled():
                return backward(ctx, grad, *rest)
            c, saved = load(ctx)
            return again(plain, (*saved[: len(ctx.needs_input_grad) - 1], c), ctx.needs_input_grad, grad)

        return guarded

    return mark


def again(plain: Callable[..., Any], inputs: Sequence[Any], needed: Sequence[bool], *grads: Tensor | None) -> Any:
    """The gradients of a function once more, by a formula that autograd differentiates any number of times.

    Args:
        plain: The formula; its outputs are as many as there are gradients.
        inputs: What it takes.
        needed: Whether the gradient in each is wanted, or in more than there are.
        grads: The gradients in its outputs, if they are known.
    """
    # Views, because a tensor that is two of the inputs would be given the gradient of both twice.
    views = [x.view_as(x) if isinstance(x, Tensor) else x for x in inputs]
    found = plain(*views)
    made = found if isinstance(found, tuple) else (found,)
    known = [(y, g) for y, g in zip(made, grads, strict=True) if g is not None]
    wanted = [i for i, one in enumerate(needed) if one]
    outputs, given = zip(*known, strict=True)
    parts = torch.autograd.grad(outputs, [views[i] for i in wanted], given, create_graph=True, materialize_grads=True)
    by_place = dict(zip(wanted, parts, strict=True))
    return tuple(by_place.get(i) for i in range(len(needed)))


class _Known(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, work: Any, recording: bool, *inputs: Tensor) -> Tensor:
        wanted = recording and any(ctx.needs_input_grad)
        value, rates = work(wanted)
        if wanted:
            ctx.save_for_backward(*rates, *inputs)
        return value

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        needed = ctx.needs_input_grad[2:]
        rates, inputs = ctx.saved_tensors[: len(needed)], ctx.saved_tensors[len(needed) :]
        parts = [
            (grad.to(rate.dtype) * rate).sum_to_size(x.shape).to(x.dtype) if one else None
            for rate, x, one in zip(rates, inputs, needed, strict=True)
        ]
        return None, None, *parts


def known(work: Callable[[bool], tuple[Tensor, Sequence[Tensor]]], *inputs: Tensor) -> Tensor:
    """A value whose derivatives are known as soon as it is: they are kept, and nothing else is.

    Args:
        work: From whether derivatives are wanted to the value and its derivatives in the inputs, of shapes that
            broadcast to the input's and the value's: the gradient is summed over what an input has not. It is called
            once, without recording.
        inputs: What the value is differentiated by, once.
    """
    return _Known.apply(work, torch.is_grad_enabled(), *inputs)
