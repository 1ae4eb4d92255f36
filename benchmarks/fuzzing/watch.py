"""What a reader does while it reads: files it writes, processes, sockets, pickles, warnings, memory, time."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Outcome", "Watch", "limit_memory"]

_TYPED = (ValueError, TypeError, FileNotFoundError, IsADirectoryError, PermissionError)  # exactly these, none derived
_LONGEST = 1000  # characters of a message, without the path
_SAID = ("OldFormatWarning",)  # of anndata, about files of its first versions, which it reads
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = (
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.mkdir",
    "os.symlink",
    "os.link",
    "os.truncate",
    "os.chmod",
    "shutil.",
)
_FORBIDDEN = (
    "subprocess.",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "socket.",
    "pickle.find_class",
    "ctypes.dlopen",
)


class Outcome(NamedTuple):
    """What became of one input."""

    kind: str  # "read", "refused" or "finding"
    what: str  # the type of the refusal, or what was found
    seconds: float


class Hang(BaseException):
    """Reading took too long."""


class Watch:
    """Reads inputs one at a time, and judges each.

    Args:
        inside: The folder that may be written to.
        seconds: What takes longer is a hang.
    """

    def __init__(self, inside: Path, seconds: float = 5) -> None:
        self._inside, self._seconds, self._on = str(inside), seconds, False
        self._events: list[str] = []
        sys.addaudithook(self._hook)
        signal.signal(signal.SIGALRM, _alarm)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._on:
            return
        if event == "open":
            path, _, flags = arguments
            if flags & _WRITES and not str(path).startswith(self._inside):
                self._events.append(f"opens {path} for writing")
        elif event == "exec":
            file = getattr(arguments[0], "co_filename", "")
            if not Path(file).exists() and not file.startswith("<frozen"):  # modules are imported when first needed
                self._events.append(f"runs code of {file}")
        elif event.startswith(_FORBIDDEN) or event.startswith(_CHANGES):
            self._events.append(f"{event} {arguments[:1]}")

    @contextmanager
    def _watching(self) -> Iterator[list[warnings.WarningMessage]]:
        self._events.clear()
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            signal.setitimer(signal.ITIMER_REAL, self._seconds)
            self._on = True
            try:
                yield heard
            finally:
                self._on = False
                signal.setitimer(signal.ITIMER_REAL, 0)

    def judge(self, load: Callable[[Path], Callable[[], object]], folder: Path) -> Outcome:
        """Read a folder's file, and use what came of it."""
        before, start = _listed(folder), time.perf_counter()
        kind, what = "read", ""
        with self._watching() as heard:
            try:
                use = load(folder)
            except Hang:
                kind, what = "finding", f"over {self._seconds:g} s"
            except BaseException as error:
                kind, what = _verdict(error, folder)
            else:
                kind, what = _used(use)
        seconds = time.perf_counter() - start
        heard = [warning for warning in heard if warning.category.__name__ not in _SAID]
        if heard and kind != "finding":
            kind, what = "finding", f"warns: {heard[0].category.__name__}: {str(heard[0].message)[:120]}"
        if self._events:
            kind, what = "finding", self._events[0]
        if _listed(folder) != before:
            kind, what = "finding", "changes files of the folder"
        return Outcome(kind, what, seconds)


def limit_memory(more: int = 4 << 30) -> None:
    """Allow that much address space beyond what is mapped."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


def _alarm(*_: object) -> None:
    raise Hang


def _listed(folder: Path) -> list[str]:
    return sorted(os.path.join(top, name) for top, _, names in os.walk(folder) for name in names)  # noqa: PTH118  a hot loop


def _verdict(error: BaseException, folder: Path) -> tuple[str, str]:
    name, text = type(error).__name__, str(error)
    shown = text.replace(str(folder), "…").replace("\n", "⏎")[:160]
    if type(error) not in _TYPED:
        return "finding", f"{name}: {shown}"
    files = [file.name for file in folder.rglob("*") if file.is_file()]
    if str(folder) not in text and not any(file in text for file in files):
        return "finding", f"{name} without the file: {shown}"
    if "\n" in text or len(text.replace(str(folder), "")) > _LONGEST:
        return "finding", f"{name} of many lines: {shown}"
    return "refused", name


def _used(use: Callable[[], object]) -> tuple[str, str]:
    try:
        use()
    except Hang:
        return "finding", "use: hangs"
    except BaseException as error:
        if type(error) not in _TYPED:
            return "finding", f"use: {type(error).__name__}: {str(error)[:160]}"
        return "read", f"use: {type(error).__name__}"
    return "read", ""
