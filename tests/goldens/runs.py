"""Saved runs: files of `runs/`, written once, that every later version has to read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from horoball import PoincareGraphVAE, PoincareVAE
from horoball.cells import CellModel, fit, simulate
from tests.goldens.fits import FAST, MANY, TALL, TREE
from tests.goldens.tables import MIXED

FOLDER = Path(__file__).with_name("runs")
RUNS = ("numbers", "counts", "mixed", "cells", "graph")
ROWS: dict[str, Any] = {"numbers": TALL, "counts": MANY, "mixed": MIXED}


def _cells() -> Any:
    return simulate(depth=1, cells=40, genes=12)


def write(name: str) -> None:
    """Fit and save a run, in place of the one that is there."""
    folder = FOLDER / name
    if name == "graph":
        PoincareGraphVAE(max_epochs=2, random_state=5).fit(TREE).save(folder)
    elif name == "cells":
        with torch.random.fork_rng(devices=[]):
            fit(_cells(), batch_key="batch", hidden=(6,), max_epochs=1, batch_size=32, verbose=False).save(folder)
    else:
        PoincareVAE(**FAST).fit(ROWS[name]).save(folder)


def header(name: str) -> dict[str, Any]:
    """The fields of a run's record, and the shapes of its tensors."""
    with safe_open(FOLDER / name / "model.safetensors", "pt") as file:
        said = {key: json.loads(value) for key, value in file.metadata().items()}
        shapes = {key: list(file.get_slice(key).get_shape()) for key in sorted(file.keys())}
    return {"keys": sorted(_keys(said)), "tensors": shapes}


def _keys(value: Any, above: str = "") -> list[str]:
    if not isinstance(value, dict):
        return [above]
    return [key for name, each in value.items() for key in _keys(each, f"{above}/{name}")]


def places(name: str) -> list[list[float]]:
    """Where the model of a run puts a few of its rows."""
    folder = FOLDER / name
    if name == "graph":
        z = PoincareGraphVAE.load(folder).embedding_
    elif name == "cells":
        cells = _cells()
        z = np.asarray(CellModel.load(folder).embed(cells, n_neighbors=5))
    else:
        z = PoincareVAE.load(folder).transform(ROWS[name])
    return [[float(f"{x:.4g}") for x in row] for row in np.asarray(z)[:3].tolist()]
