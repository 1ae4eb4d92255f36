"""Whether what sets a branch apart is there: `python -m experiments.branch_differences`.

In tables of noise, how many of the 95 % intervals leave out 0; in tables with groups, how many of the columns in which
they differ are found. A minute of one core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments import runs
from horoball.trees import Tree
from horoball.trees import tree as tree_of
from horoball.trees.branches import HeldOut, differences

STUDY = "branch_differences"
_ROWS = 120
_FRESH = 20_000  # rows that say how large a difference is
_FEWEST = 5  # rows of a branch
Rows = tuple[np.ndarray, np.ndarray, np.ndarray]  # the table, the group of each row, which columns are noise


def _noise(draw: Callable[[np.random.Generator, tuple[int, int]], np.ndarray], columns: int) -> Callable[[int], Rows]:
    def rows(seed: int) -> Rows:
        x = draw(np.random.default_rng(seed), (_ROWS, columns))
        return x, np.zeros(_ROWS, np.int64), np.ones(columns, bool)

    return rows


def _normal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.standard_normal(shape)


def _student(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.standard_t(3, shape)


def _coins(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return (rng.random(shape) < rng.uniform(0.05, 0.95, shape[1])).astype(float)


def _counts(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Overdispersed counts: negative binomial ones, with means from 0.1 to 10 or so."""
    mean = np.exp(rng.standard_normal(shape[1]))
    return np.log1p(rng.poisson(mean * rng.gamma(2.0, 0.5, shape)))


def _lognormal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return np.asarray(np.exp(rng.standard_normal(shape)))


def _correlated(seed: int) -> Rows:
    """Ten columns with correlations of 0.64, and ten of noise."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((_ROWS, 20))
    x[:, :10] = 0.8 * rng.standard_normal((_ROWS, 1)) + 0.6 * x[:, :10]
    return x, np.zeros(_ROWS, np.int64), np.arange(20) >= 10


def _groups(kind: str, columns: int, noise: int) -> Callable[[int], Rows]:
    """Four groups, two and two of them alike, and columns of noise."""

    def rows(seed: int) -> Rows:
        rng = np.random.default_rng(seed)
        center = np.repeat(3 * rng.standard_normal((2, columns)), 2, 0) + 2 * rng.standard_normal((4, columns))
        group = rng.integers(0, 4, _ROWS)
        at = np.concatenate([center[group], np.zeros((_ROWS, noise))], axis=1)
        if kind == "normal":
            x = at + rng.standard_normal(at.shape)
        elif kind == "coins":
            x = (rng.random(at.shape) < 1 / (1 + np.exp(-at))).astype(float)
        else:
            x = np.log1p(rng.poisson(2 * np.exp(at / 3)))
        return x, group, np.arange(columns + noise) >= columns

    return rows


def _one_column(seed: int) -> Rows:
    """Two groups, 8 standard deviations apart in one column and alike in three."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, _ROWS)
    x = rng.standard_normal((_ROWS, 4))
    x[:, 0] += 8 * group
    return x, group, np.arange(4) >= 1


TABLES: dict[str, Callable[[int], Rows]] = {
    "normal, 2 columns": _noise(_normal, 2),
    "normal, 5 columns": _noise(_normal, 5),
    "normal, 20 columns": _noise(_normal, 20),
    "normal, 100 columns": _noise(_normal, 100),
    "t with 3 degrees of freedom, 10 columns": _noise(_student, 10),
    "log-normal, 10 columns": _noise(_lognormal, 10),
    "coins, 10 columns": _noise(_coins, 10),
    "counts, 10 columns": _noise(_counts, 10),
    "10 correlated columns, 10 of noise": _correlated,
    "four groups in 10 columns, 10 of noise": _groups("normal", 10, 10),
    "four groups in 10 columns, 40 of noise": _groups("normal", 10, 40),
    "four groups in 20 binaries, 20 of noise": _groups("coins", 20, 20),
    "four groups in 10 columns of counts, 10 of noise": _groups("counts", 10, 10),
    "two groups in one column, 3 of noise": _one_column,
}
CORRELATED = {"3 correlated columns": 3, "10 correlated columns": 10}  # with correlations of 0.49


def run(table: str, seed: int) -> dict[str, Any]:
    """Intervals of columns of noise, and of columns in which the groups of a branch and its siblings differ."""
    if table in CORRELATED:
        return coverage(CORRELATED[table], seed)
    x, group, noise = TABLES[table](seed)
    tree = tree_of(x, draws=0, method="average" if group.any() else "auto")
    names = [str(j) for j in range(x.shape[1])]
    place, ends, nodes = _places(tree)
    value, low, high, _ = HeldOut(place, x).compare(ends[nodes], ends[tree.parent[nodes]])
    found, tested = (low > 0) | (high < 0), np.isfinite(low)
    out = {"apart": int(found[:, noise].sum()), "tested": int(tested[:, noise].sum())}
    cut = planted = seen = sign = 0
    for i, (node, up) in enumerate(zip(nodes, tree.parent[nodes], strict=True)):
        here = (ends[node, 0] <= place) & (place < ends[node, 1])
        beside = (ends[up, 0] <= place) & (place < ends[up, 1]) & ~here
        apart = {int(one.column) for one in differences(x[here], x[beside], names)}
        cut += len(apart & set(np.flatnonzero(noise & tested[i]).tolist()))
        if group.any() and _is_true(group, here) and _is_true(group, beside):
            a, b = np.isin(group, group[here]), np.isin(group, group[beside])
            d = x[a].mean(0) - x[b].mean(0)
            real = ~noise & (np.abs(d) > np.sqrt((x[a].var(0) + x[b].var(0)) / 2))  # by a standard deviation or more
            planted, seen = planted + int(real.sum()), seen + int((real & found[i]).sum())
            sign += int((real & found[i] & (np.sign(value[i]) == np.sign(d))).sum())
    return out | {"cut": cut, "planted": planted, "seen": seen, "sign": sign}


