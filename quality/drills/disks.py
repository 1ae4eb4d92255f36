"""Disks that are full, and folders that cannot be written to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from horoball.storage.checkpoint import load_checkpoint
from horoball.training.state import BEST, LAST
from quality.drills.damage import damage
from quality.drills.outcome import Outcome, refused
from quality.drills.small_disk import small_disk
from quality.drills.stage import Stage, same_bytes, same_run

__all__ = ["full_embed", "full_embed_folder", "full_fit", "full_view", "read_only_embed", "read_only_fit"]

_PAGE = 4096  # a tmpfs gives files whole pages
_SMALL, _LARGE = 4 * _PAGE, 1 << 26


def full_fit(stage: Stage) -> Outcome:
    """The disk holds the checkpoints of the first epoch, but not the second beside the first."""
    drill = Outcome("full-fit", "the disk is full at the second checkpoint; then space is freed")
    best, last = (-(-(stage.alone / name).stat().st_size // _PAGE) for name in (BEST, LAST))
    others = 2  # the metrics and the lock
    with small_disk(stage.base / drill.drill, (best + last + others + last // 2) * _PAGE) as disk:
        run, inside = disk.folder / "run", disk.seen / "run"
        code, drill.seen = stage.play(*stage.fit(run), through=disk.through)
        drill.checks = refused(code, drill.seen, "No space is left to write", f"{drill.drill}/run/{LAST}")
        drill.checks["first checkpoint whole"] = _epoch(inside / LAST) == 1
        drill.checks["no part of a file"] = not any(name.endswith((".part", ".lock")) for name in disk.names())
        disk.again(f"size={_LARGE}")
        code, _ = stage.play(*stage.fit(run, "--resume"), through=disk.through)
        drill.checks |= {"resumed": code == 0} | same_run(stage.alone, inside)
    return drill


def full_embed(stage: Stage) -> Outcome:
    """A file of embeddings that does not fit."""
    drill = Outcome("full-embed", "the disk is full while `embed` writes a file")
    return _full(stage, drill, "z.parquet", stage.embed, stage.embedded)


def full_embed_folder(stage: Stage) -> Outcome:
    """A folder of embeddings of which one file fits and the next does not."""
    drill = Outcome("full-embed-folder", "the disk is full while `embed` writes a folder of files")
    first = stage.embedded_folder / "part-00000.parquet"
    return _full(stage, drill, "z", stage.embed, stage.embedded_folder, first.stat().st_size + _SMALL)


def full_view(stage: Stage) -> Outcome:
    """A page that does not fit."""
    drill = Outcome("full-view", "the disk is full while `view` writes its page")
    return _full(stage, drill, "map.html", stage.view, stage.page)


def _full(
    stage: Stage, drill: Outcome, name: str, command: Callable[[Path], list[str]], alone: Path, size: int = _SMALL
) -> Outcome:
    """A command whose output does not fit, and again when it does."""
    with small_disk(stage.base / drill.drill, size) as disk:
        arguments = command(disk.folder / name)
        code, drill.seen = stage.play(*arguments, through=disk.through)
        drill.checks = refused(code, drill.seen, "No space is left to write", f"{drill.drill}/{name}")
        drill.checks["no part of a file"] = not any(there.endswith(".part") for there in disk.names())
        disk.again(f"size={_LARGE}")
        code, _ = stage.play(*arguments, through=disk.through)
        drill.checks |= {"same command ends": code == 0, "same bits": same_bytes(alone, disk.seen / name)}
    return drill


def read_only_fit(stage: Stage) -> Outcome:
    """A run's folder is there but cannot be written to: refused before the table is read."""
    drill = Outcome("read-only-fit", "`fit` into a folder that is mounted read-only")
    with small_disk(stage.base / drill.drill, _LARGE) as disk:
        (disk.seen / "run").mkdir()
        disk.again("ro")
        damaged = damage(stage.write(stage.base / "damaged.parquet"), group=0, header=True)
        arguments = stage.fit(disk.folder / "run", rows=damaged)  # if it were read first, that would be refused
        code, drill.seen = stage.play(*arguments, through=disk.through)
        drill.checks = refused(code, drill.seen, "Read-only file system", f"{drill.drill}/run")
        drill.checks["nothing written"] = disk.names() == []
    return drill


def read_only_embed(stage: Stage) -> Outcome:
    """A file of embeddings where none can be written."""
    drill = Outcome("read-only-embed", "`embed` into a folder that is mounted read-only")
    with small_disk(stage.base / drill.drill, _LARGE) as disk:
        disk.again("ro")
        code, drill.seen = stage.play(*stage.embed(disk.folder / "z.parquet"), through=disk.through)
        drill.checks = refused(code, drill.seen, "Read-only file system", f"{drill.drill}/z.parquet")
    return drill


def _epoch(checkpoint: Path) -> int:
    """The epochs that a checkpoint has behind it; it has to be whole."""
    return int(load_checkpoint(checkpoint)[1]["state"]["epoch"])
