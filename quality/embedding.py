"""Embedding of tables that do not fit in memory: `python -m quality.embedding [--rows 10000000]`.

Writes a Parquet table of 50 columns to a temporary folder, fits a model to a tenth of it, and embeds the tenth and all
of it with `horoball embed`: by one process and by two, on a core each, and by one on all cores, which reads ahead in a
thread. A command that finds all files there has nothing but its start to do, which is taken off. Then one is killed
half way (kill -9) and two go on. The exit code is 1 if a row is missing or there twice, or a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.table import markdown
from quality.larger_than_memory import write

SPEED_UP = 1.7  # of two processes, the bar


class Cost(NamedTuple):
    """Of one command."""

    seconds: float
    cpu: float  # of all processes
    peak: float  # MiB of the largest


def _start(data: Path, run: Path, out: Path, rank: int, ranks: int, pinned: bool) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "horoball", "embed", str(run), str(data), "-o", str(out), "--quiet"]
    environment = os.environ | {"RANK": str(rank), "WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)  # noqa: S603
    if pinned:
        os.sched_setaffinity(process.pid, {sorted(os.sched_getaffinity(0))[rank]})
    return process


def embed(data: Path, run: Path, out: Path, ranks: int, pinned: bool = True) -> Cost:
    """Embed a table by some processes."""
    began = time.perf_counter()
    processes = [_start(data, run, out, rank, ranks, pinned) for rank in range(ranks)]
    used = [os.wait4(process.pid, 0) for process in processes]
    seconds = time.perf_counter() - began
    if any(status for _, status, _ in used):
        raise RuntimeError("horoball embed failed.")
    usages = [usage for _, _, usage in used]
    return Cost(seconds, sum(u.ru_utime + u.ru_stime for u in usages), max(u.ru_maxrss for u in usages) / 1024)


def measure(data: Path, run: Path, folder: Path, rows: int, ranks: int, pinned: bool) -> tuple[float, Cost]:
    """Rows a second after the start, the better of two turns, and its cost."""
    best: tuple[float, Cost] | None = None
    for turn in range(2):
        out = folder / f"out-{rows}-{ranks}-{turn}"
        cost, start = (embed(data, run, out, ranks, pinned) for _ in range(2))
        found = (rows / (cost.seconds - start.seconds), cost)
        best = found if best is None or found[0] > best[0] else best
        shutil.rmtree(out)
    assert best is not None
    return best


def killed(data: Path, run: Path, folder: Path, rows: int) -> bool:
    """Kill a command half way, go on with two, and count the rows."""
    import pyarrow.parquet as pq

    out, files = folder / "killed", -(-rows // (1 << 18))
    process = _start(data, run, out, 0, 1, pinned=False)
    while len(list(out.glob("*.parquet"))) < files / 2 and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = len(list(out.glob("*.parquet")))
    embed(data, run, out, 2)
    found = [pq.read_table(file, columns=["row"])["row"].to_numpy() for file in sorted(out.glob("*.parquet"))]
    whole = sum(map(len, found)) == rows and all(
        int(part[0]) == sum(map(len, found[:i])) and int(part[-1]) - int(part[0]) == len(part) - 1
        for i, part in enumerate(found)
    )
    print(f"\nkilled with {before} of {len(found)} files written; then every row once: {'yes' if whole else 'NO'}")
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows = parser.parse_args(arguments).rows
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, tenth, run = folder / "data", folder / "tenth", folder / "run"
        data.mkdir()
        tenth.mkdir()
        size = write(str(data), str(rows))["bytes"]
        shutil.copy(data / "0.parquet", tenth)
        fit = [sys.executable, "-m", "horoball", "fit", str(tenth), "-o", str(run), "--max-epochs", "1"]
        fit += ["--batch-size", "4096", "--distance-weight", "0", "--quiet"]
        subprocess.run(fit, check=True, capture_output=True)  # noqa: S603
        print(f"{rows:,} rows of 50 columns, {size / 1e9:.2f} GB of Parquet\n")
        lines, speeds = [], {}
        for source, count, ranks, pinned in (
            (data, rows, 1, False),
            (tenth, rows // 10, 1, True),
            (data, rows, 1, True),
            (data, rows, 2, True),
        ):
            speeds[ranks], cost = measure(source, run, folder, count, ranks, pinned)
            per = 1e6 * cost.cpu / count
            numbers = (f"{cost.seconds:.1f}", f"{speeds[ranks]:,.0f}", f"{per:.2f}", f"{cost.peak:.0f}")
            lines.append([f"{count:,}", str(ranks), "one each" if pinned else "all", *numbers])
        header = ["rows", "processes", "cores", "s", "rows/s after the start", "CPU µs a row", "peak MiB"]
        print(markdown(header, lines))
        ratio = speeds[2] / speeds[1]
        print(f"\ntwo processes are {ratio:.2f} times as fast as one, on a core each; bar {SPEED_UP}")
        return 0 if killed(data, run, folder, rows) and ratio >= SPEED_UP else 1


if __name__ == "__main__":
    sys.exit(main())
