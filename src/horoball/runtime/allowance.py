"""How much memory the contents of a file may take: what the user says, or a share of what the machine has."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["given_memory", "machine_memory", "max_memory", "parse_bytes"]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", re.IGNORECASE)
_VARIABLE = "HOROBALL_MAX_MEMORY"
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of containers: v2, v1
_UNKNOWN = 8 << 30  # bytes, where a system does not tell
_chosen: list[int] = []  # by the innermost `max_memory`


def parse_bytes(text: str) -> int:
    """A size as people write it, in bytes.

    Example:
        >>> parse_bytes("4GB"), parse_bytes("1.5 GiB"), parse_bytes("800000")
        (4000000000, 1610612736, 800000)
    """
    found = _SIZE.fullmatch(text)
    size = int(float(found[1]) * _UNITS[(found[2] or "").lower()]) if found else 0
    if size < 1:
        raise ValueError(f"Expected an amount of memory such as 4GB, 512MiB or a number of bytes, got {text[:40]!r}.")
    return size


@contextmanager
def max_memory(size: str | int) -> Iterator[None]:
    """Let the contents of a file take that much memory within, whatever the file's own size is.

    It holds for all threads of the process. Without it the variable HOROBALL_MAX_MEMORY counts, and without that
    contents are refused that are over 1,100 times as large as their file, or three quarters of the machine's memory.

    Args:
        size: Bytes, or text such as "4GB".

    Example:
        >>> with max_memory("2GB"):
        ...     given_memory()
        2000000000
    """
    _chosen.append(parse_bytes(str(size)))
    try:
        yield
    finally:
        _chosen.pop()


def given_memory() -> int | None:
    """What the user allows, in bytes; None if nothing was said.

    Example:
        >>> with max_memory(10**6):
        ...     given_memory()
        1000000
    """
    if _chosen:
        return _chosen[-1]
    text = os.environ.get(_VARIABLE)
    if not text:
        return None
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise ValueError(f"{_VARIABLE}: {error}") from None


def machine_memory() -> int:
    """Memory of the machine, or of the container that the process is in, in bytes.

    Example:
        >>> machine_memory() > 1 << 20
        True
    """
    found = []
    with suppress(AttributeError, ValueError, OSError):  # Windows has no sysconf
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in _CGROUPS:
        with suppress(OSError, ValueError):  # "max" is no limit
            found.append(int(Path(path).read_text().strip()))
    return min((size for size in found if size > 0), default=_UNKNOWN)
