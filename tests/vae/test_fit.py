from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor

from horoball.storage.checkpoint import load_checkpoint
from horoball.tables import ArrayTable, Table, read
from horoball.training import TrainConfig, loop
from horoball.training import state as states
from horoball.training.progress import Silent
from horoball.vae import VAE, ModelConfig, fit, map_term
from horoball.vae import train as trains
from horoball.vae.run import Run
from horoball.vae.train import train as train_run

SCRIPT = [sys.executable, "-m", "tests.training.script"]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # of Fabric, at import


def small_model(**fields: object) -> VAE:
    torch.manual_seed(0)
    return VAE.from_config(ModelConfig(**({"features": 6, "hidden": (16,)} | fields)))  # type: ignore[arg-type]


def rows(count: int = 600) -> ArrayTable:
    return ArrayTable(torch.randn(count, 6, generator=torch.Generator().manual_seed(0)))


def weights(folder: Path) -> dict[str, Tensor]:
    return {
        k: v for k, v in load_checkpoint(folder / "last.safetensors")[0].items() if k.startswith(("model", "optim"))
    }


def assert_same(first: dict[str, Tensor], second: dict[str, Tensor], tolerance: float = 0.0) -> None:
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        torch.testing.assert_close(tensor, second[name], rtol=tolerance, atol=tolerance)


def run(folder: Path, *arguments: str) -> None:
    subprocess.run([*SCRIPT, str(folder), *arguments], cwd=ROOT, env=ENVIRONMENT, check=True, timeout=120)


def parquet(folder: Path) -> str:
    x = np.random.default_rng(0).normal(size=(600, 6)).astype(np.float32)
    table = pa.table({f"x{i}": x[:, i] for i in range(6)})
    for part in range(3):
        pq.write_table(table.slice(200 * part, 200), folder / f"part{part}.parquet", row_group_size=70)
    return str(folder)


def test_same_seed_same_numbers_and_no_trace_in_the_global_generator() -> None:
    config = TrainConfig(max_epochs=2)
    torch.manual_seed(7)
    before = torch.get_rng_state()
    histories = []
    for seed in (0, 0, 1):
        model = small_model()
        torch.set_rng_state(before)
        histories.append(fit(model, rows(), config.replace(seed=seed)).history)
        assert torch.equal(torch.get_rng_state(), before)
    assert histories[0] == histories[1] != histories[2]


def test_training_lowers_the_loss_and_early_stopping_keeps_the_best(tmp_path: Path) -> None:
    train, held = rows(400).split(0.25)
    config = TrainConfig(max_epochs=60, patience=3, learning_rate=0.02)
    model = small_model()
    state = fit(model, train, config, tmp_path, validation=held)
    watched = [line["validation"] for line in state.history]
    assert watched[state.best_epoch] == min(watched) == state.best
    assert len(watched) == state.best_epoch + 4 < 60
    assert state.history[-1]["loss"] < state.history[0]["loss"]
    best, _ = load_checkpoint(tmp_path / "best.safetensors")
    assert_same({f"model.{k}": v for k, v in model.state_dict().items()}, best)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == state.history


class StopAt(Silent):
    def __init__(self, step: int) -> None:
        self.left = step

    def step(self, step: int, steps: int, sums: list[float], count: int, batch: int) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("streamed", [False, True], ids=["memory", "streamed"])
def test_a_run_that_was_interrupted_ends_like_one_that_was_not(tmp_path: Path, streamed: bool) -> None:
    from horoball.tables import read

    source = read(parquet(tmp_path), streamed=True, kind="numbers") if streamed else rows()
    config = TrainConfig(max_epochs=3, batch_size=50)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    expected = fit(small_model(), source, config, whole)
    for step in (5, 9, 13):
        with pytest.raises(KeyboardInterrupt, match="Stopped in epoch"):
            fit(small_model(), source, config, parts, resume=True, progress=StopAt(step))
    state = fit(small_model(), source, config, parts, resume=True)
    assert state.history == expected.history
    assert_same(weights(whole), weights(parts))


@pytest.mark.parametrize("streamed", [False, True], ids=["memory", "streamed"])
def test_a_run_that_was_killed_ends_like_one_that_was_not(tmp_path: Path, streamed: bool) -> None:
    source = ["--source", parquet(tmp_path)] if streamed else []
    run(tmp_path / "whole", *source)
    random.seed(0)
    for _ in range(3):
        with subprocess.Popen(
            [*SCRIPT, str(tmp_path / "parts"), *source], cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(random.uniform(1.0, 3.0))
            process.kill()
    run(tmp_path / "parts", *source)
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))


