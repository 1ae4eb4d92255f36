"""The tables that maps are judged on, ten and a large one: rows and labels, for nested clusters one of each level."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from horoball.datasets import branching_diffusion, mnist

__all__ = ["TABLES", "nested_clusters"]

Labeled = tuple[np.ndarray, np.ndarray]
_SPREADS = (9.0, 3.0, 1.0)  # of the centers of each level around those above
_NOISE = 0.25  # of rows around their center


def _file(folder: str, name: str) -> Labeled:
    path = Path(os.environ["HOROBALL_DATA"]) / folder / f"{name}.csv"
    cells = np.genfromtxt(path, delimiter=",", dtype=str, skip_header=1)
    return cells[:, :-1].astype(np.float64), cells[:, -1]


def _olsson() -> Labeled:
    x, y = _file("cells", "Olsson")
    return PCA(20, random_state=0).fit_transform(x), y


def _mnist(rows: int) -> Labeled:
    images = mnist()
    return images.x[:rows].numpy().astype(np.float64), np.asarray(images.labels[:rows])


def _branching() -> Labeled:
    """Labels are the eight branches at depth 3; nodes above have their own."""
    tree = branching_diffusion()
    branch = np.arange(len(tree.parent))
    for node in np.flatnonzero(tree.depth.numpy() > 3):  # parents come first
        branch[node] = branch[tree.parent[node]]
    return tree.x.numpy().astype(np.float64), branch[tree.node.numpy()]


def nested_clusters(rows: int = 1920, features: int = 20, seed: int = 0) -> Labeled:
    """Four clusters of four clusters of four clusters, of equal size; labels have a column for each level."""
    rng = np.random.default_rng(seed)
    center = np.zeros((1, features))
    for spread in _SPREADS:
        shift = rng.normal(size=(4 * len(center), features)) * spread / np.sqrt(8)
        center = np.repeat(center, 4, 0) + shift
    at = np.repeat(np.arange(len(center)), rows // len(center))
    x = center[at] + _NOISE * rng.normal(size=(len(at), features))
    return x, np.stack([at // 16, at // 4, at], 1)


TABLES: dict[str, Callable[[], Labeled]] = {
    "digits": lambda: load_digits(return_X_y=True),
    "MNIST, 10,000 rows": lambda: _mnist(10_000),
    "letter": lambda: _file("trees", "letter"),
    "satellite": lambda: _file("trees", "satellite"),
    "spambase": lambda: _file("trees", "spambase"),
    "Olsson": _olsson,
    "Moignard2015": lambda: _file("cells", "Moignard2015"),
    "krumsiek11_blobs": lambda: _file("cells", "krumsiek11_blobs"),
    "nested clusters": nested_clusters,
    "branching tree": _branching,
    "MNIST, 60,000 rows": lambda: _mnist(60_000),  # for the time that it takes
}
