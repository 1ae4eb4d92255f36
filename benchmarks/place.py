"""What placing rows costs and whether it holds: `python -m benchmarks.place`.

Groups of Gaussian rows in two levels, 20,000 rows of them known, by how far the groups are apart. For new rows, with
one thread: rows per CPU second by the groups near a row (`Placer.place`), by all known rows, which is how rows were
placed before, and of FAISS, which finds the ten nearest of the known rows and says nothing of groups. Then the share
of rows for which the groups near them are enough at once, how many rows have the same path by both, the largest
difference of a probability, how many paths are right, and how many places hold the truth at a coverage of 0.9.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from horoball.trees import Placer

CASES = ((1000, 50, 1.0), (1000, 50, 0.5), (1000, 50, 0.3), (1000, 256, 1.0), (200, 50, 1.0), (12, 50, 1.0))
_KNOWN = 20_000
_NOISE = 0.6  # standard deviation within a group
_NEIGHBORS = 10


def rows_of(groups: int, columns: int, apart: float, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and their groups in two levels."""
    rng = np.random.default_rng(5)
    coarse = round(groups**0.5)
    each = -(-groups // coarse)
    centers = rng.normal(size=(coarse, 1, columns)) + apart * rng.normal(size=(coarse, each, columns))
    rng = np.random.default_rng(seed)
    of = rng.integers(0, groups, n)
    x = centers.reshape(-1, columns)[of] + _NOISE * rng.normal(size=(n, columns))
    return x.astype(np.float32), np.stack([of // each, of], 1)


def measure(groups: int, columns: int, apart: float, rows: int, compared: int) -> str:
    """A line of the table."""
    import faiss

    faiss.omp_set_num_threads(1)
    x, levels = rows_of(groups, columns, apart, _KNOWN, 0)
    placer = Placer.fit(x, levels)
    new, truth = rows_of(groups, columns, apart, rows, 1)
    placer.place(new[:100])  # makes what it looks among
    began = time.process_time()
    placed = placer.place(new)
    near = rows / (time.process_time() - began)
    some = new[:compared]
    began = time.process_time()
    path, probability, _ = placer._walk_all(some)
    every = compared / (time.process_time() - began)
    index = faiss.IndexFlatL2(columns)
    index.add(x)
    began = time.process_time()
    index.search(some, _NEIGHBORS)
    bare = compared / (time.process_time() - began)
    enough = f"{placer._near.scores(some)[2].mean():.3f}" if placer._near.worth_it else "all are compared"
    same = (placed.path[:compared] == path).all(1).mean()
    most = np.abs(placed.probability[:compared] - probability).max()
    right = (placed.path == truth).all(1).mean()
    holds = ((placed.path == truth) | (np.arange(2) >= placed.depth()[:, None])).all(1).mean()
    return (
        f"| {groups:,} | {columns} | {apart:g} | {near:,.0f} | {every:,.0f} | {bare:,.0f} | {enough} | {same:.4f} | "
        f"{most:.4f} | {right:.3f} | {holds:.3f} |"
    )


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=65_536)
    parser.add_argument("--compared", type=int, default=2_000, help="rows that are compared with all, too")
    asked = parser.parse_args()
    print("| groups | columns | apart | rows/s, near groups | all rows | FAISS, 10 nearest | near are enough |", end="")
    print(" same path | largest difference | right | holds the truth |\n" + "|--:" * 11 + "|", flush=True)
    for groups, columns, apart in CASES:
        print(measure(groups, columns, apart, asked.rows, asked.compared), flush=True)


if __name__ == "__main__":
    main()
