"""What the commands share: the application, errors that a person can act on, tables of numbers."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as RichTable

if TYPE_CHECKING:
    from horoball.training.run import Run

__all__ = ["app"]

app = typer.Typer(
    name="horoball",
    help="Learn a map of a hierarchy: a variational auto-encoder on the Poincaré ball, from a table of numbers or "
    "from the edges of a graph.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
FIRST = os.environ.get("RANK", "0") == "0"  # of processes that torchrun started, one speaks
console = Console(stderr=True, quiet=not FIRST)


def for_people(command: Callable[..., None]) -> Callable[..., None]:
    """What a person can act on becomes one line and exit code 1; Ctrl-C says what is left, with exit code 130."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt as error:
            console.print(str(error) or "Stopped.", style="yellow", markup=False)
            raise typer.Exit(130) from None
        except (ValueError, OSError, FloatingPointError, TypeError, ImportError) as error:
            # Ranks that are quiet say what stopped them: those of `embed` may each be alone on a machine.
            who = "Error" if FIRST else f"Error on rank {os.environ['RANK']}"
            Console(stderr=True).print(f"{who}: {error}", style="red", markup=False, soft_wrap=True)
            raise typer.Exit(1) from None

    return run


Data = Annotated[
    str, typer.Argument(help="A .csv, .tsv, .parquet, .npy, .npz or .h5ad file, or a folder of .parquet files.")
]
RunFolder = Annotated[Path, typer.Argument(help="The folder that `horoball fit` wrote.")]
Label = Annotated[str | None, typer.Option(help="A column to keep aside, as the colour of a map.")]
Id = Annotated[str | None, typer.Option("--id", help="A column with the rows' names.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]


def number(option: str, given: str, word: str) -> float | str:
    """An option that is a number or a word."""
    try:
        return word if given == word else float(given)
    except ValueError:
        raise ValueError(f"{option} is a number or '{word}', got {given!r}.") from None


def is_parquet(output: Path) -> None:
    """Refuse to write a table to a file of another kind."""
    if output.suffix.lower() not in (".parquet", ".pq"):
        raise ValueError(f"The output is a Parquet file; give it a name that ends in .parquet, not {output.name!r}.")


def read_for(data: str, fitted: Run, ids: str | None = None) -> Any:
    """The table for a fitted model; its label column need not be there."""
    return fitted.read(data, ids)


def show(run: Run, folder: Path) -> None:
    """Print what a run is and how it went."""
    about = run.about
    model = about["model"]
    # The weights are those of the best validation loss, where one was watched.
    kept = min(run.history, key=lambda line: line.get("validation", -line["epoch"]), default={})
    numbers = {
        "run": str(folder),
        "rows × columns": f"{about['rows']:,} × {len(run.columns)}",
        "posterior": f"{model['posterior']}, d = {model['d']}, c = {run.model.ball.c_value:.4g}",
        "likelihood": model["likelihood"],
        "settings": _settings(about),
        "epochs": str(len(run.history)),
    }
    numbers |= {"best epoch": f"{kept['epoch']:.0f}"} if "validation" in kept else {}
    numbers |= {name: f"{kept[name]:.4f}" for name in ("loss", "kl", "validation") if name in kept}
    print_table(numbers)


def _settings(about: dict[str, Any]) -> str:
    """What the same command has to be given again to go on with a run."""
    model, training = about["model"], about.get("training", {})
    numbers = ("batch_size", "learning_rate", "beta", "distance_weight", "validation", "patience", "seed")
    asked = {"hidden": " ".join(map(str, model["hidden"])), "decoder": model["decoder"]}
    asked |= {name.replace("_", " "): f"{training[name]:g}" for name in numbers if name in training}
    asked |= {name: str(about[name]) for name in ("label", "ids") if about.get(name) is not None}
    asked |= {name: str(value) for name, value in about.get("reading", {}).items() if value}
    return ", ".join(f"{name} {value}" for name, value in asked.items())


def print_table(numbers: dict[str, str]) -> None:
    """A table for a person, JSON for a pipe."""
    if not FIRST:
        return
    if not sys.stdout.isatty():
        print(json.dumps(numbers, ensure_ascii=False))
        return
    table = RichTable(show_header=False)
    for name, value in numbers.items():
        table.add_row(name, value)
    Console().print(table, markup=False)


def log_to_console() -> None:
    """Let the library's messages be seen."""
    if not FIRST:
        return
    logger = logging.getLogger("horoball")
    logger.setLevel(logging.INFO)
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
