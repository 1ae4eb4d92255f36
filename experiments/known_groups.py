"""Groups of tables whose groups are known, beside Ward's linkage: `python -m experiments.known_groups`.

The adjusted Rand index of the groups that `horoball.trees.tree` cuts, with the true number asked for: over all
rows, where those that are unsure count as one more group, and over the rows that are in a group. Ward's linkage has the
same standardized columns and number. The verdict stands beside it. No method sees the groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.metrics import adjusted_rand_score

from experiments import runs
from experiments.tree_purity import rows_of
from horoball.trees import tree

STUDY = "known_groups"
REAL = ("zoo", "iris", "wine", "glass", "vehicle", "digits", "satellite")
MADE = {"nested, 10 columns": 0, "nested, 10 columns and 20 of noise": 20}
_ROWS = 1_500


def made(noise: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Four groups of three groups, of unequal spreads, and columns of noise as wide as the others."""
    rng = np.random.default_rng((seed, noise))
    centers = 4 / 10**0.5 * (3 * rng.normal(size=(4, 1, 10)) + rng.normal(size=(4, 3, 10))).reshape(12, 10)
    at, spread = np.arange(300) % 12, rng.uniform(0.15, 0.75, 12)
    x = centers[at] + spread[at, None] * rng.normal(size=(300, 10))
    return np.hstack([x, x.std() * rng.normal(size=(300, noise))]), at


def run(table: str, seed: int) -> dict[str, Any]:
    """One tree: how well its groups agree with the true ones, and what is said of the table."""
    x, truth = made(MADE[table], seed) if table in MADE else rows_of(table)
    some = np.random.default_rng(seed).permutation(len(x))[:_ROWS]
    x, truth = x[some], truth[some]
    x = x[:, x.std(0) > 1e-9]
    x = (x - x.mean(0)) / x.std(0)
    groups = len(np.unique(truth))
    found = tree(x, seed=seed, n_jobs=1)
    assert found.verdict is not None
    cut, finest = found.cut(groups), found.levels(3)[:, -1]
    ward = fcluster(linkage(x, "ward"), groups, "maxclust")
    sure = cut >= 0
    return {
        "all": float(adjusted_rand_score(truth, cut)),
        "sure": float(adjusted_rand_score(truth[sure], cut[sure])) if sure.any() else 0.0,
        "in groups": float(sure.mean()),
        "finest": float(adjusted_rand_score(truth[finest >= 0], finest[finest >= 0])) if (finest >= 0).any() else 0.0,
        "finest groups": int(finest.max() + 1),
        "ward": float(adjusted_rand_score(truth, ward)),
        "ward of sure": float(adjusted_rand_score(truth[sure], ward[sure])) if sure.any() else 0.0,
        "answer": found.verdict.answer,
        "p": found.verdict.p,
    }


def table() -> str:
    """Means over seeds."""
    lines = [
        "| table | all rows | Ward | rows in groups | their share | Ward | finest level | structure | answers |",
        "|---|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for name in (*REAL, *MADE):
        of = [record["result"] for record in runs.results(STUDY) if record["setting"]["table"] == name]
        if not of:
            lines.append(f"| {name} | not run |" + " |" * 7)
            continue
        mean = {key: np.mean([one[key] for one in of]) for key in of[0] if key != "answer"}
        found = sum(one["answer"] != "not detected" for one in of)
        said = ", ".join(sorted({one["answer"] for one in of}))
        lines.append(
            f"| {name} | {mean['all']:.2f} | {mean['ward']:.2f} | {mean['sure']:.2f} | {mean['in groups']:.2f} | "
            f"{mean['ward of sure']:.2f} | {mean['finest']:.2f}, {mean['finest groups']:.0f} | {found} of {len(of)} | "
            f"{said} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the table."""
    asked = runs.arguments(__doc__, seeds=3)
    settings: list[runs.Setting] = [
        {"table": name, "seed": seed} for seed in range(asked.seeds) for name in (*REAL, *MADE)
    ]
    runs.carry_out(STUDY, settings, run, asked.workers)
    print(table())


if __name__ == "__main__":
    main()
