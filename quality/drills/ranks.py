"""One of two ranks is killed, and nobody restarts it."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

from horoball.storage.checkpoint import load_checkpoint
from horoball.training.state import LAST
from quality.drills.outcome import Outcome
from quality.drills.stage import Stage, same_run

__all__ = ["RANKS"]

_LIMIT = 90.0  # seconds from start to end of a run that has lost a rank; torchrun waits up to 30 for the others
_TORCHRUN = ("--standalone", "--nproc-per-node=2", "--max-restarts=0", "-m")
_QUIET = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def _alone(stage: Stage) -> Path:
    """The folder of a run of two ranks that were left alone."""
    folder = stage.base / "two-ranks"
    if not folder.exists():
        code, said = _torchrun(stage, "horoball", *stage.fit(folder))
        if code:
            raise RuntimeError(f"Two ranks that were left alone ended with {code}: {said}")
    return folder


def _torchrun(stage: Stage, *arguments: str, **variables: str) -> tuple[int, str]:
    return stage.play(*_TORCHRUN, *arguments, module="torch.distributed.run", **_QUIET, **variables)


def _under_torchrun(rank: int) -> Callable[[Stage], Outcome]:
    """A rank is killed in its second epoch; torchrun may not start it again."""

    def play(stage: Stage) -> Outcome:
        drill = Outcome(f"lost-rank-{rank}", f"rank {rank} of two is killed under torchrun without restarts")
        folder, arguments = stage.base / drill.drill, ("second-epoch", "KILL")
        alone, start = _alone(stage), time.monotonic()
        fit = stage.fit(folder)
        code, said = _torchrun(stage, "quality.drills.strike", *arguments, *fit, DRILL_RANK=str(rank))
        seconds = time.monotonic() - start
        drill.seen = _line(said) if rank else "torchrun's report alone: rank 0, which speaks, is gone"
        drill.checks = {"torchrun ends with an error": code == 1, f"within {_LIMIT:.0f} s": seconds < _LIMIT}
        return _resumed(stage, drill, folder, alone)

    return play


def _by_themselves(stage: Stage) -> Outcome:
    """Two ranks that no torchrun watches, as a batch system starts them: the other has to notice by itself."""
    drill = Outcome("lost-rank-unwatched", "rank 1 of two is killed; no torchrun watches them")
    folder, alone = stage.base / drill.drill, _alone(stage)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    start = time.monotonic()
    both = [
        stage.start(
            *("second-epoch", "KILL", *stage.fit(folder)),
            module="quality.drills.strike",
            **shared,
            RANK=rank,
            LOCAL_RANK=rank,
            DRILL_RANK="1",
        )
        for rank in ("0", "1")
    ]
    code, said = stage.end(both[0])
    seconds = time.monotonic() - start
    stage.end(both[1])
    drill.seen = _line(said)
    drill.checks = {"the other says so in one line": code == 1 and "Traceback" not in said and "rank" in drill.seen}
    drill.checks[f"within {_LIMIT:.0f} s"] = seconds < _LIMIT
    return _resumed(stage, drill, folder, alone)


def _resumed(stage: Stage, drill: Outcome, folder: Path, alone: Path) -> Outcome:
    last = folder / LAST
    drill.checks["checkpoint whole"] = last.exists() and bool(load_checkpoint(last))
    code, _ = _torchrun(stage, "horoball", *stage.fit(folder, "--resume"))
    drill.checks |= {"resumed by two ranks": code == 0} | same_run(alone, folder)
    return drill


def _line(said: str) -> str:
    """What horoball says among the lines of torchrun."""
    found = [line for line in said.splitlines() if line.startswith("Error: ")]
    return found[0] if found else "torchrun's report: a rank was killed"


RANKS = {
    "lost-rank-0": _under_torchrun(0),
    "lost-rank-1": _under_torchrun(1),
    "lost-rank-unwatched": _by_themselves,
}
