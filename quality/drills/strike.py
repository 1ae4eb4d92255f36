"""The command line of horoball, in a process that sends itself a signal at a named moment of its work.

    python -m quality.drills.strike checkpoint KILL fit rows.parquet -o run

All but the moment is real: a function of the work is replaced by one that strikes and then calls it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from horoball.__main__ import main
from horoball.tables.row_groups import RowReader
from horoball.training import loop

__all__ = ["MOMENTS", "arm"]


def _epoch(number: int) -> Callable[..., bool]:
    """Steps of an epoch; −1 for those of a validation."""
    return lambda loss, batch, numbers, *rest: numbers[1] == number


def _writing(name: str) -> Callable[..., bool]:
    """Flushes of a file that has not got its name yet."""
    return lambda file: Path(f"/proc/self/fd/{file}").readlink().name.startswith(name)


# Of each moment: whose function, its name, which calls of it count, and the how manieth of them is struck.
MOMENTS: dict[str, tuple[Any, str, Callable[..., bool], int]] = {
    "reading": (RowReader, "read", lambda *arguments: True, 1),
    "first-epoch": (loop, "_seeded", _epoch(0), 8),
    "second-epoch": (loop, "_seeded", _epoch(1), 8),
    "checkpoint": (os, "fsync", _writing("last.safetensors."), 2),
    "validation": (loop, "_seeded", _epoch(-1), 1),
    "final-model": (os, "fsync", _writing("model.safetensors."), 1),
    "embed-file": (os, "fsync", _writing("z.parquet."), 1),
    "embed-folder": (os, "fsync", _writing("part-00001.parquet."), 1),
}


def arm(moment: str, kind: signal.Signals) -> None:
    """Let this process send itself a signal, once."""
    owner, name, counts, which = MOMENTS[moment]
    real, left = getattr(owner, name), [which]

    def struck(*arguments: Any, **options: Any) -> Any:
        if left[0] and counts(*arguments):
            left[0] -= 1
            if not left[0]:
                if owner is os:  # a file is being written: half of it is there
                    os.ftruncate(arguments[0], os.fstat(arguments[0]).st_size // 2)
                os.kill(os.getpid(), kind)
        return real(*arguments, **options)

    setattr(owner, name, struck)


if __name__ == "__main__":
    if os.environ.get("RANK", "0") == os.environ.get("DRILL_RANK", "0"):
        arm(sys.argv[1], signal.Signals[f"SIG{sys.argv[2]}"])
    sys.argv = ["horoball", *sys.argv[3:]]
    main()
