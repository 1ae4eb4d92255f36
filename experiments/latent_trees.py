"""Can a latent space make a better tree of a table than its columns can? `python -m experiments.latent_trees`.

Triplets of rows, a branching prior and free points (`experiments.latent_candidates`), each in the ball and in its flat
twin, which differ in c alone and have the same steps and seeds. Beside them stand the latent space of the model without
any of this, and trees of the columns. Every tree is read in more than one way (average linkage, Gromov's products, and
so on), and the better one counts, for all alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform
from torch import Tensor

from experiments import known_trees, runs
from experiments.known_trees import Known, agreement
from experiments.latent_candidates import BranchingPrior, Rows, explained, free_points, hellinger, trained
from experiments.tree_support import neighbor_joining
from horoball import PoincareBall
from horoball.datasets import mnist
from horoball.hierarchy.metrics import merges_purity
from horoball.trees import Tree
from horoball.trees import tree as tree_of
from horoball.trees.linkage import join
from horoball.trees.source import distance_matrix

STUDY = "latent_trees"
FIGURE = runs.RESULTS.parents[1] / "docs" / "latent_trees.svg"
SPACES = {"1": 1.0, "learned": 1.0, "0": 0.0}
PAPER = known_trees.branching


def _of(known: Known) -> Rows:
    return Rows(torch.from_numpy(known.x).float(), known.x, known)


def counts(seed: int) -> Rows:
    """The branching diffusion as rates of counts, which are compared by the square roots of their shares."""
    known = PAPER(seed, 6, 2, 50, 5)
    x = np.random.default_rng((seed, 4)).poisson(np.exp(1 + 0.5 * known.x)).astype(float)
    return Rows(torch.from_numpy(x).float(), hellinger(x), known, likelihood="poisson")


def gaps(seed: int) -> Rows:
    """The branching diffusion with three values in ten missing."""
    known = PAPER(seed, 6, 2, 50, 5)
    x = np.where(np.random.default_rng((seed, 5)).random(known.x.shape) < 0.3, np.nan, known.x)
    return Rows(torch.from_numpy(x).float(), x, known)


def digits(seed: int) -> Rows:
    """1,500 of scikit-learn's digits, standardized."""
    from sklearn.datasets import load_digits  # takes a second to import, and the others do without it

    x, y = load_digits(return_X_y=True)
    some = np.random.default_rng(seed).permutation(len(x))[:1_500]
    x = x[some][:, x[some].std(0) > 0]
    x = (x - x.mean(0)) / x.std(0)
    return Rows(torch.from_numpy(x).float(), x, labels=(y[some],))


def images(seed: int) -> Rows:
    """2,000 of MNIST's digits."""
    found = mnist()
    some = np.random.default_rng(seed).permutation(len(found.x))[:2_000]
    x = found.x[some]
    return Rows(x, x.double().numpy(), labels=(found.labels[some].numpy(),), likelihood="bernoulli")


def diagnoses(seed: int) -> Rows:
    """2,000 text vectors of diagnoses, of length 1, and the two upper levels of their classification."""
    from experiments.vector_taxonomies import drawn  # as above

    x, labels = drawn("icd10cm", seed)
    return Rows(torch.from_numpy(x), x.astype(np.float64), labels=tuple(labels), likelihood="von_mises_fisher")


