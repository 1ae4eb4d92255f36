"""Maps of single-cell tables in two dimensions, beside others: `python -m benchmarks.maps [cells|levers|large]`.

cells  5-NN accuracy, Q_local and Q_global of PCA, UMAP (where umap-learn is installed), published Poincaré maps and the
       estimator with the settings it chooses by itself, hyperbolic and Euclidean, with and without the distance term;
       and what the term costs in held-out log-likelihood
levers what one setting at a time does to the map of Moignard2015
large  time and memory of a fit with the distance term on 100,000 rows

The tables are looked for in the folder `cells` of HOROBALL_DATA; labels are used to judge, not to fit.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import PCA

import horoball as hb
from benchmarks.table import markdown
from horoball.data import branching_diffusion
from horoball.hierarchy import metrics

TABLES = {"Olsson": 20, "krumsiek11_blobs": None, "Moignard2015": None}  # principal components to reduce to
MODELS: tuple[tuple[str, float, float | str], ...] = (
    ("horoball", 1.0, "auto"),
    ("horoball, Euclidean twin", 0.0, "auto"),
    ("horoball, paper's objective", 1.0, 0.0),
    ("horoball, paper's objective, Euclidean twin", 0.0, 0.0),
)
POINTS = {"Moignard2015": 1500}  # rows to judge by


def _read(name: str) -> tuple[np.ndarray, np.ndarray]:
    path = Path(os.environ["HOROBALL_DATA"]) / "cells" / f"{name}.csv"
    rows = np.genfromtxt(path, delimiter=",", dtype=str, skip_header=1)
    x, components = rows[:, :-1].astype(np.float64), TABLES[name]
    return (x if components is None else PCA(components, random_state=0).fit_transform(x)), rows[:, -1]


def _published(name: str) -> np.ndarray | None:
    path = Path(os.environ["HOROBALL_DATA"]) / "cells" / f"{name}.poincare_map.csv"
    return np.genfromtxt(path, delimiter=",")[:, :2] if path.exists() else None


def _umap(x: np.ndarray) -> np.ndarray | None:
    try:
        import umap
    except ImportError:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return umap.UMAP(random_state=0).fit_transform(x)


def _judged(name: str, x: np.ndarray, z: np.ndarray, c: float, kind: np.ndarray) -> np.ndarray:
    ball = hb.PoincareBall(c)
    found = metrics(x, z, ball, labels=kind, chart="ball", points=POINTS.get(name, 3000))
    assert found.neighbour_accuracy is not None
    return np.array([found.neighbour_accuracy, found.q_local, found.q_global])


def _shown(values: list[np.ndarray]) -> str:
    mean = np.mean(values, axis=0)
    spread = f" ± {np.std(values, axis=0, ddof=1).max():.3f}" if len(values) > 1 else ""
    return " / ".join(f"{value:.3f}".lstrip("0") for value in mean) + spread


def cells(seeds: int) -> None:
    """The table of maps, and of the price of the distance term."""
    lines: dict[str, list[str]] = {}
    prices = []
    for name in TABLES:
        x, kind = _read(name)
        for called, z in (("PCA", PCA(2, random_state=0).fit_transform(x)), ("UMAP", _umap(x))):
            lines.setdefault(called, []).append("" if z is None else _shown([_judged(name, x, z, 0.0, kind)]))
        published = _published(name)
        shown = "" if published is None else _shown([_judged(name, x, published, 1.0, kind)])
        lines.setdefault("Poincaré map (published)", []).append(shown)
        for called, c, weight in MODELS:
            fits = [hb.PoincareVAE(c=c, random_state=seed, distance_weight=weight).fit(x) for seed in range(seeds)]
            scores = [_judged(name, x, model.transform(x), c, kind) for model in fits]
            lines.setdefault(called, []).append(_shown(scores))
            print(name, called, lines[called][-1], file=sys.stderr, flush=True)
        held = np.random.default_rng(0).permutation(len(x))[: len(x) // 5]
        rest = np.setdiff1d(np.arange(len(x)), held)
        pair = [hb.PoincareVAE(random_state=0, distance_weight=weight).fit(x[rest]) for weight in ("auto", 0.0)]
        prices.append([name, *(f"{model.score_samples(x[held], samples=200).mean():.2f}" for model in pair)])
    print(markdown(["5-NN / Q_local / Q_global", *TABLES], [[called, *row] for called, row in lines.items()]))
    print()
    print(markdown(["held-out log-likelihood, nats a row", "with the term", "without"], prices))


LEVERS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "distance_weight=50": {"distance_weight": 50.0},
    "distance_weight=800": {"distance_weight": 800.0},
    "beta=0.2": {"beta": 0.2},
    "hidden=(600,)": {"hidden": (600,)},
    "hidden=(256, 256)": {"hidden": (256, 256)},
    'decoder="mlp"': {"decoder": "mlp"},
    'posterior="wrapped"': {"posterior": "wrapped"},
    "prior_scale=2": {"prior_scale": 2.0},
    "c=5": {"c": 5.0},
    'c="learn"': {"c": "learn"},
    "batch_size=64": {"batch_size": 64},
    "max_epochs=600, patience=100": {"max_epochs": 600, "patience": 100},
}


def levers(name: str = "Moignard2015") -> None:
    """One setting changed at a time, one seed."""
    x, kind = _read(name)
    lines = []
    for called, options in LEVERS.items():
        model = hb.PoincareVAE(random_state=0, **options).fit(x)
        lines.append([called, _shown([_judged(name, x, model.transform(x), model.c_, kind)]), f"{model.c_:.2f}"])
        print(lines[-1], file=sys.stderr, flush=True)
    print(markdown([f"{name}, setting", "5-NN / Q_local / Q_global", "c"], lines))


def large(epochs: int) -> None:
    """A fit with the distance term on a hundred thousand rows."""
    tree = branching_diffusion(depth=12, copies=13, features=50)
    x = tree.x[:100_000].numpy()
    start = time.perf_counter()
    model = hb.PoincareVAE(random_state=0, max_epochs=epochs, batch_size=512).fit(x)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    first, last = model.run_.history[0], model.run_.history[-1]
    print(f"{len(x):,} rows, {epochs} epochs with the distance term: {seconds:.0f} s in all, peak {peak:.0f} MiB.")
    print(f"Distance term {first['distance']:.3f} in the first epoch, {last['distance']:.3f} in the last.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["cells", "levers", "large"], nargs="?", default="cells")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if options.what == "cells":
        cells(options.seeds)
    elif options.what == "levers":
        levers()
    else:
        large(options.epochs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
