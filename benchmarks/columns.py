"""Wide tables: `python -m benchmarks.columns` prints the seconds that opening takes for each number of columns.

A table of 20 rows is written as Parquet and as CSV for each width, and opened by `horoball.tables.read`; the rows of
the Parquet file are read as well. Times are of the processor, the least of several. A cost per column that grows with
the number of columns would be a quadratic one: the exit code is 1 if it more than doubles from the least to the most.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from horoball.tables import read

ROWS = 20
WIDTHS = (3_000, 10_000, 30_000, 100_000)
MOST = 2.0  # times the cost per column of the least wide table


def write(folder: Path, width: int) -> tuple[Path, Path]:
    """The same numbers as a Parquet and as a CSV file."""
    x = np.random.default_rng(0).normal(size=(ROWS, width)).astype(np.float32)
    names = [f"c{i}" for i in range(width)]
    parquet, text = folder / f"{width}.parquet", folder / f"{width}.csv"
    pq.write_table(pa.table(list(map(pa.array, x.T)), names=names), parquet)
    with text.open("w") as file:
        file.write(",".join(names) + "\n")
        file.writelines(",".join(f"{value:.6g}" for value in row) + "\n" for row in x)
    return parquet, text


def seconds(work: Callable[[], object], times: int) -> float:
    """The least of the processor's times."""
    found = []
    for _ in range(times):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def _blocks(path: Path) -> int:
    return sum(len(block) for block in read(path).blocks())


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a cost per column grows."""
    parser = argparse.ArgumentParser(description="Seconds to open wide tables.")
    parser.add_argument("--columns", type=int, nargs="+", default=list(WIDTHS))
    parser.add_argument("--times", type=int, default=3, help="Repetitions, of which the least counts.")
    asked = parser.parse_args(arguments)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        read(write(Path(folder), 10)[1])  # what is imported on first use is not counted
        for width in asked.columns:
            parquet, text = write(Path(folder), width)
            lines.append(
                (
                    width,
                    seconds(partial(read, parquet), asked.times),
                    seconds(partial(_blocks, parquet), asked.times),
                    seconds(partial(read, text), asked.times),
                )
            )
    print(f"| {'columns':>8} | {'open Parquet, s':>16} | {'open and read, s':>16} | {'open CSV, s':>12} |")
    print(f"|{'-' * 10}|{'-' * 18}|{'-' * 18}|{'-' * 14}|")
    for width, *found in lines:
        print(f"| {width:>8,} | {found[0]:>16.2f} | {found[1]:>16.2f} | {found[2]:>12.2f} |")
    first, last = lines[0], lines[-1]
    grown = [last[k] / last[0] / (first[k] / first[0]) for k in (1, 2, 3)]
    print(f"Cost per column, {last[0]:,} against {first[0]:,}: {', '.join(f'{ratio:.2f}' for ratio in grown)} times.")
    return int(max(grown) > MOST)


if __name__ == "__main__":
    sys.exit(main())
