"""Arguments that several commands share.

What commands write, looked at before they begin; see `horoball.storage.outputs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horoball.plugins import TABLE_FORMATS, Registry, one_of

if TYPE_CHECKING:
    from horoball.viewer.disc import View

__all__ = [
    "BatchSize",
    "Beta",
    "Curvature",
    "Data",
    "Device",
    "Dim",
    "Force",
    "Hidden",
    "Id",
    "Label",
    "LearningRate",
    "MaxEpochs",
    "Na",
    "Output",
    "Precision",
    "Quiet",
    "Resume",
    "RunFolder",
    "Seed",
    "TableFile",
    "TableKind",
    "check_outputs",
    "check_page",
    "given",
    "likelihood_name",
    "number",
    "posterior_name",
    "save_page",
]


class TableKind(StrEnum):
    """What the rows of a table are.

    Example:
        >>> TableKind("vectors").rows, TableKind("table").rows
        ('vectors', 'auto')
    """

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
RunFolder = Annotated[Path, typer.Argument(help="The folder that `horoball fit` wrote.")]
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
Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]
TableFile = Annotated[Path, typer.Option("--output", "-o", help="The file to write: .parquet, .csv, .tsv or .jsonl.")]

# Options of a fit. One that is not given is None: the defaults are those of `horoball.vae.options`, which help
# texts repeat (tests/cli/test_defaults.py compares them). To import them here would import torch, which takes seconds.
Dim = Annotated[
    int | None,
    typer.Option("--dim", help="Dimension of the ball. 2 or 3 draw a map; more keep more of the data. [default: 2]"),
]
Curvature = Annotated[
    str | None,
    typer.Option(
        "--c",
        help="Minus the curvature: a number, or 'learn'. Larger values leave more room for branches; 0 is the "
        "Euclidean model. Useful: 0.1 to 5. [default: 1.0]",
    ),
]
MaxEpochs = Annotated[
    int | None,
    typer.Option(
        help="Maximum number of epochs. Useful: 50 to 500. [default: auto, 400 steps for maps, otherwise until the "
        "validation loss stops falling; 200 for cells]"
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        help="Rows per step. Larger batches take fewer steps an epoch. Useful: 32 to 4096. [default: auto, 128 to 1024 "
        "by the number of rows; 128 for cells]"
    ),
]
LearningRate = Annotated[
    float | None,
    typer.Option(
        help="Learning rate of Adam. Larger values train faster, until training diverges. Useful: 1e-4 to 1e-2. "
        "[default: auto, 0.01 for maps and 0.001 otherwise]"
    ),
]
Hidden = Annotated[
    int | None,
    typer.Option(
        help="Size of one hidden layer. Larger values fit finer structure and need more rows. Useful: 32 to 600. "
        "[default: auto, two of 256 for maps, three from 8,000 rows on, and one of 200 otherwise; 128 for cells]"
    ),
]
Beta = Annotated[
    float | None,
    typer.Option(
        help="Weight of the KL divergence. Larger values pull the embedding to the prior. Useful: 0.1 to 10. "
        "[default: 1.0]"
    ),
]
Device = Annotated[
    str | None,
    typer.Option(help="Where it is computed: cpu, cuda, mps, or 'auto' for a GPU if there is one. [default: cpu]"),
]
Precision = Annotated[
    str | None,
    typer.Option(help="32-true, or bf16-mixed for matrix products in bfloat16. [default: 32-true]"),
]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.")]
Resume = Annotated[bool, typer.Option("--resume", help="Resume the run in this directory.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]


def given(**options: Any) -> dict[str, Any]:
    """Options that were given; the others have their defaults elsewhere.

    Example:
        >>> given(d=2, c=None)
        {'d': 2}
    """
    return {name: value for name, value in options.items() if value is not None}


def number(option: str, text: str | None, word: str) -> float | str | None:
    """An option that is a number or a word.

    Example:
        >>> number("--c", "0.5", "learn"), number("--c", "learn", "learn")
        (0.5, 'learn')
    """
    try:
        return text if text is None or text == word else float(text)
    except ValueError:
        raise ValueError(f"{option} is a number or '{word}', got {text!r}.") from None


def likelihood_name(name: str | None) -> str | None:
    """Reject a likelihood that is not registered, as a mistake in usage. Called after --help, which needs no torch.

    Example:
        >>> likelihood_name("auto"), likelihood_name("poisson")
        ('auto', 'poisson')
    """
    from horoball.likelihoods.likelihood import LIKELIHOODS

    return name if name in (None, "auto") else _registered(LIKELIHOODS, name)


def posterior_name(name: str | None) -> str | None:
    """Reject a posterior family that is not registered, in the same way.

    Example:
        >>> posterior_name("wrapped")
        'wrapped'
    """
    from horoball.distributions.normal import POSTERIORS

    return None if name is None else _registered(POSTERIORS, name)


def _registered(registry: Registry[Any], name: str) -> str:
    try:
        registry.check(name)
    except (ImportError, ValueError) as error:  # ImportError: a plugin is broken
        raise typer.BadParameter(str(error)) from None
    return name


Force = Annotated[
    bool, typer.Option("--force", help="Replace a file that is there already. One that is read is never replaced.")
]


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

    Example:
        >>> check_outputs(Path("rows.csv"), force=True)
    """
    from horoball.storage.outputs import check_files, is_sealed
    from horoball.training.state import RUN_FILES

    own = [file for file in files if command and file.suffix.lower() == ".html" and is_sealed(file, command)]
    of_run = [] if run is None else [run / name for name in RUN_FILES]
    check_files(files, reads=[*reads, *of_run], replace=force, own=own)


def check_page(file: Path) -> None:
    """Refuse a page that has not the name of one: with --force it would replace a model, say.

    Example:
        >>> check_page(Path("run/model.safetensors"))
        Traceback (most recent call last):
        ...
        ValueError: A page is written to a file that ends in .html, not 'model.safetensors'.
    """
    if file.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"A page is written to a file that ends in .html, not {file.name!r}.")


def save_page(page: View, file: Path, command: str) -> None:
    """Write a page that tells which command wrote it.

    Example:
        >>> import tempfile
        >>> from horoball.viewer import view
        >>> path = Path(tempfile.mkdtemp()) / "map.html"
        >>> save_page(view([[0.0, 0.0]]), path, "view")
        >>> check_outputs(path, force=False, command="view")
    """
    from horoball.storage.outputs import sealed
    from horoball.storage.whole import write_whole

    write_whole(file, sealed(page.html, command))
