"""Files that are there whole or not at all, whenever their writer is stopped, is killed or runs out of space.

A file is written under another name in the same folder and renamed when it is whole. The other name is always that of a
new file, and a link is never written through: see `folder`. Everything that horoball writes goes through here.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from horoball.storage.folder import open_folder
from horoball.storage.lock import lock_file
from horoball.storage.outputs import check_local

__all__ = ["PART", "clear_parts", "whole_file", "write_whole"]

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
        ValueError: The name is a URL, that of a link, or of something that is no file; or another process is writing
            it.
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
    check_local(path)
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
    for part in path.glob("*.part"):
        if not _OF_CHECKPOINT.search(part.name):
            continue
        if part.is_file() or part.is_symlink():  # of a link, the link itself
            part.unlink(missing_ok=True)
