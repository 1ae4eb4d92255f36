"""What a fit takes from outside beside its model: callbacks, loggers, an optimizer and a schedule of learning rates.

Callbacks and loggers are those of Lightning Fabric, which calls them. A callback is any object with some of these
methods; each is called with those of the arguments that it names:

    on_train_start        model, optimizer, state, fabric
    on_train_batch_end    model, optimizer, state, fabric, loss      the terms of the step's loss, summed over its rows
    on_train_epoch_end    model, optimizer, state, fabric, metrics   of the epoch, as in the history
    on_train_end          model, optimizer, state, fabric

`state.done = True` ends training after the epoch. A logger has `log_metrics(metrics, step)`, `log_hyperparams(params)`
and `finalize(status)`, as all of Lightning's have; it gets the metrics of every epoch, and its step is the epoch.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.optim import lr_scheduler

from horoball.plugins import OUTSIDE, Registry, called_with
from horoball.storage.settings import SettingError
from horoball.storage.stores import StorePath
from horoball.training.engine import Adam

OPTIMIZERS: Registry[type] = Registry("optimizer")
SCHEDULERS: Registry[type] = Registry("scheduler")
LOGGERS: Registry[type] = Registry("logger")
register_optimizer = OPTIMIZERS.register  # class decorators: fits find the class under its `name`
register_scheduler = SCHEDULERS.register
register_logger = LOGGERS.register
_REGISTRIES: dict[str, Registry[type]] = {"optimizer": OPTIMIZERS, "scheduler": SCHEDULERS}

_APART = (torch.optim.Optimizer, torch.optim.LBFGS, torch.optim.SparseAdam)  # takes many losses; wants sparse gradients
for _name, _kind in vars(torch.optim).items():
    if isinstance(_kind, type) and issubclass(_kind, torch.optim.Optimizer) and _kind not in _APART:
        OPTIMIZERS.add(_name, _kind)
for _kind in (
    lr_scheduler.StepLR,
    lr_scheduler.MultiStepLR,
    lr_scheduler.ConstantLR,
    lr_scheduler.LinearLR,
    lr_scheduler.ExponentialLR,
    lr_scheduler.PolynomialLR,
    lr_scheduler.CosineAnnealingLR,
    lr_scheduler.CosineAnnealingWarmRestarts,
    lr_scheduler.ReduceLROnPlateau,
):
    SCHEDULERS.add(_kind.__name__, _kind)


class ResumedHooksWarning(UserWarning):
    """A run is resumed with hooks that its checkpoint says nothing of."""


class Hooks(NamedTuple):
    """What a fit takes from outside.

    Attributes:
        callbacks: Objects that are called at the start and end of training, of its epochs and of its steps.
        loggers: Loggers of Lightning, for the metrics of every epoch.
        optimizer: What makes the optimizer, where its name in the settings does not.
        scheduler: The same for the schedule.

    Example:
        >>> Hooks().callbacks
        ()
    """

    callbacks: Sequence[Any] = ()
    loggers: Sequence[Any] = ()
    optimizer: Any = None
    scheduler: Any = None

    @property
    def unnamed(self) -> list[str]:
        """What a checkpoint cannot say anything of, in words."""
        given = {"callbacks": self.callbacks, "the optimizer": self.optimizer, "the scheduler": self.scheduler}
        return [name for name, hook in given.items() if hook is not None and hook != ()]


def named_hooks(
    callbacks: Any = None, loggers: Any = None, optimizer: Any = "Adam", scheduler: Any = "auto", folder: Any = None
) -> tuple[Hooks, dict[str, str]]:
    """What was asked for, as hooks and as settings of the training: the names of optimizer and scheduler.

    Args:
        callbacks: A callback, several or None.
        loggers: A logger, several or None; a name is that of a registered one, see `named_logger`.
        optimizer: A name with settings, such as 'SGD:{"momentum": 0.9}', a class, or a function of parameter groups.
        scheduler: The same of a schedule, a function of the optimizer; "auto" is the one that suits the model.
        folder: Where registered loggers write; the current folder if not given.

    Example:
        >>> named_hooks(optimizer=functools.partial(torch.optim.SGD, momentum=0.9))[1]
        {'optimizer': 'SGD:{"momentum": 0.9}', 'scheduler': 'auto'}
    """
    given = {"optimizer": OPTIMIZERS.named(optimizer), "scheduler": SCHEDULERS.named(scheduler)}
    settings = {kind: name for kind, (name, _) in given.items()}
    made = (named_logger(each, folder) if isinstance(each, str) else each for each in _several(loggers))
    return Hooks(_several(callbacks), tuple(made), *(hook for _, hook in given.values())), settings


def _several(given: Any) -> tuple[Any, ...]:
    return () if given is None else tuple(given) if isinstance(given, list | tuple) else (given,)


def check_hook(kind: str, spec: str) -> None:
    """Refuse the name of an optimizer or scheduler that is not known, or that has settings it does not take.

    Example:
        >>> check_hook("optimizer", "SGD"), check_hook("scheduler", "auto")
        (None, None)
        >>> check_hook("optimizer", 'Adam:{"lr": 1.0}')
        Traceback (most recent call last):
        ...
        horoball.storage.settings.SettingError: optimizer has a learning rate of its own. Give it as learning_rate...
    """
    if spec == OUTSIDE or (kind, spec) == ("scheduler", "auto"):
        return
    _, settings = _REGISTRIES[kind].settled(spec, ["auto"] if kind == "scheduler" else [])
    if "lr" in settings:
        raise SettingError(kind, "has a learning rate of its own. Give it as learning_rate, and leave lr out.")


def make_optimizer(spec: str, given: Any, groups: list[dict[str, Any]], rate: float) -> torch.optim.Optimizer:
    """The optimizer of a run.

    Args:
        spec: Its name with settings.
        given: What makes it, if the name does not: called with the groups as `params`, and with `lr` if it takes that.
        groups: Groups of parameters, each with its `pace`.
        rate: The learning rate, which the training sets.

    Example:
        >>> group = {"params": [torch.nn.Parameter(torch.zeros(1))], "pace": 1.0}
        >>> type(make_optimizer('SGD:{"momentum": 0.9}', None, [group], 0.1)).__name__
        'SGD'
    """
    settings: dict[str, Any] = {}
    make = given
    if make is None:
        make, settings = OPTIMIZERS.settled(spec)
    if isinstance(make, functools.partial) and "lr" in make.keywords:
        raise SettingError("optimizer", "has a learning rate of its own. Give it as learning_rate, and leave lr out.")
    if make in (torch.optim.Adam, torch.optim.AdamW):
        settings = {"fused": True} | settings
        make = Adam if make is torch.optim.Adam else make
    if not callable(make):
        raise TypeError(
            f"An optimizer is made anew for each fit: give a class or a function of parameter groups, got "
            f"{type(make).__name__}."
        )
    wanted = [p for group in groups for p in group["params"]]
    first = next(iter(inspect.signature(make).parameters), "params")
    optimizer = called_with(make, {first: groups, "params": groups, "lr": rate}, settings)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"An optimizer is a torch.optim.Optimizer, got {type(optimizer).__name__}.")
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is closure.empty:
        raise TypeError(f"{type(optimizer).__name__} calls the loss itself; a step here has one loss and one gradient.")
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if held != {id(p) for p in wanted}:
        raise ValueError(
            f"The optimizer has {len(held)} of {len(wanted)} parameters. Give it all that it is called with."
        )
    for group in optimizer.param_groups:
        group.setdefault("pace", 1.0)
        group["lr"] = group["pace"] * rate
    return optimizer


def make_scheduler(spec: str, given: Any, optimizer: torch.optim.Optimizer, history: list[dict[str, float]]) -> Any:
    """The schedule of a run, brought to where it is after some epochs; None for the one of the settings.

    A schedule is not kept: it takes the steps of the past again, which are in the history.

    Args:
        spec: Its name with settings; "auto" for that of the settings.
        given: What makes it from the optimizer, if the name does not.
        optimizer: The optimizer, with the learning rates that training begins with.
        history: The metrics of past epochs.

    Example:
        >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 1.0)
        >>> _ = make_scheduler('StepLR:{"step_size": 1}', None, optimizer, [{"loss": 1.0}, {"loss": 1.0}])
        >>> round(optimizer.param_groups[0]["lr"], 3)
        0.01
    """
    if spec == "auto":
        return None
    settings: dict[str, Any] = {}
    make = given
    if make is None:
        make, settings = SCHEDULERS.settled(spec)
    if not callable(make) or isinstance(make, lr_scheduler.LRScheduler):
        raise TypeError(
            f"A scheduler is made anew for each fit: give a class or a function of the optimizer, got "
            f"{type(make).__name__}."
        )
    first = next(iter(inspect.signature(make).parameters), "optimizer")
    scheduler = called_with(make, {first: optimizer, "optimizer": optimizer}, settings)
    if not callable(getattr(scheduler, "step", None)):
        raise TypeError(f"A scheduler has a method step; {type(scheduler).__name__} has none.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that no step of the optimizer came first: those are past
        for metrics in history:
            take_scheduler_step(scheduler, metrics)
    return scheduler


def take_scheduler_step(scheduler: Any, metrics: dict[str, float]) -> None:
    """The step of a schedule after an epoch; one that waits for a plateau watches the rows held out, if there are some.

    Example:
        >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 1.0)
        >>> scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
        >>> for loss in (1.0, 2.0):
        ...     take_scheduler_step(scheduler, {"loss": loss})
        >>> optimizer.param_groups[0]["lr"]
        0.1
    """
    if "metrics" in inspect.signature(scheduler.step).parameters:
        scheduler.step(metrics.get("validation", metrics["loss"]))
    else:
        scheduler.step()


def log_settings(fabric: Any, config: Any, record: Any) -> None:
    """Give loggers the settings of model and training, from the process that writes.

    Example:
        >>> from horoball.training import TrainConfig
        >>> from horoball.training.engine import engine
        >>> with engine() as fabric:
        ...     log_settings(fabric, TrainConfig(), None)
    """
    settings = config.as_dict() | ({} if record is None else record.model.as_dict())
    plain = {name: str(value) if isinstance(value, list) else value for name, value in settings.items()}
    for logger in fabric.loggers if fabric.global_rank == 0 else ():
        with suppress(NotImplementedError):  # of Fabric's logger for CSV, which has numbers alone
            logger.log_hyperparams(plain)


def finish_loggers(fabric: Any, status: str) -> None:
    """Have loggers write what they hold, whether training ended well ("success") or not ("failed").

    Example:
        >>> from horoball.training.engine import engine
        >>> with engine() as fabric:
        ...     finish_loggers(fabric, "success")
    """
    for logger in fabric.loggers if fabric.global_rank == 0 else ():
        logger.finalize(status)


def warn_of_hooks(folder: Path, unnamed: Sequence[str]) -> None:
    """Say of a run that is resumed that its hooks are not told by a checkpoint.

    Example:
        >>> warn_of_hooks(Path("run"), [])
    """
    if unnamed:
        warnings.warn(
            f"The run in {folder} is resumed with {' and '.join(unnamed)} given as objects or functions. A checkpoint "
            "has neither their names nor their state, so nothing says that they go on as they would have without the "
            "stop. Optimizers and schedulers that are registered, as torch's are, do.",
            ResumedHooksWarning,
            stacklevel=3,
        )


def named_logger(spec: str, folder: Any = None) -> Any:
    """A logger by its name with settings: tensorboard, csv, wandb (offline), mlflow (files), or a registered one.

    Args:
        spec: Its name.
        folder: Where it writes: the run's.

    Example:
        >>> import tempfile
        >>> type(named_logger("csv", tempfile.mkdtemp())).__name__
        'CSVLogger'
    """
    if isinstance(folder, StorePath):
        raise ValueError(f"Loggers write to this machine's disks, not to {folder}. Leave --logger out.")
    home, settings = LOGGERS.settled(spec)
    return called_with(home, {"folder": Path() if folder is None else Path(folder)}, settings)


def _made(home: str, name: str, packages: str, /, **settings: Any) -> Any:
    """A logger of Lightning, whose package has two names."""
    for module in (home, home.replace("lightning.pytorch", "pytorch_lightning")):
        with suppress(ImportError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what the packages import
            return getattr(import_module(module), name)(**settings)
    raise ValueError(f"{name} needs a package that is not installed: pip install {packages}.")


@register_logger
class _TensorBoard:
    name = "tensorboard"

    def __new__(cls, folder: Path, version: str = "") -> Any:
        options = {"root_dir": folder, "name": "", "version": version}
        return _made("lightning_fabric.loggers", "TensorBoardLogger", "tensorboard", **options)


@register_logger
class _Csv:
    name = "csv"

    def __new__(cls, folder: Path, flush_logs_every_n_steps: int = 1) -> Any:
        options = {"root_dir": folder, "name": "csv", "flush_logs_every_n_steps": flush_logs_every_n_steps}
        return _made("lightning_fabric.loggers", "CSVLogger", "lightning-fabric", **options)


@register_logger
class _Wandb:
    name = "wandb"

    def __new__(cls, folder: Path, project: str = "horoball", offline: bool = True) -> Any:
        options = {"save_dir": folder, "project": project, "offline": offline}
        return _made("lightning.pytorch.loggers", "WandbLogger", "lightning wandb", **options)


@register_logger
class _MLflow:
    name = "mlflow"

    def __new__(cls, folder: Path, experiment_name: str = "horoball", tracking_uri: str | None = None) -> Any:
        uri = tracking_uri or f"file:{folder.resolve() / 'mlruns'}"
        options = {"experiment_name": experiment_name, "tracking_uri": uri}
        return _made("lightning.pytorch.loggers", "MLFlowLogger", "lightning mlflow", **options)
