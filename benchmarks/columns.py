"""Wide tables: `python -m benchmarks.columns` prints the seconds that opening takes for each number of columns.

A table of 20 rows is written as Parquet and as CSV for each width, and opened by `horoball.tables.read`; the rows of
the Parquet file are read as well. Times are of the processor, the least of several. A cost per column that grows with
the number of columns would be a quadratic one: the exit code is 1 if it more than doubles from the least to the most.

`python -m benchmarks.columns mixed` prints what it costs to stream 400,000 rows of 20 columns of several kinds, beside
as many real ones: every row once in its order, and as batches of an epoch. The exit code is 1 above 1.6 times.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from horoball.process import max_memory
from horoball.tables import Table, read
from horoball.tables.table import Order

ROWS = 20
WIDTHS = (3_000, 10_000, 30_000, 100_000)
MOST = 2.0  # times the cost per column of the least wide table
STREAMED, GROUP = 400_000, 1 << 16  # rows, and those of a row group
MIXED = 1.6  # times the cost of real columns


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


def several_kinds(rows: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Twenty real columns; and eight of them with four of categories, three of truths, three counts, and others."""
    rng = np.random.default_rng(0)
    real: dict[str, Any] = {f"real {i}": rng.normal(size=rows).astype(np.float32) for i in range(20)}
    colors = np.array(["red", "green", "blue", "white", "black"])
    mixed = {name: real[name] for name in list(real)[:8]}
    mixed |= {f"color {i}": colors[rng.integers(0, 5, rows)] for i in range(4)}
    mixed |= {f"truth {i}": rng.random(rows) < 0.3 for i in range(3)}
    mixed |= {f"count {i}": rng.poisson(3, rows) for i in range(3)}
    mixed |= {"positive": np.exp(rng.normal(size=rows)), "day": rng.integers(0, 3000, rows).astype("datetime64[D]")}
    return real, mixed


def stream(table: Table) -> int:
    """Read every row once, in its order."""
    return sum(len(block) for block in table.blocks())


def epoch(table: Table) -> int:
    """Read every row once, in batches."""
    return sum(len(batch.x) for batch in table.batches(Order(512, 0)))


def mixed(times: int) -> int:
    """Print what columns of several kinds cost beside real ones; 1 if it is too much."""
    found = []
    with tempfile.TemporaryDirectory() as folder, max_memory("10MB"):  # a larger table is streamed
        tables = []
        for name, columns in zip(("real", "mixed"), several_kinds(STREAMED), strict=True):
            path = Path(folder) / f"{name}.parquet"
            pq.write_table(pa.table({key: pa.array(x) for key, x in columns.items()}), path, row_group_size=GROUP)
            tables.append(read(path))
        print("| 400,000 rows | 20 real columns, s | 20 of several kinds, s | times |\n|---|--:|--:|--:|")
        for said, work in (("in their order", stream), ("in batches", epoch)):
            real, other = (seconds(partial(work, table), times) for table in tables)
            found.append(other / real)
            print(f"| {said} | {real:.3f} | {other:.3f} | {other / real:.2f} |")
    return int(max(found) > MIXED)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a cost per column grows."""
    parser = argparse.ArgumentParser(description="Seconds to open wide tables, or to stream mixed ones.")
    parser.add_argument("what", nargs="?", choices=["wide", "mixed"], default="wide")
    parser.add_argument("--columns", type=int, nargs="+", default=list(WIDTHS))
    parser.add_argument("--times", type=int, default=3, help="Repetitions, of which the least counts.")
    asked = parser.parse_args(arguments)
    if asked.what == "mixed":
        return mixed(asked.times)
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
