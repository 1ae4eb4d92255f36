"""What c="auto" chooses, and whether the choice is a good one: `python -m experiments.spaces`.

Rows of five made-up shapes with 20 columns and normal noise: a tree of 31 nodes, a ring, a square grid, nine groups in
three, and a cloud without structure. c="auto" sees 150 rows. Then a model of each curvature is fitted to all of
these, and judged on 300 new rows: by how many nats a row the chosen one, c = 0 and c = 1 are behind the best, and how
often this is within the noise, one standard error of the paired difference. Training is short, 100 steps, without the
layout of a map.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from experiments import runs
from horoball import PoincareVAE
from horoball.hierarchy.metrics import distortion
from horoball.hierarchy.space import Space
from horoball.vae.spaces import spaces

STUDY = "spaces"
SHAPES = ("tree", "ring", "grid", "nested groups", "cloud")
_ROWS, _NEW, _COLUMNS = 150, 300, 20


def rows_of(shape: str, seed: int) -> np.ndarray:
    """Rows of a shape, the first of them to train on.

    Example:
        >>> rows_of("ring", 0).shape
        (450, 20)
    """
    rng, n = np.random.default_rng((seed, SHAPES.index(shape))), _ROWS + _NEW
    axes = np.linalg.qr(rng.normal(size=(_COLUMNS, _COLUMNS)))[0]
    if shape == "tree":
        nodes = np.zeros((31, _COLUMNS))
        for node in range(1, 31):  # of a binary tree, in the order of its levels
            nodes[node] = nodes[(node - 1) // 2] + rng.normal(size=_COLUMNS)
        x, noise = nodes[rng.integers(31, size=n)], 0.5
    elif shape == "ring":
        turn = rng.uniform(0, 2 * np.pi, n)
        x, noise = 3 * np.stack((np.cos(turn), np.sin(turn)), 1) @ axes[:2], 0.5
    elif shape == "grid":
        x, noise = rng.integers(-3, 4, size=(n, 2)) @ axes[:2], 0.5
    elif shape == "nested groups":
        outer, inner = 2 * rng.normal(size=(3, _COLUMNS)), rng.normal(size=(9, _COLUMNS))
        group = rng.integers(9, size=n)
        x, noise = outer[group // 3] + inner[group], 0.5
    else:
        x, noise = np.zeros((n, _COLUMNS)), 1.0
    return x + noise * rng.normal(size=(n, _COLUMNS))


def run(shape: str, d: int, seed: int) -> dict[str, Any]:
    """The choice, and figures of all spaces on new rows."""
    x = rows_of(shape, seed)
    kept, new = x[:_ROWS], x[_ROWS:]
    options: dict[str, Any] = {"hidden": 64, "distance_weight": 0.0, "learning_rate": 0.01, "max_epochs": 50}
    options |= {"batch_size": 128, "random_state": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the last epoch may still improve
        auto = PoincareVAE(d, c="auto", **options).fit(kept)
        chosen = next(each for each in auto.tried_ if each.chosen)
        figures, likelihood = [], []
        for name, manifold, c in spaces(d):
            model = PoincareVAE(d, c=c, manifold=manifold, chart="tangent", **options).fit(kept)
            likelihood.append(model.score_samples(new, samples=50))
            z = model.transform(new)
            bent = distortion(Space.of_points(new), Space.of_points(z, model.model_.ball), sources=200).mean
            figures.append({"space": name, "c": c, "nats": float(likelihood[-1].mean()), "distortion": bent})
    best = likelihood[int(np.argmax([rows.mean() for rows in likelihood]))]
    for each, rows in zip(figures, likelihood, strict=True):
        gap = best - rows
        each |= {"behind": float(gap.mean()), "error": float(gap.std(ddof=1) / np.sqrt(len(gap)))}
    return {"space": chosen.space, "c": chosen.c, "figures": figures}


def table() -> str:
    """Choices, and nats a row behind the best space: means over seeds, and how many seeds are within the noise."""
    lines = ["| rows | d | seeds | chosen | auto | c = 0 | c = 1 | auto: distortion | c = 0 | c = 1 |"]
    lines.append("|---|--:|--:|---|--:|--:|--:|--:|--:|--:|")
    for d in (2, 5):
        for shape in SHAPES:
            found = [each for each in runs.results(STUDY) if each["setting"]["d"] == d]
            found = [each["result"] for each in found if each["setting"]["shape"] == shape]
            if not found:
                continue
            said = [each["space"] + (f", c = {each['c']:g}" if each["c"] else "") for each in found]
            ranked = sorted(set(said), key=lambda name: (-said.count(name), name))
            counts = ", ".join(f"{space}: {said.count(space)}" for space in ranked)
            cells, bent = [], []
            for asked in (None, (f"E{d}", 0.0), (f"H{d}", 1.0)):
                mine = [
                    next(f for f in each["figures"] if (f["space"], f["c"]) == (asked or (each["space"], each["c"])))
                    for each in found
                ]
                within = sum(f["behind"] <= f["error"] for f in mine)
                cells.append(f"{np.mean([f['behind'] for f in mine]):.2f} ({within})")
                bent.append(f"{np.mean([f['distortion'] for f in mine]):.3f}")
            lines.append(f"| {shape} | {d} | {len(found)} | {counts} | {' | '.join(cells + bent)} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the table."""
    asked = runs.arguments(__doc__, seeds=10)
    settings: list[runs.Setting] = [
        {"shape": shape, "d": d, "seed": seed} for d in (2, 5) for seed in range(asked.seeds) for shape in SHAPES
    ]
    runs.carry_out(STUDY, settings, run, asked.workers)
    print(table())


if __name__ == "__main__":
    main()
