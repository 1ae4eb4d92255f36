"""What `horoball check` costs on a file of many rows: `python -m benchmarks.check`.

The file has 10,000 rows of 100 columns: numbers of five groups, and a mixed one of the same size with categories, dates
and gaps. Printed are CPU and wall seconds of the whole command in a process of its own, of its start alone, and of the
first start after an install, which compiles all modules to bytecode; later ones find it.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.table import markdown

BAR = 10.0  # seconds


def plain(rows: int, columns: int, seed: int = 0) -> pd.DataFrame:
    """Numbers of five groups, in half of the columns.

    Example:
        >>> plain(10, 4).shape
        (10, 4)
    """
    rng = np.random.default_rng(seed)
    center = 3 * rng.normal(size=(5, columns)) * (np.arange(columns) < columns // 2)
    x = center[rng.integers(5, size=rows)] + rng.normal(size=(rows, columns))
    return pd.DataFrame(x.round(4), columns=[f"x{k}" for k in range(columns)])


def mixed(rows: int, columns: int, seed: int = 0) -> pd.DataFrame:
    """The same with three categories and a date in every ten columns, and a gap in every twentieth cell.

    Example:
        >>> mixed(10, 10).dtypes.nunique() > 1
        True
    """
    rng = np.random.default_rng(seed)
    frame = plain(rows, columns, seed)
    for k, name in enumerate(frame.columns):
        if k % 10 < 3:
            bins = np.digitize(frame[name], [-1.0, 1.0, 3.0])
            frame[name] = np.array(["north", "east", "south", "west"])[bins]
        elif k % 10 == 3:
            days = pd.to_timedelta((30 * frame[name] + rng.integers(300, size=rows)).round(), unit="D")
            frame[name] = (pd.Timestamp("2022-01-01") + days).dt.date
    return frame.mask(rng.random(frame.shape) < 0.05)


def cost(command: list[str], bytecode: str | None = None) -> tuple[float, float]:
    """CPU and wall seconds of a command, which keeps its bytecode in a folder.

    Example:
        >>> cost([sys.executable, "-c", "pass"])[0] < 5
        True
    """
    kept = {} if bytecode is None else {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    silent = subprocess.DEVNULL
    subprocess.run(command, check=True, env=os.environ | kept, stdout=silent, stderr=silent)  # noqa: S603 - our own
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - start


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.check")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--columns", type=int, default=100)
    asked = parser.parse_args(arguments)
    program, lines = [sys.executable, "-m", "horoball"], []
    with tempfile.TemporaryDirectory() as folder:
        path, bytecode = Path(folder) / "rows.csv", str(Path(folder) / "bytecode")
        plain(100, asked.columns).to_csv(path, index=False)
        first = cost([*program, "check", str(path)], bytecode)
        for name, make in (("numbers", plain), ("mixed, with gaps", mixed)):
            make(asked.rows, asked.columns).to_csv(path, index=False)
            cpu, wall = cost([*program, "check", str(path)], bytecode)
            lines.append([name, f"{cpu:.1f}", f"{wall:.1f}", "pass" if cpu <= BAR else "FAIL"])
        start = cost([*program, "--version"], bytecode)
        for name, (cpu, wall) in (("start of the program alone", start), ("100 rows, first start", first)):
            lines.append([name, f"{cpu:.1f}", f"{wall:.1f}", ""])
    print(markdown([f"{asked.rows:,} x {asked.columns}", "CPU s", "wall s", f"at most {BAR:g} CPU s"], lines))


if __name__ == "__main__":
    main()
