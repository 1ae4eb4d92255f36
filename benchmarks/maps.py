"""Maps in two dimensions beside those of others: `python -m benchmarks.maps [tables|new|tradeoff|render]`.

tables    10-NN accuracy of the labels, Q_local, Q_global, the adjusted Rand index of each level of nested clusters, and
          CPU seconds, of PCA, t-SNE, UMAP, PaCMAP, published Poincaré maps and the estimator as it comes, hyperbolic
          and Euclidean
new       10-NN accuracy of a fifth of the rows that were not seen, beside that of the others
tradeoff  accuracy and Q_global from global to local
render    the tables, from what was measured

Each map is a line of `results/maps.jsonl`, written as soon as it is made. Labels are used to judge, not to fit.
Packages that are not installed are left out, and so are tables of HOROBALL_DATA that are not there. CPU seconds are
those of this process, warm: after a first map of other rows, whose own seconds are called cold, and one of 5,000 rows,
for which UMAP compiles another search.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.metrics import adjusted_rand_score

import horoball as hb
from benchmarks.map_tables import TABLES
from benchmarks.table import markdown
from horoball.hierarchy import quality
from horoball.hierarchy.space import Space

RESULTS = Path(__file__).parent / "results" / "maps.jsonl"
NEIGHBORS = 10
POINTS = 1500  # rows that Q_local and Q_global are measured on
LOCALITIES = (0.0, 0.5, 0.8, 0.9, 0.97, 1.0)


def _umap(seed: int) -> Any:
    import umap

    return umap.UMAP(random_state=seed)


def _pacmap(seed: int) -> Any:
    return importlib.import_module("pacmap").PaCMAP(random_state=seed)


METHODS: dict[str, tuple[float, Callable[[int], Any]]] = {
    "PCA": (0.0, lambda seed: PCA(2, random_state=seed)),
    "t-SNE": (0.0, lambda seed: TSNE(random_state=seed)),
    "UMAP": (0.0, _umap),
    "PaCMAP": (0.0, _pacmap),
    "horoball": (1.0, lambda seed: hb.PoincareVAE(random_state=seed)),
    "horoball, Euclidean twin": (0.0, lambda seed: hb.PoincareVAE(c=0.0, random_state=seed)),
    "horoball, paper's objective": (1.0, lambda seed: hb.PoincareVAE(distance_weight=0, random_state=seed)),
}
NEEDED = {"UMAP": "umap", "PaCMAP": "pacmap"}


def _available(name: str) -> bool:
    return name not in NEEDED or importlib.util.find_spec(NEEDED[name]) is not None


def _space(z: np.ndarray, c: float) -> Space:
    ball = hb.PoincareBall(c)
    return Space.of_points(ball.from_ball(torch.as_tensor(z, dtype=torch.float64)), ball)


def votes(space: Space, rows: np.ndarray, others: np.ndarray, label: np.ndarray) -> float:
    """Accuracy of the majority of the ten nearest of some rows, a row itself left out."""
    right = 0
    for block in np.array_split(rows, max(1, len(rows) // 500)):
        d = space.between(block, others).copy()
        d[block[:, None] == others[None]] = np.inf
        near = label[others[np.argpartition(d, NEIGHBORS, 1)[:, :NEIGHBORS]]]
        right += sum(int(np.bincount(row).argmax() == label[i]) for row, i in zip(near, block, strict=True))
    return right / len(rows)


def rand_indices(space: Space, levels: np.ndarray) -> list[float]:
    """Adjusted Rand index of each level, with groups of average linkage in the map."""
    rows = np.arange(space.n)
    d = np.asarray(space.between(rows, rows), np.float64)
    tree = linkage(squareform((d + d.T) / 2 * (1 - np.eye(len(d))), checks=False), "average")
    cuts = [fcluster(tree, int(level.max()) + 1, "maxclust") for level in levels.T]
    return [float(adjusted_rand_score(level, cut)) for level, cut in zip(levels.T, cuts, strict=True)]


def judged(x: np.ndarray, y: np.ndarray, z: np.ndarray, c: float) -> dict[str, Any]:
    """What a map of rows is worth."""
    space, rows = _space(z, c), np.arange(len(x))
    label = np.unique(y if y.ndim == 1 else y[:, -1], return_inverse=True)[1]
    some = np.sort(np.random.default_rng(0).choice(len(x), min(len(x), POINTS), replace=False))
    found = quality(Space.of_neighbors(x[some], 20), space.take(some))
    figures = {"accuracy": votes(space, rows, rows, label), "q_local": found.q_local, "q_global": found.q_global}
    return figures | ({"rand": rand_indices(space, y)} if y.ndim > 1 else {})


def _tables(names: Sequence[str]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for name in names:
        try:
            x, y = TABLES[name]()
        except (FileNotFoundError, KeyError) as missing:
            print(f"{name} is left out: {missing}", file=sys.stderr)
            continue
        yield name, np.asarray(x, np.float64), np.asarray(y)


def _write(line: dict[str, Any]) -> None:
    print(line, file=sys.stderr, flush=True)
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _done() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RESULTS.read_text("utf-8").splitlines()] if RESULTS.exists() else []


def _known(line: dict[str, Any]) -> bool:
    return any(all(other.get(name) == value for name, value in line.items()) for other in _done())


def _timed(model: Any, x: np.ndarray) -> tuple[np.ndarray, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)  # UMAP's numba sets those of OpenMP, which torch shares: they would wait in a loop
        start = time.process_time()
        z = model.fit_transform(x)
        return z, time.process_time() - start


def tables(names: Sequence[str], methods: Sequence[str], seeds: Sequence[int]) -> None:
    """A map of each table by each method with each seed."""
    for method in (each for each in methods if each in ("UMAP", "PaCMAP", "horoball") and _available(each)):
        _, seconds = _timed(METHODS[method][1](0), np.random.default_rng(0).normal(size=(300, 5)))
        if not _known({"what": "cold", "method": method}):
            _write({"what": "cold", "method": method, "seconds": seconds})
        if method == "UMAP":
            _timed(METHODS[method][1](0), np.random.default_rng(0).normal(size=(5000, 5)))
    for name, x, y in _tables(names):
        for method in filter(_available, methods):
            c, make = METHODS[method]
            for seed in seeds:
                line = {"what": "tables", "table": name, "method": method, "seed": seed}
                if _known(line) or (method == "PCA" and seed > 0):
                    continue
                z, seconds = _timed(make(seed), x)
                _write(line | {"rows": len(x), "seconds": seconds} | judged(x, y, z, c))
        path = Path(os.environ.get("HOROBALL_DATA", "")) / "cells" / f"{name}.poincare_map.csv"
        line = {"what": "tables", "table": name, "method": "Poincaré map, published", "seed": 0}
        if path.exists() and not _known(line):
            _write(line | {"rows": len(x)} | judged(x, y, np.genfromtxt(path, delimiter=",")[:, :2], 1.0))


def new(names: Sequence[str], methods: Sequence[str], seeds: Sequence[int]) -> None:
    """Rows that were not seen: how well their nearest among those that were tell their label."""
    for name, x, y in _tables(names):
        label = np.unique(y if y.ndim == 1 else y[:, -1], return_inverse=True)[1]
        for method in (each for each in methods if each in ("UMAP", "horoball") and _available(each)):
            c, make = METHODS[method]
            for seed in seeds:
                line = {"what": "new", "table": name, "method": method, "seed": seed}
                if _known(line):
                    continue
                order = np.random.default_rng(seed).permutation(len(x))
                held, kept = np.sort(order[: len(x) // 5]), np.sort(order[len(x) // 5 :])
                model = make(seed)
                z = np.empty((len(x), 2))
                z[kept], _ = _timed(model, x[kept])
                z[held] = model.transform(x[held])
                space = _space(z, c)
                both = {"seen": votes(space, kept, kept, label), "unseen": votes(space, held, kept, label)}
                _write(line | both)


def tradeoff(names: Sequence[str], seeds: Sequence[int]) -> None:
    """From global to local."""
    for name, x, y in _tables(names):
        for locality in LOCALITIES:
            for seed in seeds:
                line = {"what": "tradeoff", "table": name, "locality": locality, "seed": seed}
                if not _known(line):
                    z, seconds = _timed(hb.PoincareVAE(locality=locality, random_state=seed), x)
                    _write(line | {"seconds": seconds} | judged(x, y, z, 1.0))


def _shown(lines: list[dict[str, Any]], figure: str) -> str:
    values = [line[figure] for line in lines if figure in line]
    if not values:
        return ""
    mean = np.mean(values, axis=0)
    if figure == "rand":
        return " / ".join(f"{value:.2f}" for value in mean)
    return f"{mean:.1f}" if figure == "seconds" else f"{mean:.3f}"


FIGURES = {"accuracy": "10-NN accuracy", "q_global": "Q_global", "q_local": "Q_local", "seconds": "CPU seconds"}


def render() -> None:
    """All tables."""
    lines = _done()
    of_tables = [line for line in lines if line["what"] == "tables"]
    methods = list(dict.fromkeys(line["method"] for line in of_tables))
    for figure, called in (*FIGURES.items(), ("rand", "adjusted Rand index, three levels")):
        rows = []
        for name in TABLES:
            cells = [[x for x in of_tables if (x["table"], x["method"]) == (name, method)] for method in methods]
            shown = [_shown(cell, figure) for cell in cells]
            rows += [[name, *shown]] if any(shown) else []
        print(markdown([called, *methods], rows), end="\n\n")
    for line in (line for line in lines if line["what"] == "cold"):
        print(f"First map in a process, of 300 rows, {line['method']}: {line['seconds']:.1f} CPU seconds.\n")
    for what, settings, figures in (
        ("new", ("table", "method"), ("seen", "unseen")),
        ("tradeoff", ("table", "locality"), ("accuracy", "q_global", "rand")),
    ):
        found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for line in (line for line in lines if line["what"] == what):
            found.setdefault(tuple(line[name] for name in settings), []).append(line)
        rows = [[*map(str, key), *(_shown(group, name) for name in figures)] for key, group in found.items()]
        print(markdown([*settings, *(FIGURES.get(name, name) for name in figures)], rows), end="\n\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, or print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["tables", "new", "tradeoff", "render"], nargs="?", default="tables")
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES), metavar="TABLE")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS), metavar="METHOD")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    seeds = range(options.seeds)
    if options.what == "tables":
        tables(options.tables, options.methods, seeds)
    elif options.what == "new":
        new(options.tables, options.methods, seeds)
    elif options.what == "tradeoff":
        tradeoff(options.tables, seeds)
    render()
    return 0


if __name__ == "__main__":
    sys.exit(main())
