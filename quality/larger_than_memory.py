"""Tables that do not fit in memory: `python -m quality.larger_than_memory`.

Writes a Parquet table to a temporary folder, and trains on a tenth of it and on all of it, one epoch each, as `horoball
fit` does: a pass that looks at the numbers, the training, the loss of the held-out rows. Then `horoball embed`. Every
measurement is a process of its own, on one thread beside the one that reads ahead, and may not have more than 2 GiB of
data (RLIMIT_DATA). The exit code is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

FEATURES, BATCH, HIDDEN = 50, 1024, 128
FILES, GROUP = 10, 50_000  # rows of a row group
GIB = 1 << 30
Numbers = dict[str, float]


class Clock:
    """Progress that takes times: of the start and of the last step."""

    def start(self, epochs: int, done: int) -> None:
        """The loop begins."""
        self.began, self.cpu = time.perf_counter(), time.process_time()

    def step(self, step: int, steps: int, sums: list[float], rows: int, batch: int) -> None:
        """A step is done."""
        if step == steps:
            self.stepped, self.cpu = time.perf_counter(), time.process_time() - self.cpu

    def epoch(self, line: dict[str, float]) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""


def _peak() -> float:
    """Most memory that was resident so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write(data: str, rows: str) -> Numbers:
    """Files of rows near a curved surface of four dimensions; all settings but the size of row groups are pyarrow's."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(4, FEATURES)).astype(np.float32)
    schema = pa.schema([(f"x{i}", pa.float32()) for i in range(FEATURES)])
    folder, each = Path(data), int(rows) // FILES
    for number in range(FILES):
        with pq.ParquetWriter(folder / f"{number}.parquet", schema) as writer:
            for start in range(0, each, GROUP):
                n = min(GROUP, each - start)
                x = np.tanh(rng.standard_normal((n, 4), np.float32)) @ loadings
                x += 0.3 * rng.standard_normal((n, FEATURES), np.float32)
                writer.write_table(pa.table([pa.array(column) for column in x.T.copy()], schema=schema))
    return {"bytes": float(sum(file.stat().st_size for file in folder.glob("*.parquet")))}


def train(data: str, folder: str, batch: str) -> Numbers:
    """One epoch as `horoball fit` runs it."""
    import torch

    from horoball.tables import read
    from horoball.training import TrainConfig
    from horoball.training.engine import engine
    from horoball.vae.train import train as run

    torch.set_num_threads(1)
    if os.environ.get("WORLD_SIZE", "1") == "1":
        with engine():  # imports the rest
            pass
    imported, begin, clock = _peak(), time.perf_counter(), Clock()
    config = TrainConfig(max_epochs=1, batch_size=int(batch))
    run(read(data, streamed=True), {"hidden": (HIDDEN,)}, config, Path(folder), progress=clock)
    end = time.perf_counter()
    times = {"look": clock.began - begin, "loop": clock.stepped - clock.began, "validate": end - clock.stepped}
    return times | {"loop_cpu": clock.cpu, "imported": imported, "peak": _peak()}


def embed(data: str, folder: str) -> Numbers:
    """The command `horoball embed`."""
    import pyarrow.parquet as pq
    import torch

    import horoball.vae.run  # noqa: F401 (its memory is not embedding's)
    from horoball.cli import app

    torch.set_num_threads(1)
    imported, begin, out = _peak(), time.perf_counter(), Path(folder, "map.parquet")
    app(["embed", folder, data, "-o", str(out)], standalone_mode=False)
    seconds = time.perf_counter() - begin
    return {"imported": imported, "peak": _peak(), "seconds": seconds, "rows": pq.read_metadata(out).num_rows}


def compare(data: str, turns: str) -> Numbers:
    """Rows per second of the training loop, streamed over in memory, in turns; and by time of the processor."""
    import torch

    from horoball.tables import ArrayTable, Table, read
    from horoball.training import TrainConfig
    from horoball.vae import VAE, ModelConfig, fit

    torch.set_num_threads(1)
    table = read(data, streamed=True)

    def loop(table: Table) -> Clock:
        torch.manual_seed(0)
        model, clock = VAE.from_config(ModelConfig(FEATURES, hidden=(HIDDEN,))), Clock()
        fit(model, table, TrainConfig(max_epochs=1, batch_size=BATCH), progress=clock)
        return clock

    pairs = []
    for turn in range(int(turns) + 1):  # short turns, since other work on the machine comes and goes
        streamed = table.split(0.2, seed=turn)[1] or table
        held = ArrayTable(torch.cat(list(streamed.blocks())), table.columns)
        pairs.append((loop(held), loop(streamed)))
    walls = [(b.stepped - b.began) / (a.stepped - a.began) for b, a in pairs[1:]]  # first calls are slower
    processor = statistics.median(b.cpu / a.cpu for b, a in pairs[1:])
    return {"ratio": statistics.median(walls), "low": min(walls), "high": max(walls), "cpu": processor}


def _child(part: str, *arguments: object, ranks: int = 1, limit: int = 2 * GIB) -> Numbers:
    """A part of the benchmark in a process of its own, or one for each rank."""
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    command = [sys.executable, *launch, "-m", __spec__.name, "--part", part, *map(str, arguments)]
    limited: Callable[[], None] = partial(resource.setrlimit, resource.RLIMIT_DATA, (limit, limit))
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(  # noqa: S603 (the command is this file's own)
        command, capture_output=True, text=True, env=environment, preexec_fn=limited, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{part} {arguments} failed:\n{done.stderr[-3000:]}")
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"part"')))


PARTS: dict[str, Callable[..., Numbers]] = {"write": write, "train": train, "embed": embed, "compare": compare}


def measure(folder: Path, rows: int, turns: int) -> bool:
    """Print all; whether no bar was missed."""
    begin = time.perf_counter()
    (data := folder / "table").mkdir()
    size = _child("write", data, rows)["bytes"]
    print(f"{rows:,} rows × {FEATURES} float32: {rows * FEATURES * 4 / GIB:.2f} GiB, {size / GIB:.2f} GiB of Parquet.")
    print(f"{FILES} files, row groups of {GROUP:,}. One hidden layer of {HIDDEN}, batches of {BATCH}, one epoch.\n")
    sources = {rows // FILES: data / "0.parquet", rows: data}
    fits = {n: _child("train", source, folder / f"run{n}", BATCH) for n, source in sources.items()}
    embeds = {n: _child("embed", source, folder / f"run{n}") for n, source in sources.items()}
    assert all(embeds[n]["rows"] == n for n in sources)
    _print_times(fits, embeds)
    ratio = _child("compare", data / "0.parquet", turns, limit=4 * GIB)
    two = _child("train", data / "0.parquet", folder / "ranks", 2 * BATCH, ranks=2)
    small, large = fits
    one = _child("train", data / "0.parquet", folder / "rank", BATCH)  # anew: beside it in time
    efficiency = one["loop_cpu"] / (2 * two["loop_cpu"])  # of the processor: two ranks seldom have two cores here
    print(f"""
