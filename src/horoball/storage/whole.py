"""Files that are whole or not there: atomic writes, and locks.

One run in a folder at a time, and one writer of a file. A file is locked as long as a process has it open, so the lock
of a process that was killed is gone with it. A run's folder is locked before anything is read, so that a folder that
cannot be written to is refused at once too.

Files that are there whole or not at all, whenever their writer is stopped, is killed or runs out of space. A file is
written under another name in the same folder and renamed when it is whole. The other name is always that of a new file,
and a link is never written through: see `folder`. Everything that horoball writes goes through here.
"""

from __future__ import annotations

import errno
import logging
import os
import platform
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from horoball.storage.outputs import Folder, open_folder
from horoball.storage.stores import StorePath, located, spooled

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed, which serves as well
    fcntl = None  # type: ignore[assignment]


LOCK = "run.lock"
_WITHOUT_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}  # of some network file systems
_MARK = re.compile(rb"process \d+ on [^\n]*")  # what a lock holds
_LONGEST_MARK = 400
_log = logging.getLogger("horoball")
_mine = threading.local()  # folders that this thread has: `fit` may be called by what has locked the folder already


@contextmanager
def only_run(folder: Path | None) -> Iterator[None]:
    """Make a folder if it is not there, and refuse it while another run is in it.

    Of the processes that torchrun started, the first locks it for all. Without a folder nothing is done.

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
    folder = located(folder)
    folder.mkdir(parents=True, exist_ok=True)
    place, held = folder.resolve(), vars(_mine).setdefault("folders", set())
    if place in held or os.environ.get("RANK", "0") != "0":
        yield
        return
    if isinstance(folder, StorePath):
        from horoball.storage.leases import leased  # which runs of this machine do not need

        with leased(folder):
            held.add(place)
            try:
                yield
            finally:
                held.discard(place)
        return
    with open_folder(folder) as opened:
        file = lock_file(opened, LOCK, f"Another run is in {folder}", "folder", marked=True)
        held.add(place)
        try:
            yield
        finally:
            held.discard(place)
            if fcntl is None:
                os.close(file)
                opened.remove(LOCK)
            else:
                opened.remove(LOCK)  # while it is still locked
                os.close(file)


def lock_file(folder: Folder, name: str, busy: str, other: str, *, marked: bool = False) -> int:
    """Create a file and lock it; one that a killed process has left is removed first, never written to.

    Args:
        folder: The folder.
        name: Name of the file.
        busy: What to say if another process has it.
        other: What to choose another of.
        marked: Whether a file that is left must say that a process of ours made it: somebody else may have given that
            name to a file, which is refused then.

    Returns:
        The open file, which is locked until it is closed.

    Example:
        >>> import tempfile
        >>> with open_folder(Path(tempfile.mkdtemp())) as folder:
        ...     os.close(lock_file(folder, "x.part", "Another process is writing x", "name"))
    """
    while True:
        try:
            file = folder.create(name)
        except FileExistsError:
            _remove_left(folder, name, busy, other, marked=marked)
            continue
        _lock(file, folder, busy, other)
        if _has_name(file, folder, name):
            break
        os.close(file)  # another process took it for one that was left
    with suppress(OSError):  # for the message alone: on a full disk the lock holds without it
        os.write(file, f"process {os.getpid()} on {platform.node()}".encode())
        os.lseek(file, 0, os.SEEK_SET)
    return file


def _remove_left(folder: Folder, name: str, busy: str, other: str, *, marked: bool) -> None:
    """Remove a file that a killed process has left; refuses one that a process still has."""
    try:
        file = folder.open(name, write=True)
    except FileNotFoundError:
        return  # its owner has just finished
    said = os.read(file, _LONGEST_MARK)
    if marked and said and not _MARK.fullmatch(said):  # nothing, where a disk was full
        os.close(file)
        raise ValueError(
            f"{folder.path / name} is no lock of a run, though it has its name. Move it, or choose another {other}."
        )
    if fcntl is None:
        os.close(file)
        try:
            folder.remove(name)
        except PermissionError:
            raise _busy(busy, b"", other) from None
        return
    _lock(file, folder, busy, other)
    if _has_name(file, folder, name):  # while it is locked
        folder.remove(name)
    os.close(file)


def _lock(file: int, folder: Folder, busy: str, other: str) -> None:
    """Lock a file or close it with an error; where there are no locks, nothing but a message."""
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _WITHOUT_LOCKS:
            _log.info("%s is on a file system without locks. Let no other process write there.", folder.path)
            return
        who = os.pread(file, 200, 0)
        os.close(file)
        if isinstance(error, BlockingIOError):
            raise _busy(busy, who, other) from None
        raise


def _busy(busy: str, who: bytes, other: str) -> ValueError:
    said = who.decode("ascii", "replace")
    named = said if said.startswith("process ") and said.isprintable() else "a process that does not say which"
    return ValueError(f"{busy}: {named}. Wait until it has ended, or choose another {other}.")


def _has_name(file: int, folder: Folder, name: str) -> bool:
    """Whether a file still has its name: it may have been renamed or removed by the process that had it."""
    found = folder.stat(name)
    return found is not None and os.path.samestat(os.fstat(file), found)


PART = ".horoball.part"  # of files on their way; browsers have .part, and what they left must not be removed
_OF_CHECKPOINT = re.compile(r"\.safetensors\.[0-9a-f]{8}(\.horoball)?\.part$")  # of version 0.1 without our name

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}


@contextmanager
def whole_file(path: Path, *, alone: bool = True, flush: bool = True) -> Iterator[BinaryIO]:
    """A file to write to; it takes its name once it is written, and an error leaves nothing of it.

    What a process that was killed has left is removed. A link that has the name is refused: it is neither followed nor
    replaced.

    Args:
        path: The name it will have.
        alone: Whether a second process that writes the same file is refused; otherwise the last one's file stays.
        flush: Wait until it is on the disk, so that a loss of power leaves the old file or the new one too.

    Raises:
        ValueError: The name is a URL of a kind that is only read, that of a link, or of something that is no file; or
            another process is writing it.
        OSError: Neither errors of reading nor those that name a file are changed; if no space is left, the error says
            for which file.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "metrics.jsonl"
        >>> with whole_file(path) as file:
        ...     _ = file.write(b"{}")
        ...     path.exists()
        False
        >>> path.read_text()
        '{}'
    """
    path = located(path)
    if isinstance(path, StorePath):
        from horoball.storage.leases import check_kept

        with spooled(path, alone=alone) as file:
            yield file
            check_kept(path)
        return
    with open_folder(path.parent) as folder:
        folder.check_plain(path.name)
        if alone:
            part = f"{path.name}{PART}"
            handle = lock_file(folder, part, f"Another process is writing {path}", "name")
        else:
            part = f"{path.name}.{secrets.token_hex(4)}{PART}"
            handle = folder.create(part)
        file = os.fdopen(handle, "wb")
        try:
            yield file
            file.truncate()  # a lock says in its file who has it
            file.flush()
            if flush:
                os.fsync(handle)
            if os.name == "nt":  # where an open file cannot be renamed; elsewhere it stays locked until it is
                file.close()
            folder.replace(part, path.name)
        except BaseException as error:
            with suppress(OSError):  # what went wrong first is what is said
                folder.remove(part)
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
            with suppress(OSError):
                file.close()


def write_whole(path: Path, content: bytes | str, *, alone: bool = True, flush: bool = True) -> None:
    """Write a file at once; text as UTF-8. See `whole_file`.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "page.html"
        >>> write_whole(path, "<!doctype html>")
        >>> path.read_text()
        '<!doctype html>'
    """
    with whole_file(path, alone=alone, flush=flush) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def clear_parts(path: Path) -> None:
    """Remove what killed writers of checkpoints have left in a folder that nobody is writing to.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "last.safetensors.0123abcd.horoball.part").write_bytes(b"half")
        >>> clear_parts(folder)
        >>> list(folder.iterdir())
        []
    """
    if isinstance(path, StorePath):
        return  # where nothing is seen before it is whole
    for part in path.glob("*.part"):
        if not _OF_CHECKPOINT.search(part.name):
            continue
        if part.is_file() or part.is_symlink():  # of a link, the link itself
            part.unlink(missing_ok=True)
