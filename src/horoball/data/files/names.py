"""Names of files for people to read: a name on disk is bytes, which need not be text."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["check_text", "title_of"]


def title_of(path: str | Path) -> str:
    r"""The name of a file without its ending, with � in the place of bytes that are not UTF-8.

    Python keeps such bytes as lone surrogates, which no page and no JSON file can hold.

    Example:
        >>> title_of("data/cells.csv"), title_of("caf\udce9.csv")
        ('cells', 'caf�')
    """
    return os.fsencode(Path(path).stem).decode("utf-8", "replace")


def check_text(path: Path) -> None:
    r"""Refuse the name of a file or folder to write that is not UTF-8, before the work is done and cannot be kept.

    Checkpoints and Parquet files cannot be opened under such a name.

    Example:
        >>> check_text(Path("caf\udce9"))
        Traceback (most recent call last):
        ...
        ValueError: The name 'caf�' is not UTF-8. Files of a run and of results need a name that is; choose another one.
    """
    name = os.fsencode(path).decode("utf-8", "replace")
    if name != str(path):
        raise ValueError(
            f"The name {name!r} is not UTF-8. Files of a run and of results need a name that is; choose another one."
        )
