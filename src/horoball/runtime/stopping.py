"""Ctrl-C: how work is asked to stop, and how a command is made to.

Note [Ctrl-C]
Python raises KeyboardInterrupt between two instructions of the main thread. That is not enough for a command: a call
into C may take minutes, an exception that is raised in a callback or a destructor is dropped, and an import that is
interrupted may end in another error. So a command has a watcher beside it, a thread that the signal itself wakes. The
main thread has `GRACE` seconds to write its checkpoint and say what is left; then the watcher ends the process. This
leaves what kill -9 would leave, and no more: files take their names when they are whole. C code that keeps Python's
lock stops the watcher too, so long calls of that kind are cut into short ones, see `data.geodesics`.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from socket import socketpair
from typing import Any

__all__ = ["GRACE", "PIPE_CLOSED", "ended_in_time", "exit_code", "finishing", "interrupted", "stop_requested"]

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

    Example:
        >>> with stop_requested() as stop:
        ...     stop()
        False
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
    """What a command that was asked to stop ends with: 128 and the number of the signal, 130 for Ctrl-C.

    Example:
        >>> exit_code()
        130
    """
    return 128 + (_numbers[0] if _numbers else signal.SIGINT)


@contextmanager
def finishing(seconds: float = 10.0) -> Iterator[None]:
    """What is begun here may take this long after a signal: writing a checkpoint. A second signal still ends it.

    Example:
        >>> with finishing():
        ...     pass
    """
    global _finished
    _allowed.append(seconds)
    try:
        yield
    finally:
        _finished = time.monotonic()
        _allowed.pop()


@contextmanager
def ended_in_time() -> Iterator[None]:
    """A command: SIGINT ends it within `GRACE` seconds, whatever it is doing, and a second one ends it at once.

    Example:
        >>> with ended_in_time():
        ...     interrupted()
        False
    """
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
    """Whether the command was asked to stop: an error that follows is what became of that, and not a fault.

    Example:
        >>> interrupted()
        False
    """
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
