"""Files that are there whole or not at all, whenever their writer is stopped, is killed or runs out of space."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from horoball.training.lock import locked, release

__all__ = ["whole_file"]

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}


@contextmanager
def whole_file(path: Path, *, mark: str = "", flush: bool = True) -> Iterator[Path]:
    """The path to write a file under; it takes its name once it is written, and an error leaves nothing of it.

    What a process that was killed has left is written over.

    Args:
        path: The name it will have.
        mark: Put into the other name, where several processes may be writing; without one, a second is refused.
        flush: Wait until it is on the disk, so that a loss of power leaves the old file or the new one too.

    Raises:
        OSError: Neither errors of reading nor those that name a file are changed; if no space is left, the error says
            for which file.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "metrics.jsonl"
        >>> with whole_file(path) as part:
        ...     _ = part.write_text("{}")
        ...     path.exists()
        False
        >>> path.read_text()
        '{}'
    """
    part = path.with_name(f"{path.name}{mark}.part")
    lock = None if mark else locked(part, f"Another process is writing {path}", "name")
    try:
        yield part
        if flush:
            with part.open("rb+") as file:
                os.fsync(file.fileno())
        part.replace(path)
    except BaseException as error:
        with suppress(OSError):  # what went wrong first is what is said
            part.unlink()
        if isinstance(error, OSError) and error.errno in _NO_SPACE:
            kept = "what was there before is kept" if path.exists() else "nothing of it is left"
            named = OSError(
                f"No space is left to write {path}; {kept}. Free some space and give the same command again (fit: "
                "with --resume)."
            )
            named.errno = error.errno
            raise named from None
        raise
    finally:
        release(lock)
