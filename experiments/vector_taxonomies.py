"""Taxonomies of text vectors, beside linkages of the raw vectors: `python -m experiments.vector_taxonomies`.

Three sets of texts whose true hierarchy is known and which no method sees: Google's product categories, diagnoses of
ICD-10-CM, and Debian's packages (one level, their sections; vectors by TF-IDF and SVD). Every run draws 2,000 of them.
Purity of the tree at both true levels; groups of as many as the true levels have, by the adjusted Rand index; and where
items that were held out are placed in the true hierarchy. The tree of vectors is made from the vectors alone, so a flat
model has the same; trees of the latent spaces of the model and of its flat twin are beside it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import warnings
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.cluster import HDBSCAN
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import adjusted_rand_score

from experiments import runs
from horoball import PoincareVAE
from horoball.hierarchy.metrics import merges_purity
from horoball.trees import Placer, Tree, calibration_error

STUDY, PLACING = "vector_taxonomies", "placing"
SETS = ("google_products", "icd10cm", "debian")
LINKAGES = ("average, cosine", "average, Euclidean", "Ward")
METHODS = ("horoball", *LINKAGES, "HDBSCAN", "EVōC", "latent space, c = 1", "latent space, c = 0")
COVERAGES = (0.8, 0.9)
_ROWS = 2_000
_DIMENSIONS, _EPOCHS = 10, 40  # of the model


class Texts(NamedTuple):
    """Vectors of length 1, and the true path of each."""

    x: np.ndarray
    paths: list[tuple[str, ...]]


@cache
def texts_of(name: str) -> Texts:
    """All items of a set."""
    if name == "debian":
        return _debian()
    with np.load(Path(os.environ["HOROBALL_DATA"]) / "vectors" / f"{name}.npz") as held:
        x, paths = held["vectors"].astype(np.float32), [tuple(str(path).split(" > ")) for path in held["paths"]]
    return Texts(_unit(x), paths)


def _debian() -> Texts:
    """Descriptions of packages as apt has them, and their sections."""
    program = shutil.which("apt-cache")
    if program is None:
        raise FileNotFoundError("Debian's packages are read by apt-cache, which is not here.")
    told = subprocess.run([program, "dumpavail"], capture_output=True, text=True, check=True).stdout  # noqa: S603
    described: dict[str, str] = {}
    for stanza in told.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line and not line.startswith(" "))
        text = fields.get("Description") or fields.get("Description-en")
        if text and "Section" in fields:
            described[f"{fields['Package'].replace('-', ' ')} {text}"] = fields["Section"].rsplit("/", 1)[-1]
    vectors = TfidfVectorizer(min_df=3, sublinear_tf=True, stop_words="english").fit_transform(described)
    x = TruncatedSVD(256, random_state=0).fit_transform(vectors)
    known = np.linalg.norm(x, axis=1) > 1e-6
    paths: list[tuple[str, ...]] = [(section,) for section, keep in zip(described.values(), known, strict=True) if keep]
    return Texts(_unit(x[known].astype(np.float32)), paths)


def drawn(name: str, seed: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Some items that have all true levels, and their labels at the first two levels."""
    x, paths = texts_of(name)
    depth = 1 if name == "debian" else 2
    deep = [row for row, path in enumerate(paths) if len(path) >= depth]
    some = np.sort(np.random.default_rng(seed).permutation(deep)[:_ROWS])
    return x[some], [np.array([" > ".join(paths[row][: level + 1]) for row in some]) for level in range(depth)]


