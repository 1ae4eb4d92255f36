"""The process: how it is stopped, how much memory and how many cores it may use. Nothing here imports torch.

Note [Ctrl-C] Python raises KeyboardInterrupt between two instructions of the main thread. That is not enough for a
command: a call into C may take minutes, an exception that is raised in a callback or a destructor is dropped, and an
import that is interrupted may end in another error. So a command has a watcher beside it, a thread that the signal
itself wakes. The main thread has `GRACE` seconds to write its checkpoint and say what is left; then the watcher ends
the process. This leaves what kill -9 would leave, and no more: files take their names when they are whole. C code that
keeps Python's lock stops the watcher too, so long calls of that kind are cut into short ones, see `tables.geodesics`.
"""

from __future__ import annotations

import math
import os
import re
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from socket import socketpair
from typing import Any

GRACE = 1.5  # seconds from a signal to the end of the command
PIPE_CLOSED = 141  # what a shell says of a command that SIGPIPE has ended: nobody reads its output any more
_GRACE_OF_RANKS = 20.0  # torchrun kills them after 30
_SAME = 0.1  # seconds within which signals count as one: `timeout -s INT` sends two
_SHOW_CURSOR = b"\x1b[?25h"  # which a progress bar hides
_came = threading.Event()
_numbers: list[int] = []  # of the signals that have come
_commanded = False  # whether this process is a command
_allowed: list[float] = []  # seconds after a signal that work under way must be given
_finished = 0.0  # when such work has last ended: what is left to say afterwards has its own grace


@contextmanager
def stop_requested() -> Iterator[Callable[[], bool]]:
    """A question that is answered yes once SIGINT, SIGTERM or SIGHUP has come; never beside the main thread.

    A signal that comes after the last question is not lost: the block then ends with KeyboardInterrupt. SIGHUP, which
    a terminal sends when it is closed, stays ignored where it is: under nohup.
    """
    asked: list[int] = []
    previous: dict[signal.Signals, Any] = {}

    def note(number: int, _: object) -> None:
        asked.append(number)
        if _commanded:  # at once: the watcher may come later than the end of the block
            _numbers.append(number)
            _came.set()

    try:
        for kind in _asking():
            previous[kind] = signal.signal(kind, note)
    except ValueError:  # not the main thread
        pass
    try:
        yield lambda: bool(asked)
    finally:
        for kind, handler in previous.items():
            signal.signal(kind, handler)
    if asked:
        raise KeyboardInterrupt


def _asking() -> list[signal.Signals]:
    """Signals that ask a process to end."""
    hangup = getattr(signal, "SIGHUP", None)  # not on Windows
    ignored = hangup is None or signal.getsignal(hangup) == signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([] if ignored or hangup is None else [hangup])]


def exit_code() -> int:
    """What a command that was asked to stop ends with: 128 and the number of the signal, 130 for Ctrl-C."""
    return 128 + (_numbers[0] if _numbers else signal.SIGINT)


@contextmanager
def finishing(seconds: float = 10.0) -> Iterator[None]:
    """What is begun here may take this long after a signal: writing a checkpoint. A second signal still ends it."""
    global _finished
    _allowed.append(seconds)
    try:
        yield
    finally:
        _finished = time.monotonic()
        _allowed.pop()


@contextmanager
def ended_in_time() -> Iterator[None]:
    """A command: SIGINT ends it within `GRACE` seconds, whatever it is doing, and a second one ends it at once."""
    global _commanded
    ours, signals = socketpair()
    signals.setblocking(False)
    _commanded = True
    previous = signal.signal(signal.SIGINT, _interrupt)  # even if the shell has it ignored
    woken = signal.set_wakeup_fd(signals.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(ours,), name="ctrl-c", daemon=True).start()
    try:
        yield
    finally:
        _commanded = False
        signal.set_wakeup_fd(woken)
        signal.signal(signal.SIGINT, previous)
        signals.close()


def interrupted() -> bool:
    """Whether the command was asked to stop: an error that follows is what became of that, and not a fault."""
    return _came.is_set()


def _interrupt(number: int, frame: object) -> None:
    _numbers.append(number)
    _came.set()
    raise KeyboardInterrupt


def _watch(signals: Any) -> None:
    """Wait for a signal; end the process if it has not ended by itself soon after, or at a second one."""
    with signals:
        first = signals.recv(1)
        if not first:  # the command is done
            return
        _came.set()
        # Ranks have to agree on where to stop, and torchrun tells them again what the terminal has told them.
        ranks = int(os.environ.get("WORLD_SIZE", "1"))
        grace, began = (_GRACE_OF_RANKS if ranks > 1 else GRACE), time.monotonic()
        while True:
            now = time.monotonic()
            spent = now - began
            left = max([grace, *_allowed]) - spent if _allowed else max(began, _finished) + grace - now
            ready, _, _ = select.select([signals], [], [], min(max(left, 0.0), 0.1))
            if ready and not signals.recv(64):
                return
            if left <= 0 or (ready and ranks == 1 and spent > _SAME):
                _end(first[0])


def _end(number: int) -> None:
    with suppress(OSError):
        os.write(2, (_SHOW_CURSOR if os.isatty(2) else b"") + b"Stopped.\n")
    os._exit(128 + number)


_BYTES = re.compile(r"allocate (\d+) bytes")
_SIZE = re.compile(r"allocate ([\d.]+ [KMGTPE]i?B)")
_TORCH = ("can't allocate memory", "not enough memory", "out of memory", "Storage size calculation overflowed")
_ADVICE = (
    "Use fewer or smaller hidden layers, a smaller batch size, or fewer rows at a time; .parquet files are streamed."
)


