"""Running out of memory, said in one way: torch has a RuntimeError for it, numpy and Python have MemoryError."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["OutOfMemoryError", "memory_asked"]

_BYTES = re.compile(r"allocate (\d+) bytes")
_SIZE = re.compile(r"allocate ([\d.]+ [KMGTPE]i?B)")
_TORCH = ("can't allocate memory", "not enough memory", "out of memory", "Storage size calculation overflowed")
_ADVICE = (
    "Use fewer or smaller hidden layers, a smaller batch size, or fewer rows at a time; .parquet files are streamed."
)


class OutOfMemoryError(MemoryError):
    """There is not enough memory for what was asked.

    Example:
        >>> issubclass(OutOfMemoryError, MemoryError)
        True
    """


@contextmanager
def memory_asked() -> Iterator[None]:
    """Turn any of the errors for lack of memory into one that says how much was asked for, and what to do.

    Raises:
        OutOfMemoryError: In place of the others.

    Example:
        >>> with memory_asked():
        ...     raise RuntimeError("can't allocate memory: you tried to allocate 4096000000000 bytes. Error code 12")
        Traceback (most recent call last):
        ...
        horoball.runtime.memory.OutOfMemoryError: Out of memory: 3.73 TiB were asked for at once. Use fewer ...
    """
    try:
        yield
    except OutOfMemoryError:
        raise
    except (MemoryError, RuntimeError) as error:
        text = str(error)
        if isinstance(error, RuntimeError) and not any(word in text for word in _TORCH):
            raise
        raise OutOfMemoryError(f"Out of memory{_asked(text)}. {_ADVICE}") from error


def _asked(text: str) -> str:
    """What was asked for, as far as the error says."""
    if found := _BYTES.search(text):
        size, unit = float(found[1]), "bytes"
        for larger in ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
            if size < 1024:
                break
            size, unit = size / 1024, larger
        return f": {size:.3g} {unit} were asked for at once"
    found = _SIZE.search(text)
    return f": {found[1]} were asked for at once" if found else ""
