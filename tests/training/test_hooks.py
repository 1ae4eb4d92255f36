"""Callbacks, loggers, optimizers, schedules and clipping from outside, for tables, graphs and cells."""

from __future__ import annotations

import csv
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning_fabric.loggers import CSVLogger, Logger
from torch.optim.lr_scheduler import ExponentialLR, ReduceLROnPlateau

import horoball as hb
from horoball.graphs import Graph
from horoball.graphs.fit import FREE_TRAINING
from horoball.graphs.run import train_graph
from horoball.tables import ArrayTable
from horoball.training import TrainConfig
from horoball.training.hooks import (
    OPTIMIZERS,
    Hooks,
    ResumedHooksWarning,
    make_optimizer,
    named_hooks,
    named_logger,
    register_optimizer,
)
from horoball.training.loop import Interrupted
from horoball.vae.train import train

FAST: dict[str, Any] = {"max_epochs": 3, "random_state": 0}
ROWS = np.random.default_rng(0).normal(size=(96, 4)).astype(np.float32)
EDGES = [(0, 1), (1, 2), (2, 3), (3, 4), (1, 5)]


def table(**given: Any) -> hb.PoincareVAE:
    return hb.PoincareVAE(hidden=(8,), distance_weight=0.0, **FAST, **given).fit(ROWS)


def graph(**given: Any) -> hb.PoincareGraphVAE:
    return hb.PoincareGraphVAE(**FAST, **given).fit(EDGES)


def cells(**given: Any) -> Any:
    from horoball.cells import fit, simulate

    options: dict[str, Any] = {"hidden": (8,), "n_neighbors": None, "verbose": False}
    return fit(simulate(depth=2, cells=60, genes=20), **FAST, **options, **given)


def history(model: Any) -> list[dict[str, float]]:
    return (model.run if hasattr(model, "run") else model.run_).history


FITS = [table, graph, cells]


class Recorder:
    def __init__(self) -> None:
        self.seen: list[str] = []
        self.metrics: list[dict[str, float]] = []
        self.losses: list[float] = []

    def on_train_start(self, model: Any, optimizer: Any) -> None:
        assert isinstance(optimizer, torch.optim.Optimizer)
        assert sum(p.numel() for p in model.parameters())
        self.seen.append("start")

    def on_train_batch_end(self, loss: torch.Tensor) -> None:
        self.losses.append(float(loss[0]))

    def on_train_epoch_end(self, metrics: dict[str, float], state: Any) -> None:
        self.metrics.append(metrics)
        state.done = len(self.metrics) == 2

    def on_train_end(self) -> None:
        self.seen.append("end")


class Noting(Logger):
    def __init__(self) -> None:
        self.lines: list[tuple[int | None, dict[str, float]]] = []
        self.settings: dict[str, Any] = {}
        self.status = ""

    @property
    def name(self) -> str:
        return "noting"

    @property
    def version(self) -> int:
        return 0

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.lines.append((step, metrics))

    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        self.settings = dict(params)

    def finalize(self, status: str) -> None:
        self.status = status


@pytest.mark.parametrize("fit", FITS)
def test_callbacks_are_called_and_end_training(fit: Callable[..., Any]) -> None:
    recorder = Recorder()
    model = fit(callbacks=recorder)
    assert recorder.seen == ["start", "end"]
    assert recorder.metrics == history(model)
    assert len(history(model)) == 2
    assert len(recorder.losses) >= 2
    assert np.isfinite(recorder.losses).all()


@pytest.mark.parametrize("fit", FITS)
def test_loggers_get_what_the_history_has(fit: Callable[..., Any]) -> None:
    logger = Noting()
    model = fit(loggers=[logger])
    assert [step for step, _ in logger.lines] == [1, 2, 3]
    assert [{"epoch": float(step or 0), **line} for step, line in logger.lines] == history(model)
    assert logger.settings["seed"] == 0
    assert logger.settings["posterior"] in ("riemannian", "wrapped")
    assert logger.status == "success"


@pytest.mark.parametrize("fit", FITS)
def test_callbacks_and_loggers_do_not_change_the_model(fit: Callable[..., Any]) -> None:
    class Watching:
        def on_train_batch_end(self, loss: torch.Tensor) -> None:
            assert bool(loss.isfinite().all())

    assert history(fit(callbacks=[Watching()], loggers=Noting())) == history(fit())


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("optimizer", ["AdamW", 'SGD:{"momentum": 0.9}', torch.optim.RMSprop], ids=str)
def test_optimizers_are_names_classes_and_functions(fit: Callable[..., Any], optimizer: Any) -> None:
    model = fit(optimizer=optimizer, learning_rate=1e-3)
    assert np.isfinite([line["loss"] for line in history(model)]).all()
    assert history(model) != history(fit(learning_rate=1e-3))
    again = fit(optimizer=lambda params: torch.optim.Adam(params, fused=True), learning_rate=1e-3)
    assert history(again) == history(fit(learning_rate=1e-3))