def run(table: str, method: str, seed: int) -> dict[str, Any]:
    """Purity of one tree at the true levels, and agreement of groups with them."""
    x, labels = drawn(table, seed)
    sizes = [len(set(level)) for level in labels]
    began = time.process_time()
    about: dict[str, Any] = {}
    made: Any
    tree: Tree | None
    if method.startswith("latent space"):
        model = _fitted(x, seed, c=float(method.endswith("1")))
        tree = model.tree(x, source="latent", draws=0, random_state=seed)
        found = np.stack([fcluster(tree.to_linkage(), size, "maxclust") for size in sizes])
        about["given"] = [len(set(level)) for level in found]
    elif method == "horoball":
        model = _fitted(x, seed)
        tree = model.tree(x, draws=20, random_state=seed)
        groups = model.taxonomy(x, sizes, tree=tree, random_state=seed).levels
        nearest = model.place(x).path
        about["given"] = [len(set(level[level >= 0])) for level in groups.T]
        about["unsure"] = [float((level < 0).mean()) for level in groups.T]
        found = np.where(groups >= 0, groups, nearest).T  # those that are in no group count where they are placed
    elif method == "HDBSCAN":
        fitted = HDBSCAN(min_cluster_size=5, copy=True).fit(x)
        made = fitted._single_linkage_tree_
        tree = Tree.from_merges(np.column_stack([made["left_node"], made["right_node"]]), made["value"])
        found = np.stack([fitted.labels_] * len(labels))  # it chooses the number of groups itself
        about["given"] = [int(fitted.labels_.max()) + 1] * len(labels)
        about["unsure"] = [float((fitted.labels_ < 0).mean())] * len(labels)
    elif method == "EVōC":
        evoc = import_module("evoc")
        made = [evoc.EVoC(approx_n_clusters=size, random_state=seed).fit_predict(x) for size in sizes]
        tree, found = None, np.stack(made)
        about["given"] = [len(set(level[level >= 0])) for level in found]
        about["unsure"] = [float((level < 0).mean()) for level in found]
    else:
        kind, *metric = method.split(", ")
        made = linkage(x, kind.lower(), metric="cosine" if metric == ["cosine"] else "euclidean")
        tree = Tree.from_merges(made[:, :2], made[:, 2])
        found = np.stack([fcluster(made, size, "maxclust") for size in sizes])
        about["given"] = [len(set(level)) for level in found]
    agreement = [float(adjusted_rand_score(true, level)) for true, level in zip(labels, found, strict=True)]
    purity = [] if tree is None else [_purity(tree, level) for level in labels]
    cpu = round(time.process_time() - began, 1)
    return {"purity": purity, "agreement": agreement, "asked": sizes, "cpu": cpu} | about


