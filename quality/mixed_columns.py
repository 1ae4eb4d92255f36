"""A streamed table with columns of several kinds beside one of real numbers: `python -m quality.mixed_columns`.

Writes two Parquet tables of the same size to a temporary folder. One has real numbers alone; the other real and
positive numbers, counts, categories, ratings and truths, with gaps in a tenth of the columns. One epoch on each, in
turns, every fit in a process of its own with at most 2 GiB of data (RLIMIT_DATA), from opening the files to the model:
what is compared is processor time. The exit code is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.table import markdown
from quality.larger_than_memory import BATCH, FEATURES, GIB, GROUP, HIDDEN, Clock, _peak

KINDS = ("numbers", "mixed")
BAR = 1.5  # of the processor time of real numbers


def write(path: Path, kind: str, rows: int) -> None:
    """Rows near a curved surface of four dimensions; columns of the mixed table are made of its numbers."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, made = np.random.default_rng(0), None
    loadings = rng.normal(size=(4, FEATURES)).astype(np.float32)
    names = np.array([f"level {i}" for i in range(12)])
    for start in range(0, rows, GROUP):
        n = min(GROUP, rows - start)
        x = np.tanh(rng.standard_normal((n, 4), np.float32)) @ loadings
        x += 0.3 * rng.standard_normal((n, FEATURES), np.float32)
        columns = []
        for i, values in enumerate(x.T.copy()):
            what = i % 10 if kind == "mixed" else 9
            gaps = rng.random(n) < 0.1 if what == 8 else None
            if what in (0, 1):
                columns.append(pa.array(names[np.clip(values * 2 + 6, 0, 11).astype(int)]))
            elif what == 2:
                columns.append(pa.array(values > 0))
            elif what == 3:
                columns.append(pa.array(np.clip(values + 3, 1, 5).astype(np.int64)))
            elif what == 4:
                columns.append(pa.array(rng.poisson(np.exp(values / 2)).astype(np.int64)))
            elif what == 5:
                columns.append(pa.array(np.exp(values)))
            else:
                columns.append(pa.array(values, mask=gaps))
        table = pa.table(columns, names=[f"x{i}" for i in range(FEATURES)])
        made = made or pq.ParquetWriter(path, table.schema)
        made.write_table(table)
    assert made is not None
    made.close()


def train(path: str, kind: str) -> dict[str, float]:
    """One epoch as `horoball fit` runs it."""
    import torch

    from horoball.tables import parquet, read
    from horoball.training import TrainConfig
    from horoball.training.engine import engine
    from horoball.vae.train import train as run

    torch.set_num_threads(1)
    with engine():  # imports the rest
        pass
    parquet.MAX_BYTES_IN_MEMORY = 0  # streamed, whatever its size
    begin, clock = time.process_time(), Clock()
    table = read(path, kind=kind, streamed=True)
    fitted = run(table, {"hidden": (HIDDEN,)}, TrainConfig(max_epochs=1, batch_size=BATCH), progress=clock)
    numbers = {"all": time.process_time() - begin, "loop": clock.cpu, "peak": _peak()}
    return numbers | {"inputs": float(fitted.model.encoder.network[0].in_features)}  # type: ignore[union-attr, index]


def _child(path: Path, kind: str) -> dict[str, float]:
    limited = partial(resource.setrlimit, resource.RLIMIT_DATA, (2 * GIB, 2 * GIB))
    command = [sys.executable, "-m", "quality.mixed_columns", "--train", str(path), kind]
    done = subprocess.run(  # noqa: S603 (the command is this file's own)
        command,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        preexec_fn=limited,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{kind} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(folder: Path, rows: int, turns: int) -> bool:
    """Print all; whether no bar was missed."""
    for kind in KINDS:
        write(folder / f"{kind}.parquet", kind, rows)
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    for _ in range(turns):
        for kind in KINDS:
            found[kind].append(_child(folder / f"{kind}.parquet", kind))
            print(kind, found[kind][-1], file=sys.stderr, flush=True)
    keys = ("all", "loop", "peak", "inputs")
    middle = {kind: [statistics.median(line[key] for line in found[kind]) for key in keys] for kind in KINDS}
    print(f"{rows:,} rows × {FEATURES} columns, batches of {BATCH}, one epoch, median of {turns} turns.\n")
    header = ["columns", "fit, s of the processor", "training steps alone", "peak, MiB", "inputs of the encoder"]
    print(markdown(header, [[kind, *(f"{number:.1f}" for number in numbers)] for kind, numbers in middle.items()]))
    ratio = statistics.median(b["all"] / a["all"] for a, b in zip(*found.values(), strict=True))
    steps = statistics.median(b["loop"] / a["loop"] for a, b in zip(*found.values(), strict=True))
    print(f"\nMixed over real: {ratio:.2f} of the processor time, bar {BAR}; training steps alone {steps:.2f}.")
    return ratio <= BAR


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of each table")
    parser.add_argument("--turns", type=int, default=3, help="fits of each")
    parser.add_argument("--train", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.train:
        print(json.dumps(train(*options.train)), flush=True)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return int(not measure(Path(folder), options.rows, options.turns))


if __name__ == "__main__":
    sys.exit(main())
