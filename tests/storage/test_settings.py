"""Settings take numbers of any kind, and keep plain ones."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from horoball.graphs import GraphConfig
from horoball.storage.settings import Settings
from horoball.training import TrainConfig
from horoball.vae import ModelConfig


@pytest.mark.parametrize(
    "settings",
    [
        ModelConfig(features=np.int64(3), d=np.int32(2), c=np.float32(0.5), hidden=np.array([4, 5]), learn_c=np.True_),
        GraphConfig(nodes=np.int64(3), hidden=np.uint8(4), prior_scale=np.float64(2)),
        TrainConfig(max_epochs=np.int64(3), learning_rate=np.float32(0.5), beta=1),
    ],
    ids=lambda settings: type(settings).__name__,
)
def test_numbers_of_numpy_become_plain_and_come_back_from_json(settings: Settings) -> None:
    kept = json.loads(json.dumps(settings.as_dict()))
    assert type(settings).from_dict(kept) == settings


def test_one_hidden_layer_may_be_a_number() -> None:
    assert ModelConfig(features=3, hidden=8) == ModelConfig(features=3, hidden=(8,))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("d", 2.7, "d is a whole number, got 2.7"),
        ("d", True, "d is a whole number, got True"),
        ("c", "0.5", "c is a number, got '0.5'"),
        ("prior_scale", None, "prior_scale is a number, got None"),
        ("hidden", (8, "9"), "hidden is a whole number, got '9'"),
        ("learn_c", 1, "learn_c is True or False, got 1"),
        ("posterior", 3, "posterior is a word, got 3"),
        ("classes", 2.5, "classes is a whole number, got 2.5"),
    ],
)
def test_what_is_of_another_kind_is_refused(field: str, value: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        ModelConfig(**{"features": 3, field: value})


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match=r"seed must be at least 0 and at most .*, got -1"):
        TrainConfig(seed=-1)