class OutOfMemoryError(MemoryError):
    """There is not enough memory for what was asked."""


@contextmanager
def memory_asked() -> Iterator[None]:
    """Turn any of the errors for lack of memory into one that says how much was asked for, and what to do."""
    try:
        yield
    except OutOfMemoryError:
        raise
    except (MemoryError, RuntimeError) as error:
        text = str(error)
        if isinstance(error, RuntimeError) and not any(word in text for word in _TORCH):
            raise
        raise OutOfMemoryError(f"Out of memory{_asked(text)}. {_ADVICE}") from error


def _asked(text: str) -> str:
    """What was asked for, as far as the error says."""
    if found := _BYTES.search(text):
        size, unit = float(found[1]), "bytes"
        for larger in ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
            if size < 1024:
                break
            size, unit = size / 1024, larger
        return f": {size:.3g} {unit} were asked for at once"
    found = _SIZE.search(text)
    return f": {found[1]} were asked for at once" if found else ""


_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_WRITTEN_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", re.IGNORECASE)
_VARIABLE = "HOROBALL_MAX_MEMORY"
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of containers: v2, v1
_UNKNOWN = 8 << 30  # bytes, where a system does not tell
_chosen: list[int] = []  # by the innermost `max_memory`


def parse_bytes(text: str) -> int:
    """A size as people write it, in bytes."""
    found = _WRITTEN_SIZE.fullmatch(text)
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
    """
    _chosen.append(parse_bytes(str(size)))
    try:
        yield
    finally:
        _chosen.pop()


def given_memory() -> int | None:
    """What the user allows, in bytes; None if nothing was said."""
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
    """Memory of the machine, or of the container that the process is in, in bytes."""
    found = []
    with suppress(AttributeError, ValueError, OSError):  # Windows has no sysconf
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in _CGROUPS:
        with suppress(OSError, ValueError):  # "max" is no limit
            found.append(int(Path(path).read_text().strip()))
    return min((size for size in found if size > 0), default=_UNKNOWN)


_PROCESS = Path("/proc/self")  # where Linux says to which control groups this process belongs


def available_cores() -> int:
    """Cores that this process may use, at least 1.

    `os.cpu_count()` counts the cores of the machine. A container, a batch system or `taskset` may allow fewer: this is
    the smallest of the machine's cores, the process's affinity and the CPU quota of its control groups (versions 1
    and 2), a fraction of a core counting as one.
    """
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # Linux; macOS and Windows have no affinity that Python can read
        cores = min(cores, len(os.sched_getaffinity(0)))
    return max(1, min([cores, *(math.ceil(quota) for quota in _quotas())]))


def workers_within(budget: int, each: int, *, most: int | None = None) -> int:
    """Workers that run at the same time without taking more than a budget of memory, at least 1.

    Memory then stays the same however many cores a machine has. One worker always runs: no work is done with fewer.

    Args:
        budget: Bytes for all workers together.
        each: Bytes that one worker takes at its peak.
        most: Most workers, for example the user's `n_jobs`; the available cores if not given.
    """
    if each < 1:
        raise ValueError(f"Expected at least 1 byte for each worker, got each={each}.")
    if most is not None and most < 1:
        raise ValueError(f"Expected at most 1 worker or more, got most={most}.")
    return max(1, min(available_cores() if most is None else most, budget // each))


def _quotas() -> list[float]:
    """CPU quotas, in cores, of the control groups that this process is in, and of the groups around them."""
    try:
        mounts = (_PROCESS / "mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        groups = (_PROCESS / "cgroup").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:  # not Linux, or /proc is not mounted
        return []
    paths: dict[str, PurePosixPath] = {}  # controller → path of this process's group; version 2 is ""
    for line in groups:
        _, controllers, path = line.split(":", 2)
        paths |= dict.fromkeys(controllers.split(","), PurePosixPath(path))
    found = []
    for line in mounts:
        before, _, after = line.partition(" - ")
        root, point = before.split(" ")[3:5]
        kind, _, options = after.split(" ", 2)
        controller = "" if kind == "cgroup2" else "cpu"
        if controller in paths and (kind == "cgroup2" or (kind == "cgroup" and "cpu" in options.split(","))):
            top = Path(_unescaped(point))
            found += [
                _quota(folder, kind) for folder in _around(top, PurePosixPath(_unescaped(root)), paths[controller])
            ]
    return [quota for quota in found if quota is not None]


def _around(top: Path, root: PurePosixPath, path: PurePosixPath) -> list[Path]:
    """Folders of a group and of the groups around it. A container may see its own alone, as the top folder."""
    if not path.is_relative_to(root) or ".." in path.parts:
        return [top]
    within = path.relative_to(root)
    return [top / part for part in (within, *within.parents)]


def _quota(folder: Path, kind: str) -> float | None:
    """Cores that a group may use; None if it has no limit."""
    try:
        if kind == "cgroup2":
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota, period = (
                (folder / f"cpu.cfs_{name}_us").read_text(encoding="ascii") for name in ("quota", "period")
            )
        return int(quota) / int(period) if quota != "max" and int(quota) > 0 and int(period) > 0 else None
    except (OSError, ValueError):  # the root group has no such file, and what cannot be read is no limit that we know
        return None


def _unescaped(path: str) -> str:
    r"""A path of mountinfo, where a space is \040."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)
