"""Cells and graphs for tests, from the folder in HOROBALL_DATA."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from tests.hierarchy.spaces import graph

FOLDER = Path(os.environ.get("HOROBALL_DATA", "")) / "cells"
needs_data = pytest.mark.skipif(not FOLDER.is_dir(), reason="HOROBALL_DATA has no folder with cells")


def cells(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features, and the last column as labels."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline=None) as file:
        rows = list(csv.reader(file))[1:]
    return np.array([row[:-1] for row in rows], float), np.array([row[-1] for row in rows])


def poincare_map(name: str) -> np.ndarray:
    return np.loadtxt(FOLDER / f"{name}.poincare_map.csv", delimiter=",")


def edges(name: str) -> csr_matrix:
    pairs = np.loadtxt(FOLDER.parent / "graphs" / f"{name}.edges", dtype=int)
    return graph([(int(i), int(j)) for i, j in pairs])


def principal(x: np.ndarray, k: int) -> np.ndarray:
    centered = x - x.mean(0)
    left, singular, _ = np.linalg.svd(centered, full_matrices=False)
    return left[:, :k] * singular[:k]
