"""A small disk that nobody else sees: a tmpfs in a mount namespace of its own, which goes with the drill."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quality.drills.outcome import Skipped

__all__ = ["Disk", "small_disk"]

_MOUNT = 'mount -t tmpfs -o size="$1" tmpfs "$0" && echo mounted && exec sleep 3600'


class Disk:
    """A disk in the namespace of a process.

    Args:
        holder: The process that keeps the namespace.
        folder: Where the disk is, as commands in the namespace see it.
    """

    def __init__(self, holder: int, folder: Path) -> None:
        self.folder = folder
        self.seen = Path(f"/proc/{holder}/root") / folder.relative_to("/")  # the same folder, from outside
        self.through = ["nsenter", f"--target={holder}", "--mount"]

    def again(self, options: str) -> None:
        """Mount it again, larger or read-only."""
        command = [*self.through, "mount", "-o", f"remount,{options}", str(self.folder)]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603

    def names(self) -> list[str]:
        """All files on it."""
        return sorted(str(file.relative_to(self.seen)) for file in self.seen.rglob("*") if file.is_file())


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Disk]:
    """A disk of some bytes.

    Args:
        folder: Where it is mounted; made here.
        size: Its bytes.

    Raises:
        Skipped: This machine does not let us mount it.
    """
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter"))):
        raise Skipped("needs root, unshare and nsenter")
    folder.mkdir(parents=True)
    command = ["unshare", "--mount", "--propagation=private", "sh", "-c", _MOUNT, str(folder), str(size)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as holder:  # type: ignore[call-overload] # noqa: S603
        try:
            if holder.stdout.readline().strip() != "mounted":
                raise Skipped("needs the right to mount: " + holder.stderr.read().strip().splitlines()[-1])
            yield Disk(holder.pid, folder)
        finally:
            holder.kill()
