"""Two runs in one folder."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time

from quality.drills.outcome import Outcome, refused
from quality.drills.stage import SECONDS, Stage, same_run

__all__ = ["together", "twice"]


def twice(stage: Stage) -> Outcome:
    """A run is in its second epoch when another wants to go on with it."""
    drill = Outcome("twice", "a second `fit --resume` in the folder of one that is in its second epoch")
    folder = stage.base / drill.drill
    first = stage.start("second-epoch", "STOP", *stage.fit(folder), module="quality.drills.strike")
    if not _stops(first.pid):
        drill.checks = {"first has stopped": False}
        return drill
    code, drill.seen = stage.play(*stage.fit(folder, "--resume"))
    drill.checks = refused(code, drill.seen, f"Another run is in {drill.drill}: process {first.pid} on ")
    os.kill(first.pid, signal.SIGCONT)
    drill.seen = _anonymous(drill.seen, first)
    code, _ = stage.end(first)
    drill.checks |= {"the first ends": code == 0} | same_run(stage.alone, folder)
    return drill


def together(stage: Stage) -> Outcome:
    """Two runs start at the same moment in a folder that is not there yet."""
    drill = Outcome("together", "two `fit` are started at once into the same new folder")
    folder = stage.base / drill.drill
    both = [stage.start(*stage.fit(folder)) for _ in range(2)]
    ends = sorted(stage.end(process) for process in both)
    code, drill.seen = ends[1]
    words = "already holds a run" if "already" in drill.seen else f"Another run is in {drill.drill}"
    drill.checks = refused(code, drill.seen, words)
    drill.seen = _anonymous(drill.seen, *both)
    drill.checks |= {"the other ends": ends[0][0] == 0} | same_run(stage.alone, folder)
    return drill


def _anonymous(said: str, *processes: subprocess.Popen[str]) -> str:
    """The same without numbers and names of this machine, so that the table is the same at every run."""
    for process in processes:
        said = said.replace(f"process {process.pid} on {socket.gethostname()}", "process … on …")
    return said


def _stops(process: int) -> bool:
    """Wait until a process has stopped; false if it ends or takes too long."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        kind = os.waitid(os.P_PID, process, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if kind is not None:
            return kind.si_code == os.CLD_STOPPED
        time.sleep(0.1)
    return False
