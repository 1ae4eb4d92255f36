"""How often the place of a new row holds the truth: `python -m experiments.placing`.

Five tables of different kinds with two levels of known groups: numbers (satellite, digits), cells, counts and vectors.
A third of the rows is new. They are placed by coverage, and, beside it, by the probability of steps alone, as before:
the deepest step that has at least the same probability. Then a group is left out of the fit and all of its rows are
new: one of the finer level, whose rows the coarse group around it still holds, or one of the coarse level, whose rows
only the root holds. A second table has groups that are cut from the rows themselves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.datasets import load_digits

from experiments import runs
from experiments.vector_taxonomies import texts_of
from horoball.trees import Placed, Placer, taxonomy
from horoball.trees import tree as tree_of

STUDY, CUT = "coverage", "coverage_of_cut_groups"
COVERAGES = (0.8, 0.9, 0.95)
LEFT_OUT = ("none", "a fine group", "a coarse group")
_ROWS = 3_000  # of a large table
_SHOWN = 0.9

# What is alike by its meaning, not by the data: groups are fixed before anything is fitted.
_SOILS = {
    "red soil": "red soil",
    "cotton crop": "plants",
    "vegetation stubble": "plants",
    "grey soil": "grey soils",
    "damp grey soil": "grey soils",
    "very damp grey soil": "grey soils",
}
_CELLS = {
    "HSPC-1": "stem",
    "HSPC-2": "stem",
    "Multi-Lin": "stem",
    "Meg": "megakaryocytes and erythrocytes",
    "Eryth": "megakaryocytes and erythrocytes",
    "MDP": "myeloid",
    "Mono": "myeloid",
    "Gran": "myeloid",
    "Myelocyte": "myeloid",
}

Rows = tuple[np.ndarray, np.ndarray]  # points, and the groups of both levels


def _satellite(rng: np.random.Generator) -> Rows:
    x, y = _table("trees", "satellite")
    some = rng.permutation(len(x))[:_ROWS]
    return x[some], _levels([_SOILS[label] for label in y[some]], y[some])


def _digits(rng: np.random.Generator) -> Rows:
    """Digits; four coarse groups by the means of 300 images, which are not used again."""
    x, y = load_digits(return_X_y=True)
    order = rng.permutation(len(x))
    first, rest = order[:300], order[300:]
    means = np.stack([x[first][y[first] == digit].mean(0) for digit in range(10)])
    coarse = fcluster(linkage(means, "average"), 4, "maxclust")[y[rest]]
    return x[rest], _levels(coarse.astype(str), y[rest].astype(str))


def _cells(rng: np.random.Generator) -> Rows:
    """Blood cells of Olsson et al. (2016), by lineage and type."""
    x, y = _table("cells", "Olsson")
    return x, _levels([_CELLS[label] for label in y], y)


def _counts(rng: np.random.Generator) -> Rows:
    """Ten words each of 900 texts about twelve topics in four subjects, simulated; compared by Hellinger's distance."""
    words = 200
    subjects = rng.dirichlet(np.full(words, 0.3), size=4)
    topics = np.stack([rng.dirichlet(100 * subject + 1e-2) for subject in subjects for _ in range(3)])
    topic = rng.integers(0, 12, 900)
    x = np.stack([rng.multinomial(10, topics[i]) for i in topic])
    return np.sqrt(x / x.sum(1, keepdims=True)), _levels((topic // 3).astype(str), topic.astype(str))


def _vectors(rng: np.random.Generator) -> Rows:
    """Google's product categories by the first two names of their paths."""
    x, paths = texts_of("google_products")
    deep = [row for row, path in enumerate(paths) if len(path) > 2]
    some = rng.permutation(deep)[:_ROWS]
    return x[some], _levels([paths[row][0] for row in some], [paths[row][1] for row in some])


TABLES: dict[str, tuple[str, Callable[[np.random.Generator], Rows]]] = {
    "satellite": ("numbers", _satellite),
    "digits": ("numbers", _digits),
    "Olsson": ("cells", _cells),
    "topics, simulated": ("counts", _counts),
    "google_products": ("vectors", _vectors),
}


def _table(folder: str, name: str) -> Rows:
    path = Path(os.environ["HOROBALL_DATA"]) / folder / f"{name}.csv"
    text = np.genfromtxt(path, delimiter=",", dtype=str, skip_header=1)
    return text[:, :-1].astype(float), text[:, -1]


def _levels(coarse: Any, fine: Any) -> np.ndarray:
    """Numbers of groups, those of the finer level within the coarse ones."""
    both = [f"{a} > {b}" for a, b in zip(coarse, fine, strict=True)]
    return np.stack([np.unique(names, return_inverse=True)[1] for names in (list(map(str, coarse)), both)], 1)


def _points(table: str, x: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    """Rows as a model sees them: numbers and cells standardized by the rows of the fit."""
    if TABLES[table][0] not in ("numbers", "cells"):
        return x
    scale = x[fitted].std(0)
    return (x[:, scale > 0] - x[fitted][:, scale > 0].mean(0)) / scale[scale > 0]


def holds(steps: np.ndarray, path: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Whether the group that many steps down a path is one that the row is in.

    Example:
        >>> holds(np.array([1, 2, 0]), np.array([[0, 3]] * 3), np.array([[0, 4]] * 3)).tolist()
        [True, False, True]
    """
    held: np.ndarray = ((path == truth) | (np.arange(truth.shape[1]) >= steps[:, None])).all(1)
    return held


def _figures(placed: Placed, truth: np.ndarray) -> dict[str, Any]:
    told: dict[str, Any] = {"rows": len(truth)}
    for coverage in COVERAGES:
        by_coverage = replace(placed, coverage=coverage).depth()
        by_probability = ((placed.probability >= coverage) & (placed.path >= 0)).sum(1)
        for name, steps in (("", by_coverage), ("_by_probability", by_probability)):
            told[f"held{name}_{coverage}"] = float(holds(steps, placed.path, truth).mean())
            told[f"steps{name}_{coverage}"] = float(steps.mean())
            told[f"root{name}_{coverage}"] = float((steps == 0).mean())
    return told


def run(table: str, left_out: str, seed: int) -> dict[str, Any]:
    """How often places hold the truth, of new rows like those of the fit, and of a group that was left out."""
    rng = np.random.default_rng((seed, 38))
    x, levels = TABLES[table][1](rng)
    level = {"none": None, "a fine group": 1, "a coarse group": 0}[left_out]
    out = np.zeros(len(x), bool) if level is None else levels[:, level] == seed % (int(levels[:, level].max()) + 1)
    new = np.zeros(len(x), bool)
    new[rng.permutation(len(x))[: len(x) // 3]] = True
    fitted = ~new & ~out
    points = _points(table, x, fitted)
    placer = Placer.fit(points[fitted], levels[fitted], seed=seed)
    result: dict[str, Any] = {"fitted": int(fitted.sum()), "held_out": len(placer.held)}
    for name, rows in (("new", new & ~out), ("out", out)):
        if rows.any():
            result[name] = _figures(placer.place(points[rows]), levels[rows])
    return result


def run_cut(table: str, seed: int) -> dict[str, Any]:
    """The same for groups of a tree of 400 rows; the truth of 200 new ones is known from a tree of all 600.

    Beside it, the groups are those of the tree of all 600, of which the placer sees the 400: the same groups for all.
    """
    rng = np.random.default_rng((seed, 39))
    x, _ = TABLES[table][1](rng)
    some = rng.permutation(len(x))[:600]
    known = np.arange(len(some)) < len(some) * 2 // 3
    points = _points(table, x[some], known)
    alone, together = (taxonomy(tree_of(rows, draws=20, seed=seed), [4, 12]).levels for rows in (points[known], points))
    truth = np.stack([_matched(*columns, known) for columns in zip(alone.T, together.T, strict=True)], 1)
    result: dict[str, Any] = {"agree": float((truth[known] == alone).all(1).mean())}
    for name, seen, asked in (("again", alone, truth), ("same", together[known], together)):
        if (seen < 0).all():  # no branch is above chance: all rows are at the root
            none = np.zeros(asked[~known].shape)
            placed = Placed(np.full(none.shape, -1), none, confidence=none)
        else:
            placed = Placer.fit(points[known], seen, seed=seed).place(points[~known])
        result[name] = _figures(placed, asked[~known])
    return result


def _matched(alone: np.ndarray, together: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Groups of all rows by the numbers of the groups of some that they overlap most; −1 if none does."""
    numbers = np.full(int(together.max()) + 2, -1)  # the last entry is that of rows in no group
    for group in range(int(together.max()) + 1):
        here = together[known] == group
        shares = [
            (float((here & (alone == other)).sum() / (here | (alone == other)).sum()), other)
            for other in range(int(alone.max()) + 1)
        ]
        share, other = max(shares)
        numbers[group] = other if share > 0.5 else -1
    matched: np.ndarray = numbers[together]
    return matched


def _of(study: str, part: str, key: str, **setting: str) -> Mapping[int, float]:
    return {
        record["setting"]["seed"]: record["result"][part][key]
        for record in runs.results(study)
        if setting.items() <= record["setting"].items() and part in record["result"]
    }


def table() -> str:
    """Coverage of new rows at three levels, beside the rule by probabilities."""
    asked = " | ".join(f"asked {c}: held, steps | by probability {c}" for c in COVERAGES)
    lines = [f"| table | kind | rows fitted / held out | {asked} |", "|---" * (3 + 2 * len(COVERAGES)) + "|"]
    for name, (kind, _) in TABLES.items():
        of = [record["result"] for record in runs.results(STUDY) if _is(record, table=name, left_out="none")]
        sizes = f"{of[0]['fitted']:,} / {of[0]['held_out']:,}" if of else "not run"
        cells = []
        for c in COVERAGES:
            for rule in ("", "_by_probability"):
                held = _of(STUDY, "new", f"held{rule}_{c}", table=name, left_out="none")
                steps = _of(STUDY, "new", f"steps{rule}_{c}", table=name, left_out="none")
                cells.append(f"{runs.figure(held, 3)}, {np.mean(list(steps.values())):.2f}" if held else "not run")
        lines.append(f"| {name} | {kind} | {sizes} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def left_out_table() -> str:
    """What becomes of rows of a group that was left out, at a coverage of 0.9."""
    head = ("table", "left out", "truth held", "at the root", "truth held by probability", "the others: truth held")
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name in TABLES:
        for left in LEFT_OUT[1:]:
            cells = [
                runs.figure(_of(STUDY, part, f"{key}_{_SHOWN}", table=name, left_out=left), 2)
                for part, key in (("out", "held"), ("out", "root"), ("out", "held_by_probability"), ("new", "held"))
            ]
            lines.append(f"| {name} | {left} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cut_table() -> str:
    """Coverage where groups are cut from the rows of the fit."""
    root = f"at the root, {_SHOWN}"
    head = ("table", "one tree for all rows, asked 0.8", "0.9", "0.95", root, "rows that two trees put alike")
    again = ("tree made again, asked 0.8", "0.9", "0.95", root)
    lines = ["| " + " | ".join((*head, *again)) + " |", "|---" * (len(head) + len(again)) + "|"]
    for name in TABLES:
        agree = {r["setting"]["seed"]: r["result"]["agree"] for r in runs.results(CUT) if _is(r, table=name)}
        same, other = (
            [
                runs.figure(_of(CUT, part, key, table=name), 2)
                for key in (*(f"held_{c}" for c in COVERAGES), f"root_{_SHOWN}")
            ]
            for part in ("same", "again")
        )
        lines.append("| " + " | ".join((name, *same, runs.figure(agree, 2), *other)) + " |")
    return "\n".join(lines)


def _is(record: Mapping[str, Any], **setting: str) -> bool:
    return bool(setting.items() <= record["setting"].items())


def main() -> None:
    """Run what is missing, and print the tables."""
    asked = runs.arguments(__doc__, seeds=12, help_="draws of the rows of the fit")
    seeds = range(asked.seeds)
    settings: list[runs.Setting] = [
        {"table": name, "left_out": left, "seed": seed} for name in TABLES for left in LEFT_OUT for seed in seeds
    ]
    runs.carry_out(STUDY, settings, run, asked.workers)
    runs.carry_out(
        CUT, [{"table": name, "seed": seed} for name in TABLES for seed in seeds[:6]], run_cut, asked.workers
    )
    print(table(), left_out_table(), cut_table(), sep="\n\n")


if __name__ == "__main__":
    main()