@pytest.mark.parametrize("fit", FITS)
def test_a_schedule_is_that_of_the_learning_rate(fit: Callable[..., Any]) -> None:
    rates: list[float] = []

    class Rates:
        def on_train_batch_end(self, optimizer: Any, state: Any) -> None:
            if state.step == 1:
                rates.append(optimizer.param_groups[0]["lr"])

    fit(scheduler=partial(ExponentialLR, gamma=0.5), learning_rate=0.04, callbacks=Rates())
    np.testing.assert_allclose(rates, [0.04, 0.02, 0.01])


@pytest.mark.parametrize("fit", FITS)
def test_gradients_are_clipped(fit: Callable[..., Any]) -> None:
    norms: list[float] = []

    class Norms:
        def on_train_batch_end(self, model: Any) -> None:
            gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
            norms.append(float(torch.cat(gradients).norm()))

    fit(clip_norm=1e-2, callbacks=Norms())
    assert max(norms) <= 1e-2 * (1 + 1e-4)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"optimizer": "Nothing"}, "Unknown optimizer 'Nothing'. Choose one of: "),
        ({"optimizer": "LBFGS"}, "Unknown optimizer 'LBFGS'"),
        ({"optimizer": torch.optim.LBFGS}, "LBFGS calls the loss itself"),
        ({"optimizer": partial(torch.optim.SGD, lr=0.1)}, "optimizer has a learning rate of its own"),
        ({"optimizer": lambda params: torch.optim.Adam(params, lr=1.0, maximise=True)}, "maximise"),
        ({"optimizer": lambda params: 3}, "An optimizer is a torch.optim.Optimizer, got int"),
        ({"optimizer": lambda params: torch.optim.SGD(params[0]["params"][:1])}, "The optimizer has 1 of "),
        ({"scheduler": "Nothing"}, "Unknown scheduler"),
        ({"scheduler": lambda optimizer: 3}, "A scheduler has a method step; int has none"),
        ({"scheduler": "ExponentialLR:{}x"}, "takes settings as JSON"),
        ({"clip_norm": -1}, "clip_norm must be at least 0"),
    ],
)
def test_what_cannot_be_is_refused_before_training(given: dict[str, Any], says: str) -> None:
    for fit in (table, graph):
        with pytest.raises((ValueError, TypeError), match=says):
            fit(**given)


class Kept(torch.optim.SGD):
    name = "kept"


class Strange(torch.optim.SGD):
    """One whose state is no tensor."""

    name = "strange"

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["words"] = ["none"]
        return super().step(closure)


@pytest.fixture
def registered() -> Any:
    for kind in (Kept, Strange):
        register_optimizer(kind)
    yield
    for kind in (Kept, Strange):
        OPTIMIZERS._classes.pop(kind.name)


class Stop:
    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_train_epoch_end(self, state: Any) -> None:
        if state.epoch == self.epoch:
            raise Interrupted("here")


def resumed(folder: Path, config: TrainConfig, **hooks: Any) -> Any:
    """A run stopped in its fourth epoch and resumed."""
    rows = ArrayTable(torch.from_numpy(ROWS))
    model: Any = {"hidden": (8,)}
    stop = Hooks(**(hooks | {"callbacks": (Stop(4),)}))
    with pytest.raises(Interrupted):
        train(rows, model, config, folder, hooks=stop)
    return train(rows, model, config, folder, hooks=Hooks(**hooks), resume=True)


SPECS = {
    "Adam": {},
    "AdamW": {},
    'SGD:{"momentum": 0.9}': {},
    "NAdam": {},
    "RMSprop": {},
    "Adadelta": {},
    "Rprop": {},
    "kept": {},
}


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("scheduler", ["auto", 'ReduceLROnPlateau:{"patience": 0}'])
def test_resuming_keeps_the_bits_of_named_optimizers_and_schedules(
    registered: None, tmp_path: Path, spec: str, scheduler: str
) -> None:
    config = TrainConfig(max_epochs=8, optimizer=spec, scheduler=scheduler, clip_norm=5.0, checkpoint_seconds=0)
    whole = train(ArrayTable(torch.from_numpy(ROWS)), {"hidden": (8,)}, config)
    run = resumed(tmp_path / "run", config)
    assert run.history == whole.history
    assert all(torch.equal(a, b) for a, b in zip(run.model.parameters(), whole.model.parameters(), strict=True))


