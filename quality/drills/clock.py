"""The clock on the wall jumps during training; what waits and what is estimated goes by another clock."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import torch

from horoball.storage.checkpoint import load_checkpoint
from horoball.tables import read
from horoball.training import TrainConfig
from horoball.training.progress import Bar
from horoball.training.state import LAST
from horoball.vae import VAE, ModelConfig, fit
from quality.drills.outcome import Outcome
from quality.drills.stage import ROWS, Stage, same_bytes

__all__ = ["jumps"]

_HOUR, _YEAR = 3600, 365 * 24 * 3600
# Seconds that the clock is ahead from some step on.
_JUMPS = {3: _HOUR, 5: -_HOUR, 7: _YEAR, 9: -_YEAR, 11: 0}
_SOURCES = Path(__file__).parents[2] / "src" / "horoball"
_WALL = re.compile(r"time\.time\(|datetime\.(now|utcnow|today)|localtime|gmtime")


class Jumps(Bar):
    """A bar that moves the clock and looks which checkpoints there are.

    Args:
        folder: The run's folder.
        offset: The file that libfaketime reads; None if the clock is to be left alone.
    """

    def __init__(self, folder: Path, offset: Path | None) -> None:
        super().__init__()
        self.folder, self.offset = folder, offset
        self.checkpoints = 0
        self.seen: list[float] = []

    def step(self, step: int, steps: int, sums: list[float], rows: int, batch: int) -> None:
        """A step is done; its own checkpoint comes after this."""
        super().step(step, steps, sums, rows, batch)
        last = self.folder / LAST
        self.checkpoints += last.exists() and load_checkpoint(last)[1]["state"]["step"] == step - 1
        if self.offset is not None and step in _JUMPS:
            before = time.time()
            self.offset.write_text(f"{_JUMPS[step]:+d}")
            self.seen.append(time.time() - before)


def train(rows: str, folder: Path, seconds: float, offset: Path | None) -> None:
    """One epoch, with a checkpoint every so many seconds; prints the jumps and the checkpoints that were found."""
    torch.manual_seed(0)
    table = read(rows)
    told = Jumps(folder, offset)
    model = VAE.from_config(ModelConfig(features=table.features, hidden=(16,)))
    fit(model, table, TrainConfig(max_epochs=1, checkpoint_seconds=seconds), folder, progress=told)
    print(json.dumps({"jumps": told.seen, "checkpoints": told.checkpoints}))


def jumps(stage: Stage) -> Outcome:
    """An hour and a year forth and back, with checkpoints after every step and after none."""
    library = next(iter(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)
    done = "the wall clock goes an hour and a year forth and back within an epoch"
    drill = Outcome("clock", done, "nothing: the progress bar goes on")
    if library is None:
        drill.skipped = "needs libfaketime (Debian: faketime)"
        return drill
    base = stage.base / drill.drill
    offset = base / "offset"
    base.mkdir()
    faked = {"LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(offset), "FAKETIME_NO_CACHE": "1"}
    faked["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"  # a clock that is set does not move this one
    found: dict[str, dict[str, list[float] | int]] = {}
    plays: dict[str, tuple[str, dict[str, str]]] = {
        "alone": ("1e9", {}),
        "every step": ("0", faked),
        "no step": ("1800", faked),
    }
    for name, (seconds, variables) in plays.items():
        offset.write_text("+0")
        arguments = (str(stage.rows), str(base / name), seconds, str(offset) if variables else "")
        process = stage.start(*arguments, module="quality.drills.clock", **variables)
        output = process.communicate()[0].strip().splitlines()
        found[name] = json.loads(output[-1]) if process.returncode == 0 else {"jumps": [], "checkpoints": -1}
    leaps = [b - a for a, b in zip([0, *_JUMPS.values()], _JUMPS.values(), strict=False)]
    steps = -(-ROWS // 128)
    drill.checks = {
        "the clock was seen to jump": all(_near(found[name]["jumps"], leaps) for name in ("every step", "no step")),
        "a checkpoint at every step if asked": found["every step"]["checkpoints"] == steps - 1,
        "none before its half hour": found["no step"]["checkpoints"] == 0,
        "same bits": all(same_bytes(base / "alone" / LAST, base / name / LAST) for name in found),
        "no wall clock in the package": not any(_WALL.search(path.read_text()) for path in _SOURCES.rglob("*.py")),
    }
    return drill


def _near(seen: object, leaps: list[int]) -> bool:
    """Whether the jumps are those that were asked for, within ten seconds."""
    if not isinstance(seen, list) or len(seen) != len(leaps):
        return False
    return all(abs(a - b) < 10 for a, b in zip(seen, leaps, strict=True))


if __name__ == "__main__":
    train(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]) if sys.argv[4] else None)
