"""One run in a folder at a time, and one writer of a file.

A file is locked as long as a process has it open, so the lock of one that was killed is gone with it. A run's folder is
taken before anything is read, so that one that cannot be written to is refused at once too.
"""

from __future__ import annotations

import errno
import logging
import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: runs are not kept apart there
    fcntl = None  # type: ignore[assignment]

__all__ = ["LOCK", "locked", "only_run", "release"]

LOCK = "run.lock"
_WITHOUT_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}  # of some network file systems
_log = logging.getLogger("horoball")
_mine = threading.local()  # folders that this thread has: `fit` may be called by what has taken the folder already


@contextmanager
def only_run(folder: Path | None) -> Iterator[None]:
    """Make a folder if it is not there, and refuse it while another run is in it.

    Of the processes that torchrun started, the first takes it for all. Without a folder nothing is done.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with only_run(folder):
        ...     [file.name for file in folder.iterdir()]
        ['run.lock']
        >>> list(folder.iterdir())
        []
    """
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    place, held = folder.resolve(), vars(_mine).setdefault("folders", set())
    if place in held or os.environ.get("RANK", "0") != "0":
        yield
        return
    file = locked(folder / LOCK, f"Another run is in {folder}", "folder")
    held.add(place)
    try:
        yield
    finally:
        held.discard(place)
        (folder / LOCK).unlink(missing_ok=True)  # while it is still locked
        release(file)


def locked(path: Path, busy: str, other: str) -> int | None:
    """A file that is open and locked, made if it is not there; where there are no such locks, it is only made.

    Args:
        path: The file.
        busy: What to say if another process has it.
        other: What to choose another of.

    Example:
        >>> import tempfile
        >>> release(locked(Path(tempfile.mkdtemp()) / "x.part", "Another process is writing x", "name"))
    """
    if fcntl is None:
        path.touch()
        return None
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        who = os.pread(file, 200, 0)
        os.close(file)
        named = who.decode() if who.startswith(b"process ") and who.isascii() else "a process that does not say which"
        raise ValueError(f"{busy}: {named}. Wait until it has ended, or choose another {other}.") from None
    except OSError as error:
        if error.errno not in _WITHOUT_LOCKS:
            os.close(file)
            raise
        _log.info("%s is on a file system without locks. Let no other process write there.", path.parent)
    if not _has_name(file, path):  # it was renamed or removed in between by who had it
        os.close(file)
        return locked(path, busy, other)
    with suppress(OSError):  # for the message alone: on a full disk the lock holds without it
        os.ftruncate(file, 0)
        os.pwrite(file, f"process {os.getpid()} on {platform.node()}".encode(), 0)
    return file


def release(file: int | None) -> None:
    """Give a lock back.

    Example:
        >>> release(None)
    """
    if file is not None:
        os.close(file)


def _has_name(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