def test_resuming_with_others_says_so(registered: None, tmp_path: Path) -> None:
    config = TrainConfig(max_epochs=6, checkpoint_seconds=0)
    hooks, settings = named_hooks(optimizer=lambda params: torch.optim.SGD(params, momentum=0.9))
    outside = config.replace(optimizer=settings["optimizer"])
    with pytest.warns(ResumedHooksWarning, match="is resumed with the optimizer given as objects or functions"):
        resumed(tmp_path / "a", outside, optimizer=hooks.optimizer)
    with pytest.warns(UserWarning, match=r"The state of Strange is not of tensors .* starts anew"):
        resumed(tmp_path / "b", config.replace(optimizer="strange"))
    with pytest.raises(ValueError, match="has optimizer = strange, not Adam"):
        train(ArrayTable(torch.from_numpy(ROWS)), {"hidden": (8,)}, config, tmp_path / "b", resume=True)


def test_a_graph_resumes_with_an_optimizer_of_another_name(tmp_path: Path) -> None:
    config = FREE_TRAINING.replace(max_epochs=8, optimizer="RMSprop", learning_rate=0.01, checkpoint_seconds=0)
    whole = train_graph(Graph.of(EDGES), {"d": 2}, config)
    with pytest.raises(Interrupted):
        train_graph(Graph.of(EDGES), {"d": 2}, config, tmp_path, hooks=Hooks((Stop(4),)))
    assert train_graph(Graph.of(EDGES), {"d": 2}, config, tmp_path, resume=True).history == whole.history


def test_a_fused_state_of_another_size_is_refused(tmp_path: Path) -> None:
    from horoball.storage.checkpoint import load_optimizer

    p = torch.nn.Parameter(torch.zeros(4))
    group = [{"params": [p], "pace": 1.0}]
    fused = make_optimizer('SGD:{"momentum": 0.9, "fused": true}', None, group, 0.1)
    for size in (1, 5):
        with pytest.raises(ValueError, match="not of the size of the parameter"):
            load_optimizer(fused, {"optimizer.0.momentum_buffer": torch.zeros(size)})
    with pytest.raises(ValueError, match="no state of this optimizer"):
        load_optimizer(fused, {"optimizer.1.momentum_buffer": torch.zeros(4)})


def test_a_failure_is_told_to_loggers() -> None:
    logger = Noting()
    with pytest.raises(Interrupted):
        table(callbacks=Stop(1), loggers=logger)
    assert logger.status == "failed"


def test_plateaus_are_those_of_the_rows_held_out() -> None:
    seen: list[float] = []

    class Seen(ReduceLROnPlateau):
        def step(self, metrics: Any, epoch: Any = None) -> None:
            seen.append(float(metrics))

    model = table(scheduler=Seen)
    assert seen == [line["validation"] for line in model.history_]


def lines(folder: Path) -> list[dict[str, str]]:
    with folder.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("fit", FITS)
def test_metrics_as_csv(fit: Callable[..., Any], tmp_path: Path) -> None:
    model = fit(loggers=CSVLogger(tmp_path, name="csv", flush_logs_every_n_steps=1))
    written = lines(tmp_path / "csv" / "version_0" / "metrics.csv")
    assert [float(line["loss"]) for line in written] == pytest.approx([line["loss"] for line in history(model)])


@pytest.mark.parametrize("fit", FITS)
def test_metrics_for_tensorboard(fit: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model = fit(loggers=named_logger("tensorboard", tmp_path))
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    expected = [line["loss"] for line in history(model)]
    assert [event.value for event in events.Scalars("loss")] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("fit", FITS)
def test_metrics_for_mlflow_in_files(fit: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    pytest.importorskip("lightning", reason="lightning, which has the logger, is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger = named_logger("mlflow", tmp_path)
        model = fit(loggers=logger)
        client = mlflow.MlflowClient(f"file:{tmp_path / 'mlruns'}")
        kept = [metric.value for metric in client.get_metric_history(logger.run_id, "loss")]
        assert kept == pytest.approx([line["loss"] for line in history(model)])
        run = client.get_run(logger.run_id)
    assert (run.info.status, run.data.params["seed"]) == ("FINISHED", "0")


@pytest.mark.parametrize("fit", FITS)
def test_metrics_for_wandb_offline(fit: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed")
    pytest.importorskip("lightning", reason="lightning, which has the logger, is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger = named_logger("wandb", tmp_path)
        fit(loggers=logger)
        logger.experiment.finish()
    (written,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    deadline = time.monotonic() + 30
    while written.stat().st_size < 500 and time.monotonic() < deadline:  # a process of its own writes it
        time.sleep(0.1)
    assert written.stat().st_size > 500
