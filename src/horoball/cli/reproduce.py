"""The command that runs the paper's experiments again: `horoball reproduce`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import horoball
from horoball.cli.console import app, reports_errors, say
from horoball.process import exit_code, finishing

__all__ = ["experiments_folder"]


class Experiment(StrEnum):
    """What can be run again."""

    table1 = "table1"
    table2 = "table2"
    table3 = "table3"
    table4 = "table4"
    figure7 = "figure7"
    figures = "figures"
    beyond = "beyond"


def experiments_folder() -> Path:
    """The repository's folder of experiments, which are not in the installed package.

    Example:
        >>> experiments_folder().name
        'experiments'
    """
    folder = Path(horoball.__file__).parents[2] / "experiments"
    if not (folder / "runs.py").exists():
        raise FileNotFoundError(
            "The experiments come with the repository, not with the package. Clone it, install it with `pip install "
            "-e .` in its folder, and ask again."
        )
    return folder


@app.command()
@reports_errors
def reproduce(
    experiment: Annotated[Experiment, typer.Argument(help="Which table, or the figures.")],
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Trainings of a cell; the paper's number if not given.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes, of one thread each.")] = 2,
) -> None:
    """Run a table or the figures of the paper again, in a clone of the repository, and print what comes out.

    Every run leaves a file; what is there already is not run again, so that the command can be stopped and repeated.

    Example: horoball reproduce table1
    """
    folder = experiments_folder()
    command = [sys.executable, "-m", f"experiments.{experiment.value}"]
    if experiment is not Experiment.figures:
        command += ["--workers", str(workers)]
        command += [] if seeds is None else ["--seeds", str(seeds)]
    environment = os.environ | {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    process = subprocess.Popen(command, cwd=folder.parent, env=environment)  # noqa: S603  no shell
    try:
        with finishing(60.0):  # the experiment hears Ctrl-C too, and has to end first
            code = _end_of(process)
    except KeyboardInterrupt:
        raise typer.Exit(exit_code()) from None
    if code:
        raise typer.Exit(code)
    say("`python -m experiments.render` puts the numbers into docs/reproduction.md.")


def _end_of(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process; Ctrl-C, which a terminal sends to it too, takes effect when it has ended."""
    try:
        return process.wait()
    except KeyboardInterrupt:
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:  # no terminal has sent it
            process.send_signal(signal.SIGINT)
            process.wait()
        raise
