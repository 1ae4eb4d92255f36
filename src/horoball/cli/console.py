"""The application, and the one way to a person's terminal: results, messages, warnings and errors.

Note [Terminal]: names of files, columns, labels and nodes come from others, and a terminal obeys what it is sent. So
everything that is printed goes through `say` or `print_table`. Characters that a terminal acts on or does not show are
replaced by visible ones, and nothing is read as markup.
"""

from __future__ import annotations

import json
import logging
import math
import os
import shlex
import sys
import time
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text
from typer.core import TyperGroup

from horoball.process import PIPE_CLOSED, exit_code, interrupted, memory_asked

_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control, format (bidi, zero-width), lone surrogates, line separators


def printable(text: object) -> str:
    r"""Text with every character that a terminal acts on or does not show replaced by a visible one.

    Control characters become their pictures, others their numbers.
    """
    return "".join(map(_seen, str(text)))


def json_line(value: Any) -> str:
    r"""JSON on one line, with no such character either: what cannot be seen is escaped, NaN and infinity are null."""
    written = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)
    return "".join(json.dumps(char)[1:-1] if unicodedata.category(char) in _UNSEEN else char for char in written)


def _seen(char: str) -> str:
    if char.isprintable() or unicodedata.category(char) not in _UNSEEN:
        return char
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"\\u{code:04x}"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class RefusedError(Exception):
    """A path that is refused as the command line is read: one line, and exit code 1."""


class Commands(TyperGroup):
    """Commands whose usage errors name what there is, and print nothing that a terminal would act on."""

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
    if isinstance(error, RefusedError):
        _say_error(str(error))
        return typer.Exit(1)
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


app = typer.Typer(
    name="horoball",
    cls=Commands,
    help="Learn a map of a hierarchy: a variational auto-encoder on the Poincaré ball, from a table of numbers or "
    "from the edges of a graph.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
FIRST = os.environ.get("RANK", "0") == "0"  # of processes that torchrun started, one speaks
console = Console(stderr=True, quiet=not FIRST, markup=False, emoji=False)


def import_plugins(names: list[str] | None) -> list[str] | None:
    """Import the modules that --plugin names."""
    from horoball.plugins import import_plugin

    for name in names or ():
        try:
            import_plugin(name)
        except ImportError as error:
            raise typer.BadParameter(str(error), param_hint="--plugin") from None
    return names


PLUGIN_HELP = "A module, or a .py file, that registers classes of your own; of any command, before its name."


def _version(asked: bool) -> None:
    if asked:
        print(f"horoball {version('horoball')}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    version_: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    max_memory: Annotated[
        str | None,
        typer.Option(
            "--max-memory",
            help="Memory that the contents of one file may take, such as 4GB. Files that grow more than that, or "
            "without it more than 1,100 times their size, are refused. [default: HOROBALL_MAX_MEMORY]",
        ),
    ] = None,
    plugin: Annotated[list[str] | None, typer.Option("--plugin", help=PLUGIN_HELP)] = None,
) -> None:
    """Options before a command's name."""
    import_plugins(plugin)
    if max_memory is not None:
        from horoball.process import max_memory as allow

        try:
            context.with_resource(allow(max_memory))
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--max-memory") from None


def say(text: object, style: str = "", *, every_rank: bool = False) -> None:
    """Print one line for a person, on stderr.

    Args:
        text: What to say; it may hold text from others.
        style: A color.
        every_rank: Whether processes that are quiet otherwise say it too.
    """
    to = Console(stderr=True, markup=False, emoji=False) if every_rank else console
    from horoball.storage.stores import without_secrets

    to.print(Text(printable(without_secrets(str(text))), style), soft_wrap=True)


def command_line(*words: object) -> str:
    """A command as a person can copy it: words with spaces or signs of the shell are quoted."""
    return shlex.join(map(str, words))


def print_table(results: dict[str, Any]) -> None:
    """Print results: a table at a terminal, JSON with numbers as numbers in a pipe.

    Args:
        results: Texts, whole numbers and floats by name, or lists and dicts of these.
    """
    if not FIRST:
        return
    if not at_terminal():
        print(json_line(results))
        return
    table = RichTable(show_header=False)
    for name, value in results.items():
        table.add_row(Text(printable(name)), Text(printable(_shown(value))))
    Console(markup=False, emoji=False).print(table)


@contextmanager
def bar(what: str, stopped: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Progress of work that may take minutes: a bar at a terminal, elsewhere a line every half minute.

    It yields a function of how much is done, and of how much; `stopped` says what Ctrl-C leaves behind.
    """
    from rich.progress import Progress

    from horoball.training.progress import EVERY, duration

    began = told = time.monotonic()
    with Progress(console=console, transient=True, disable=quiet or not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)

        def tell(done: int, of: int) -> None:
            nonlocal told
            progress.update(task, completed=done, total=of)
            now = time.monotonic()
            if not (console.is_terminal or quiet) and now - told >= EVERY and 0 < done < of:
                told = now
                say(f"{what}: {done:,} of {of:,}, {duration((now - began) * (of / done - 1))} left")

        try:
            yield tell
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"Stopped. {stopped}") from None


def at_terminal() -> bool:
    """Whether results are read by a person."""
    return sys.stdout.isatty()


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items())
    if isinstance(value, list):
        return " ".join(map(_shown, value))
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def reports_errors(command: Callable[..., None]) -> Callable[..., None]:
    """What a person can act on becomes one line and exit code 1; Ctrl-C says what is left, with exit code 130.

    Another signal has its own: 143 for SIGTERM, 129 for SIGHUP.
    """

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        from horoball.storage.settings import called  # brings numpy, which --help does not need
        from horoball.storage.stores import StorePath, located
        from horoball.tables.limits import check_text

        log_to_console(logging.WARNING)
        try:
            for value in options.values():
                for path in value if isinstance(value, list) else [value]:
                    # Runs and outputs; data, which are given as text, may have any name.
                    if isinstance(path, Path) and not isinstance(located(path), StorePath):
                        check_text(path)
            with warnings.catch_warnings(), memory_asked(), called(d="dim"):
                warnings.showwarning = _warn
                command(*arguments, **options)
        except KeyboardInterrupt as error:
            with suppress(OSError):  # the terminal may be gone
                say(str(error) or "Stopped.", "yellow")
            raise typer.Exit(exit_code()) from None
        except BrokenPipeError:  # `| head` has read enough: see `Commands`
            raise
        except (ValueError, OSError, FloatingPointError, TypeError, ImportError, MemoryError) as error:
            if interrupted():  # an import or a callback has made another error of it
                raise typer.Exit(exit_code()) from None
            _say_error(str(error) or type(error).__name__)
            raise typer.Exit(1) from None

    return run


def _say_error(text: str) -> None:
    # Ranks that are quiet say what stopped them: those of `embed` may each be alone on a machine.
    who = "Error" if FIRST else f"Error on rank {os.environ['RANK']}"
    say(f"{who}: {text}", "red", every_rank=True)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning for a person: what it says, without the line of code that says it."""
    say(f"Warning: {message}", "yellow")


class _ToConsole(logging.Handler):
    """Log messages as lines for a person."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a message."""
        say(self.format(record))


def log_to_console(level: int = logging.INFO) -> None:
    """Let the library's messages be seen, from a level on."""
    if not FIRST:
        return
    logger = logging.getLogger("horoball")
    logger.setLevel(level)
    if not logger.handlers:
        logger.addHandler(_ToConsole())
