"""The training loop, to be read from top to bottom.

A step depends on (seed, epoch, step) and the weights alone: rows and noise are drawn anew from these numbers. A run
that was stopped, killed or restarted therefore goes on as if nothing had happened, and n processes do what one would.

The losses of the last steps, which a GPU has computed and the host has not seen. To look at a loss is to wait for it.
On a CPU it is there at once, and a step whose loss is not finite is not taken. Another device is asked every few steps;
meanwhile a flag there keeps Adam from taking such a step, so that the weights stay as they were before it.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from horoball.geometry.manifold import curvatures
from horoball.geometry.random import rank_noise
from horoball.process import finishing, stop_requested
from horoball.storage.checkpoint import check_weights
from horoball.storage.stores import located
from horoball.storage.whole import clear_parts, only_run
from horoball.tables.table import Order, Step
from horoball.training.config import FitRecord, TrainConfig
from horoball.training.engine import engine, release, resident, summed
from horoball.training.hooks import (
    Hooks,
    finish_loggers,
    log_settings,
    make_optimizer,
    make_scheduler,
    take_scheduler_step,
    warn_of_hooks,
)
from horoball.training.progress import (
    Progress,
    Silent,
    early_end,
    warn_if_collapsed,
    warn_if_diverged,
    warn_if_unfinished,
)
from horoball.training.state import LAST, State, check_trained, load_best, restore, run_digest, save, save_best

_EVERY = 16  # steps between looks at a device that is not the CPU


class StepLoss(NamedTuple):
    """What one step came to."""

    number: int  # of the step in its epoch, from 1 on
    batch: Any  # a `Step`
    sums: list[float]  # of the objective's terms, over all ranks
    mine: list[float]  # the same of this rank


class StepLosses:
    """Losses by step, until they are read.

    Args:
        fabric: The engine.
        optimizer: The optimizer, if there is one. All but Adam's are read at once, for no other can be kept by the
            device from taking a step.
    """

    def __init__(self, fabric: Any, optimizer: torch.optim.Optimizer | None = None) -> None:
        guarded = optimizer is None or (isinstance(optimizer, torch.optim.Adam) and optimizer.defaults["fused"])
        self.fabric, self.at_once = fabric, fabric.device.type == "cpu" or not guarded
        self._held: list[tuple[int, Any, Tensor]] = []

    def add(self, number: int, batch: Any, losses: Tensor) -> None:
        """Keep the losses of a step."""
        self._held.append((number, batch, losses.detach()))

    @property
    def due(self) -> bool:
        """Whether it is time to read; ranks that have taken as many steps agree."""
        return self.at_once or len(self._held) >= _EVERY

    def read(self, *, stop: bool) -> Callable[[], tuple[list[StepLoss], bool]]:
        """Start to read all that is held; the call gives the steps, and whether any rank wants to stop.

        All ranks learn the same sums and so stop at the same step, on a signal or on a loss that is not finite; none is
        left waiting for another. The sums travel while the gradients are computed.
        """
        held, self._held = self._held, []
        mine = torch.stack([losses for *_, losses in held]).tolist() if held else []
        over_ranks = summed(self.fabric, [*(value for values in mine for value in values), float(stop)])

        def steps() -> tuple[list[StepLoss], bool]:
            *sums, stopping = over_ranks()
            terms = len(sums) // max(1, len(held))
            parts = [sums[i * terms : (i + 1) * terms] for i in range(len(held))]
            own = zip(held, parts, mine, strict=True)
            return [StepLoss(number, batch, sums, mine) for (number, batch, _), sums, mine in own], bool(stopping)

        return steps

    def guard(self, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        """Keep a step from being taken if its loss is not finite, without looking at it."""
        if not self.at_once:
            optimizer.found_inf = (~loss.detach().isfinite()).float()  # type: ignore[attr-defined]


_MIN_SECONDS_BETWEEN_CHECKPOINTS = (
    1.0  # seconds between checkpoints at the ends of epochs: shorter ones are sooner done again than written
)
_log = logging.getLogger("horoball")
_STEP = 5.0  # seconds that a step is given to end after a signal


class Source(Protocol):
    """What is trained on, handed out in steps; see Note [Batches]."""

    def steps(self, order: Order) -> int:
        """Number of steps of an epoch."""

    def batches(self, order: Order) -> Iterable[Step]:
        """The steps of an epoch, from order.start on."""


class Objective(Protocol):
    """What is minimized: a module from a step's inputs to a loss and its terms, all summed over what was observed.

    It is called with the keyword `generator` too, and draws all of its noise from it. One whose KL divergence is warmed
    up has `weigh_kl`, which is told before every step what share of beta counts; a validation counts the whole.
    """

    model: Any  # with its ball

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the numbers that a call returns, the loss first."""

    @property
    def paces(self) -> list[dict[str, Any]]:
        """All `params` in groups, each with its `pace`: what the learning rate is multiplied by."""


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
    record: FitRecord | None = None,
    prepare: Callable[[torch.optim.Optimizer], None] | None = None,
    hooks: Hooks = Hooks(),  # noqa: B008
) -> State:
    """Minimize an objective; it ends with the weights of the best validation loss, if anything was held out.

    Args:
        objective: An `Objective`, a module trained in place.
        source: What to train on.
        config: Settings.
        folder: Folder for checkpoints and metrics; None writes nothing.
        validation: What to watch for early stopping.
        resume: Resume from the folder's last checkpoint, if there is one.
        progress: Progress reporter.
        extra: Tensors to store in the checkpoints with the weights.
        record: Record of the fit, stored in the checkpoints and checked on resume.
        prepare: Called with the optimizer before it takes a step.
        hooks: Callbacks, loggers, and what makes the optimizer and the schedule where their names do not.

    Example:
        >>> from horoball.tables import ArrayTable
        >>> from horoball.vae import VAE, ModelConfig
        >>> from horoball.vae.train import TableObjective
        >>> config = TrainConfig(max_epochs=2)
        >>> objective = TableObjective(VAE.from_config(ModelConfig(features=3, hidden=(8,))), config)
        >>> len(run_loop(objective, ArrayTable(torch.randn(64, 3)), config).history)
        2
    """
    progress, folder = progress or Silent(), None if folder is None else located(folder)
    with (
        only_run(folder),
        engine(config.device, config.precision, callbacks=[*hooks.callbacks], loggers=[*hooks.loggers]) as fabric,
        stop_requested() as stop,
        ExitStack() as at_end,
    ):
        rank, ranks = fabric.global_rank, fabric.world_size
        if folder is not None and rank == 0:
            clear_parts(folder)
        wrapped = fabric.setup_module(objective)  # before Adam, which is to see the weights on the device
        at_end.callback(release, wrapped)
        source, validation = resident(source, fabric.device), resident(validation, fabric.device)
        optimizer = make_optimizer(config.optimizer, hooks.optimizer, objective.paces, config.learning_rate)
        if prepare is not None:
            prepare(optimizer)
        state = State(sums=[0.0] * len(objective.terms))
        if resume and folder is not None and (folder / LAST).exists():
            state = restore(folder, objective, optimizer, record)
            warn_of_hooks(folder, hooks.unnamed)
        scheduler = make_scheduler(config.scheduler, hooks.scheduler, optimizer, state.history)
        engine_optimizer = fabric.setup_optimizers(optimizer)
        if folder is not None and not state.run:  # after the engine has given all ranks the same weights
            state.run = run_digest(objective, config, record)
        step_loss = torch.compile(wrapped, dynamic=False) if config.compile else wrapped
        generator = torch.Generator()  # one for the whole run: compiled code would be compiled anew for another

        def keep() -> None:
            if folder is not None and rank == 0:
                with finishing():
                    save(folder, state, objective, optimizer, extra or {}, record)

        def tell(event: str, **more: Any) -> None:
            fabric.call(event, model=objective.model, optimizer=optimizer, state=state, fabric=fabric, **more)

        told_of_steps = any(hasattr(callback, "on_train_batch_end") for callback in hooks.callbacks)
        at_end.push(lambda failed, *_: finish_loggers(fabric, "success" if failed is None else "failed"))
        log_settings(fabric, config, record)
        tell("on_train_start")
        waiting = StepLosses(fabric, optimizer)
        saved, begun = time.monotonic(), False
        progress.start(config.max_epochs, state.epoch)
        at_end.callback(progress.stop)
        while not state.done and state.epoch < config.max_epochs:
            order = Order(config.batch_size, config.seed, state.epoch, rank, ranks, state.step)
            steps = source.steps(order)
            if state.step > steps:
                raise ValueError(
                    f"The run in {folder} is at step {state.step} of an epoch that has {steps}. Resume with the data, "
                    "the options and as many processes as before."
                )
            for group in optimizer.param_groups if scheduler is None else ():
                group["lr"] = group["pace"] * config.rate_at(state.epoch)
            seen = state.rows
            for batch in source.batches(order):
                if config.kl_warmup > 0:
                    objective.weigh_kl(config.kl_share(state.epoch, state.step, steps))
                numbers = config.seed, state.epoch, state.step
                losses = _seeded(step_loss, batch, numbers, fabric, generator, compiled=config.compile)
                waiting.add(state.step + 1, batch, losses)
                reading = waiting.read(stop=stop()) if waiting.at_once else None
                engine_optimizer.zero_grad()
                # The engine averages gradients over ranks; the step's loss is the mean over all of its rows.
                fabric.backward(losses[0] * (ranks / batch.total))
                taken, stopping = ([], False) if reading is None else reading()
                _note(taken, state, objective)
                waiting.guard(optimizer, losses[0])
                if config.clip_norm > 0:
                    fabric.clip_gradients(
                        wrapped, engine_optimizer, max_norm=config.clip_norm, error_if_nonfinite=False
                    )
                engine_optimizer.step()
                state.step += 1
                if told_of_steps:
                    tell("on_train_batch_end", loss=losses.detach())
                if not begun:  # there is something to keep now: a signal waits for the end of a slow step
                    begun = True
                    at_end.enter_context(finishing(_STEP))
                if not waiting.at_once and (waiting.due or state.step == steps):
                    taken, stopping = waiting.read(stop=stop())()
                    _note(taken, state, objective)
                if not taken:
                    continue
                progress.step(state.step, steps, state.sums, state.rows, state.rows - seen)
                seen = state.rows
                if stopping or time.monotonic() - saved > config.checkpoint_seconds:
                    keep()
                    saved = time.monotonic()
                if stopping:
                    fabric.barrier()  # a rank that has left would have the others killed, maybe while rank 0 writes
                    raise Interrupted(f"Stopped in epoch {state.epoch + 1} at step {state.step} of {steps}.")
            try:
                _end_epoch(fabric, objective, wrapped, state, config, folder, validation, stop)
            except Interrupted:
                keep()
                raise
            progress.epoch(state.history[-1])
            if scheduler is not None:
                take_scheduler_step(scheduler, state.history[-1])
            fabric.log_dict({name: value for name, value in state.history[-1].items() if name != "epoch"}, state.epoch)
            tell("on_train_epoch_end", metrics=dict(state.history[-1]))
            ends = state.done or state.epoch in (1, config.max_epochs)
            if ends or time.monotonic() - saved > _MIN_SECONDS_BETWEEN_CHECKPOINTS:
                keep()
                saved = time.monotonic()
        if summed(fabric, [float(stop())])()[0]:  # a signal that came after the last step
            raise Interrupted(f"Stopped after epoch {state.epoch}, the last one.")
        tell("on_train_end")
    if folder is not None and validation is not None and state.best_epoch >= 0:
        load_best(folder, state, objective.model)
    elif state.kept is not None:
        objective.model.load_state_dict(check_weights(state.kept, objective.model))
    if rank == 0:
        warn_if_diverged(state.first_loss, state.history, config)
        warn_if_collapsed(state.history, config)
        if not state.done:
            warn_if_unfinished(state.history, config)
        elif (said := early_end(state.history, config)) is not None:
            _log.info("Training ended %s.", said)
    return state