KINDS: Mapping[str, Callable[[int], Rows]] = {
    "branching, 31 nodes": lambda seed: _of(PAPER(seed, 4, 2, 50, 5)),
    "branching, 127 nodes": lambda seed: _of(PAPER(seed, 6, 2, 50, 5)),
    "branching, 255 nodes": lambda seed: _of(PAPER(seed, 7, 2, 50, 5)),
    "branching, 127 nodes, 20 noise columns": lambda seed: _of(known_trees.noisy(seed, columns=20)),
    "branching, 127 nodes, 100 noise columns": lambda seed: _of(known_trees.noisy(seed, columns=100)),
    "branching, 127 nodes, large error": lambda seed: _of(known_trees.noisy(seed, error=0.5)),
    "branching, 127 nodes, counts": counts,
    "branching, 127 nodes, 30 % gaps": gaps,
    "branching, 121 nodes, three ways": lambda seed: _of(PAPER(seed, 4, 3, 30, 4)),
    "phylogenetic tree": lambda seed: _of(known_trees.phylogenetic(seed)),
    "nested 5 × 5": lambda seed: _of(known_trees.nested(seed, (5, 5), 0.7, 0, 400)),
    "nested 5 × 5, 20 noise columns": lambda seed: _of(known_trees.nested(seed, (5, 5), 0.7, 20, 400)),
    "nested 5 × 5, 100 noise columns": lambda seed: _of(known_trees.nested(seed, (5, 5), 0.7, 100, 400)),
    "nested 4 × 4 × 4, 10 noise columns": lambda seed: _of(known_trees.nested(seed, (4, 4, 4), 0.25, 10, 600)),
    "digits": digits,
    "MNIST": images,
    "diagnoses, vectors": diagnoses,
}
SIZES = tuple(KINDS)[:3]
FIRST = (
    "branching, 31 nodes",
    "nested 5 × 5",
    "nested 5 × 5, 20 noise columns",
    "branching, 127 nodes",
    "branching, 127 nodes, 100 noise columns",
    "phylogenetic tree",
    "digits",
)


def run(kind: str, method: str, seed: int, c: str = "", d: int = 5) -> dict[str, Any]:
    """All readings of one tree, judged by what is known of the rows."""
    rows = KINDS[kind](seed)
    if method == "columns":
        return {"readings": _judged(rows, _of_columns(rows))}
    torch.manual_seed(seed)
    if method == "free points":
        z, ball = free_points(rows, SPACES[c], d, seed)
        return {"readings": _judged(rows, _of_points(z, ball))}
    model, loss = trained(rows, method, SPACES[c], d, seed, learn_c=c == "learned")
    with torch.no_grad():
        z = model.posterior(rows.x).loc
    found = _of_points(z, model.ball)
    if method == "model":
        points = rows.points * explained(model, rows)
        found |= {f"weighted, {name}": of for name, of in _joined(distance_matrix(points)).items()}
    if isinstance(model.prior, BranchingPrior):
        with torch.no_grad():
            apart = distance_matrix(z.numpy(), model.ball.c_value)
            found["centers"] = _tree(join(model.prior.parting(z) + apart / (1 + apart.max()), "average"))
    return {"readings": _judged(rows, found), "loss": loss, "c": model.ball.c_value}


def _of_points(z: Tensor, ball: PoincareBall) -> dict[str, Tree]:
    return _joined(distance_matrix(z.numpy(), ball.c_value), z.double().norm(dim=-1).numpy())


def _of_columns(rows: Rows) -> dict[str, Tree]:
    d = distance_matrix(rows.points)
    made = linkage(squareform(d, checks=False), "ward")
    found = _joined(d) | {"Ward": Tree.from_merges(made[:, :2], made[:, 2])}
    if rows.known is not None:
        found["neighbor joining"] = neighbor_joining(d)
    return found | {"related columns": tree_of(rows.points, standardize=False, draws=0)}


def _joined(d: np.ndarray, radius: np.ndarray | None = None) -> dict[str, Tree]:
    return {"average": _tree(join(d, "average")), "gromov": _tree(join(d, "gromov", radius=radius))}


def _tree(joined: Any) -> Tree:
    return Tree.from_merges(joined.merges, joined.height, radius=joined.radius)


def _judged(rows: Rows, found: Mapping[str, Tree]) -> dict[str, dict[str, float]]:
    judged = {}
    for name, tree in found.items():
        if rows.known is None:
            merges = tree.to_linkage()[:, :2].astype(np.int64)
            judged[name] = {"purity": float(np.mean([merges_purity(merges, level) for level in rows.labels]))}
        else:
            of = agreement(tree, rows.known, unrooted=name == "neighbor joining")
            judged[name] = {"recall": of.recall, "triplets": of.triplets}
    return judged


