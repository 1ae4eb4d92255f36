"""Kills, restarts and two ranks: `OMP_NUM_THREADS=1 python -m quality.faults resume|restart|ranks`.

resume   a run is killed 20 times at random moments and resumed each time; rows in memory and streamed from Parquet
restart  one of two ranks is killed and torchrun starts both again; five trials
ranks    rows per second of one rank and of two, in turns; and matrix products of one process and of two by themselves
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from benchmarks.table import markdown
from horoball.storage.checkpoint import load_checkpoint
from horoball.tables import ArrayTable, read
from horoball.training import TrainConfig
from horoball.training.engine import engine
from horoball.training.progress import Progress, Silent
from horoball.training.state import LAST
from horoball.vae import VAE, ModelConfig, fit

KILLS, TRIALS, TURNS = 20, 5, 5
FEATURES, ROWS, BATCH, EPOCHS = 20, 5000, 20, 2
STEPS = ROWS * 9 // 10 // BATCH  # of an epoch; a tenth of the rows is held out


class Starter(Silent):
    """Tells another process that a first step is done."""

    def __init__(self, began: Event) -> None:
        self.began = began

    def step(self, step: int, steps: int, sums: list[float], rows: int, batch: int) -> None:
        """Tell it."""
        self.began.set()


def train(folder: Path, source: str = "memory", progress: Progress | None = None) -> None:
    """A run that writes a checkpoint after every step."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = VAE.from_config(ModelConfig(features=FEATURES, hidden=(600, 600), learn_c=True))
    rows, held = (_rows() if source == "memory" else read(source, streamed=True)).split(0.1)
    folder.mkdir(exist_ok=True)
    (folder / f"rank{os.environ.get('RANK', 0)}.pid").write_text(str(os.getpid()))
    config = TrainConfig(max_epochs=EPOCHS, batch_size=BATCH, checkpoint_seconds=0.0, patience=0)
    fit(model, rows, config, folder, validation=held, resume=True, progress=progress)


def _rows() -> ArrayTable:
    return ArrayTable(torch.randn(ROWS, FEATURES, generator=torch.Generator().manual_seed(0)))


