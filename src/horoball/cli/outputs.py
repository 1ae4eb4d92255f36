"""What commands write, looked at before they begin; see `horoball.storage.outputs`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from horoball.viewer import View

__all__ = ["Force", "check_outputs", "check_page", "save_page"]

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
    from horoball.storage.atomic import write_whole
    from horoball.storage.outputs import sealed

    write_whole(file, sealed(page.html, command))
