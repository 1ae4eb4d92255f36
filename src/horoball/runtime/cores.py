"""How many cores this process may use, and how many workers fit into a fixed amount of memory."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path, PurePosixPath

__all__ = ["available_cores", "workers_within"]

_PROCESS = Path("/proc/self")  # where Linux says to which control groups this process belongs


def available_cores() -> int:
    """Cores that this process may use, at least 1.

    `os.cpu_count()` counts the cores of the machine. A container, a batch system or `taskset` may allow fewer: this is
    the smallest of the machine's cores, the process's affinity and the CPU quota of its control groups (versions 1
    and 2), a fraction of a core counting as one.

    Example:
        >>> available_cores() >= 1
        True
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

    Example:
        >>> workers_within(4 * 2**30, 2**30, most=64)
        4
        >>> workers_within(4 * 2**30, 6 * 2**30, most=64)
        1
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