def _note(taken: list[StepLoss], state: State, objective: Any) -> None:
    """Add what steps came to; refuse one that is not finite."""
    for loss in taken:
        if not math.isfinite(loss.sums[0]):
            raise FloatingPointError(_where(objective, loss, state))
        if state.first_loss is None:
            state.first_loss = loss.sums[0] / loss.batch.total
        state.sums = [total + value for total, value in zip(state.sums, loss.sums, strict=True)]
        state.rows += loss.batch.total


def _seeded(
    loss: Any,
    batch: Step,
    numbers: tuple[int, int, int],
    fabric: Any,
    generator: torch.Generator,
    *,
    compiled: bool = False,
) -> Tensor:
    """The loss of a step with noise drawn from its numbers; ranks with rows of their own get their own.

    So do those of compiled code, which cannot deal out the noise of one batch.
    """
    rank, ranks = fabric.global_rank, fabric.world_size
    noise = "own" if compiled and batch.noise == "by_rank" else batch.noise
    seed, epoch, step = numbers
    mixed = ((seed * 1_000_003 + epoch) * 1_000_003 + step) * 1_000_003 + (rank if noise == "own" else 0)
    generator.manual_seed(mixed % (1 << 63))
    with rank_noise(rank, ranks if noise == "by_rank" and batch.rows else 1, batch.total):
        return loss(*_placed(batch.inputs, fabric), generator=generator)