def _parquet(folder: Path) -> str:
    folder.mkdir()
    x = next(_rows().blocks()).numpy()
    for part in range(4):
        rows = x[part * ROWS // 4 : (part + 1) * ROWS // 4]
        table = pa.table({f"x{i}": rows[:, i] for i in range(FEATURES)})
        pq.write_table(table, folder / f"{part}.parquet", row_group_size=100)
    return str(folder)


def _same(first: Path, second: Path) -> bool:
    """Whether two runs end with the same bits: weights, optimizer, counters and metrics."""
    (a, about_a), (b, about_b) = load_checkpoint(first / LAST), load_checkpoint(second / LAST)
    same = [a[name].numpy().tobytes() == b[name].numpy().tobytes() for name in a]
    return a.keys() == b.keys() and all(same) and about_a == about_b


def _step(folder: Path) -> tuple[int, int]:
    """Epoch and step of the last checkpoint."""
    if not (folder / LAST).exists():
        return 0, 0
    state = load_checkpoint(folder / LAST)[1]["state"]
    return state["epoch"], state["step"]


def _run(folder: Path, source: str, seconds: float | None = None) -> float:
    """Train in a process, killed some seconds after its first step; the seconds it took, or −1 if it was killed."""
    context = get_context("fork")
    began = context.Event()
    process = context.Process(target=train, args=(folder, source, Starter(began)))
    process.start()
    while process.is_alive() and not began.wait(0.1):
        pass
    start = time.monotonic()
    process.join(seconds)
    process.kill()
    process.join()
    return time.monotonic() - start if process.exitcode == 0 else -1


def resume() -> bool:
    """Kill a run again and again; it has to end like one that was left alone."""
    lines, passed = [], True
    rng = np.random.default_rng(0)
    with engine():  # imported once, and not by every run
        pass
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        for kind, source in (("memory", "memory"), ("Parquet", _parquet(base / "rows"))):
            whole, parts = base / f"{kind} whole", base / f"{kind} parts"
            span = _run(whole, source)
            kills, writes, steps = 0, 0, set()
            for kill in range(KILLS):
                epoch, step = _step(parts)
                left = 1 - (epoch + step / STEPS) / EPOCHS
                kills += _run(parts, source, rng.uniform(0, 1.2) * span * left / (KILLS - kill)) < 0
                writes += any(parts.glob("*.part"))
                steps.add(_step(parts))
            _run(parts, source)
            rest, same = len(list(parts.glob("*.part"))), _same(whole, parts)
            passed &= same and not rest and kills == KILLS
            lines.append([kind, str(kills), str(len(steps)), str(writes), str(rest), "yes" if same else "NO"])
    header = ("rows", "kills", "different steps", "within a write", "files left over", "same bits at the end")
    print(markdown(header, lines))
    return passed


def _torchrun(ranks: int, *arguments: str) -> list[str]:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    return [*torchrun, "--max-restarts=3", "-m", "quality.faults", *arguments]


def _environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def restart() -> bool:
    """Kill one of two ranks; the run has to end like one whose ranks were left alone."""
    lines, good = [], 0
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        whole = Path(name) / "whole"
        subprocess.run(_torchrun(2, "train", str(whole)), env=_environment(), check=True, capture_output=True)  # noqa: S603
        for trial in range(TRIALS):
            folder, rank = Path(name) / str(trial), trial % 2
            command = _torchrun(2, "train", str(folder))
            start = time.monotonic()
            with (Path(name) / "log").open("w") as log:
                run = subprocess.Popen(command, env=_environment(), stdout=log, stderr=log)  # noqa: S603
                while not (folder / LAST).exists():
                    time.sleep(0.05)
                time.sleep(rng.uniform(0, 2))
                file = folder / f"rank{rank}.pid"
                first, began = file.read_text(), time.monotonic()
                epoch, step = _step(folder)
                os.kill(int(first), signal.SIGKILL)
                try:
                    code = str(run.wait(300))
                except subprocess.TimeoutExpired:
                    run.terminate()
                    code = "hangs"
            same = code == "0" and file.read_text() != first and _same(whole, folder)
            good += same
            where, seconds = f"epoch {epoch + 1}, step {step}", time.monotonic() - began
            lines.append([str(trial + 1), str(rank), where, code, f"{began - start:.0f} + {seconds:.0f}"])
            lines[-1].append("yes" if same else "NO")
    print(markdown(("trial", "killed rank", "at", "exit code", "seconds", "same bits at the end"), lines))
    print(f"\n{good} of {TRIALS} restarted and ended like a run that was left alone.")
    return good == TRIALS


class Clock(Silent):
    """Rows per second, without those of the first steps."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.rows = 0

    def step(self, step: int, steps: int, sums: list[float], rows: int, batch: int) -> None:
        """Note the time; after the last step print the rate."""
        self.times.append(time.perf_counter())
        self.rows = batch
        if step == steps and os.environ["RANK"] == "0":
            between = np.diff(self.times[5:])
            print(f"rows/s {self.rows / float(np.median(between)):.0f}", flush=True)


def speed() -> None:
    """A model of the size of MNIST, 1024 rows a rank and step."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    ranks = int(os.environ["WORLD_SIZE"])
    model = VAE.from_config(ModelConfig(features=784, d=20, likelihood="bernoulli", hidden=(600,)))
    x = (torch.rand(1024 * ranks * 60, 784) < 0.2).float()
    fit(model, ArrayTable(x), TrainConfig(max_epochs=1, batch_size=1024 * ranks), progress=Clock())


def products(seconds: float = 5.0) -> None:
    """How many products of the size of the model's a process makes."""
    torch.set_num_threads(1)
    a, w, made, end = torch.randn(1024, 784), torch.randn(784, 600), 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        a @ w
        made += 1
    print(f"products/s {made / seconds:.0f}", flush=True)


def _bound() -> float:
    """Products of two processes at once over those of one: what the machine leaves to two ranks at best."""
    command = [sys.executable, "-m", "quality.faults", "products"]
    rates = []
    for many in (1, 2):
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(many)]  # noqa: S603
        rates.append(sum(float(process.communicate()[0].split()[1]) for process in started))
    return rates[1] / rates[0]


def ranks() -> bool:
    """Rows per second of one rank and of two."""
    rates: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(TURNS):
        for count, found in rates.items():
            command = _torchrun(count, "speed")
            done = subprocess.run(command, env=_environment(), check=True, capture_output=True, text=True)  # noqa: S603
            found.append(float(done.stdout.split("rows/s ")[1].split()[0]))
    lines = [[str(count), *(f"{rate:.0f}" for rate in found)] for count, found in rates.items()]
    quotients = [two / one for one, two in zip(*rates.values(), strict=True)]
    lines.append(["two / one", *(f"{quotient:.2f}" for quotient in quotients)])
    medians = [f"{statistics.median(found):.0f}" for found in rates.values()]
    medians.append(f"{statistics.median(quotients):.2f}")
    turns = [f"turn {turn + 1}" for turn in range(TURNS)]
    rows = [[*line, median] for line, median in zip(lines, medians, strict=True)]
    print(markdown(("ranks", *turns, "median"), rows))
    bounds = [_bound() for _ in range(3)]
    print(f"\nMatrix products of two processes by themselves, over one: {statistics.median(bounds):.2f}.")
    return statistics.median(quotients) >= 1.7


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("resume", "restart", "ranks", "train", "speed", "products"))
    parser.add_argument("folder", nargs="?", type=Path)
    options = parser.parse_args(arguments)
    if options.what == "train":  # what torchrun starts
        train(options.folder)
        return 0
    if options.what in ("speed", "products"):
        {"speed": speed, "products": products}[options.what]()
        return 0
    return 0 if {"resume": resume, "restart": restart, "ranks": ranks}[options.what]() else 1


if __name__ == "__main__":
    sys.exit(main())
