"""Paths in object stores: Amazon S3, Google Cloud Storage, Azure, and the memory of this process, through fsspec.

`located` makes of what a user gives, a path or a URL, the path to use: one of this machine, or a `StorePath`. The
latter is a `Path` for all that regards names, asks its store what is there, and refuses to be taken for a path of this
machine: nothing ever writes to a local folder named `s3:`.

A store has no folders and no renaming. An object is there whole once its upload has ended, and not at all before: what
is to be written is kept on this machine until it is whole, then uploaded. Where the store can compare, it takes the
object only if nobody has written one of that name since.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO

STORES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "memory")
_LOCAL = ("file", "local")
# A scheme has two letters or more: one is a drive. Path makes s3:/bucket of s3://bucket.
_URL = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]+):(?::|/|\\)")
_CREATES = ("s3", "s3a", "gs", "gcs")  # take an object only if there is none of its name, if asked to
_MOST = 1 << 26  # bytes of a text or of a page that are read at once
_SYSTEM = (OSError, ValueError, TypeError, ImportError, MemoryError)


def located(path: str | Path) -> Path:
    """The path that a user means: one of this machine, or one in a store.

    Args:
        path: A path, or a URL that begins with file://, s3://, gs://, az://, abfs:// or memory://.

    Raises:
        ValueError: It is a URL of another kind, has credentials in it, or names no object.
    """
    if isinstance(path, StorePath):
        return path
    text = str(path)
    found = _URL.match(text)
    if found is None:
        return Path(path)
    scheme = found[1].lower()
    whole = "://" in text
    shown = without_secrets(text if whole else re.sub(r":[/\\]", "://", text, count=1))
    if "::" in text or scheme not in (*STORES, *_LOCAL):
        raise ValueError(
            f"{shown} is a URL of a kind that is only read. Write to a path of this machine, or to one that begins "
            "with s3://, gs://, az:// or memory://. (A local folder of such a name: give its whole path.)"
        )
    rest = text[found.end() :].removeprefix("/") if whole else text[found.end() :]
    if scheme in _LOCAL:
        if whole and not rest.startswith("/"):
            raise ValueError(f"{shown} names another machine, {rest.split('/')[0]!r}. Write file:/// and a whole path.")
        return Path("/" + rest.lstrip("/")) if os.name != "nt" else Path(rest.lstrip("/"))
    bucket, _, key = rest.partition("/")
    if "@" in bucket and not scheme.startswith("abfs"):
        raise ValueError(
            f"{shown} has credentials in it. Leave them out, and put them where the service's own tools look for them, "
            "as in AWS_ACCESS_KEY_ID."
        )
    parts = rest.rstrip("/").split("/") if scheme != "memory" else rest.strip("/").split("/")
    if "?" in rest or "#" in rest or any(part in ("", ".", "..") for part in parts) or not (scheme == "memory" or key):
        raise ValueError(
            f"{shown} is no name to write to: expected {scheme}://bucket/name, with no part of the name empty, '.' or "
            "'..', and without ? and #."
        )
    return StorePath(f"{scheme}:/{'/'.join(parts)}")


def without_secrets(text: str) -> str:
    """A text with what URLs in it may have of credentials replaced by …: names and passwords, and queries."""
    text = re.sub(r"(://)[^/@\s'\"]*:[^/@\s'\"]*@", r"\1…@", text)
    return re.sub(r"(://[^\s?'\"]*\?)[^\s'\"]+", r"\1…", text)


class StorePath(type(Path())):  # type: ignore[misc]  # of this system's kind of paths
    """A path in a store; made by `located`."""

    def __str__(self) -> str:
        return "://".join(self._plain().split(":/", 1))

    def __repr__(self) -> str:
        return f"StorePath({str(self)!r})"

    def __fspath__(self) -> str:
        raise TypeError(f"{self} is in a store, where no file of this machine can be.")

    def __reduce__(self) -> Any:
        return StorePath, (self._plain(),)

    def __hash__(self) -> int:
        return hash(self._plain())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorePath) and self._plain() == other._plain()

    def _plain(self) -> str:
        return "/".join(self.parts)

    @property
    def key(self) -> str:
        """The name that the store has it under, bucket and all."""
        rest = "/".join(self.parts[1:])
        return f"/{rest}" if self.parts[0] == "memory:" else rest

    @property
    def store(self) -> Any:
        """The file system of fsspec."""
        import fsspec

        with store_errors(self):
            # What others write meanwhile is to be seen: nothing that was listed is remembered.
            return fsspec.filesystem(self.parts[0].rstrip(":"), use_listings_cache=False)

    @property
    def creates(self) -> bool:
        """Whether the store can be asked to take an object only if there is none of its name."""
        return self.parts[0].rstrip(":") in _CREATES

    def info(self) -> dict[str, Any] | None:
        """What the store says of it; None if there is nothing."""
        with store_errors(self):
            try:
                return dict(self.store.info(self.key))
            except FileNotFoundError:
                return None

    def check_bucket(self) -> None:
        """Refuse a bucket that is not there, or that may not be asked for, before any work is done."""
        if self.parts[0] == "memory:":
            return
        bucket = StorePath("/".join(self.parts[:2]))
        with suppress(PermissionError):  # one may be allowed to write what one may not list
            if bucket.info() is None:
                raise FileNotFoundError(f"There is no bucket {self.parts[1]!r} for {self}. Make it first.")

    def exists(self, **_: Any) -> bool:
        """Whether there is an object of that name, or one below it."""
        return self.info() is not None

    def is_file(self, **_: Any) -> bool:
        """Whether there is an object of that name."""
        return (self.info() or {}).get("type") == "file"

    def is_dir(self, **_: Any) -> bool:
        """Whether there are objects below it."""
        return (self.info() or {}).get("type") == "directory"

    def is_symlink(self) -> bool:
        """A store has no links."""
        return False

    def mkdir(self, *_: Any, **__: Any) -> None:
        """A store has no folders: nothing is to be done."""

    def resolve(self, *_: Any, **__: Any) -> StorePath:
        """Itself: a store has no links."""
        return self

    def absolute(self) -> StorePath:
        """Itself."""
        return self

    def samefile(self, other: Any) -> bool:
        """Whether another path is this one."""
        return self == other

    def iterdir(self) -> Iterator[StorePath]:
        """What lies right below it."""
        with store_errors(self):
            try:
                found = self.store.ls(self.key, detail=False)
            except FileNotFoundError:
                return
        for name in found:
            yield self / str(name).rstrip("/").rpartition("/")[2]

    def glob(self, pattern: str, **_: Any) -> Iterator[StorePath]:
        """What lies right below it and has such a name."""
        return (path for path in self.iterdir() if fnmatchcase(path.name, pattern))

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object."""
        with store_errors(self):
            try:
                self.store.rm_file(self.key)
            except FileNotFoundError:
                if not missing_ok:
                    raise

    def read_bytes(self) -> bytes:
        """What it holds, up to 64 MiB."""
        size = (self.info() or {}).get("size")
        if size is not None and size > _MOST:
            raise ValueError(f"{self} has {size:,} bytes, more than such a file can have. Use another copy.")
        with store_errors(self):
            return bytes(self.store.cat_file(self.key))

    def read_text(self, encoding: str | None = None, *_: Any, **__: Any) -> str:
        """The same as text."""
        return self.read_bytes().decode(encoding or "utf-8")

    def open_binary(self) -> Any:
        """The object to read, bit by bit."""
        with store_errors(self):
            return self.store.open(self.key, "rb")


