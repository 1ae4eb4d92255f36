"""Commands as a person gives them: what they say, and how they refuse."""

from __future__ import annotations

import logging
import warnings

from click.testing import Result
from typer.testing import CliRunner

from horoball.cli import app
from horoball.graphs import LeakWarning

# What a command chose by itself, or made of a file, may be told before it refuses.
_TOLD = (
    "Columns:",
    "  ",
    "Took the first line of ",
    "Dropped ",
    "Counts: ",
    "Likelihood: ",
    "Scaling: ",
    "Distance weight: ",
    "Names: ",
    "Columns:",
    "  ",
)


def run(*arguments: object) -> Result:
    logging.getLogger("horoball").handlers.clear()  # they write to the terminal of the command before
    with warnings.catch_warnings():
        warnings.simplefilter("default", LeakWarning)  # as it is outside of the tests
        return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(*arguments: object) -> Result:
    """The result of a command that is to succeed."""
    result = run(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def refused(*arguments: object) -> str:
    """The one line with which a command is to refuse."""
    result = run(*arguments)
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.exit_code == 1
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if not line.startswith(_TOLD)]
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("Error: ")
    return lines[0]
