"""SIGINT at random moments of a command's whole life: `python -m quality.drills.interrupts [--trials 20] [NAME …]`.

Every trial is a process of its own. It gets one signal at a uniformly random time between its start and the time that
it takes when left alone; every fourth gets a second one 0.2 s later. Exit code 130 is expected, within two seconds of
the signal; a process that the kernel ends by SIGINT itself, before Python has started or after the work is done,
counts as 130 too, as it does in a shell. A fit that was stopped has to be resumable.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.table import markdown

__all__ = ["COMMANDS", "Trial", "main", "trial"]

LIMIT, GIVE_UP, SECOND = 2.0, 20.0, 0.2  # seconds
STOPPED = (130, -signal.SIGINT)
HEADER = ("command", "seconds alone", "trials", "stopped", "within 2 s", "slowest", "second signal, slowest", "resumed")


@dataclass(frozen=True)
class Trial:
    """What became of one process: when it was signaled, how it ended, and how long that took."""

    sent: float
    code: int
    took: float
    twice: bool
    said: str

    @property
    def ok(self) -> bool:
        """Whether it ended as it should."""
        return self.code in STOPPED and self.took <= (LIMIT / 2 if self.twice else LIMIT)


def _write(base: Path) -> None:
    """A table, and the edges of a tree."""
    rng = np.random.default_rng(0)
    rows = (",".join(f"{value:.4f}" for value in row) for row in rng.normal(size=(1500, 10)))
    (base / "rows.csv").write_text("\n".join([",".join(f"x{i}" for i in range(10)), *rows]) + "\n")
    (base / "edges.csv").write_text("".join(f"n{i},n{(i - 1) // 3}\n" for i in range(1, 1000)))


def _fit(base: Path, out: Path) -> list[str]:
    return ["fit", str(base / "rows.csv"), "-o", str(out), "--max-epochs", "4", "--patience", "0"]


def _graph_fit(base: Path, out: Path) -> list[str]:
    return ["graph", "fit", str(base / "edges.csv"), "-o", str(out), "--max-epochs", "40"]


COMMANDS: dict[str, Callable[[Path, Path], list[str]]] = {
    "fit": _fit,
    "graph fit": _graph_fit,
    "report": lambda base, out: (
        ["report", str(base / "rows.csv"), "-o", f"{out}.html", "--seeds", "1", "--max-epochs", "2"]
    ),
    "embed": lambda base, out: ["embed", str(base / "fit"), str(base / "rows.csv"), "-o", f"{out}.parquet"],
    "view": lambda base, out: ["view", str(base / "fit"), str(base / "rows.csv"), "-o", f"{out}.html"],
}


def start(arguments: Sequence[str]) -> subprocess.Popen[str]:
    """A command in a session of its own, so that whatever signals its group does not reach the drill."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background process is born deaf to it
    command = [sys.executable, "-m", "horoball", *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment, text=True, start_new_session=True, **pipes)  # type: ignore[call-overload] # noqa: S603


def trial(arguments: Sequence[str], after: float, *, twice: bool = False) -> Trial | None:
    """Signal a command some seconds after its start; None if it had ended by then."""
    with start(arguments) as process:
        time.sleep(after)
        if process.poll() is not None:
            process.communicate()
            return None
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        if twice:
            time.sleep(SECOND)
            process.send_signal(signal.SIGINT)
        try:
            said = "".join(process.communicate(timeout=GIVE_UP))
        except subprocess.TimeoutExpired:
            process.kill()
            said = "".join(process.communicate())
        return Trial(after, process.returncode, time.monotonic() - sent - SECOND * twice, twice, said)


def _resumed(arguments: Sequence[str], out: Path) -> bool | None:
    """Whether a fit that has left a checkpoint goes on from it; None where there is nothing to go on with."""
    if "fit" not in arguments[:2] or not (out / "last.safetensors").exists():
        return None
    with start([*arguments, "--resume"]) as process:
        process.communicate(timeout=600)
        return process.returncode == 0


def play(name: str, base: Path, trials: int, seed: int) -> tuple[list[str], bool]:
    """All trials of a command: a line of the table, and whether every one ended as it should."""
    rng, command, began = random.Random(seed), COMMANDS[name], time.monotonic()  # noqa: S311
    alone = base / ("fit" if name == "fit" else f"{name} alone")
    with start(command(base, alone)) as process:
        if process.communicate() and process.returncode:
            raise RuntimeError(f"horoball {name} ended with {process.returncode} when left alone.")
    span = time.monotonic() - began
    found: list[Trial] = []
    resumed: list[bool] = []
    while len(found) < trials:
        out, twice = base / f"{name} {rng.random()}", len(found) % 4 == 3
        arguments = command(base, out)
        one = trial(arguments, rng.uniform(0, span), twice=twice)
        if one is None:
            continue
        found.append(one)
        if not one.ok:
            last = one.said.strip().splitlines()[-1:] or [""]
            print(f"{name}, signal at {one.sent:.2f} s: {one.code} after {one.took:.2f} s. {last[0]}", file=sys.stderr)
        elif len(resumed) < 3 and (again := _resumed(arguments, out)) is not None:
            resumed.append(again)
    once, both = ([one.took for one in found if one.twice is twice] or [0.0] for twice in (False, True))
    stopped = sum(one.code in STOPPED for one in found)
    quick = sum(one.code in STOPPED and one.took <= LIMIT for one in found)
    line = [name, f"{span:.1f}", str(trials), str(stopped), str(quick), f"{max(once):.2f} s", f"{max(both):.2f} s"]
    return [*line, f"{sum(resumed)} of {len(resumed)}"], all(one.ok for one in found) and all(resumed)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m quality.drills.interrupts", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"Of these: {', '.join(COMMANDS)}; all if not given.")
    parser.add_argument("--trials", type=int, default=20, help="Of each command.")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    if unknown := set(asked.names) - set(COMMANDS):
        parser.error(f"There is no command {', '.join(unknown)} here. Commands: {', '.join(COMMANDS)}.")
    lines, ok = [], True
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder).resolve()
        _write(base)
        names = [name for name in COMMANDS if name == "fit" or not asked.names or name in asked.names]
        for name in names:  # `fit` first: others use its run
            line, good = play(name, base, asked.trials if name in (asked.names or COMMANDS) else 0, asked.seed)
            lines.append(line)
            ok &= good
    print(markdown(HEADER, lines))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