def _placed(inputs: tuple[Any, ...], fabric: Any) -> tuple[Any, ...]:
    """What a step is called with, on the device; from memory that a GPU fetches by itself, so that nobody waits."""
    if fabric.device.type == "cpu":
        return inputs
    if fabric.device.type == "cuda":
        there = fabric.device.type
        inputs = tuple(x.pin_memory() if isinstance(x, Tensor) and x.device.type != there else x for x in inputs)
    return fabric.to_device(inputs)


def _end_epoch(
    fabric: Any,
    objective: Any,
    wrapped: Any,
    state: State,
    config: TrainConfig,
    folder: Path | None,
    held: Source | None,
    stop: Callable[[], bool],
) -> None:
    """Validate, keep the best weights, decide whether to stop."""
    check_trained(objective.state_dict(), state)
    line = {"epoch": float(state.epoch + 1)}
    line |= dict(zip(objective.terms, (total / state.rows for total in state.sums), strict=True))
    line |= curvatures(objective.model.ball)
    if held is not None:
        line["validation"] = watched = _validate(fabric, wrapped, held, config, stop)
        if not math.isfinite(watched):
            raise FloatingPointError(
                f"Training stopped: the loss of rows held out is not finite after epoch {state.epoch + 1}. Look for "
                "values among them that are far beyond the others', or lower the learning rate."
            )
        if watched < state.best:
            state.best, state.best_epoch = watched, state.epoch
            if folder is not None and fabric.global_rank == 0:
                save_best(folder, state, objective)
            elif folder is None:
                state.kept = {name: tensor.detach().clone() for name, tensor in objective.state_dict().items()}
        warm = state.epoch + 1 >= config.kl_warmup * config.max_epochs  # the KL divergence is still too large before
        state.done = warm and config.out_of_patience(state.epoch - state.best_epoch, state.step)
    state.history.append(line)
    state.epoch, state.step, state.sums, state.rows = state.epoch + 1, 0, [0.0] * len(objective.terms), 0


