"""What support is worth, on tables whose tree is known and on flat ones: `python -m experiments.branch_support`.

No model is fitted: trees are those of `horoball.trees.tree`, of 120, 300 and 1,000 rows. A branch is real
if a branch of the true tree overlaps it by 4/5.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta

from experiments import runs
from horoball.trees import tree

STUDY = "branch_support"
ROWS = (120, 300, 1000)
SIZES = ((2, 4), (5, 14), (15, 10**9))
BINS = (0.0, 0.5, 0.7, 0.9)

Random = np.random.Generator
Made = tuple[np.ndarray, list[np.ndarray]]  # rows, and the members of the true branches


def _history(n: int, rng: Random, *, coalescent: bool) -> tuple[np.ndarray, np.ndarray]:
    """Merges of lineages, back in time, and their times: of a Yule tree, or of Kingman's coalescent."""
    names, time, merges, times = list(range(n)), 0.0, [], []
    for step in range(n - 1):
        k = len(names)
        time += rng.exponential(2 / (k * (k - 1)) if coalescent else 1 / (k - 1))
        i, j = sorted(rng.choice(k, 2, replace=False).tolist(), reverse=True)
        merges.append((names.pop(i), names.pop(j)))
        times.append(time)
        names.append(n + step)
    return np.array(merges), np.array(times)


def _clades(merges: np.ndarray) -> list[np.ndarray]:
    n = len(merges) + 1
    below = [np.eye(n, dtype=bool)[leaf] for leaf in range(n)]
    for a, b in merges:
        below.append(below[a] | below[b])
    return below[n:-1]


def _along(merges: np.ndarray, times: np.ndarray, start: np.ndarray, step: Callable[..., np.ndarray]) -> np.ndarray:
    """Values at the tips, from the root down: `step` makes a child's from its parent's and the time between."""
    n = len(merges) + 1
    time = np.concatenate([np.zeros(n), times])
    value = [start] * (2 * n - 1)
    for k in range(n - 2, -1, -1):
        for child in merges[k]:
            value[child] = step(value[n + k], time[n + k] - time[child])
    return np.stack(value[:n])


def _brownian(n: int, rng: Random, *, coalescent: bool = False) -> Made:
    """Brownian motion along a tree in 40 columns, seen at the tips with a tenth of noise."""
    merges, times = _history(n, rng, coalescent=coalescent)
    x = _along(merges, times, np.zeros(40), lambda at, time: at + np.sqrt(time) * rng.standard_normal(40))
    return x / x.std() * np.sqrt(0.9) + np.sqrt(0.1) * rng.standard_normal(x.shape), _clades(merges)


def _binary(n: int, rng: Random) -> Made:
    """120 binary columns that flip along a Yule tree, one in twenty read wrongly."""
    merges, times = _history(n, rng, coalescent=False)

    def flipped(at: np.ndarray, time: float) -> np.ndarray:
        return at ^ (rng.random(120) < (1 - np.exp(-time / 2)) / 2)

    x = _along(merges, times, rng.random(120) < 0.5, flipped) ^ (rng.random((n, 120)) < 0.05)
    return x[:, x.std(0) > 0].astype(float), _clades(merges)


def _levels(*labels: np.ndarray) -> list[np.ndarray]:
    return [label == value for label in labels for value in np.unique(label) if 1 < (label == value).sum() < len(label)]