@pytest.mark.parametrize(("apart", "written"), [(math.inf, [1, 4]), (-1.0, [1, 2, 3, 4])])
def test_short_epochs_share_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart: float, written: list[int]
) -> None:
    epochs, save = [], states.save_checkpoint

    def counted(path: Path, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
        epochs.append(header["state"]["epoch"])
        lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
        assert len(lines) == epochs[-1]
        save(path, tensors, header)

    monkeypatch.setattr(states, "save_checkpoint", counted)
    monkeypatch.setattr(loop, "_MIN_SECONDS_BETWEEN_CHECKPOINTS", apart)
    fit(small_model(), rows(), TrainConfig(max_epochs=4), tmp_path)
    assert epochs == written


def test_another_run_is_refused_before_the_geodesics_are_computed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = TrainConfig(max_epochs=1, distance_weight=10.0)
    train_run(rows(), {"hidden": (16,)}, config, tmp_path)
    caplog.clear()
    with caplog.at_level("INFO", "horoball"), pytest.raises(ValueError, match=r"has d = 2, not 5\. Resume with"):
        train_run(rows(), {"hidden": (16,), "d": 5}, config, tmp_path, resume=True)
    assert "Scaling" in caplog.text
    assert "geodesics" not in caplog.text


def test_landmarks_are_the_rows_that_are_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def fitted(model: VAE, table: Table, *_: object, term: Any, **__: object) -> states.State:
        seen.update(rows=torch.cat(list(table.blocks())), landmarks=term.landmarks)
        return states.State()

    monkeypatch.setattr(trains, "fit", fitted)
    train_run(rows(), {"hidden": (16,)}, TrainConfig(distance_weight=10.0))
    assert len(seen["landmarks"]) > 500
    assert_among(seen["landmarks"], seen["rows"])


def test_a_stream_is_compared_with_a_sample_of_the_rows_that_are_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def drawn(table: Table, rng: np.random.Generator) -> Tensor:
        seen["sample"] = sample(table, rng)
        return seen["sample"]

    def fitted(model: VAE, table: Table, *_: object, term: Any, **__: object) -> states.State:
        seen.update(rows=torch.cat(list(table.blocks())), landmarks=term.landmarks)
        return states.State()

    sample = map_term._drawn
    monkeypatch.setattr(map_term, "_drawn", drawn)
    monkeypatch.setattr(trains, "fit", fitted)
    train_run(
        read(parquet(tmp_path), streamed=True, kind="numbers"), {"hidden": (16,)}, TrainConfig(distance_weight=10.0)
    )
    assert seen["landmarks"] is None  # no row stands for others: those of a step are compared with each other
    assert len(seen["sample"]) > 500
    assert_among(seen["sample"], seen["rows"])


def assert_among(some: Tensor, rows: Tensor) -> None:
    gaps = (some.unsqueeze(1) - rows).abs().amax(-1)
    assert gaps.amin(1).max() < 1e-5


WARMED = TrainConfig(max_epochs=4, batch_size=100, kl_warmup=0.5, validation=0.0, patience=1)


def test_the_divergence_of_a_warmed_up_training_counts_from_nothing_to_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[float] = []
    weigh = trains.TableObjective.weigh_kl

    def noted(objective: trains.TableObjective, share: float) -> None:
        told.append(share)
        weigh(objective, share)

    monkeypatch.setattr(trains.TableObjective, "weigh_kl", noted)
    state = fit(small_model(), rows(), WARMED)
    assert told == pytest.approx([step / 12 for step in range(1, 13)] + 12 * [1.0])
    first, last = state.history[0], state.history[-1]
    assert first["reconstruction"] < first["loss"] < first["reconstruction"] + 0.6 * first["kl"]
    assert last["loss"] == pytest.approx(last["reconstruction"] + last["kl"])


def test_rows_held_out_are_judged_by_the_whole_divergence() -> None:
    objective, x = trains.TableObjective(small_model(), WARMED.replace(beta=2.0)), rows().matrix()
    objective.weigh_kl(0.25)
    loss, reconstruction, kl = objective(x).tolist()
    assert loss == pytest.approx(reconstruction + 0.5 * kl)
    with torch.no_grad():
        loss, reconstruction, kl = objective(x).tolist()
    assert loss == pytest.approx(reconstruction + 2.0 * kl)


def test_training_does_not_end_while_the_divergence_is_coming_to_count() -> None:
    config = TrainConfig(max_epochs=10, batch_size=100, learning_rate=1e-9, patience=1)  # it gets no better
    ended = [
        len(fit(small_model(), rows(), config.replace(kl_warmup=part), validation=rows(200)).history)
        for part in (0.0, 0.5)
    ]
    assert ended[0] < 5 <= ended[1]


def test_a_warmed_up_training_that_was_stopped_ends_like_one_that_was_not(tmp_path: Path) -> None:
    class Stop(Silent):
        def step(self, step: int, steps: int, sums: list[float], rows: int, batch: int) -> None:
            if sums and step == 3 and not (tmp_path / "stopped").exists():
                (tmp_path / "stopped").touch()
                os.kill(os.getpid(), signal.SIGINT)

    whole = fit(small_model(), rows(), WARMED, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fit(small_model(), rows(), WARMED, tmp_path / "parts", progress=Stop())
    resumed = fit(small_model(), rows(), WARMED, tmp_path / "parts", resume=True)
    assert resumed.history == whole.history
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))