@contextmanager
def store_errors(path: object) -> Iterator[None]:
    """Make of what a store's library raises, of whatever kind, one line that names the path; without credentials."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:
        if isinstance(error, _SYSTEM) and (str(path) in str(error) or isinstance(error, ImportError | MemoryError)):
            raise
        first = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
        kind = type(error) if isinstance(error, PermissionError | FileExistsError) else OSError
        raise kind(f"{path} cannot be reached: {without_secrets(first)[:300].rstrip(' .')}.") from None


class Unchanged:
    """What has a name before the work is done, so that what somebody else writes meanwhile is not replaced."""

    def __init__(self, path: StorePath) -> None:
        self.path, self._before = path, _mark(path.info())

    @property
    def new(self) -> bool:
        """Whether there was nothing."""
        return self._before is None

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Refuse to write if the object is not what it was."""
        busy = f"Another process has written {self.path} meanwhile, and it is kept. Choose another name."
        if _mark(self.path.info()) != self._before:
            raise ValueError(busy)
        try:
            yield
        except FileExistsError:
            raise ValueError(busy) from None


def _mark(info: dict[str, Any] | None) -> str | None:
    """What tells one object from another of the same name."""
    if info is None or info.get("type") == "directory":
        return None
    names = ("ETag", "etag", "md5Hash", "LastModified", "last_modified", "mtime", "created", "size")
    return repr([info.get(name) for name in names])


def upload(path: StorePath, content: bytes | Path, *, create: bool = False) -> None:
    """Write an object at once; the store shows it when it is whole.

    Args:
        path: Its name.
        content: What it is to hold, or a file of this machine that does.
        create: Whether it is refused, with a FileExistsError, if there is one of that name, by stores that can.
    """
    options: dict[str, Any] = {"mode": "create"} if create and path.creates else {}
    with store_errors(path):
        if isinstance(content, bytes):
            path.store.pipe_file(path.key, content, **options)
        elif path.parts[0] == "memory:":  # whose put_file shows a file as it grows
            path.store.pipe_file(path.key, content.read_bytes(), **options)
        else:
            path.store.put_file(str(content), path.key, **options)


@contextmanager
def local_copy(path: Path) -> Iterator[Path]:
    """A file of this machine with the contents of a path: itself, or a copy that is removed."""
    if not isinstance(path, StorePath):
        yield path
        return
    info = path.info()
    if info is None or info.get("type") == "directory":
        raise FileNotFoundError(f"There is no file {path}.")
    with tempfile.TemporaryDirectory(prefix="horoball-") as folder:
        size, free = int(info.get("size") or 0), shutil.disk_usage(folder).free
        if size > free:
            raise OSError(
                f"{path} has {size:,} bytes, and {folder} has room for {free:,}. Set TMPDIR to a larger disk."
            )
        copy = Path(folder) / path.name
        with store_errors(path):
            path.store.get_file(path.key, str(copy))
        yield copy


@contextmanager
def spooled(path: StorePath, *, alone: bool) -> Iterator[BinaryIO]:
    """A file of this machine to write to; it is uploaded once it is whole, and an error leaves nothing of it.

    Args:
        path: The name it will have in the store.
        alone: Whether it is refused if somebody else has written that name meanwhile.
    """
    before = Unchanged(path) if alone else None
    with tempfile.TemporaryDirectory(prefix="horoball-") as folder:
        part = Path(folder) / path.name  # a store takes the kind of its contents from the name
        with part.open("wb") as file:
            yield file
        if before is None:
            upload(path, part)
        else:
            with before.refusing():
                upload(path, part, create=before.new)