METHODS: Mapping[str, tuple[str, ...]] = {  # and the spaces of each
    "columns": ("",),
    "model": ("1", "0"),
    "triplets": ("1", "learned", "0"),
    "branching prior": ("1", "0"),
    "free points": ("1", "0"),
}
DIMENSIONS = (2, 10)  # beside five, for the branching diffusion


def settings(seeds: int) -> list[runs.Setting]:
    """All runs, those first that decide most: kinds, then what is optional, then dimensions."""
    found: list[tuple[tuple[bool, ...], runs.Setting]] = []
    for kind in (*FIRST, *(kind for kind in KINDS if kind not in FIRST)):
        late = kind not in FIRST
        for seed in range(1, seeds + 1):  # settings were tuned on a draw of seed 0
            found.append(((False, False, late), {"kind": kind, "method": "columns", "seed": seed}))
            for method, c, d in ((m, c, d) for m, cs in METHODS.items() for c in cs if c for d in (5, *DIMENSIONS)):
                optional = c == "learned" or method == "free points"
                if d != 5 and (optional or kind not in SIZES):
                    continue
                setting: runs.Setting = {"kind": kind, "method": method, "seed": seed, "c": c}
                found.append(((d != 5, optional, late), setting | ({} if d == 5 else {"d": d})))
    return [setting for _, setting in sorted(found, key=lambda each: each[0])]


Scores = dict[int, dict[str, float]]  # by seed
Cell = tuple[str, str]  # method and space


def _found() -> dict[tuple[str, int], dict[Cell, dict[str, Scores]]]:
    """What has been run: for each kind and dimension, each cell's readings. Trees of columns are of any dimension."""
    found: dict[tuple[str, int], dict[Cell, dict[str, Scores]]] = {}
    for record in runs.results(STUDY):
        at = record["setting"]
        for d in (5, *DIMENSIONS) if at["method"] == "columns" else (at.get("d", 5),):
            of = found.setdefault((at["kind"], d), {}).setdefault((at["method"], at.get("c", "")), {})
            for reading, scores in record["result"]["readings"].items():
                of.setdefault(reading, {})[at["seed"]] = scores
    return {key: found[key] for key in ((kind, d) for d in (5, *DIMENSIONS) for kind in KINDS) if key in found}


def shown(cells: Mapping[Cell, Mapping[str, Scores]]) -> dict[str, Scores]:
    """The columns of the table for one kind: the better reading of each, by the mean over seeds."""
    columns, model = cells.get(("columns", ""), {}), cells.get(("model", "1"), {})
    picked = {
        "raw linkage": [of for name, of in columns.items() if name != "related columns"],
        "related columns": [of for name, of in columns.items() if name == "related columns"],
        "weighted columns": [of for name, of in model.items() if name.startswith("weighted")],
    }
    for method, spaces in METHODS.items():
        for c in filter(None, spaces):
            readings = cells.get((method, c), {})
            picked[_titled(method, c)] = [of for name, of in readings.items() if not name.startswith("weighted")]
    return {title: max(some, key=_mean) if some else {} for title, some in picked.items()}


def _titled(method: str, c: str) -> str:
    return f"{method}, c {c}" if c == "learned" else f"{method}, c = {c}"


def _mean(scores: Scores, name: str = "") -> float:
    return float(np.mean([one[name or next(iter(one))] for one in scores.values()])) if scores else float("nan")


def ahead(first: Scores, second: Scores, name: str = "") -> bool | None:
    """Whether the first is ahead by more than two standard errors of the difference; None with less than two seeds.

    Example:
        >>> good, bad = {0: {"recall": 0.9}, 1: {"recall": 0.8}}, {0: {"recall": 0.5}, 1: {"recall": 0.5}}
        >>> ahead(good, bad), ahead(bad, good), ahead(good, {})
        (True, False, None)
    """
    by_seed = ({seed: one[name or next(iter(one))] for seed, one in scores.items()} for scores in (first, second))
    gain = list(runs.paired(*by_seed).values())
    return None if len(gain) < 2 else bool(np.mean(gain) > 2 * np.std(gain, ddof=1) / len(gain) ** 0.5)


