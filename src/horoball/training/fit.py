"""The training loop, to be read from top to bottom.

A step depends on (seed, epoch, step) and the weights alone: rows and noise are drawn anew from these numbers. A run
that was stopped, killed or restarted therefore goes on as if nothing had happened, and n processes do what one would.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from horoball.data.table import Batch, Order, Table
from horoball.models.vae import VAE
from horoball.noise import dealt
from horoball.objectives import elbo
from horoball.training.checkpoint import load_checkpoint, load_optimizer, optimizer_tensors, save_checkpoint
from horoball.training.config import TrainConfig
from horoball.training.engine import close, engine, stop_requested
from horoball.training.progress import Progress, Silent

__all__ = ["BEST", "LAST", "METRICS", "Interrupted", "State", "fit", "load_weights"]

LAST, BEST, METRICS = "last.safetensors", "best.safetensors", "metrics.jsonl"


class Interrupted(KeyboardInterrupt):
    """Training was asked to stop, and did, leaving a checkpoint.

    Example:
        >>> issubclass(Interrupted, KeyboardInterrupt)
        True
    """


@dataclass
class State:
    """Where a run stands; what a checkpoint holds beside the weights and the optimiser.

    Example:
        >>> State().epoch
        0
    """

    epoch: int = 0
    step: int = 0  # next step of this epoch
    sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])  # loss, −log-likelihood, divergence × rows
    rows: int = 0
    best: float = math.inf
    best_epoch: int = -1
    history: list[dict[str, float]] = field(default_factory=list)
    done: bool = False
    kept: dict[str, Tensor] | None = field(default=None, repr=False)  # best weights, of a run without a folder


class _Objective(nn.Module):
    """The loss as a module, so that the engine can wrap it: minus the bound and its terms, summed over rows."""

    def __init__(self, model: VAE, config: TrainConfig) -> None:
        super().__init__()
        self.model, self.config = model, config

    def forward(self, x: Tensor) -> Tensor:
        if not len(x):  # a rank without rows at this step still takes part in it, with a weight of 0
            return 0 * self(x.new_zeros(1, x.shape[1]))
        bound = elbo(self.model, x, beta=self.config.beta, samples=self.config.samples, kl=self.config.kl)
        return torch.stack((-bound.value.sum(), -bound.log_likelihood.sum(), bound.kl.sum()))


def fit(
    model: VAE,
    table: Table,
    config: TrainConfig,
    folder: Path | None = None,
    *,
    validation: Table | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    extra: dict[str, Tensor] | None = None,
    about: dict[str, Any] | None = None,
) -> State:
    """Train a model on a table; it ends with the weights of the best validation loss, if rows were held out.

    Args:
        model: The model, trained in place.
        table: Rows to train on.
        config: Settings.
        folder: Where checkpoints and metrics go; nothing is written without one.
        validation: Rows to watch for early stopping.
        resume: Go on from the folder's last checkpoint, if there is one.
        progress: Who is told how it goes.
        extra: Tensors to keep in the checkpoints beside the weights.
        about: JSON to keep in the checkpoints.

    Example:
        >>> from horoball.data import ArrayTable
        >>> from horoball.models import ModelConfig
        >>> model = VAE.from_config(ModelConfig(features=3, hidden=(8,)))
        >>> state = fit(model, ArrayTable(torch.randn(64, 3)), TrainConfig(max_epochs=2))
        >>> len(state.history)
        2
    """
    progress = progress or Silent()
    fabric = engine()
    rank, ranks = fabric.global_rank, fabric.world_size
    objective = _Objective(model, config)
    optimizer = torch.optim.Adam(model.parameters(), config.learning_rate, fused=True)
    state = State()
    if resume and folder is not None and (folder / LAST).exists():
        state = _restore(folder, model, optimizer, about or {})
    wrapped, engine_optimizer = fabric.setup(objective, optimizer)
    step_loss = torch.compile(wrapped, dynamic=False) if config.compile else wrapped

    def save() -> None:
        if folder is not None and rank == 0:
            kept = _weights(model) | (extra or {}) | optimizer_tensors(optimizer)
            save_checkpoint(folder / LAST, kept, {"state": _plain(state), "about": about or {}})

    with stop_requested() as stop, torch.random.fork_rng(devices=[]):
        saved = time.monotonic()
        progress.start(config.max_epochs, table, state.epoch)
        while not state.done and state.epoch < config.max_epochs:
            order = Order(config.batch_size, config.seed, state.epoch, rank, ranks, state.step)
            steps = table.steps(order)
            for batch in table.batches(order):
                losses = _seeded(step_loss, batch, (config.seed, state.epoch, state.step), rank, ranks)
                sums = losses.tolist()
                if not math.isfinite(sums[0]):
                    raise FloatingPointError(_where(model, batch, state, sums))
                engine_optimizer.zero_grad()
                # The engine averages gradients over ranks; the step's loss is the mean over all of its rows.
                fabric.backward(losses[0] * (ranks / batch.total))
                engine_optimizer.step()
                state.sums = [total + value for total, value in zip(state.sums, sums, strict=True)]
                state.rows += len(batch.x)
                state.step += 1
                progress.step(state.step, steps, state.sums, state.rows, len(batch.x))
                if stop() or time.monotonic() - saved > config.checkpoint_seconds:
                    save()
                    saved = time.monotonic()
                    if stop():
                        progress.stop()
                        raise Interrupted(f"Stopped in epoch {state.epoch + 1} at step {state.step} of {steps}.")
            _end_epoch(fabric, model, wrapped, state, config, folder, validation)
            progress.epoch(state.history[-1])
            save()
            saved = time.monotonic()
    progress.stop()
    if folder is not None and validation is not None and (folder / BEST).exists():
        load_weights(model, load_checkpoint(folder / BEST)[0])
    elif state.kept is not None:
        load_weights(model, state.kept)
    close(fabric)
    return state


def _seeded(loss: Any, batch: Batch, numbers: tuple[int, int, int], rank: int, ranks: int) -> Tensor:
    """The loss of a batch with noise drawn from the numbers of its step; ranks with rows of their own get their own."""
    seed, epoch, step = numbers
    mixed = ((seed * 1_000_003 + epoch) * 1_000_003 + step) * 1_000_003 + (0 if batch.dealt else rank)
    # torch.manual_seed looks for every kind of device, a millisecond each time; this is the generator of this one.
    torch.default_generator.manual_seed(mixed % (1 << 63))
    if batch.x.is_cuda or torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(mixed % (1 << 63))
    with dealt(rank, ranks if batch.dealt else 1, batch.total):
        return loss(batch.x)


def _end_epoch(
    fabric: Any, model: VAE, wrapped: Any, state: State, config: TrainConfig, folder: Path | None, held: Table | None
) -> None:
    """Validate, keep the best weights, write metrics, decide whether to stop."""
    totals = fabric.all_reduce(torch.tensor([*state.sums, state.rows], dtype=torch.float64), reduce_op="sum")
    rows = float(totals[3])
    line = dict(zip(("loss", "reconstruction", "kl"), (totals[:3] / rows).tolist(), strict=True))
    line = {"epoch": float(state.epoch + 1)} | line | {"c": float(torch.as_tensor(model.ball.c).detach())}
    if held is not None:
        line["validation"] = watched = _validate(fabric, wrapped, held, config)
        if watched < state.best:
            state.best, state.best_epoch = watched, state.epoch
            if folder is not None and fabric.global_rank == 0:
                save_checkpoint(folder / BEST, _weights(model), {"epoch": state.epoch})
            elif folder is None:
                state.kept = {name: tensor.detach().clone() for name, tensor in _weights(model).items()}
        state.done = config.patience > 0 and state.epoch - state.best_epoch >= config.patience
    state.history.append(line)
    state.epoch, state.step, state.sums, state.rows = state.epoch + 1, 0, [0.0, 0.0, 0.0], 0
    if folder is not None and fabric.global_rank == 0:
        # Written whole, so that a resumed run leaves no line twice.
        (folder / METRICS).write_text("".join(json.dumps(entry) + "\n" for entry in state.history))


@torch.no_grad()
def _validate(fabric: Any, wrapped: Any, held: Table, config: TrainConfig) -> float:
    rank, ranks = fabric.global_rank, fabric.world_size
    totals = torch.zeros(2, dtype=torch.float64)
    for step, batch in enumerate(held.batches(Order(4096, None, 0, rank, ranks))):
        losses = _seeded(wrapped, batch, (config.seed, -1, step), rank, ranks)
        totals += torch.tensor([float(losses[0]), len(batch.x)], dtype=torch.float64)
    totals = fabric.all_reduce(totals, reduce_op="sum")
    return float(totals[0] / totals[1])


def _plain(state: State) -> dict[str, Any]:
    return {name: value for name, value in vars(state).items() if name != "kept"}


def _weights(model: VAE) -> dict[str, Tensor]:
    return {f"model.{name}": tensor for name, tensor in model.state_dict().items()}


def load_weights(model: VAE, tensors: dict[str, Tensor]) -> None:
    """Put the weights of a checkpoint into a model.

    Example:
        >>> from horoball.models import ModelConfig
        >>> model = VAE.from_config(ModelConfig(features=3, hidden=(8,)))
        >>> load_weights(model, _weights(model))
    """
    prefix = "model."
    model.load_state_dict({k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})


def _restore(folder: Path, model: VAE, optimizer: torch.optim.Optimizer, about: dict[str, Any]) -> State:
    tensors, header = load_checkpoint(folder / LAST)
    for part in ("model", "columns"):
        old, new = header["about"].get(part), about.get(part)
        if old is not None and new is not None and old != new:
            which = next((k for k in new if old.get(k) != new[k]), part) if isinstance(new, dict) else part
            raise ValueError(f"The run in {folder} has another {which}. Resume with the options of the first fit.")
    load_weights(model, tensors)
    load_optimizer(optimizer, tensors)
    return State(**header["state"])


def _where(model: VAE, batch: Batch, state: State, sums: list[float]) -> str:
    """Which term of which rows is not finite."""
    names = {"the reconstruction term": sums[1], "the divergence": sums[2], "the loss": sums[0]}
    term = next(name for name, value in names.items() if not math.isfinite(value))
    broken = [name for name, p in model.named_parameters() if not bool(torch.isfinite(p).all())]
    cause = f" The weights {broken[0]!r} are not finite." if broken else ""
    return (
        f"Training stopped: {term} is not finite in epoch {state.epoch + 1}, step {state.step + 1}, on rows of values "
        f"from {float(batch.x.min()):g} to {float(batch.x.max()):g}.{cause} Lower the learning rate or standardise the "
        "data; the last checkpoint is from before this step."
    )
