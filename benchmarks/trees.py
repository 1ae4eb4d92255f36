"""What a tree with support costs, by the number of rows: `python -m benchmarks.trees`.

Rows are a branching diffusion with 50 columns; a model of a few epochs is fitted first, which is not counted. Seconds
are of the wall, with all cores, and memory is the process's own peak; workers have as much as their distances each.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from horoball import PoincareVAE
from horoball.datasets import branching_diffusion


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


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 2_000, 5_000, 10_000, 20_000, 1_000_000])
    parser.add_argument("--draws", type=int, default=100)
    asked = parser.parse_args()
    print(f"| rows | leaves | seconds, {asked.draws} draws | peak, GiB |\n|--:|--:|--:|--:|", flush=True)
    for n in asked.rows:
        seconds, leaves, memory = measure(n, asked.draws)
        print(f"| {n:,} | {leaves:,} | {seconds:.0f} | {memory:.1f} |", flush=True)


if __name__ == "__main__":
    main()
