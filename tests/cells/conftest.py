from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from horoball.cells import CellModel, fit, simulate

FAST: dict[str, Any] = {"hidden": (32,), "max_epochs": 2, "batch_size": 64}


@pytest.fixture(autouse=True)
def _a_generator_of_its_own() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        yield


@pytest.fixture(scope="session")
def fitted() -> tuple[Any, CellModel]:
    """Cells of a known tree in two batches, with their map; tests read them and leave them as they are."""
    cells = simulate(depth=2, cells=280, genes=100)
    with torch.random.fork_rng(devices=[]):
        model = fit(cells, batch_key="batch", hidden=(64,), max_epochs=60, batch_size=64, learning_rate=5e-3)
    return cells, model


@pytest.fixture
def cells() -> Any:
    """A few cells, to be changed at will."""
    return simulate(depth=1, cells=90, genes=40)
