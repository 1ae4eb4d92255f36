"""kill -9 at every phase of the work; the same command goes on."""

from __future__ import annotations

import signal
from collections.abc import Callable

from horoball.storage.checkpoint import load_checkpoint
from horoball.training.state import BEST, FINAL, LAST
from quality.drills.outcome import Outcome
from quality.drills.stage import Stage, same_bytes, same_run

__all__ = ["KILLS"]

_STRIKE = "quality.drills.strike"
_PHASES = {
    "reading": "while the table is read",
    "first-epoch": "at the eighth step of the first epoch",
    "checkpoint": "when half of the second checkpoint is written",
    "validation": "in the first validation",
    "final-model": "when half of the final model is written",
}


def _fit(phase: str) -> Callable[[Stage], Outcome]:
    """A fit is killed in a phase and resumed."""

    def play(stage: Stage) -> Outcome:
        drill = Outcome(f"kill-{phase}", f"`fit` is killed {_PHASES[phase]}")
        folder = stage.base / drill.drill
        code, _ = stage.play(phase, "KILL", *stage.fit(folder), module=_STRIKE)
        drill.seen = "Killed" if code == -signal.SIGKILL else f"exit code {code}"
        there = [folder / name for name in (LAST, BEST, FINAL) if (folder / name).exists()]
        halves = list(folder.glob("*.part"))
        drill.checks = {"killed": code == -signal.SIGKILL and bool(halves) == ("half" in drill.done)}
        if there:
            drill.checks["checkpoints whole"] = all(load_checkpoint(path) for path in there)
        code, _ = stage.play(*stage.fit(folder, "--resume"))
        drill.checks |= {"resumed": code == 0} | same_run(stage.alone, folder)
        return drill

    return play


def _embed(phase: str, name: str, done: str) -> Callable[[Stage], Outcome]:
    """An embedding is killed and started again."""

    def play(stage: Stage) -> Outcome:
        drill = Outcome(f"kill-{phase}", f"`embed` is killed when half of {done} is written")
        folder = stage.base / drill.drill
        folder.mkdir()
        code, _ = stage.play(phase, "KILL", *stage.embed(folder / name), module=_STRIKE)
        drill.seen = "Killed" if code == -signal.SIGKILL else f"exit code {code}"
        drill.checks = {"killed": code == -signal.SIGKILL}
        alone = stage.embedded if name == "z.parquet" else stage.embedded_folder
        drill.checks["no half file under its name"] = (
            not (folder / "z.parquet").exists() and not (folder / "z" / "part-00001.parquet").exists()
        )
        code, _ = stage.play(*stage.embed(folder / name))
        drill.checks |= {"same command ends": code == 0, "same bits": same_bytes(alone, folder / name)}
        drill.checks["nothing left over"] = [path.name for path in folder.iterdir()] == [name]
        return drill

    return play


KILLS = {f"kill-{phase}": _fit(phase) for phase in _PHASES} | {
    "kill-embed-file": _embed("embed-file", "z.parquet", "the file"),
    "kill-embed-folder": _embed("embed-folder", "z", "the second file of a folder"),
}