def _fitted(x: np.ndarray, seed: int, c: float = 1.0) -> PoincareVAE:
    options: dict[str, Any] = {"posterior": "wrapped", "likelihood": "von_mises_fisher", "max_epochs": _EPOCHS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the last epoch may still improve
        return PoincareVAE(_DIMENSIONS, c=c, random_state=seed, **options).fit(x)


def place(table: str, seed: int) -> dict[str, Any]:
    """Where a fifth of the items with no others below them are placed in the true hierarchy, without these items."""
    x, paths = texts_of(table)
    inner = {path[:depth] for path in paths for depth in range(1, len(path))}
    # An item belongs to its parent; one that others are below, which its vector stands for, to itself.
    homes = [path if path in inner else path[:-1] or path for path in paths]
    ends = np.array([row for row, path in enumerate(paths) if path not in inner and len(path) > 1])
    held = np.zeros(len(x), bool)
    held[np.random.default_rng(seed).permutation(ends)[: len(ends) // 5]] = True
    depth = max(map(len, homes))
    numbers: list[dict[tuple[str, ...], int]] = [{} for _ in range(depth)]
    levels = np.full((len(x), depth), -1)
    for row, home in enumerate(homes):
        for level in range(len(home)):
            levels[row, level] = numbers[level].setdefault(home[: level + 1], len(numbers[level]))
    placed = Placer.fit(x[~held], levels[~held], seed=seed).place(x[held])
    truth, asked = levels[held], placed.path >= 0
    right = np.cumprod(placed.path == truth, axis=1).astype(bool)
    nearest = levels[~held][_nearest(x[held], x[~held])]
    result: dict[str, Any] = {
        "items": int(held.sum()),
        "hit": float((placed.path == truth).all(1).mean()),
        "neighbor": float((nearest == truth).all(1).mean()),
        "error": calibration_error(placed.probability[asked], right[asked]),
        "error_of_ends": calibration_error(_ends(placed.probability, placed.path), _ends(right, placed.path)),
    }
    named = np.array([row for row, path in enumerate(paths) if path in inner and not held[row]])
    if len(named):  # of diagnoses, only the ends have texts
        result["names"] = float((levels[named][_nearest(x[held], x[named])] == truth).all(1).mean())
    for coverage in COVERAGES:
        steps = replace(placed, coverage=coverage).depth()
        result[f"held_{coverage}"] = float((right | (np.arange(depth) >= steps[:, None])).all(1).mean())
        result[f"below_{coverage}"] = float((steps > 0).mean())
        result[f"steps_{coverage}"] = float(steps.mean())
    return result


def _ends(values: np.ndarray, path: np.ndarray) -> np.ndarray:
    """The last entry along each path."""
    return values[np.arange(len(path)), (path >= 0).sum(1) - 1]


def _nearest(x: np.ndarray, others: np.ndarray) -> np.ndarray:
    return np.concatenate([(block @ others.T).argmax(1) for block in np.array_split(x, max(1, len(x) // 500))])


def _purity(tree: Tree, labels: np.ndarray) -> float:
    return float(merges_purity(tree.to_linkage()[:, :2].astype(np.int64), labels))


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def settings(seeds: int) -> list[runs.Setting]:
    """All runs: a seed draws other items."""
    return [
        {"table": table, "method": method, "seed": seed}
        for seed in range(seeds)
        for table in SETS
        for method in METHODS
        if method != "EVōC" or find_spec("evoc")  # pip install evoc
    ]


def _results(study: str, **setting: Any) -> list[dict[str, Any]]:
    return [record["result"] for record in runs.results(study) if setting.items() <= record["setting"].items()]


def purity_table() -> str:
    """Purity of trees at the true levels, means over draws."""
    lines = ["| texts | draws | " + " | ".join(METHODS) + " |", "|---" * (len(METHODS) + 2) + "|"]
    for name in SETS:
        cells, draws = [], 0
        for method in METHODS:
            of = [one["purity"] for one in _results(STUDY, table=name, method=method)]
            draws = max(draws, len(of))
            cells.append("no tree" if of and not of[0] else _mean(of))
        lines.append(f"| {name} | {draws} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def group_table() -> str:
    """Agreement of groups with the true levels, and how many were given of those asked for."""
    lines = ["| texts | groups asked for | " + " | ".join(METHODS) + " |", "|---" * (len(METHODS) + 2) + "|"]
    for name in SETS:
        cells, asked = [], ""
        for method in METHODS:
            of = _results(STUDY, table=name, method=method)
            asked = " / ".join(str(round(float(v))) for v in np.mean([o["asked"] for o in of], 0)) if of else asked
            given = " / ".join(str(round(float(v))) for v in np.mean([o["given"] for o in of], 0)) if of else ""
            unsure = [one["unsure"] for one in of if "unsure" in one]
            out = f"; {_mean(unsure, 2)} in none" if unsure else ""
            cells.append(f"{_mean([one['agreement'] for one in of])} ({given}{out})" if of else "not run")
        lines.append(f"| {name} | {asked} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def placing_table() -> str:
    """Where held-out items are placed in the true hierarchy."""
    head = ("items", "true parent", "nearest item", "nearest name", "calibration error, steps", "ends")
    shown = tuple(
        f"{what} {c}" for c in COVERAGES for what in ("truth held at coverage", "below the root at", "steps at")
    )
    lines = ["| texts | " + " | ".join((*head, *shown)) + " |", "|---" * (len(head) + len(shown) + 1) + "|"]
    chosen = [f"{what}_{coverage}" for coverage in COVERAGES for what in ("held", "below", "steps")]
    keys = ("hit", "neighbor", "names", "error", "error_of_ends", *chosen)
    for name in SETS[:2]:
        of = _results(PLACING, table=name)
        cells = [
            _mean([[one[key]] for one in of if key in one]) if any(key in one for one in of) else "–" for key in keys
        ]
        items = str(of[0]["items"]) if of else "not run"
        lines.append(f"| {name} | " + " | ".join([items, *cells]) + " |")
    return "\n".join(lines)


def _mean(values: list[list[float]], digits: int = 3) -> str:
    return " / ".join(f"{value:.{digits}f}" for value in np.mean(values, 0)) if values else "not run"


def main() -> None:
    """Run what is missing, and print the tables."""
    asked = runs.arguments(__doc__, seeds=3, help_="draws of 2,000 items")
    placing: list[runs.Setting] = [{"table": table, "seed": seed} for seed in range(asked.seeds) for table in SETS[:2]]
    runs.carry_out(PLACING, placing, place, asked.workers)
    runs.carry_out(STUDY, settings(asked.seeds), run, asked.workers)
    print(purity_table(), group_table(), placing_table(), sep="\n\n")


if __name__ == "__main__":
    main()
