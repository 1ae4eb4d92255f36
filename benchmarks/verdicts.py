"""Is it hierarchical? The verdict on known and real data: `python -m benchmarks.verdicts`.

Cells and graphs are looked for in HOROBALL_DATA, and left out where they are not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.sparse import coo_matrix

from benchmarks.table import markdown
from horoball.data import branching_diffusion
from horoball.hierarchy import Space, verdict


def _made() -> Iterator[tuple[str, np.ndarray | Space]]:
    rng = np.random.default_rng(0)
    for seed in range(3):
        yield f"branching diffusion, seed {seed}", branching_diffusion(seed=seed).x.numpy()
    tree = branching_diffusion().x.numpy()
    yield "branching diffusion and 200 columns of noise", np.hstack((tree, rng.normal(size=(len(tree), 200))))
    yield "branching diffusion, one observation a node", branching_diffusion(copies=1).x.numpy()
    yield "branching diffusion, straight distances", Space.of_points(tree)
    yield "normal cloud, 1000 × 10", rng.normal(size=(1000, 10))
    yield "normal cloud, 1000 × 2", rng.normal(size=(1000, 2))
    u, v = rng.uniform(0, 2 * np.pi, (2, 1000))
    yield "torus", np.stack(((2 + np.cos(v)) * np.cos(u), (2 + np.cos(v)) * np.sin(u), np.sin(v)), 1)
    yield "five clusters that lie apart", rng.normal(size=(1000, 10)) + 20 * rng.normal(size=(5, 10)).repeat(200, 0)
    yield "noisy line", np.stack((np.linspace(0, 100, 1000), *rng.normal(size=(2, 1000))), 1)


def _cells(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    for name in ("Olsson", "krumsiek11_blobs", "Moignard2015"):
        x = np.genfromtxt(folder / f"{name}.csv", delimiter=",", dtype=str, skip_header=1)[:, :-1].astype(np.float64)
        yield name, x
        if name == "Olsson":
            for seed in range(3):
                rng = np.random.default_rng(seed)
                yield f"Olsson, columns shuffled, seed {seed}", np.stack([rng.permutation(column) for column in x.T], 1)


def _graphs(folder: Path) -> Iterator[tuple[str, Space]]:
    for path in sorted(folder.glob("*.edges")):
        i, j = np.unique(np.loadtxt(path, dtype=np.int64), return_inverse=True)[1].reshape(-1, 2).T
        n = int(max(i.max(), j.max())) + 1
        yield f"graph {path.stem}", Space.of_graph(coo_matrix((np.ones(len(i)), (i, j)), shape=(n, n)).tocsr())


def main() -> int:
    """Print a table."""
    data: list[tuple[str, np.ndarray | Space]] = list(_made())
    folder = Path(os.environ.get("HOROBALL_DATA", ""))
    if (folder / "cells").is_dir():
        data += _cells(folder / "cells")
    if (folder / "graphs").is_dir():
        data += _graphs(folder / "graphs")
    lines = []
    for name, x in data:
        found = verdict(x)
        at = found.position
        interval = f"{at.value:.2f} [{at.low:.2f}, {at.high:.2f}]" if at.value == at.value else ""
        lines.append([name, found.answer, str(found.groups), str(found.levels), interval])
        print(lines[-1], file=sys.stderr, flush=True)
    print(markdown(["data", "answer", "groups", "levels", "position, 95 %"], lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
