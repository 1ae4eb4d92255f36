"""Places that are kept with a run: what a stranger's file holds is placed with, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from horoball.data import ArrayTable
from horoball.estimators.places import PLACES, load_places, save_places
from horoball.hierarchy.taxonomies import Placer
from horoball.storage.checkpoint import load_checkpoint, save_checkpoint
from horoball.training import TrainConfig
from horoball.training.table.run import Run
from horoball.training.table.train import train

FITTED = (0.1, 0.1, 1.0, 0.0, 1.0, 0.0)


@pytest.fixture(scope="module")
def run() -> Run:
    rows = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
    return train(ArrayTable(rows), {"hidden": (4,)}, TrainConfig(max_epochs=1))


def point(value: float) -> Callable[[dict[str, torch.Tensor], dict[str, Any]], None]:
    def change(tensors: dict[str, torch.Tensor], _: dict[str, Any]) -> None:
        tensors["points"][1, 2] = value

    return change


def fitted(place: int, value: float) -> Callable[[dict[str, torch.Tensor], dict[str, Any]], None]:
    return lambda _, state: state["fitted"].__setitem__(place, value)


def level(value: int) -> Callable[[dict[str, torch.Tensor], dict[str, Any]], None]:
    def change(tensors: dict[str, torch.Tensor], _: dict[str, Any]) -> None:
        tensors["levels"][0, 0] = value

    return change


HOSTILE = {
    "a large number": (point(3e38), "up to 1e.18"),
    "a number whose square is infinite": (point(-2e19), "up to 1e.18"),
    "NaN": (point(float("nan")), "not finite"),
    "no temperature": (fitted(1, 1e-300), "outside"),
    "no sharpness": (fitted(0, 1e-300), "outside"),
    "an endless slope": (fitted(2, 1e308), "outside"),
    "an endless offset": (fitted(5, -1e308), "outside"),
    "a group below none": (level(-7), "groups"),
    "a group of many": (level(2**62), "groups"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_places_that_would_give_no_probabilities_are_refused(case: str, run: Run, tmp_path: Path) -> None:
    change, says = HOSTILE[case]
    points = np.random.default_rng(0).normal(size=(4, 6))
    save_places(Placer(points, [[0], [0], [1], [1]], FITTED), run, tmp_path)
    tensors, state = load_checkpoint(tmp_path / PLACES)
    change(tensors, state)
    save_checkpoint(tmp_path / PLACES, tensors, state)
    with pytest.raises(ValueError, match=says) as caught:
        load_places(tmp_path, run)
    assert PLACES in str(caught.value)


def test_rows_that_are_too_large_to_be_placed_are_refused_by_number() -> None:
    placer = Placer(np.eye(4, 6), [[0], [0], [1], [1]], FITTED)
    assert np.isfinite(placer.place(1e17 * np.eye(2, 6)).probability).all()
    with pytest.raises(ValueError, match="row 1 is larger"):
        placer.place(np.eye(2, 6) * [[1.0], [3e38]])


def test_thousands_of_groups_of_one_branch_take_little_memory() -> None:
    """Which paths share a branch was a matrix of paths × paths: 20,000 rows of half a megabyte took gigabytes."""
    n = 20_000
    levels = np.stack([np.zeros(n, np.int64), np.arange(n)], 1)
    placer = Placer(np.random.default_rng(0).normal(size=(n, 2)), levels, FITTED)
    assert sum(held.nnz for _, held in placer._steps) == 2 * n
    placed = placer.place(placer.points[:3])
    np.testing.assert_array_equal(placed.path[:, 1], [0, 1, 2])
    assert np.isfinite(placed.probability).all()
