"""What rows cost to embed and to place, by the commands and in several processes: `python -m benchmarks.shards`.

Groups of Gaussian rows of 50 columns in Parquet files of a million rows. A model and groups are made of 20,000 of
them. Then `horoball embed` and `horoball place` write all of them to folders, in so many processes that share the files
by RANK and WORLD_SIZE, each with one thread. CPU seconds and memory are those of whole processes, from their first line
to their last. What a process takes that writes 20,000 rows alone is its start, which does not grow with the rows: rows
per second are those of the rest. What larger tables would take is the rest times the rows: it is extrapolated.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.table import markdown

COLUMNS, GROUPS, NOISE = 50, 100, 0.6
FILE, FITTED = 1_000_000, 20_000  # rows
LARGER = (10**9, 10**12)
CORES = (1, 64, 1024)


class Cost(NamedTuple):
    """What processes took together, and the largest one's memory."""

    cpu: float  # seconds
    wall: float
    memory: float  # GiB


def write_rows(folder: Path, rows: int) -> None:
    """The files; the first rows of the first one are also those of the fit."""
    centers = np.random.default_rng(0).normal(size=(GROUPS, COLUMNS)).astype(np.float32)
    names = [f"x{i}" for i in range(COLUMNS)]
    for number, start in enumerate(range(0, rows, FILE)):
        rng, n = np.random.default_rng(number + 1), min(FILE, rows - start)
        x = rng.standard_normal((n, COLUMNS), np.float32)
        x *= NOISE
        x += centers[rng.integers(0, GROUPS, n)]
        made = pa.table(dict(zip(names, x.T.copy(), strict=True)))
        pq.write_table(made, folder / f"{number:04d}.parquet", row_group_size=1 << 17)
        if number == 0:
            pq.write_table(made.slice(0, FITTED), folder.parent / "fitted.parquet")


def command(*words: object, processes: int = 1) -> Cost:
    """The cost of a command, in so many processes at once."""
    began, running = time.monotonic(), []
    for rank in range(processes):
        more = {"OMP_NUM_THREADS": "1", "RANK": str(rank), "WORLD_SIZE": str(processes)}
        arguments = [sys.executable, "-m", "horoball", *map(str, words)]
        running.append(subprocess.Popen(arguments, env=os.environ | more, stdout=subprocess.DEVNULL))  # noqa: S603
    cpu, memory = 0.0, 0
    for process in running:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{' '.join(map(str, words))} ended with {process.returncode}.")
        cpu, memory = cpu + used.ru_utime + used.ru_stime, max(memory, used.ru_maxrss)
    return Cost(cpu, time.monotonic() - began, memory / 2**20)


def said(seconds: float) -> str:
    """A time in words."""
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def main() -> None:
    """Measure, and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        rows, run, fitted = folder / "rows", folder / "run", folder / "fitted.parquet"
        rows.mkdir()
        write_rows(rows, asked.rows)
        command("fit", fitted, "-o", run, "--quiet", "--max-epochs", 5, "--distance-weight", 0)
        command("tree", run, fitted, "-o", folder / "groups.csv", "--draws", 0, "--levels", f"10,{GROUPS}")
        costs, starts = {}, {}
        for name in ("embed", "place"):
            starts[name] = command(name, run, fitted, "-o", folder / f"{name} of few", "--quiet").cpu
            costs[name] = command(name, run, rows, "-o", folder / name, "--quiet", processes=asked.processes)
            print(name, starts[name], costs[name], file=sys.stderr)  # a table comes at the end
    # Seconds of a row, beyond those of the processes' starts.
    each = {
        name: max(1e-3, cost.cpu - asked.processes * starts[name]) / max(1, asked.rows - asked.processes * FITTED)
        for name, cost in costs.items()
    }
    print(f"{asked.rows:,} rows of {COLUMNS} columns, {GROUPS} groups, {asked.processes} processes.\n")
    lines = [
        [
            name,
            f"{cost.cpu:.1f}",
            f"{starts[name]:.1f}",
            f"{1 / each[name]:,.0f}",
            f"{cost.wall:.0f}",
            f"{cost.memory:.2f}",
        ]
        for name, cost in costs.items()
    ]
    print(markdown(("", "CPU s", "a start, CPU s", "rows/s and core", "wall s", "GiB a process"), lines), "\n")
    lines = [
        [name, f"{rows:.0e}", *(said(starts[name] + rows * each[name] / cores) for cores in CORES)]
        for name in costs
        for rows in LARGER
    ]
    print(markdown(("", "rows, extrapolated", *(f"{cores:,} cores" for cores in CORES)), lines))


if __name__ == "__main__":
    main()
