"""What is said about a command that was mistyped."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from horoball.cli.printable import printable
from horoball.runtime.stopping import PIPE_CLOSED

__all__ = ["Commands"]


class Commands(TyperGroup):
    """Commands whose usage errors name what there is, and print nothing that a terminal would act on.

    Example:
        >>> Commands(name="horoball").name
        'horoball'
    """

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Parse the options before a command's name."""
        try:
            return super().make_context(*arguments, **options)
        except Exception as error:
            raise _said(error, self) from None

    def invoke(self, ctx: Any) -> Any:
        """Parse a command's own options, and run it."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            raise _said(error, self) from None


def _said(error: Exception, group: TyperGroup) -> Exception:
    """A usage error with what is possible; the end of a command that nobody reads; any other error as it is."""
    if isinstance(error, BrokenPipeError):
        return typer.Exit(PIPE_CLOSED)
    context = getattr(error, "ctx", None)
    if context is None or not isinstance(getattr(error, "message", None), str):
        return error
    message = printable(error.message)  # type: ignore[attr-defined]
    if hasattr(error, "possibilities") and not error.possibilities:
        options = sorted(name for param in context.command.params for name in param.opts if name.startswith("--"))
        message += f". Options of {context.info_name}: {', '.join(options)}."
    elif message.startswith("No such command") and "Did you mean" not in message:
        message += f" Commands: {', '.join(group.list_commands(context))}."
    error.message = message  # type: ignore[attr-defined]
    return error
