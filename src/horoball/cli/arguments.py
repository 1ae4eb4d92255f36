"""Arguments that several commands share."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from horoball.cli.console import RefusedError
from horoball.options import FitOptions, Help, ReadingOptions, given, offered
from horoball.plugins import TABLE_FORMATS, Registry, one_of

if TYPE_CHECKING:
    from horoball.viewer.disc import View


class TableKind(StrEnum):
    """What the rows of a table are."""

    auto = "auto"
    numbers = "numbers"
    counts = "counts"
    cells = "cells"
    vectors = "vectors"
    mixed = "mixed"
    table = "table"  # as 0.1 called auto

    @property
    def rows(self) -> str:
        """The kind, as `horoball.tables.read` calls it."""
        return "auto" if self is TableKind.table else self.value


Data = Annotated[
    str, typer.Argument(help=f"A {one_of([*TABLE_FORMATS])} file, or a folder of .parquet files. Plugins add others.")
]


def given_path(text: str) -> Path:
    """A path or URL that a command reads or writes: paths of the command line are read by this."""
    from horoball.storage.stores import located

    try:
        return located(text)
    except ValueError as error:
        raise RefusedError(str(error)) from None


IS_PATH: dict[str, Any] = {"parser": given_path}
RunFolder = Annotated[Path, typer.Argument(help="The folder that `horoball fit` wrote.", parser=given_path)]
Label = Annotated[str | None, typer.Option(help="Column to keep aside, as the color of a map.")]
Id = Annotated[str | None, typer.Option("--id", help="Column with the names of the rows.")]
Na = Annotated[
    str | None,
    typer.Option(
        "--na",
        help="Texts or numbers that stand for a missing value, separated by commas, such as 'unknown,-999'; beside "
        "empty cells, NA, N/A, NaN, NULL, None, ? and errors of spreadsheets such as #DIV/0!.",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        help="Kinds of columns, such as 'age:real,rating:ordinal,id:skip'; the others are guessed. Kinds: real, "
        "positive, count, binary, category, ordinal, circular, date, skip."
    ),
]
Drop = Annotated[str | None, typer.Option(help="Columns to leave out, separated by commas.")]
Kind = Annotated[
    TableKind,
    typer.Option(
        help="What a row is: numbers or counts in columns that are alike, cells, vectors, compared by cosine, or mixed "
        "columns; auto to find out by the values."
    ),
]
VectorColumn = Annotated[
    str | None,
    typer.Option("--column", help="Of vectors: the column of lists that holds them, if there is more than one."),
]
Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write.", **IS_PATH)]
TableFile = Annotated[
    Path, typer.Option("--output", "-o", help="The file to write: .parquet, .csv, .tsv or .jsonl.", **IS_PATH)
]

Device = Annotated[str | None, typer.Option(help=str(offered(FitOptions)["device"][1]))]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.")]
Loggers = Annotated[
    list[str] | None,
    typer.Option(
        "--logger",
        help="Where metrics go beside the folder's own: tensorboard, csv, wandb (offline), mlflow (files), or a "
        'plugin\'s, with settings such as \'mlflow:{"tracking_uri": "…"}\'; may be repeated.',
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume the run in this directory.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]


def reading(
    kind: TableKind, id_: str | None, na: str | None, column: str | None, columns: str | None = None, drop: str = ""
) -> ReadingOptions:
    """How the rows of a file are read, from the options of a command."""
    from horoball.tables.cell_values import gap_words
    from horoball.tables.guess import parse_kinds

    return {
        "kind": kind.rows,
        "ids": id_,
        "columns": parse_kinds(columns) if columns else None,
        "drop": [name.strip() for name in drop.split(",") if name.strip()],
        "na": gap_words(na),
        "vectors": column,
    }


def takes_options(kind: type, *names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command options of a fit, in place of its argument `options`, which has those that were given.

    All of a table of `horoball.options` are taken, or those that are named.
    """
    table = {name: row for name, row in offered(kind).items() if not names or name in names}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for parameter in signature.parameters.values():
            mine = [_parameter(name, *row) for name, row in table.items()]
            parameters += mine if parameter.name == "options" else [parameter]

        @wraps(command)
        def run(*arguments: Any, **values: Any) -> None:
            asked = {name: _value(name, values.pop(name), said) for name, (_, said) in table.items()}
            command(*arguments, options=given(cast(FitOptions, asked)), **values)

        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _parameter(name: str, types: tuple[type, ...], said: Help) -> inspect.Parameter:
    """An option as typer takes it; one that is not given is None."""
    flag = "--" + {"d": "dim"}.get(name, name).replace("_", "-")
    kind: Any = next((each for each in (bool, float, int) if each in types and not said.words), str)
    kind = StrEnum(name.capitalize(), list(said.choices)) if said.choices else kind
    flags = f"{flag}/--no-{flag[2:]}" if kind is bool else flag
    option = typer.Option(flags, help=str(said), callback=_REGISTERED.get(name))
    annotation = Annotated[kind | None, option]
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation)


