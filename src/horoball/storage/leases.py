"""One run in a folder of a store at a time.

A store has no locks that end with their process. Who wants a folder writes an object of its own beside the run, under a
name that nobody else has, lists the others, and gives way if one of them is alive: of two that come at once each sees
the other's, so that never two go on. Who has the folder writes its object anew every ten seconds. One that was not
written for a minute, by the store's clock, is of a process that was killed, and is removed; so is at once one of this
machine whose process is gone.
"""

from __future__ import annotations

import logging
import os
import platform
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from horoball.storage.stores import StorePath, store_errors, upload

EVERY = 10.0  # seconds between two signs of life
LASTS = 60.0  # seconds after the last of them
_LEASE = re.compile(r"run\.lock\.[0-9a-f]{16}")
_LONGEST = 400  # bytes of what a lease says
_log = logging.getLogger("horoball")
_lost: set[StorePath] = set()  # folders that this process had, and that others may have now


@contextmanager
def leased(folder: StorePath) -> Iterator[None]:
    """Have a folder of a store alone; refuses one that another run has."""
    mine = folder / f"run.lock.{secrets.token_hex(8)}"
    said = _owner()
    upload(mine, said.encode())
    ended = threading.Event()
    try:
        _give_way(folder, mine, said)
        alive = threading.Thread(target=_renew, args=(mine, said, ended), daemon=True, name="horoball lease")
        alive.start()
        try:
            yield
        finally:
            ended.set()
            alive.join()
    finally:
        _lost.discard(folder)
        with suppress(OSError):  # it ends by itself
            mine.unlink(missing_ok=True)


def check_kept(path: StorePath) -> None:
    """Refuse to write to a folder that this process had, and has lost: it stood still for more than a minute."""
    if path.parent in _lost:
        raise ValueError(
            f"This process stood still for more than {LASTS:.0f} s, and another may have {path.parent} now. Give the "
            "same command again with --resume once the other has ended."
        )


def _give_way(folder: StorePath, mine: StorePath, said: str) -> None:
    now = _written(mine)
    for other in sorted(folder.glob("run.lock.*"), key=str):
        if other == mine or not _LEASE.fullmatch(other.name):
            continue
        there = _written(other)
        if there is None or now is None:
            continue  # it has ended since
        with store_errors(other):
            try:
                owner = bytes(other.store.cat_file(other.key, start=0, end=_LONGEST)).decode("ascii", "replace")
            except FileNotFoundError:
                continue
        silent = (now - there).total_seconds()
        if silent > LASTS or _is_gone(owner, said):
            other.unlink(missing_ok=True)
            continue
        who = owner.split(" of ")[0] if owner.startswith("process ") and owner.isprintable() else "an unknown process"
        raise ValueError(
            f"Another run is in {folder}: {who}, which gave a sign of life {max(silent, 0):.0f} s ago. Wait until it "
            f"has ended, or, if it was killed, until {LASTS:.0f} s after that, or choose another folder."
        )


def _renew(mine: StorePath, said: str, ended: threading.Event) -> None:
    while not ended.wait(EVERY):
        try:
            if mine.info() is None:  # another run took this one for dead
                _lost.add(mine.parent)
                return
            upload(mine, said.encode())
        except Exception as error:  # the run goes on: the store may be back before a minute is over
            _log.warning("%s", error)


def _written(path: StorePath) -> datetime | None:
    """When an object was written, by the store's clock."""
    info = path.info()
    if info is None:
        return None
    with store_errors(path):
        found = path.store.modified(path.key)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _owner() -> str:
    """This process, in words, and what tells it from all others that are or were on this machine."""
    pid = os.getpid()
    return f"process {pid} on {platform.node()} of {_machine()} since {_since(pid)}"


def _machine() -> str:
    """Where numbers of processes mean the same: this start of this machine, and this container."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    return secrets.token_hex(8)  # nobody else's


def _since(pid: int) -> str:
    with suppress(OSError):
        said = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        if said[0] not in ("Z", "X"):  # it has ended, and nobody has asked how
            return said[19]
    return "never"


def _is_gone(owner: str, mine: str) -> bool:
    """Whether a process of this machine has ended; of another machine nothing is known."""
    found = re.fullmatch(r"process (\d{1,9}) on .* of (\S+) since (\S+)", owner)
    if found is None or f" of {found[2]} since " not in mine:
        return False
    return _since(int(found[1])) != found[3]
