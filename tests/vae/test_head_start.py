"""The head start of a map: what it trains, that it is not made twice, and how fast parts learn after it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch

from horoball.storage.checkpoint import load_checkpoint
from horoball.tables import ArrayTable
from horoball.training import TrainConfig
from horoball.training.progress import Silent
from horoball.vae import VAE, ModelConfig, map_term
from horoball.vae.map_term import head_start
from horoball.vae.train import TableObjective, train

X = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
CONFIG = TrainConfig(
    max_epochs=3, batch_size=60, distance_weight=50.0, locality=0.5, encoder_rate=0.2, scale_rate=5.0, patience=0
)


class StopAt(Silent):
    """Ask to stop, as Ctrl-C does, at a step."""

    def __init__(self, step: int) -> None:
        self.left = step

    def step(self, step: int, steps: int, sums: list[float], count: int, batch: int) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)


def model(**fields: object) -> VAE:
    config = ModelConfig(features=4, hidden=(16,), **fields)  # type: ignore[arg-type]
    return VAE.from_config(config, generator=torch.Generator().manual_seed(0))


def test_the_encoder_alone_learns_and_no_global_generator_is_read() -> None:
    vae, state = model(learn_c=True), torch.get_rng_state()
    before = {name: p.detach().clone() for name, p in vae.named_parameters()}
    head_start(vae, ArrayTable(X).beside(X[:, :2]), TrainConfig())
    changed = {name for name, p in vae.named_parameters() if not torch.equal(p, before[name])}
    assert changed
    assert all(name.startswith("encoder.") for name in changed)
    assert all(p.grad is None for p in vae.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_map_that_was_interrupted_ends_like_one_that_was_not(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    expected = train(ArrayTable(X), {"hidden": (16,)}, CONFIG, whole)
    with pytest.raises(KeyboardInterrupt):
        train(ArrayTable(X), {"hidden": (16,)}, CONFIG, parts, progress=StopAt(5))
    found = train(ArrayTable(X), {"hidden": (16,)}, CONFIG, parts, resume=True)
    assert found.history == expected.history
    first, second = (load_checkpoint(folder / "last.safetensors")[0] for folder in (whole, parts))
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


def test_every_parameter_learns_at_one_pace() -> None:
    vae = model(likelihood="normal", learn_scale=True)
    objective = TableObjective(vae, CONFIG)
    pace = {id(p): group["pace"] for group in objective.paces for p in group["params"]}
    assert sum(len(group["params"]) for group in objective.paces) == len(pace) == len(list(objective.parameters()))
    assert {pace[id(p)] for p in vae.encoder.parameters()} == {0.2}
    assert {pace[id(p)] for p in vae.likelihood.parameters()} == {5.0}
    assert {pace[id(p)] for p in vae.decoder.parameters()} == {1.0}
    (together,) = TableObjective(vae, TrainConfig()).paces
    assert [id(p) for p in together["params"]] == [id(p) for p in objective.parameters()]  # as checkpoints number them


@pytest.mark.whole_maps
def test_blurred_rows_teach_the_places_of_rows_that_were_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    group = torch.arange(400) % 40
    x = torch.randn(40, 20, generator=generator)[group] + 0.6 * torch.randn(400, 20, generator=generator)
    places = torch.randn(40, 2, generator=generator)[group] + 0.1 * torch.randn(400, 2, generator=generator)
    away = []
    for blur in (0.0, map_term._BLUR):
        monkeypatch.setattr(map_term, "_BLUR", blur)
        config = ModelConfig(features=20, hidden=(64, 64))
        vae = VAE.from_config(config, generator=torch.Generator().manual_seed(0))
        head_start(vae, ArrayTable(x[:200]).beside(places[:200]), TrainConfig())
        away.append(float(vae.ball.dist(vae.posterior(x[200:]).loc, places[200:]).mean().detach()))
    assert away[1] < 0.9 * away[0]