def _value(name: str, given: Any, said: Help) -> Any:
    if not said.words or given in (None, *said.words):
        return given.value if isinstance(given, StrEnum) else given
    try:
        return float(given)
    except ValueError:
        flag = "--" + name.replace("_", "-")
        words = " or ".join(f"'{word}'" for word in said.words)
        raise ValueError(f"{flag} is a number or {words}, got {given!r}.") from None


def _likelihood(name: str | None) -> str | None:
    """Reject a likelihood that is not registered, as a mistake in usage. Called after --help, which needs no torch."""
    from horoball.likelihoods.likelihood import LIKELIHOODS

    return name if name in (None, "auto") else _registered(LIKELIHOODS, name)


def _posterior(name: str | None) -> str | None:
    """Reject a posterior family that is not registered, in the same way."""
    from horoball.distributions.normal import POSTERIORS

    return None if name is None else _registered(POSTERIORS, name)


_REGISTERED = {"likelihood": _likelihood, "posterior": _posterior}


def _registered(registry: Registry[Any], name: str) -> str:
    try:
        registry.check(name)
    except (ImportError, ValueError) as error:  # ImportError: a plugin is broken
        raise typer.BadParameter(str(error)) from None
    return name


Force = Annotated[
    bool, typer.Option("--force", help="Replace a file that is there already. One that is read is never replaced.")
]


def rank_of(output: Path) -> tuple[int, int]:
    """Which of how many processes this is, by RANK and WORLD_SIZE; refuses one file of several processes."""
    rank, ranks = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1")))
    if output.suffix and ranks > 1:
        raise ValueError(f"{ranks} processes cannot write one file. Give a folder: -o {output.with_suffix('')}.")
    return rank, ranks


def by_rank(rank: int, ranks: int) -> str:
    """Who has written rows, if there are others who write, too."""
    return f" by process {rank + 1} of {ranks}" if ranks > 1 else ""


def check_outputs(
    *files: Path, force: bool, reads: Sequence[str | Path | None] = (), run: Path | None = None, command: str = ""
) -> None:
    """Refuse files that must not be written: they are read, or are there already and --force is not given.

    Args:
        files: What the command will write.
        force: Whether files that are there may be replaced.
        reads: Data that the command reads.
        run: The run that it reads.
        command: The command's name; pages that it wrote, and nobody has changed since, may be replaced.
    """
    from horoball.storage.outputs import check_files, is_sealed
    from horoball.training.state import RUN_FILES

    own = [file for file in files if command and file.suffix.lower() == ".html" and is_sealed(file, command)]
    of_run = [] if run is None else [run / name for name in RUN_FILES]
    check_files(files, reads=[*reads, *of_run], replace=force, own=own)


def check_page(file: Path) -> None:
    """Refuse a page that has not the name of one: with --force it would replace a model, say."""
    if file.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"A page is written to a file that ends in .html, not {file.name!r}.")


def save_page(page: View, file: Path, command: str) -> None:
    """Write a page that tells which command wrote it."""
    from horoball.storage.outputs import sealed
    from horoball.storage.whole import write_whole

    write_whole(file, sealed(page.html, command))
