"""Tiny fits of every kind of rows, and their weights."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from horoball import PoincareGraphVAE, PoincareVAE
from tests.goldens.tables import COUNTS, MIXED, X

RNG = np.random.default_rng(3)
TALL = np.tile(X, (6, 1)) + RNG.normal(size=(72, 3)).round(2)
MANY = np.tile(COUNTS, (6, 1)) + RNG.poisson(1.0, (72, 4))
TREE = [(i, (i - 1) // 2) for i in range(1, 16)]
FAST: dict[str, Any] = {"max_epochs": 2, "hidden": (6,), "batch_size": 24, "random_state": 5}


def _table(rows: Any, *arguments: Any, **options: Any) -> torch.nn.Module:
    return PoincareVAE(*arguments, **FAST, **options).fit(rows).model_


def _graph(**options: Any) -> torch.nn.Module:
    return PoincareGraphVAE(max_epochs=2, random_state=5, **options).fit(TREE).run_.model


def _cells() -> torch.nn.Module:
    from horoball.cells import fit, simulate

    cells = simulate(depth=1, cells=60, genes=20)
    with torch.random.fork_rng(devices=[]):
        return fit(cells, batch_key="batch", hidden=(6,), max_epochs=1, batch_size=32, verbose=False).run.model


FITS: dict[str, Callable[[], torch.nn.Module]] = {
    "numbers": lambda: _table(TALL),
    "numbers, wrapped posterior": lambda: _table(TALL, posterior="wrapped"),
    "numbers, three dimensions": lambda: _table(TALL, 3),
    "numbers, learned c": lambda: _table(TALL, c="learn"),
    "numbers, Euclidean": lambda: _table(TALL, c=0.0),
    "counts": lambda: _table(MANY, likelihood="negative_binomial"),
    "zeros and ones": lambda: _table(MANY > 2, likelihood="bernoulli"),
    "vectors": lambda: _table(TALL, likelihood="von_mises_fisher"),
    "mixed": lambda: _table(MIXED.loc[np.arange(60) % 12].reset_index(drop=True)),
    "cells": _cells,
    "graph": _graph,
    "graph, convolution": lambda: _graph(encoder="gcn"),
    "graph, drawn pairs": lambda: _graph(non_edges=2),
}


def bits(model: torch.nn.Module) -> str:
    """A hash of every bit of the weights."""
    found = hashlib.sha256()
    for name, value in model.state_dict().items():
        found.update(name.encode())
        found.update(np.ascontiguousarray(value.detach().cpu().numpy()).tobytes())
    return found.hexdigest()[:16]


def summary(model: torch.nn.Module) -> dict[str, list[float]]:
    """Of each tensor its size, mean absolute value and a weighted sum, which knows the order of the values."""
    found = {}
    for name, value in model.state_dict().items():
        x = value.detach().double().flatten()
        weights = torch.cos(torch.arange(len(x), dtype=torch.float64))
        found[name] = [len(x), *(float(f"{float(part):.5g}") for part in (x.abs().mean(), (weights * x).sum()))]
    return found
