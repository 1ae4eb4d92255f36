"""What a tree with support costs, by the number of rows: `python -m benchmarks.trees`.

Rows are a branching diffusion with 50 columns. By default the tree is that of a model of a few epochs, whose fit is not
counted; seconds are of the wall, with all cores, and memory is the process's own peak.

`python -m benchmarks.trees --rows 1000 --against COMMIT` compares `horoball.trees.tree`, without a model, with that of
an earlier commit of this repository: the same rows, one thread, CPU seconds. Every run is a process of its own, by
turns, and a line of `results/trees.jsonl`, written as soon as it is done. Memory is the most that was resident, and how
much of it came after the imports; it is read from `/proc`, so this part needs Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from horoball import PoincareVAE
from horoball.datasets import branching_diffusion

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "trees.jsonl"
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

# Run with the source folder of either commit on the path. The function has moved since. The peak is the kernel's VmHWM:
# that of getrusage begins with the memory of the process that started this one, which has imported torch as well.
_ONE = """
import json, sys, time
from pathlib import Path
import numpy as np
import horoball
assert Path(sys.argv[3]) in Path(horoball.__file__).parents, horoball.__file__
try:
    from horoball.trees import tree
except ImportError:
    from horoball.hierarchy.trees import tree
def peak():
    (line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024
tree(np.random.default_rng(0).normal(size=(40, 5)), draws=1, n_jobs=1)  # imports the rest
x, before, began = np.load(sys.argv[1]), peak(), time.process_time()
tree(x, draws=int(sys.argv[2]), n_jobs=1)
print(json.dumps({"seconds": time.process_time() - began, "peak": peak(), "above": peak() - before}))
"""


def rows_of(n: int, seed: int = 0) -> np.ndarray:
    """Rows of a branching diffusion of 1,023 nodes, as many as asked for."""
    data = branching_diffusion(depth=9, copies=1, seed=seed)
    rng = np.random.default_rng(seed)
    at = rng.integers(0, len(data.x), n)
    return (data.x.numpy()[at] + 0.2 * rng.standard_normal((n, data.x.shape[1]))).astype(np.float32)


def measure(n: int, draws: int) -> tuple[float, int, float]:
    """Seconds, leaves, and the peak of memory in GiB."""
    x = rows_of(n)
    model = PoincareVAE(max_epochs=2, batch_size=1024, distance_weight=0, random_state=0).fit(x[:20_000])
    began = time.perf_counter()
    found = model.tree(x, draws=draws)
    seconds = time.perf_counter() - began
    return seconds, found.leaves, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def one(source: Path, rows: Path, draws: int) -> dict[str, float]:
    """CPU seconds of a tree in a process of its own, its peak of memory and what of that is above imports, in MiB."""
    environment = os.environ | dict.fromkeys(_THREADS, "1") | {"PYTHONPATH": str(source)}
    command = [sys.executable, "-c", _ONE, str(rows), str(draws), str(source)]
    told = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603 - own
    found: dict[str, float] = json.loads(told.stdout)
    return found


def compare(commit: str, n: int, draws: int, turns: int) -> Iterator[dict[str, Any]]:
    """Runs of this source and of a commit's, by turns."""
    with TemporaryDirectory() as folder:
        old, rows, packed = Path(folder) / "old", Path(folder) / "rows.npy", Path(folder) / "old.tar"
        command = ["git", "-C", str(ROOT), "archive", "-o", str(packed), commit, "src"]
        subprocess.run(command, check=True)  # noqa: S603 - the commit is what the user of this command names
        with tarfile.open(packed) as archive:
            archive.extractall(old, filter="data")
        np.save(rows, rows_of(n))
        for turn in range(turns):
            # Each is first in every second turn: what runs beside them is then shared alike.
            for which in (("now", commit), (commit, "now"))[turn % 2]:
                source = ROOT / "src" if which == "now" else old / "src"
                yield {"source": which, "rows": n, "draws": draws, "turn": turn, **one(source, rows, draws)}


def table(commit: str, found: list[dict[str, Any]]) -> str:
    """Medians over turns, by the number of rows, and how many times those of the commit they are.

    Example:
        >>> line = {"rows": 1000, "seconds": 2.0, "peak": 300.0, "above": 100.0}
        >>> print(table("abc", [line | {"source": "abc"}, line | {"source": "now", "seconds": 3.0}]))
        | rows | turns | CPU s, abc | now | ratio | peak, MiB, abc | now | above imports, MiB, abc | now |
        |--:|--:|--:|--:|--:|--:|--:|--:|--:|
        | 1,000 | 1 | 2.0 | 3.0 | 1.50 | 300 | 300 | 100 | 100 |
    """
    lines = [f"| rows | turns | CPU s, {commit} | now | ratio | peak, MiB, {commit} | now | "]
    lines[0] += f"above imports, MiB, {commit} | now |"
    lines.append("|--:" * 9 + "|")
    for n in dict.fromkeys(run["rows"] for run in found):
        old, now = (
            {
                key: statistics.median(run[key] for run in found if (run["rows"], run["source"]) == (n, source))
                for key in ("seconds", "peak", "above")
            }
            for source in (commit, "now")
        )
        turns = sum((run["rows"], run["source"]) == (n, "now") for run in found)
        ratio = now["seconds"] / old["seconds"]
        lines.append(
            f"| {n:,} | {turns} | {old['seconds']:.1f} | {now['seconds']:.1f} | {ratio:.2f} | "
            f"{old['peak']:.0f} | {now['peak']:.0f} | {old['above']:.0f} | {now['above']:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 2_000, 5_000, 10_000, 20_000, 1_000_000])
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--against", metavar="COMMIT", help="an earlier commit to compare trees without a model with")
    parser.add_argument("--turns", type=int, default=3, help="runs of either source")
    asked = parser.parse_args()
    if asked.against is not None:
        found = []
        for n in asked.rows:
            for run in compare(asked.against, n, asked.draws, asked.turns):
                found.append(run)
                with RESULTS.open("a") as file:
                    file.write(json.dumps(run) + "\n")
                print(json.dumps(run), file=sys.stderr, flush=True)
        print(table(asked.against, found))
        return
    print(f"| rows | leaves | seconds, {asked.draws} draws | peak, GiB |\n|--:|--:|--:|--:|", flush=True)
    for n in asked.rows:
        seconds, leaves, memory = measure(n, asked.draws)
        print(f"| {n:,} | {leaves:,} | {seconds:.0f} | {memory:.1f} |", flush=True)


if __name__ == "__main__":
    main()