def wins(title: str) -> dict[str, tuple[int, int]]:
    """In how many kinds a candidate in five dimensions is ahead of what it is compared with, and of how many."""
    twin = title.rpartition(", ")[0] + ", c = 0"
    counted: dict[str, list[bool]] = {
        name: [] for name in ("raw linkage", "its flat twin", "both", "both and related columns")
    }
    for columns in (shown(cells) for (_, d), cells in _found().items() if d == 5):
        raw, flat, related = (
            ahead(columns[title], columns[other]) for other in ("raw linkage", twin, "related columns")
        )
        for of, won in zip(counted.values(), ((raw,), (flat,), (raw, flat), (raw, flat, related)), strict=True):
            if None not in won:
                of.append(all(won))
    return {name: (sum(of), len(of)) for name, of in counted.items()}


def table() -> str:
    """Clade recall / triplets, or purity, means over seeds; below, in how many kinds a candidate is ahead."""
    titles = list(shown({}))
    lines = ["| rows | seeds | " + " | ".join(titles) + " |", "|---" + "|--:" * (len(titles) + 1) + "|"]
    for (kind, d), cells in _found().items():
        columns = shown(cells)
        seeds = {len(scores) for title, scores in columns.items() if ", c" in title and scores}
        if seeds:
            name, count = (
                kind if d == 5 else f"{kind}, d = {d}",
                " to ".join(map(str, sorted({min(seeds), max(seeds)}))),
            )
            lines.append(f"| {name} | {count} | {' | '.join(map(_cell, columns.values()))} |")
    won = {title: {} if title.endswith(" = 0") or ", c" not in title else wins(title) for title in titles}
    for name in wins(titles[-1]):
        cells_ = (" of ".join(map(str, won[title].get(name, ()))) for title in titles)
        lines.append(f"| **ahead of {name}, kinds** | | {' | '.join(cells_)} |")
    return "\n".join(lines)


def _cell(scores: Scores) -> str:
    return " / ".join(f"{_mean(scores, name):.3f}" for name in next(iter(scores.values()), {})) or "not run"


def figure_of() -> None:
    """Draw recall or purity of the trees of columns, of the candidates and of their flat twins."""
    import matplotlib.pyplot as plt

    found = {kind: shown(cells) for (kind, d), cells in _found().items() if d == 5}
    drawing, axes = plt.subplots(figsize=(7.6, 0.42 * len(found) + 1.4), layout="constrained")
    marks = {"raw linkage": ("|", "0.35"), "related columns": ("x", "0.35")}
    marks |= {"model": ("o", "C0"), "triplets": ("s", "C1"), "branching prior": ("^", "C2"), "free points": ("D", "C3")}
    for title in shown({}):
        method, _, c = title.partition(", c ")
        if method not in marks or c == "learned":
            continue
        mark, color = marks[method]
        x = [_mean(columns[title]) for columns in found.values()]
        y = np.arange(len(found)) + (0.0 if not c else -0.12 if c == "= 1" else 0.12)
        face = "none" if c == "= 0" else color
        axes.scatter(x, y, 60 if not c else 26, marker=mark, color=color, facecolor=face, label=title, zorder=2)
    axes.set_yticks(range(len(found)), list(found), fontsize=8)
    axes.invert_yaxis()
    axes.grid(axis="y", color="0.92")
    axes.set_xlabel("clade recall; of the last three, dendrogram purity")
    axes.legend(fontsize=7, ncols=5, loc="upper center", bbox_to_anchor=(0.4, -0.1), frameon=False)
    drawing.savefig(FIGURE, metadata={"Date": None})
    plt.close(drawing)


def main() -> None:
    """Run what is missing, print the table, and draw the figure."""
    asked = runs.arguments(__doc__, seeds=3)
    runs.carry_out(STUDY, settings(asked.seeds), run, asked.workers)
    print(table())
    figure_of()


if __name__ == "__main__":
    main()