def test_what_a_killed_writer_left_is_removed_on_resuming(tmp_path: Path) -> None:
    config = TrainConfig(max_epochs=1)
    fit(small_model(), rows(), config, tmp_path)
    for name in ("last", "best"):
        (tmp_path / f"{name}.safetensors.0123abcd.part").write_bytes(b"half")
    fit(small_model(), rows(), config.replace(max_epochs=2), tmp_path, resume=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last.safetensors", "metrics.jsonl"]


@pytest.mark.parametrize("posterior", ["riemannian", "wrapped"])
def test_the_limit_without_curvature_trains_alike(posterior: str) -> None:
    config = TrainConfig(max_epochs=10)
    curves = [
        [line["loss"] for line in fit(small_model(c=c, posterior=posterior), rows(), config).history]
        for c in (0.0, 1e-10)
    ]
    torch.testing.assert_close(*map(torch.tensor, curves), rtol=1e-4, atol=1e-4)


def test_a_loss_that_is_not_finite_stops_with_the_term_and_the_batch() -> None:
    model = small_model()
    broken = torch.randn(600, 6)
    broken[17] = math.inf
    with pytest.raises(FloatingPointError, match=r"not finite in epoch 1, step \d+.*Lower the learning rate"):
        fit(model, ArrayTable(broken), TrainConfig(max_epochs=1))


def test_an_empty_share_of_a_batch_does_no_harm() -> None:
    model = small_model()
    from horoball.vae.train import TableObjective

    losses = TableObjective(model, TrainConfig())(torch.empty(0, 6))
    losses[0].backward()
    assert all(p.grad is not None and bool((p.grad == 0).all()) for p in model.parameters())


def test_a_loss_that_is_not_finite_on_rows_held_out_stops_too() -> None:
    held = torch.zeros(20, 6)
    held[3] = 1e30
    with pytest.raises(FloatingPointError, match="the loss of rows held out is not finite after epoch 1"):
        fit(small_model(), rows(), TrainConfig(max_epochs=2), validation=ArrayTable(held))


def test_a_signal_after_the_last_step_is_heard(tmp_path: Path) -> None:
    class Late(Silent):
        def epoch(self, line: dict[str, float]) -> None:
            if line["epoch"] == 2:
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(loop.Interrupted, match="Stopped after epoch 2, the last one"):
        fit(small_model(), rows(), TrainConfig(max_epochs=2), tmp_path, progress=Late())
    assert fit(small_model(), rows(), TrainConfig(max_epochs=2), tmp_path, resume=True).epoch == 2


def test_one_task_of_a_scheduler_trains_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SLURM_NTASKS", "4"), ("SLURM_JOB_NAME", "fit"), ("SLURM_JOB_ID", "1"), ("SLURM_PROCID", "2")):
        monkeypatch.setenv(name, value)
    assert len(fit(small_model(), rows(), TrainConfig(max_epochs=1)).history) == 1


def test_tables_are_float32_whatever_the_default_is(tmp_path: Path) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        train_run(rows(100), {"hidden": (8,)}, TrainConfig(max_epochs=1), tmp_path)
        loaded = Run.load(tmp_path)
        assert {p.dtype for p in loaded.model.parameters()} == {torch.float32}
        assert next(loaded.embed(rows(100))).shape == (100, 2)
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_table_without_rows_or_columns_is_refused() -> None:
    for shape, told in (((0, 3), "has no rows"), ((3, 0), "has no columns of numbers")):
        with pytest.raises(ValueError, match=told):
            train_run(ArrayTable(np.zeros(shape)), {}, TrainConfig(max_epochs=1))


def test_generators_of_other_devices_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def seeded(*_: Any) -> None:
        raise AssertionError("A fit on the CPU has seeded a GPU.")

    for name in ("manual_seed", "manual_seed_all"):
        monkeypatch.setattr(torch.cuda, name, seeded)
    train_run(rows(100), {"hidden": (8,)}, TrainConfig(max_epochs=1))
