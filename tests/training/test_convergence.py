"""Training that came to nothing is warned of, and what it leaves can be used."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from typer.testing import CliRunner

import horoball as hb
from horoball.cli import app
from horoball.datasets import branching_diffusion
from horoball.geometry.coordinates import RimWarning
from horoball.tables.table import ArrayTable
from horoball.training import TrainConfig
from horoball.training.progress import early_end, warn_if_diverged, warn_if_unfinished
from horoball.vae.train import train
from horoball.viewer.run import view_run

X = branching_diffusion(depth=3).x.numpy()


@pytest.mark.filterwarnings("ignore::horoball.geometry.coordinates.RimWarning")
@pytest.mark.parametrize("validation", [0.1, 0.0])
def test_a_learning_rate_of_one_is_warned_of_and_leaves_coordinates_for_all(validation: float) -> None:
    model = hb.PoincareVAE(
        learning_rate=1.0,
        max_epochs=10,
        hidden=(16,),
        distance_weight=0,
        validation_fraction=validation,
        random_state=0,
    )
    with pytest.warns(ConvergenceWarning, match=r"Training diverged: the loss was .* before it.*learning_rate, now 1"):
        model.fit(X)
    z = model.transform(X)
    assert (np.linalg.norm(z, axis=1) < 1).all()
    assert np.isfinite(model.inverse_transform(z)).all()
    hb.view(z)
    view_run(model.run_, ArrayTable(X))
    hb.neighbors.Index(model.model_.ball, coordinates="ball").add(z).search(z, 2)


def test_posteriors_that_are_the_prior_are_warned_of() -> None:
    noise = ArrayTable(torch.randn(300, 5, generator=torch.Generator().manual_seed(0)))
    config = TrainConfig(max_epochs=40, beta=50.0, learning_rate=5e-3)
    with pytest.warns(ConvergenceWarning, match=r"The latent space holds next to nothing: .* lower beta, now 50, or"):
        train(noise, {"hidden": (8,)}, config)
    train(ArrayTable(X), {"hidden": (8,)}, config.replace(beta=1.0))  # warnings are errors


@pytest.mark.parametrize("rate", [1e-5, 1e-3, 1e-2])
@pytest.mark.parametrize("epochs", [1, 3])
def test_ordinary_training_is_not_warned_of(rate: float, epochs: int) -> None:
    train(ArrayTable(X), {"hidden": (16,)}, TrainConfig(max_epochs=epochs, learning_rate=rate))  # warnings are errors


def test_the_first_loss_is_that_before_any_update() -> None:
    from horoball.vae import VAE, ModelConfig, fit

    torch.manual_seed(0)
    model = VAE.from_config(ModelConfig(features=50, hidden=(16,)))
    slow = TrainConfig(max_epochs=1, learning_rate=1e-9, batch_size=1000)
    state = fit(model, ArrayTable(X), slow)
    assert state.first_loss == pytest.approx(state.history[0]["loss"])


@pytest.mark.parametrize("first", [-50.0, -1.0, 0.0, 11.0, 4e5])
def test_losses_of_any_sign_and_size_are_compared(first: float) -> None:
    for epochs, limit in ((20, max(1.0, 0.25 * abs(first))), (19, max(10.0, 9.0 * abs(first)))):
        lines = [{"epoch": float(epoch + 1), "loss": 1e9} for epoch in range(epochs - 1)]
        warn_if_diverged(first, [*lines, {"epoch": float(epochs), "loss": first + 0.9 * limit}], TrainConfig())
        with pytest.warns(ConvergenceWarning, match="Training diverged"):
            warn_if_diverged(first, [*lines, {"epoch": float(epochs), "loss": first + 1.1 * limit}], TrainConfig())


def test_large_first_steps_of_a_graph_are_not_warned_of() -> None:
    hb.PoincareGraphVAE(max_epochs=3, random_state=0).fit([(i // 2, i) for i in range(1, 30)])  # warnings are errors


@pytest.mark.filterwarnings("default")
def test_the_command_says_in_a_line_that_training_diverged(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    given = ["fit", str(tmp_path / "x.npy"), "-o", str(tmp_path / "run"), "--quiet", "--hidden", "16"]
    ended = CliRunner().invoke(app, [*given, "--learning-rate", "1", "--max-epochs", "5", "--distance-weight", "0"])
    assert ended.exit_code == 0, ended.output
    assert "Warning: Training diverged: the loss was" in ended.output


def test_points_at_the_rim_are_named() -> None:
    model = hb.PoincareVAE(max_epochs=1, hidden=(4,), random_state=0).fit(X)
    with torch.no_grad():
        model.model_.encoder.network[-1].weight.mul_(1e4)
    with pytest.warns(RimWarning, match=r"rows lie farther from the origin than ball coordinates can hold: row \d"):
        model.transform(X)


def test_a_fit_that_ends_while_it_still_improves_says_so() -> None:
    falling = [{"epoch": float(i), "loss": 0.0, "validation": 50.0 - i} for i in range(40)]
    flat = [line | {"validation": 10.0} for line in falling]
    with pytest.warns(ConvergenceWarning, match=r"last epoch, 40, .* warm_start=True, or `horoball fit --resume"):
        warn_if_unfinished(falling, TrainConfig(max_epochs=40))
    warn_if_unfinished(flat, TrainConfig(max_epochs=40))
    warn_if_unfinished(falling, TrainConfig(max_epochs=40, patience=0))
    warn_if_unfinished(falling, TrainConfig(max_epochs=100))
    warn_if_unfinished([{"epoch": 1.0, "loss": 1.0}] * 40, TrainConfig(max_epochs=40))


@pytest.mark.parametrize(("rows", "steps"), [(111, 1), (500, 4), (1000, 8), (5000, 36)])
def test_patience_counts_steps_as_well_as_epochs(rows: int, steps: int) -> None:
    """An epoch of a hundred rows is one step: twenty of them say nothing yet."""
    config, epochs = TrainConfig(), max(20, math.ceil(160 / steps))
    assert math.ceil((rows - rows // 10) / config.batch_size) == steps
    assert config.out_of_patience(epochs, steps)
    assert not config.out_of_patience(epochs - 1, steps)
    for chosen in (config.replace(patience=7), config.replace(patience=7, patience_steps=0)):
        assert chosen.out_of_patience(7, steps)
        assert not chosen.out_of_patience(6, steps)
    assert not TrainConfig(patience=0).out_of_patience(10**6, steps)
    assert not TrainConfig(patience=7, patience_steps=8 * steps).out_of_patience(7, steps)


def test_a_small_table_is_trained_for_160_steps_past_its_best_and_says_that_it_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    x = np.random.default_rng(0).normal(size=(60, 4))
    with caplog.at_level("INFO", "horoball"):
        model = hb.PoincareVAE(5, hidden=8, learning_rate=0.05, random_state=0).fit(x)
    best = min(model.history_, key=lambda line: line["validation"])["epoch"]
    assert model.n_iter_ == best + 160
    assert f"Training ended early, after epoch {model.n_iter_} of 10000: the validation loss is" in caplog.text


def test_the_command_says_that_training_ended_early(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    given = ["fit", str(tmp_path / "x.npy"), "-o", str(tmp_path / "run"), "--quiet", "--hidden", "8", "--dim", "5"]
    ended = CliRunner().invoke(app, [*given, "--patience", "2", "--learning-rate", "0.05", "--max-epochs", "500"])
    assert ended.exit_code == 0, ended.output
    assert "early, after epoch" in ended.output
    assert early_end([{"epoch": 1.0, "loss": 1.0}] * 5, TrainConfig()) is None
    assert early_end([{"epoch": 1.0, "loss": 1.0, "validation": 1.0}], TrainConfig()) is None  # interrupted


def test_an_unfinished_fit_warns_from_python_and_from_the_command(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(300, 1)) * np.ones(8)
    with pytest.warns(ConvergenceWarning, match="while the validation loss was falling"):
        hb.PoincareVAE(max_epochs=8, hidden=(16,), random_state=0, distance_weight=0.0).fit(x)