@torch.no_grad()
def _validate(fabric: Any, wrapped: Any, held: Source, config: TrainConfig, stop: Callable[[], bool]) -> float:
    rank, ranks = fabric.global_rank, fabric.world_size
    losses, rows, generator = [], 0, torch.Generator()
    for step, batch in enumerate(held.batches(Order(4096, None, 0, rank, ranks))):
        losses.append(_seeded(wrapped, batch, (config.seed, -1, step), fabric, generator)[0])
        rows += batch.rows
        if ranks == 1 and stop():  # several wait for each other below, and stop at the next step
            raise Interrupted("Stopped in the validation at the end of an epoch.")
    total = sum(torch.stack(losses).tolist()) if losses else 0.0
    total, count = summed(fabric, [total, float(rows)])()
    return total / count


def _where(objective: Any, loss: StepLoss, state: State) -> str:
    """Which term of which rows is not finite."""
    called = {"reconstruction": "the reconstruction term", "kl": "the divergence"}
    called |= {"distance": "the distance term", "place": "the distance to the layout"}
    terms = zip(objective.terms[1:], loss.sums[1:], strict=True)
    term = next((called[name] for name, total in terms if not math.isfinite(total)), "the loss")
    rows = "rows of another rank"
    if not all(map(math.isfinite, loss.mine)) and loss.batch.rows:
        rows = loss.batch.describe()
    weights = [name for name, p in objective.model.named_parameters() if not bool(torch.isfinite(p).all())]
    cause = f" The weights {weights[0]!r} are not finite." if weights else ""
    return (
        f"Training stopped: {term} is not finite in epoch {state.epoch + 1}, step {loss.number}, on {rows}.{cause} "
        "Lower the learning rate or standardize the data; the last checkpoint is from before this step."
    )
