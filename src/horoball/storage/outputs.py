"""Where results are written: the folder of a run, and files that are not replaced without being asked.

An open folder, in which files are opened, renamed and removed by name.

A folder may come from a stranger, with links in it that point anywhere. Nothing here follows a link that is a file's
last name, opens a pipe or a device, or writes to a file that was there before.

Windows has neither folder handles nor O_NOFOLLOW: names are looked at before they are opened there.

What is about to be written, looked at before any work is done: what may be replaced, and what never is.

A file that is read is never written, whatever path leads to it. One that is there already is replaced if the user says
so. The exception is a page that the same command wrote: it ends with a seal, a digest of all that stands before it, so
that a page somebody has changed is not taken for one.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from horoball.storage.stores import StorePath, located

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
    path = located(path)
    if isinstance(path, StorePath):
        with path.open_binary() as file:
            yield file
        return
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


_PARQUET = (".parquet", ".pq")
_SEAL = re.compile(rb"<!-- horoball ([a-z ]+) ([0-9a-f]{64})((?: [0-9a-f]{64})*) -->\n$")
_LONGEST_SEAL = 1000


def check_files(
    files: Iterable[Path], *, reads: Iterable[str | Path | None] = (), replace: bool = False, own: Iterable[Path] = ()
) -> None:
    """Refuse files that cannot or must not be written, before any work is done.

    Args:
        files: What is to be written.
        reads: Files and folders that are read, as paths or URLs; None for nothing. They are never written.
        replace: Whether other files that are there may be replaced.
        own: Files that may be replaced in any case.

    Raises:
        FileNotFoundError: There is no folder for a file.
        ValueError: A file is read, is there already, is a link or no regular file, or its name is a URL.
    """
    read = [path for path in map(_read, reads) if path is not None]
    mine = set(own)
    for file in map(located, files):
        if isinstance(file, StorePath):
            _check_stored(file, read)
            if not replace and file not in mine and file.is_file():
                raise ValueError(f"{file} is there already. Give --force to replace it, or choose another name.")
            continue
        if not file.parent.is_dir():
            raise FileNotFoundError(f"There is no folder {str(file.parent)!r} for {file.name}. Make it first.")
        for path in read:
            _check_not_read(file, path)
        with open_folder(file.parent) as folder:
            folder.check_plain(file.name)
        _check_writable(file.parent, file)
        if file.exists() and not replace and file not in mine:
            raise ValueError(f"{file} is there already. Give --force to replace it, or choose another name.")


def check_folder(folder: Path, reads: Iterable[str | Path | None] = ()) -> None:
    """Refuse a folder that cannot be made or written to, or that is read, before any work is done.

    Args:
        folder: What is to be written to; it need not be there.
        reads: As in `check_files`. The folder must neither be one of them, nor lie in one, nor hold a Parquet file.
    """
    folder = located(folder)
    if isinstance(folder, StorePath):
        _check_stored_folder(folder, [path for path in map(_read, reads) if path is not None])
        return
    there = folder
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir():
        why = "" if there == folder else f", so that {folder} cannot be one"
        raise ValueError(f"{there} is not a folder{why}. Choose another name.")
    _check_writable(there, folder)
    place = folder.resolve()
    for path in map(_read, reads):
        if path is None or isinstance(path, StorePath) or not path.exists():
            continue
        source = path.resolve()
        among = source.suffix.lower() in _PARQUET and place == source.parent
        if place == source or among or (source.is_dir() and place.is_relative_to(source)):
            raise ValueError(f"{folder} is, holds or lies in {path}, which is read. Choose another folder.")


def sealed(page: str, command: str, *others: str) -> bytes:
    r"""A page as a file has it: with a last line that tells which command wrote it, and if it was changed since."""
    content = page.encode() if page.endswith("\n") else f"{page}\n".encode()
    digests = [_digest(content), *(_digest(other.encode()) for other in others)]
    return content + f"<!-- horoball {command} {' '.join(digests)} -->\n".encode()


def is_sealed(path: Path, command: str, *others: Path) -> bool:
    r"""Whether a file is a page that the command wrote, unchanged, and so are the files that belong to it."""
    try:
        with open_file(path) as file:
            content = file.read()
        found = _SEAL.search(content[-_LONGEST_SEAL:])
        if found is None or found[1].decode() != command:
            return False
        digests = [_digest(content[: len(content) - len(found[0])])]
        for other in others:
            with open_file(other) as file:
                digests.append(_digest(file.read()))
    except (OSError, ValueError):  # not there, or no regular file
        return False
    return [found[2].decode(), *found[3].decode().split()] == digests


def _check_writable(folder: Path, path: Path) -> None:
    """The error that writing a path in a folder would end with, before any work is done."""
    if not os.access(folder, os.W_OK):
        fixed = hasattr(os, "statvfs") and os.statvfs(folder).f_flag & os.ST_RDONLY
        code = errno.EROFS if fixed else errno.EACCES
        raise OSError(code, os.strerror(code), str(path))


def _check_stored(file: StorePath, reads: Iterable[Path]) -> None:
    """Refuse a name in a store that is read, that others lie below, or in a bucket that is not there."""
    for path in reads:
        if file == path:
            raise ValueError(f"{file} is what is read. Choose another name for what is written.")
        if isinstance(path, StorePath) and file.suffix.lower() in _PARQUET and path in file.parents:
            raise ValueError(f"{file} lies in {path}, whose files are read. Choose another folder for what is written.")
    file.check_bucket()
    if file.is_dir():
        raise ValueError(f"{file} is a folder: there are objects below it. Choose another name.")


def _check_stored_folder(folder: StorePath, reads: Iterable[Path]) -> None:
    for path in reads:
        among = path.suffix.lower() in _PARQUET and folder == path.parent
        if isinstance(path, StorePath) and (folder == path or among or path in folder.parents):
            raise ValueError(f"{folder} is, holds or lies in {path}, which is read. Choose another folder.")
    folder.check_bucket()
    if folder.is_file():
        raise ValueError(f"{folder} is not a folder. Choose another name.")


def _check_not_read(file: Path, path: Path) -> None:
    """Refuse a file that is read, or that would be among those of a folder that is read."""
    if isinstance(path, StorePath) or not path.exists():
        return
    if file.exists() and file.samefile(path):  # by its inode: through links, and by a second name
        raise ValueError(f"{file} is what is read ({path}). Choose another name for what is written.")
    if path.is_dir() and file.suffix.lower() in _PARQUET and file.parent.resolve().is_relative_to(path.resolve()):
        raise ValueError(f"{file} lies in {path}, whose files are read. Choose another folder for what is written.")


def _read(path: str | Path | None) -> Path | None:
    """What is read, if it could be written too: of a URL that is chained, such as zip://x.csv::rows.zip, the last."""
    if path is None:
        return None
    try:
        return located(str(path).rsplit("::", 1)[-1])
    except ValueError:  # of a kind that is only read
        return None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