def _places(tree: Tree) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Place of each row's leaf, first and past-the-end places of all nodes, and the branches that are large enough."""
    order, first, last = tree.spans
    place = np.argsort(order)[np.arange(tree.leaves) if tree.leaf is None else tree.leaf]
    nodes = np.arange(tree.leaves, tree.nodes - 1)
    return place, np.column_stack([first, last]), nodes[tree.rows[nodes] >= _FEWEST]


def _is_true(group: np.ndarray, rows: np.ndarray) -> bool:
    """Whether rows overlap by 0.8 or more with some of the groups, and not with all of them."""
    held = np.bincount(group[rows], minlength=4) / np.maximum(np.bincount(group, minlength=4), 1)
    true = np.isin(group, np.flatnonzero(held > 0.5))
    return bool(0 < true.sum() < len(group) and (true & rows).sum() >= 0.8 * (true | rows).sum())


def coverage(columns: int, seed: int) -> dict[str, Any]:
    """Intervals of correlated columns that hold the difference of new rows, assigned by the same rows."""
    rng = np.random.default_rng(seed)

    def draw(n: int) -> np.ndarray:
        return np.asarray(0.7 * rng.standard_normal((n, 1)) + 0.51**0.5 * rng.standard_normal((n, columns)))

    x, fresh = draw(_ROWS), draw(_FRESH)
    tree = tree_of(x, draws=0)
    place, ends, nodes = _places(tree)
    made = HeldOut(place, x)
    _, low, high, _ = made.compare(ends[nodes], ends[tree.parent[nodes]])
    near = np.concatenate([made.places(half, number) for number, half in enumerate(np.array_split(fresh, 2))])
    held = tested = 0
    for i, (node, up) in enumerate(zip(nodes, tree.parent[nodes], strict=True)):
        here = (ends[node, 0] <= near) & (near < ends[node, 1])
        beside = (ends[up, 0] <= near) & (near < ends[up, 1]) & ~here
        for j in np.flatnonzero(np.isfinite(low[i]) & (here.sum(0) > 50) & (beside.sum(0) > 50)):
            a, b = fresh[here[:, j], j], fresh[beside[:, j], j]
            d = (a.mean() - b.mean()) / np.sqrt((len(a) * a.var() + len(b) * b.var()) / (len(a) + len(b)))
            tested, held = tested + 1, held + int(low[i, j] <= d <= high[i, j])
    return {"tested": tested, "held": held}


def table() -> str:
    """Rates over all branches of five rows or more, and over seeds."""
    lines = [
        "| table | intervals of noise | leave out 0, as cut | leave out 0, `branches` | planted differences found |",
        "|---|--:|--:|--:|--:|",
    ]
    for name in TABLES:
        sums = _sums(name)
        if not sums:
            lines.append(f"| {name} | not run | | | |")
            continue
        cut, apart = (f"{100 * sums[key] / sums['tested']:.1f} %" for key in ("cut", "apart"))
        found = f"{sums['sign']:,} of {sums['planted']:,}" if sums["planted"] else ""
        lines.append(f"| {name} | {sums['tested']:,} | {cut} | {apart} | {found} |")
    return "\n".join(lines)


def coverage_table() -> str:
    """Intervals of columns that are related, next to what new rows have."""
    lines = ["| table | intervals | hold the difference of new rows |", "|---|--:|--:|"]
    for name in CORRELATED:
        sums = _sums(name)
        held = f"{sums['tested']:,} | {100 * sums['held'] / sums['tested']:.1f} %" if sums else "not run |"
        lines.append(f"| {name} | {held} |")
    return "\n".join(lines)


def _sums(name: str) -> dict[str, int]:
    found = [record["result"] for record in runs.results(STUDY) if record["setting"]["table"] == name]
    return {key: sum(one[key] for one in found) for key in found[0]} if found else {}


def main() -> None:
    """Run what is missing, and print the tables."""
    asked = runs.arguments(__doc__, seeds=20, help_="tables of a kind")
    settings: list[runs.Setting] = [
        {"table": name, "seed": seed} for name in (*TABLES, *CORRELATED) for seed in range(asked.seeds)
    ]
    runs.carry_out(STUDY, settings, run, asked.workers)
    print(table(), coverage_table(), sep="\n\n")


if __name__ == "__main__":
    main()
