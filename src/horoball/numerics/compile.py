"""What a compiled graph is told of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["constant_when_compiled"]

F = TypeVar("F", bound=Callable[..., object])


def constant_when_compiled(function: F) -> F:
    """Let a compiled graph hold the result as a constant, and not trace through the function.

    `torch.compiler.assume_constant_result` sets the same mark, but imports all of Dynamo to do so, a second and more
    whenever a program starts. The tests that compile without a graph break hold torch to it.

    Example:
        >>> @constant_when_compiled
        ... def rule() -> tuple[float, ...]:
        ...     return (0.5, 0.5)
        >>> rule()
        (0.5, 0.5)
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
