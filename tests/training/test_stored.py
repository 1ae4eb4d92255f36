"""Models of strangers: what a file says of itself is not believed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from horoball.data import ArrayTable
from horoball.training import TrainConfig
from horoball.training.checkpoint import load_checkpoint, save_checkpoint
from horoball.training.run import FINAL, Run, train


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run")
    table = ArrayTable(torch.randn(60, 4, generator=torch.Generator().manual_seed(0)))
    train(table, {"hidden": (8,)}, TrainConfig(max_epochs=1), path)
    return path


def changed(folder: Path, to: Path, model: dict[str, Any] | None = None, drop: str | None = None) -> Path:
    """The run with another description, or without a part of it or a tensor."""
    tensors, header = load_checkpoint(folder / FINAL)
    header["about"]["model"] |= model or {}
    if drop is not None:
        header["about"].pop(drop, None)
        tensors.pop(drop, None)
    save_checkpoint(to / FINAL, tensors, {name: header[name] for name in ("about", "history")})
    return to


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"model": {"hidden": [10**12]}},
            r"Its encoder.network.0.weight has shape \(8, 4\), and its description wants",
        ),
        ({"model": {"features": 10**13}}, "does not hold a whole model"),
        ({"model": {"d": 3}}, "does not hold a whole model"),
        ({"model": {"learn_c": True}}, "Its description wants"),
        ({"model": {"posterior": "square"}}, "Unknown posterior 'square'"),
        ({"model": {"depth": 3}}, "does not hold a whole model"),
        ({"drop": "columns"}, "it lacks 'columns'"),
        ({"drop": "model.encoder.network.0.bias"}, "Its description wants encoder.network.0.bias"),
        ({"drop": "scaler.std"}, "it lacks 'scaler.std'"),
    ],
)
def test_a_file_that_is_not_what_it_says_is_refused_in_one_sentence(
    folder: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Run.load(changed(folder, tmp_path, **change))
    assert Run.load(folder).columns == ["x0", "x1", "x2", "x3"]
