"""The training loop, to be read from top to bottom.

A step depends on (seed, epoch, step) and the weights alone: rows and noise are drawn anew from these numbers. A run
that was stopped, killed or restarted therefore goes on as if nothing had happened, and n processes do what one would.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from horoball.data.table import Order, Step
from horoball.noise import dealt
from horoball.training.checkpoint import clear_parts, load_checkpoint, save_checkpoint
from horoball.training.config import TrainConfig
from horoball.training.engine import engine, release, stop_requested, summed
from horoball.training.lock import only_run
from horoball.training.progress import Progress, Silent
from horoball.training.state import BEST, LAST, State, restore, save
from horoball.training.stored import load_weights

__all__ = ["Interrupted", "Objective", "Source", "run_loop"]

_APART = 1.0  # seconds between checkpoints at the ends of epochs: shorter ones are sooner done again than written


class Source(Protocol):
    """What is trained on, handed out in steps; see Note [Batches]."""

    def steps(self, order: Order) -> int:
        """Number of steps of an epoch."""

    def batches(self, order: Order) -> Iterable[Step]:
        """The steps of an epoch, from order.start on."""


class Objective(Protocol):
    """What is minimised: a module from a step's inputs to a loss and its terms, all summed over what was observed."""

    model: Any  # with its ball

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the numbers that a call returns, the loss first."""


class Interrupted(KeyboardInterrupt):
    """Training was asked to stop, and did, leaving a checkpoint.

    Example:
        >>> issubclass(Interrupted, KeyboardInterrupt)
        True
    """


def run_loop(
    objective: Any,
    source: Source,
    config: TrainConfig,
    folder: Path | None = None,
    *,
    validation: Source | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    extra: dict[str, Tensor] | None = None,
    about: dict[str, Any] | None = None,
) -> State:
    """Minimise an objective; it ends with the weights of the best validation loss, if anything was held out.

    Args:
        objective: An `Objective`, a module trained in place.
        source: What to train on.
        config: Settings.
        folder: Where checkpoints and metrics go; nothing is written without one.
        validation: What to watch for early stopping.
        resume: Go on from the folder's last checkpoint, if there is one.
        progress: Who is told how it goes.
        extra: Tensors to keep in the checkpoints beside the weights.
        about: JSON to keep in the checkpoints.

    Example:
        >>> from horoball.data import ArrayTable
        >>> from horoball.models import VAE, ModelConfig
        >>> from horoball.training.objective import TableObjective
        >>> config = TrainConfig(max_epochs=2)
        >>> objective = TableObjective(VAE.from_config(ModelConfig(features=3, hidden=(8,))), config)
        >>> len(run_loop(objective, ArrayTable(torch.randn(64, 3)), config).history)
        2
    """
    progress = progress or Silent()
    with (
        only_run(folder),
        engine() as fabric,
        stop_requested() as stop,
        torch.random.fork_rng(devices=[]),
        ExitStack() as at_end,
    ):
        rank, ranks = fabric.global_rank, fabric.world_size
        if folder is not None and rank == 0:
            clear_parts(folder)
        optimizer = torch.optim.Adam(objective.parameters(), config.learning_rate, fused=True)
        state = State(sums=[0.0] * len(objective.terms))
        if resume and folder is not None and (folder / LAST).exists():
            state = restore(folder, objective, optimizer, about or {})
        wrapped, engine_optimizer = fabric.setup(objective, optimizer)
        at_end.callback(release, wrapped)
        step_loss = torch.compile(wrapped, dynamic=False) if config.compile else wrapped

        def keep() -> None:
            if folder is not None and rank == 0:
                save(folder, state, objective, optimizer, extra or {}, about or {})

        saved = time.monotonic()
        progress.start(config.max_epochs, state.epoch)
        at_end.callback(progress.stop)
        while not state.done and state.epoch < config.max_epochs:
            order = Order(config.batch_size, config.seed, state.epoch, rank, ranks, state.step)
            steps = source.steps(order)
            for group in optimizer.param_groups:
                group["lr"] = config.rate_at(state.epoch)
            for batch in source.batches(order):
                numbers = config.seed, state.epoch, state.step
                losses = _seeded(step_loss, batch, numbers, rank, ranks, compiled=config.compile)
                # All ranks learn the same sums and so stop at the same step, on a signal or on a loss that is not
                # finite; none is left waiting for another. The sums travel while the gradients are computed.
                mine = losses.tolist()
                over_ranks = summed(fabric, [*mine, float(stop())])
                engine_optimizer.zero_grad()
                # The engine averages gradients over ranks; the step's loss is the mean over all of its rows.
                fabric.backward(losses[0] * (ranks / batch.total))
                *sums, stopping = over_ranks()
                if not math.isfinite(sums[0]):
                    raise FloatingPointError(_where(objective, batch, state, sums, mine))
                engine_optimizer.step()
                state.sums = [total + value for total, value in zip(state.sums, sums, strict=True)]
                state.rows += batch.total
                state.step += 1
                progress.step(state.step, steps, state.sums, state.rows, batch.total)
                if stopping or time.monotonic() - saved > config.checkpoint_seconds:
                    keep()
                    saved = time.monotonic()
                if stopping:
                    fabric.barrier()  # a rank that has left would have the others killed, maybe while rank 0 writes
                    raise Interrupted(f"Stopped in epoch {state.epoch + 1} at step {state.step} of {steps}.")
            _end_epoch(fabric, objective, wrapped, state, config, folder, validation)
            progress.epoch(state.history[-1])
            ends = state.done or state.epoch in (1, config.max_epochs)
            if ends or time.monotonic() - saved > _APART:
                keep()
                saved = time.monotonic()
        if summed(fabric, [float(stop())])()[0]:  # a signal that came after the last step
            raise Interrupted(f"Stopped after epoch {state.epoch}, the last one.")
    if folder is not None and validation is not None and (folder / BEST).exists():
        load_weights(objective.model, load_checkpoint(folder / BEST)[0])
    elif state.kept is not None:
        load_weights(objective.model, state.kept)
    return state


def _seeded(
    loss: Any, batch: Step, numbers: tuple[int, int, int], rank: int, ranks: int, *, compiled: bool = False
) -> Tensor:
    """The loss of a step with noise drawn from its numbers; ranks with rows of their own get their own.

    So do those of compiled code, which cannot deal out the noise of one batch.
    """
    noise = "own" if compiled and batch.noise == "dealt" else batch.noise
    seed, epoch, step = numbers
    mixed = ((seed * 1_000_003 + epoch) * 1_000_003 + step) * 1_000_003 + (rank if noise == "own" else 0)
    # torch.manual_seed looks for every kind of device, a millisecond each time, and seeds what is not used here.
    torch.default_generator.manual_seed(mixed % (1 << 63))
    with dealt(rank, ranks if noise == "dealt" and batch.rows else 1, batch.total):
        return loss(*batch.inputs)


def _end_epoch(
    fabric: Any,
    objective: Any,
    wrapped: Any,
    state: State,
    config: TrainConfig,
    folder: Path | None,
    held: Source | None,
) -> None:
    """Validate, keep the best weights, decide whether to stop."""
    line = {"epoch": float(state.epoch + 1)}
    line |= dict(zip(objective.terms, (total / state.rows for total in state.sums), strict=True))
    line["c"] = objective.model.ball.c_value
    if held is not None:
        line["validation"] = watched = _validate(fabric, wrapped, held, config)
        if not math.isfinite(watched):
            raise FloatingPointError(
                f"Training stopped: the loss of rows held out is not finite after epoch {state.epoch + 1}. Look for "
                "values among them that are far beyond the others', or lower the learning rate."
            )
        if watched < state.best:
            state.best, state.best_epoch = watched, state.epoch
            if folder is not None and fabric.global_rank == 0:
                save_checkpoint(folder / BEST, objective.state_dict(), {"epoch": state.epoch})
            elif folder is None:
                state.kept = {name: tensor.detach().clone() for name, tensor in objective.state_dict().items()}
        state.done = config.patience > 0 and state.epoch - state.best_epoch >= config.patience
    state.history.append(line)
    state.epoch, state.step, state.sums, state.rows = state.epoch + 1, 0, [0.0] * len(objective.terms), 0


@torch.no_grad()
def _validate(fabric: Any, wrapped: Any, held: Source, config: TrainConfig) -> float:
    rank, ranks = fabric.global_rank, fabric.world_size
    totals = torch.zeros(2, dtype=torch.float64)
    for step, batch in enumerate(held.batches(Order(4096, None, 0, rank, ranks))):
        losses = _seeded(wrapped, batch, (config.seed, -1, step), rank, ranks)
        totals += torch.tensor([float(losses[0]), batch.rows], dtype=torch.float64)
    totals = fabric.all_reduce(totals, reduce_op="sum")
    return float(totals[0] / totals[1])


def _where(objective: Any, batch: Step, state: State, sums: list[float], mine: list[float]) -> str:
    """Which term of which rows is not finite."""
    called = {"reconstruction": "the reconstruction term", "kl": "the divergence", "distance": "the distance term"}
    broken = (called[name] for name, sum_ in zip(objective.terms[1:], sums[1:], strict=True) if not math.isfinite(sum_))
    term = next(broken, "the loss")
    rows = "rows of another rank"
    if not all(map(math.isfinite, mine)) and batch.rows:
        rows = batch.describe()
    weights = [name for name, p in objective.model.named_parameters() if not bool(torch.isfinite(p).all())]
    cause = f" The weights {weights[0]!r} are not finite." if weights else ""
    return (
        f"Training stopped: {term} is not finite in epoch {state.epoch + 1}, step {state.step + 1}, on {rows}.{cause} "
        "Lower the learning rate or standardise the data; the last checkpoint is from before this step."
    )