Training on fifths of {small:,} rows, streamed over in memory, median of {turns} turns: {ratio["ratio"]:.2f} of the
rows per second ({ratio["low"]:.2f} to {ratio["high"]:.2f}), {ratio["cpu"]:.2f} of the rows per second of the processor.
Two ranks: {efficiency:.2f} of the rows of one per second of the processor.
""")
    _print_machines(fits, embeds, efficiency)
    growth = max(part[large]["peak"] / part[small]["peak"] - 1 for part in (fits, embeds))
    most = max(part[n]["peak"] for part in (fits, embeds) for n in sources) / 1024
    bars = {
        f"peak memory {most:.2f} GiB < 2 GiB": most < 2,
        f"peak memory grows by {growth:.1%} < 10 % from {small:,} to {large:,} rows": growth < 0.1,
        f"streamed / in memory {ratio['ratio']:.2f} ≥ 0.85": ratio["ratio"] >= 0.85,
    }
    print("\n" + "\n".join(f"- {bar}: {'pass' if passed else 'FAIL'}" for bar, passed in bars.items()))
    print(f"\n{time.perf_counter() - begin:.0f} s.")
    return all(bars.values())


def _line(values: dict[int, float], rows: float) -> float:
    """The straight line through two points."""
    (x0, y0), (x1, y1) = values.items()
    return y0 + (y1 - y0) * (rows - x0) / (x1 - x0)


def _print_times(fits: dict[int, Numbers], embeds: dict[int, Numbers]) -> None:
    from benchmarks.table import markdown

    times = ["first pass, s", "epoch, s", "of the processor", "validation, s", "embed, s"]
    keys = ("look", "loop", "loop_cpu", "validate")
    lines = []
    for n in fits:
        seconds = [f"{fits[n][key]:.1f}" for key in keys] + [f"{embeds[n]['seconds']:.1f}"]
        lines.append([f"{n:,}", *seconds, f"{fits[n]['peak']:.0f}", f"{embeds[n]['peak']:.0f}"])
    far = [_line({n: fit[key] for n, fit in fits.items()}, 1e9) for key in keys]
    far.append(_line({n: numbers["seconds"] for n, numbers in embeds.items()}, 1e9))
    lines.append(["10⁹, extrapolated", *(f"{s:,.0f}" for s in far), "", ""])
    imported = [f"{part[min(part)]['imported']:.0f}" for part in (fits, embeds)]
    header = ["rows", *times, "peak of fit, MiB", "peak of embed, MiB"]
    print(markdown(header, [["imports alone", *[""] * 5, *imported], *lines]))


def _print_machines(fits: dict[int, Numbers], embeds: dict[int, Numbers], efficiency: float) -> None:
    from benchmarks.table import markdown

    epoch = sum(_line({n: fit[key] for n, fit in fits.items()}, 1e9) for key in ("loop_cpu", "validate")) / 3600
    look = _line({n: fit["look"] for n, fit in fits.items()}, 1e9) / 3600
    embed = _line({n: numbers["seconds"] for n, numbers in embeds.items()}, 1e9) / 3600
    shares = {ranks: ranks * (1 if ranks == 1 else efficiency) for ranks in (1, 8, 64)}
    lines = [[f"{n}", f"{look:.1f}", f"{epoch / share:.2f}", f"{embed / n:.2f}"] for n, share in shares.items()]
    print(
        markdown(["ranks, 10⁹ rows", "first pass, h", "an epoch, h of the processor", "embed, h, a part each"], lines)
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the table")
    parser.add_argument("--turns", type=int, default=15, help="turns of the comparison with memory")
    parser.add_argument("--folder", type=Path, help="where the table is written for the while; a temporary folder")
    parser.add_argument("--part", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.part:
        part, *rest = options.part
        numbers = PARTS[part](*rest)
        if os.environ.get("RANK", "0") == "0":
            print(json.dumps({"part": part} | numbers), flush=True)
        return 0
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        needed = 2 * 4 * FEATURES * options.rows
        if shutil.disk_usage(folder).free < needed:
            raise OSError(f"{folder} needs {needed / GIB:.0f} GiB of free space. Choose another with --folder.")
        return int(not measure(Path(folder), options.rows, options.turns))


if __name__ == "__main__":
    sys.exit(main())
