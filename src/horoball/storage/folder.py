"""An open folder, in which files are opened, renamed and removed by name.

A folder may come from a stranger, with links in it that point anywhere. Nothing here follows a link that is a file's
last name, opens a pipe or a device, or writes to a file that was there before.

Windows has neither folder handles nor O_NOFOLLOW: names are looked at before they are opened there.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

__all__ = ["Folder", "open_file", "open_folder", "read_file"]

_RELATIVE = {os.open, os.stat, os.unlink} <= os.supports_dir_fd
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe must not wait for its other end
_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class Folder:
    """A folder that `open_folder` has opened.

    Args:
        path: Its path, for messages, and for systems without folder handles.
        handle: Its handle, where there are any.

    Example:
        >>> import tempfile
        >>> with open_folder(Path(tempfile.mkdtemp())) as folder:
        ...     os.close(folder.create("new.txt"))
        ...     folder.create("new.txt")
        Traceback (most recent call last):
        ...
        FileExistsError: ...
    """

    def __init__(self, path: Path, handle: int | None) -> None:
        self.path, self.handle = path, handle

    def create(self, name: str) -> int:
        """Open a file that is not there yet, to write and to read; FileExistsError if anything has the name."""
        return self._open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def open(self, name: str, *, write: bool = False) -> int:
        """Open a regular file that is there; anything else is refused."""
        self.check_plain(name)
        try:
            file = self._open(name, os.O_RDWR if write else os.O_RDONLY)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):  # it became a link or a socket in between
                self.check_plain(name)
            raise
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise _not_plain(self.path / name, "not a regular file")
        return file

    def check_plain(self, name: str) -> None:
        """Refuse a name that a link, a folder, a pipe or a device has; one that nothing has is as good as a file's."""
        found = self.stat(name)
        if found is None or stat.S_ISREG(found.st_mode):
            return
        raise _not_plain(self.path / name, "a link" if stat.S_ISLNK(found.st_mode) else "not a regular file")

    def stat(self, name: str) -> os.stat_result | None:
        """What has a name, which may be a link; None for nothing."""
        try:
            with self._named(name):
                return os.stat(self._at(name), dir_fd=self.handle, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def replace(self, old: str, new: str) -> None:
        """Rename a file; what had the name is gone."""
        with self._named(new):
            os.replace(self._at(old), self._at(new), src_dir_fd=self.handle, dst_dir_fd=self.handle)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with self._named(name), suppress(FileNotFoundError):
            os.unlink(self._at(name), dir_fd=self.handle)

    def _open(self, name: str, flags: int) -> int:
        with self._named(name):
            return os.open(self._at(name), flags | _NO_LINKS | _BINARY, 0o666, dir_fd=self.handle)

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        """Errors name the whole path."""
        try:
            yield
        except OSError as error:
            if error.errno is None:
                raise
            raise OSError(error.errno, error.strerror, str(self.path / name)) from error

    def _at(self, name: str) -> str:
        return name if self.handle is not None else str(self.path / name)


@contextmanager
def open_folder(path: Path) -> Iterator[Folder]:
    """Hold a folder open.

    Example:
        >>> with open_folder(Path("no such folder")):
        ...     pass
        Traceback (most recent call last):
        ...
        FileNotFoundError: ... 'no such folder'
    """
    if not _RELATIVE:
        os.stat(path)  # noqa: PTH116  for the same error
        yield Folder(path, None)
        return
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _BINARY)
    try:
        yield Folder(path, handle)
    finally:
        os.close(handle)


@contextmanager
def open_file(path: Path) -> Iterator[BinaryIO]:
    """A regular file to read; refuses links, pipes, devices and folders.

    Example:
        >>> import tempfile
        >>> with open_file(Path(tempfile.mkdtemp())):
        ...     pass
        Traceback (most recent call last):
        ...
        ValueError: ... is not a regular file, and horoball reads and writes regular files only. ...
    """
    with open_folder(path.parent) as folder, os.fdopen(folder.open(path.name), "rb") as file:
        yield file


def read_file(path: Path, most: int) -> bytes:
    """The bytes of a regular file; refuses links, pipes and files of more than so many bytes.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "about.json"
        >>> _ = path.write_bytes(b"{}")
        >>> read_file(path, most=1000)
        b'{}'
    """
    with open_file(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{path} has more than {most:,} bytes, more than such a file can have. Use another copy.")
    return content


def _not_plain(path: Path, what: str) -> ValueError:
    return ValueError(
        f"{path} is {what}, and horoball reads and writes regular files only. Remove it, or give the path of the file "
        "itself."
    )
