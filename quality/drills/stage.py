"""Where drills are played: a table in a folder, the real commands, and what they do when they are left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from horoball.options import OPTIONS_FILE
from horoball.training.state import BEST, FINAL, LAST, METRICS

__all__ = ["COLUMNS", "EPOCHS", "GROUP", "ROWS", "Stage", "same_bytes", "same_run"]

ROWS, COLUMNS, GROUP, EPOCHS = 2000, 10, 200, 3
SECONDS = 120  # a command that takes longer hangs
_ROOT = Path(__file__).parents[2]
# What a fit has chosen is told before anything can go wrong, and on a slow machine how far it has come before training.
_TOLD = ("Likelihood: ", "Scaling: ", "Distance weight: ", "Layout: ", "Head start: ")


class Stage:
    """A table, its fit, its embedding and its page, made when they are first asked for.

    Args:
        base: An empty folder.
    """

    def __init__(self, base: Path) -> None:
        self.base = base

    @cached_property
    def rows(self) -> Path:
        """A Parquet file of ten row groups."""
        return self.write(self.base / "rows.parquet")

    def write(self, path: Path, *, checksums: bool = False) -> Path:
        """The table, written with checksums of its pages or without."""
        x = np.random.default_rng(0).normal(size=(ROWS, COLUMNS)).astype(np.float32)
        table = pa.table({f"x{i}": x[:, i] for i in range(COLUMNS)})
        pq.write_table(table, path, row_group_size=GROUP, use_dictionary=False, write_page_checksum=checksums)
        return path

    @cached_property
    def alone(self) -> Path:
        """The folder of a fit that was left alone."""
        self.succeed(*self.fit(self.base / "alone"))
        return self.base / "alone"

    @cached_property
    def embedded(self) -> Path:
        """Its embedding in one file."""
        self.succeed(*self.embed(self.base / "alone.parquet"))
        return self.base / "alone.parquet"

    @cached_property
    def embedded_folder(self) -> Path:
        """Its embedding in a folder."""
        self.succeed(*self.embed(self.base / "alone_files"))
        return self.base / "alone_files"

    @cached_property
    def page(self) -> Path:
        """Its map."""
        self.succeed(*self.view(self.base / "alone.html"))
        return self.base / "alone.html"

    def fit(self, folder: Path, *more: str, rows: Path | None = None) -> list[str]:
        """Arguments of `horoball` that fit the table."""
        options = ["--max-epochs", str(EPOCHS), "--patience", "0", "--quiet"]
        return ["fit", str(rows or self.rows), "-o", str(folder), *options, *more]

    def embed(self, output: Path, *, rows: Path | None = None) -> list[str]:
        """Arguments of `horoball` that embed the table; a folder gets several files."""
        return ["embed", str(self.alone), str(rows or self.rows), "-o", str(output), "--file-rows", "500", "--quiet"]

    def view(self, output: Path) -> list[str]:
        """Arguments of `horoball` that draw the map."""
        return ["view", str(self.alone), str(self.rows), "-o", str(output), "--title", "Drill"]

    def start(
        self, *arguments: str, module: str = "horoball", through: Sequence[str] = (), **variables: str
    ) -> subprocess.Popen[str]:
        """Start a module of Python with one thread, maybe through another command."""
        path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path, "COLUMNS": "1000"} | variables
        command = [*through, sys.executable, "-m", module, *arguments]
        # A session of its own: whatever signals its group does not reach the drills.
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, env=environment, text=True, start_new_session=True, **pipes)  # type: ignore[call-overload] # noqa: S603

    def play(
        self, *arguments: str, module: str = "horoball", through: Sequence[str] = (), **variables: str
    ) -> tuple[int, str]:
        """The exit code of a module of Python, and what it said to a person."""
        with self.start(*arguments, module=module, through=through, **variables) as process:
            return self.end(process)

    def end(self, process: subprocess.Popen[str], seconds: float = SECONDS) -> tuple[int, str]:
        """Wait for a process: its exit code, and what it said to a person."""
        try:
            errors = process.communicate(timeout=seconds)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            errors = process.communicate()[1] + f"\nIt hung, and was killed after {seconds:.0f} seconds."
        lines = [line.rstrip() for line in errors.splitlines() if line.strip() and not line.startswith(_TOLD)]
        return process.returncode, "\n".join(lines).replace(f"{self.base}/", "")

    def succeed(self, *arguments: str) -> None:
        """Run a command that has to succeed."""
        code, said = self.play(*arguments)
        if code:
            raise RuntimeError(f"horoball {' '.join(arguments)} ended with {code}: {said}")


def same_bytes(first: Path, second: Path) -> bool:
    """Whether two files, or the files of two folders, are the same."""
    if first.is_dir():
        names = sorted(file.name for file in first.iterdir())
        there = second.is_dir() and names == sorted(file.name for file in second.iterdir())
        return there and all(same_bytes(first / name, second / name) for name in names)
    return second.is_file() and first.read_bytes() == second.read_bytes()


def same_run(first: Path, second: Path) -> dict[str, bool]:
    """Whether two fits have ended with the same bits, and left the same files and no others."""
    names = (BEST, LAST, METRICS, FINAL)
    bits = all((folder / name).is_file() for folder in (first, second) for name in names)
    bits = bits and all(same_bytes(first / name, second / name) for name in names)
    left = {file.name for file in second.iterdir()} - {*names, OPTIONS_FILE} if second.is_dir() else set()
    return {"same bits": bits, "nothing left over": not left}
