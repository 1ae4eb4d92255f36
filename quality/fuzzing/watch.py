"""What a reader does while it reads: files it writes, processes, sockets, pickles, warnings, memory, time."""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Outcome", "Watch", "limit_memory"]

# Exactly these and what horoball derives from them: a UnicodeDecodeError is a ValueError that says nothing to a person.
_TYPED = (
    *(ValueError, TypeError, OSError),
    *(FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError),
)
_LONGEST = 1000  # characters of a message, without the path
_MOST = 64 << 20  # bytes of memory that any input may take, and so many for each of its own:
_TIMES = 100
# Of anndata, about files of its first versions, which it reads; and ours, which say what is odd about a result.
_SAID = (
    "OldFormatWarning",
    "RimWarning",
    "OutlierWarning",
    "FarRowWarning",
    "ConvergenceWarning",
    "OtherVersionWarning",
)
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
        seconds: What computes for longer is a hang, and so is what waits for four times as long: a machine may be busy.
    """

    def __init__(self, inside: Path, seconds: float = 5) -> None:
        self._inside, self._seconds, self._on, self._writes = str(inside), seconds, False, False
        self._events: list[str] = []
        sys.addaudithook(self._hook)
        signal.signal(signal.SIGALRM, _alarm)
        signal.signal(signal.SIGPROF, _alarm)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._on:
            return
        if event == "open":
            path, _, flags = arguments
            if flags & _WRITES and not self._own(path):
                self._events.append(f"opens {path} for writing")
        elif event == "exec":
            file = getattr(arguments[0], "co_filename", "")
            if not Path(file).exists() and not file.startswith("<frozen"):  # modules are imported when first needed
                self._events.append(f"runs code of {file}")
        elif event.startswith(_CHANGES):
            if not (self._writes and all(self._own(path) for path in arguments if isinstance(path, str | Path))):
                self._events.append(f"{event} {arguments[:1]}")
        elif event.startswith(_FORBIDDEN):
            self._events.append(f"{event} {arguments[:1]}")

    def _own(self, path: object) -> bool:
        """Whether a path is of the input's folder.

        A writer may name files relative to the folder's handle, which the event does not tell. The working folder,
        which the name would be of otherwise, is looked at after every input.
        """
        return str(path).startswith(self._inside) or (self._writes and "/" not in str(path))

    @contextmanager
    def _watching(self) -> Iterator[list[warnings.WarningMessage]]:
        self._events.clear()
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            signal.setitimer(signal.ITIMER_PROF, self._seconds)
            signal.setitimer(signal.ITIMER_REAL, 4 * self._seconds)
            self._on = True
            try:
                yield heard
            finally:
                self._on = False
                signal.setitimer(signal.ITIMER_PROF, 0)
                signal.setitimer(signal.ITIMER_REAL, 0)

    def judge(
        self, load: Callable[[Path], Callable[[], object]], folder: Path, writes: Collection[str] = ()
    ) -> Outcome:
        """Read a folder's files, and use what came of it.

        Args:
            load: The reader.
            folder: The input's.
            writes: Names of files that the reader may leave in the folder; without any it must not change the folder.
        """
        self._writes = bool(writes)
        before, memory, start = _listed(folder), _Memory(folder), time.perf_counter()
        heard: list[warnings.WarningMessage] = []
        try:
            with self._watching() as heard:
                kind, what = _read(load, folder)
        except Hang:
            kind, what = "finding", f"over {self._seconds:g} s"
        seconds = time.perf_counter() - start
        heard = [warning for warning in heard if warning.category.__name__ not in _SAID]
        if heard and kind != "finding":
            kind, what = "finding", f"warns: {heard[0].category.__name__}: {str(heard[0].message)[:120]}"
        if self._events:
            kind, what = "finding", self._events[0]
        left = _listed(folder) - before if writes else _listed(folder) ^ before
        if odd := sorted(name for name in left if name not in writes):
            kind, what = "finding", f"changes files of the folder: {odd[0]}"
        if kind != "finding" and (excess := memory.excess()):
            kind, what = "finding", excess
        return Outcome(kind, what, seconds)


class _Memory:
    """The most memory that is held from now on, beside what the files of a folder would explain."""

    def __init__(self, folder: Path) -> None:
        self._size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        self._before = _status("VmRSS") if _reset_peak() else None

    def excess(self) -> str:
        if self._before is None:
            return ""
        grown = _status("VmHWM") - self._before
        if grown <= _MOST + _TIMES * self._size:
            return ""
        return f"takes over {_MOST >> 20} MiB beyond {_TIMES} times the size of its files"


def _reset_peak() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:  # another system
        return False
    return True


def _status(name: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) << 10


def limit_memory(more: int = 4 << 30) -> None:
    """Allow that much address space beyond what is mapped."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


def _alarm(*_: object) -> None:
    raise Hang


def _listed(folder: Path) -> set[str]:
    return {os.path.relpath(os.path.join(top, name), folder) for top, _, names in os.walk(folder) for name in names}  # noqa: PTH118  a hot loop


def _verdict(error: BaseException, folder: Path) -> tuple[str, str]:
    name, text = type(error).__name__, str(error)
    shown = re.sub(r"\d+", "#", text.replace(str(folder), "…").replace("\n", "⏎"))[:100]  # alike for many inputs
    if type(error) is FloatingPointError:
        return "refused", name  # numbers that are finite, but too large to go on with: the files are as they should be
    if not _typed(error):
        return "finding", f"{name}: {shown}"
    files = [file.name for file in folder.rglob("*") if file.is_file()]
    if str(folder) not in text and not any(file in text for file in files):
        return "finding", f"{name} without the file: {shown}"
    if "\n" in text or len(text.replace(str(folder), "")) > _LONGEST:
        return "finding", f"{name} of many lines: {shown}"
    return "refused", name


def _typed(error: BaseException) -> bool:
    kind = type(error)
    derived = kind.__module__.startswith("horoball") and issubclass(kind, ValueError | OSError)
    return derived or kind in (*_TYPED, FloatingPointError)


def _read(load: Callable[[Path], Callable[[], object]], folder: Path) -> tuple[str, str]:
    try:
        use = load(folder)
    except Hang:
        raise
    except BaseException as error:
        return _verdict(error, folder)
    return _used(use)


def _used(use: Callable[[], object]) -> tuple[str, str]:
    try:
        use()
    except Hang:
        raise
    except BaseException as error:
        if not _typed(error):
            return "finding", f"use: {type(error).__name__}: {str(error)[:160]}"
        return "read", f"use: {type(error).__name__}"
    return "read", ""