def _nested(n: int, rng: Random, *, columns: int = 10, ratio: float = 3.0, apart: float = 4.0) -> Made:
    """Four groups of three groups, of unequal sizes and spreads."""
    outer = ratio * apart / columns**0.5 * rng.standard_normal((4, columns))
    centers = np.repeat(outer, 3, 0) + apart / columns**0.5 * rng.standard_normal((12, columns))
    at = np.concatenate([np.repeat(np.arange(12), 3), rng.choice(12, n - 36, p=rng.dirichlet(np.full(12, 0.8)))])
    spread = rng.uniform(0.15, 0.75, 12)
    return centers[at] + spread[at, None] * rng.standard_normal((n, columns)), _levels(at // 3, at)


def _star(n: int, rng: Random) -> Made:
    """A hard polytomy: six blobs, all equally far apart."""
    at = np.arange(n) % 6
    return 8.5 * np.linalg.qr(rng.standard_normal((10, 10)))[0][at] + rng.standard_normal((n, 10)), _levels(at)


def _classes(n: int, rng: Random) -> Made:
    """Six latent classes of 60 binary items."""
    at = np.arange(n) % 6
    return (rng.random((n, 60)) < rng.beta(0.5, 0.5, (6, 60))[at]).astype(float), _levels(at)


def _lifted(inner: Callable[[Random, int], np.ndarray], columns: int, noise: float) -> Callable[[int, Random], Made]:
    def made(n: int, rng: Random) -> Made:
        x = inner(rng, n)
        x = x @ rng.standard_normal((x.shape[1], columns))
        return x + noise * x.std() * rng.standard_normal(x.shape), []

    return made


def _ring(rng: Random, n: int) -> np.ndarray:
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.stack([np.cos(angle), np.sin(angle)], 1)


def _sphere(rng: Random, n: int) -> np.ndarray:
    x = rng.standard_normal((n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _flat(make: Callable[[Random, int], np.ndarray]) -> Callable[[int, Random], Made]:
    return lambda n, rng: (make(rng, n), [])


TREES: dict[str, Callable[[int, Random], Made]] = {
    "Brownian motion, Yule tree": _brownian,
    "Brownian motion, Kingman's tree": lambda n, rng: _brownian(n, rng, coalescent=True),
    "binary columns, evolved": _binary,
    "nested groups, unequal": _nested,
    "nested groups, far apart": lambda n, rng: _nested(n, rng, columns=30, ratio=4.0, apart=6.0),
    "six equidistant blobs": _star,
    "latent classes": _classes,
}
FLAT: dict[str, Callable[[int, Random], Made]] = {
    "normal, 10 columns": _flat(lambda rng, n: rng.standard_normal((n, 10))),
    "normal, 3 columns": _flat(lambda rng, n: rng.standard_normal((n, 3))),
    "normal, rank 3 in 100": _lifted(lambda rng, n: rng.standard_normal((n, 3)), 100, 0.2),
    "cube, rank 3 in 100": _lifted(lambda rng, n: rng.uniform(-1, 1, (n, 3)), 100, 0.1),
    "cube, 4 columns": _flat(lambda rng, n: rng.uniform(size=(n, 4))),
    "ring in 50": _lifted(_ring, 50, 0.05),
    "ring": _flat(lambda rng, n: _ring(rng, n) + 0.05 * rng.standard_normal((n, 2))),
    "sphere": _flat(lambda rng, n: _sphere(rng, n) + 0.02 * rng.standard_normal((n, 3))),
    "random curves": _flat(lambda rng, n: np.cumsum(rng.standard_normal((n, 60)), 1)),
    "coins": _flat(lambda rng, n: rng.integers(0, 2, (n, 40)).astype(float)),
    "log-normal": _flat(lambda rng, n: np.exp(rng.standard_normal((n, 10)) @ (np.eye(10) + 0.3))),
    "t with 3 degrees": _flat(lambda rng, n: rng.standard_t(3, (n, 8))),
}


def run(kind: str, rows: int, seed: int) -> dict[str, Any]:
    """One table: how many branches of each size have which support above chance, and how many of them are real."""
    x, truth = (TREES | FLAT)[kind](rows, np.random.default_rng((seed, rows)))
    found = tree(x, method="average", n_jobs=1, seed=seed)
    assert found.support is not None
    assert found.verdict is not None
    inner = np.arange(found.leaves, found.nodes - 1)
    real = np.zeros(len(inner), bool)
    if truth:
        known = np.stack(truth).astype(np.float32)
        member = np.zeros((len(inner), found.leaves), np.float32)
        for place, node in enumerate(inner):
            member[place, found.members(int(node))] = 1
        both = member @ known.T
        real = (both / (member.sum(1)[:, None] + known.sum(1) - both)).max(1) >= 0.8 - 1e-6
    size, support, above = found.clade_sizes[inner], found.support[inner], found.supported[inner]
    bins = np.searchsorted(BINS, support, side="right") - 1
    cells = [
        [[int(chosen.sum()), int(real[chosen].sum())] for b in range(len(BINS)) for chosen in [part & (bins == b)]]
        for low, high in SIZES
        for part in [(size >= low) & (size <= high) & above]
    ]
    structure = {"branches": found.verdict.branches, "flat": found.verdict.flat, "p": found.verdict.p}
    return {"cells": cells, "large": int((size >= 5).sum()), "structure": structure}


def settings(seeds: int) -> list[runs.Setting]:
    """All runs: the larger tables with half of the seeds."""
    return [
        {"kind": kind, "rows": rows, "seed": seed}
        for rows in ROWS
        for seed in range(seeds if rows == ROWS[0] else max(1, seeds // 2))
        for kind in (*TREES, *FLAT)
    ]


def calibration_table() -> str:
    """Of branches above chance, by size and support: how many, and the share that is real."""
    lines = ["| rows of the table | rows of the branch | below 0.5 | 0.5 to 0.7 | 0.7 to 0.9 | 0.9 and above |"]
    lines.append("|--:|---|--:|--:|--:|--:|")
    for rows in ROWS:
        of = [one["cells"] for one in _results(rows, TREES)]
        for place, (low, high) in enumerate(SIZES) if of else ():
            total = np.sum([one[place] for one in of], axis=0).tolist()
            cells = " | ".join(f"{n}: {good / n:.2f}" if n else "0" for n, good in total)
            lines.append(f"| {rows} | {f'{low} to {high}' if high < rows else f'{low} and more'} | {cells} |")
    return "\n".join(lines)


def kinds_table() -> str:
    """By kind of table: branches of five rows or more with 0.9, how many are real, and how often structure is found."""
    lines = ["| tables | rows | number | branches with 0.9 | of them real | of all branches | structure found |"]
    lines.append("|---|--:|--:|--:|--:|--:|--:|")
    for kinds in (TREES, FLAT):
        for rows in ROWS:
            lines += [_line(kind, rows, _results(rows, [kind]), tree=kinds is TREES) for kind in kinds]
        for rows in ROWS:
            lines.append(
                _line(
                    f"**all {'trees' if kinds is TREES else 'flat'}**", rows, _results(rows, kinds), tree=kinds is TREES
                )
            )
    return "\n".join(line for line in lines if line)


def picture(path: Path) -> None:
    """Support against the share of branches that is real, by the size of the branch, with 95 % intervals."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "horoball"  # the same results give the same file
    figure = Figure((5.2, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=1)
    of = [record["result"]["cells"] for record in runs.results(STUDY) if record["setting"]["kind"] in TREES]
    bounds = (*BINS, 1.0)
    for place, ((low, high), color) in enumerate(zip(SIZES, ("#0072b2", "#e69f00", "#009e73"), strict=True)):
        n, real = np.sum([one[place] for one in of], axis=0).T
        middle = [(a + b) / 2 + 0.01 * (place - 1) for a, b in pairwise(bounds)]
        rate = real / np.maximum(n, 1)
        reach = [rate - beta.ppf(0.025, real, n - real + 1), beta.ppf(0.975, real + 1, n - real) - rate]
        label = f"{low} to {high} rows" if high < 10**9 else f"{low} rows and more"
        axes.errorbar(middle, rate, np.nan_to_num(reach), fmt="o", color=color, capsize=3, label=label)
    axes.set(xlabel="support of a branch above chance", ylabel="share that is real", xlim=(0, 1), ylim=(0, 1.02))
    axes.set_xticks(bounds)
    axes.legend(frameon=False, loc="upper left")
    figure.savefig(path, metadata={"Date": None})


def _line(name: str, rows: int, of: list[dict[str, Any]], *, tree: bool) -> str:
    if not of:
        return ""
    sure, real = np.sum([[one["cells"][place][-1] for place in (1, 2)] for one in of], axis=(0, 1)).tolist()
    large = sum(one["large"] for one in of)
    found = sum(one["structure"]["p"] <= 0.05 for one in of)
    share = f"{real / sure:.2f}" if tree and sure else ""
    return f"| {name} | {rows} | {len(of)} | {sure} | {share} | {sure / large:.1%} | {found} |"


def _results(rows: int, kinds: Any) -> list[dict[str, Any]]:
    return [
        record["result"]
        for record in runs.results(STUDY)
        if record["setting"]["rows"] == rows and record["setting"]["kind"] in kinds
    ]


def main() -> None:
    """Run what is missing, and print the tables."""
    asked = runs.arguments(__doc__, seeds=6, help_="tables of a kind")
    runs.carry_out(STUDY, settings(asked.seeds), run, asked.workers)
    print(calibration_table(), kinds_table(), sep="\n\n")
    picture(Path(__file__).parents[1] / "docs" / "support.svg")


if __name__ == "__main__":
    main()
