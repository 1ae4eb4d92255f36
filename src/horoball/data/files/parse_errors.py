"""Whatever a parser makes of a broken file, users get one sentence that names it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["parsing"]

_LONGEST = 200  # characters of a parser's own words
# What these say is true of the file system or of what is installed, and not of what the file holds.
_PASSED = (FileNotFoundError, PermissionError, IsADirectoryError, ConnectionError, TimeoutError, ImportError)


@contextmanager
def parsing(path: str | Path, kind: str | None = None) -> Iterator[None]:
    """Turn what parsers raise into a `ValueError` of one sentence; errors that name the file pass as they are.

    Parsers of damaged files raise whatever they stumble over: `KeyError`, `OSError`, `struct.error`, errors of their
    own. The first of them stays the cause of the one that is raised.

    Args:
        path: The file that is read within.
        kind: What it should be; "file" with its ending if not given.

    Example:
        >>> with parsing("rows.npz"):
        ...     {}["data"]
        Traceback (most recent call last):
        ...
        ValueError: rows.npz is not a readable .npz file: it lacks 'data'. It may be damaged or of another kind...
    """
    try:
        yield
    except _PASSED:
        raise
    except MemoryError as error:
        raise ValueError(
            f"{path} asks for more memory than there is: {_words(error)}. It may be damaged; if it is not, take a part "
            "of it, or a .parquet file, which is read bit by bit."
        ) from error
    except Exception as error:
        if type(error) in (ValueError, TypeError) and str(path) in str(error):
            raise
        kind = kind or f"{Path(path).suffix} file".strip()
        raise ValueError(
            f"{path} is not a readable {kind}: {_words(error)}. It may be damaged or of another kind; use another "
            "copy, or save it again."
        ) from error


def _words(error: BaseException) -> str:
    """The first line of what an error says, cut."""
    if isinstance(error, UnicodeDecodeError):
        return "it holds text that is not UTF-8"
    if type(error) is KeyError:
        return f"it lacks {str(error)[:_LONGEST]}"
    line = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    return line[:_LONGEST].rstrip(" .:")
