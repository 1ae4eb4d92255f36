"""How training goes: progress for people, and whether it has converged."""

from __future__ import annotations

import logging
import math
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from horoball.training.config import TrainConfig

_log = logging.getLogger("horoball")

EVERY = 30.0  # seconds between lines


def shown(console: Any = None) -> Progress:
    """A progress bar in a terminal, one line renewed in place in a notebook; elsewhere a line every half minute."""
    from rich.console import Console

    seen = Console(stderr=True) if console is None else console
    if seen.is_jupyter:  # where rich's own bar needs ipywidgets, and warns for every change without them
        return Cell()
    return Bar(seen) if seen.is_terminal else Lines(seen)


@contextmanager
def watched(verbose: bool | int) -> Iterator[Progress]:
    """The progress reporter for `verbose`, with the library's log messages shown; or a silent one."""
    if not verbose:
        yield Silent()
        return
    logger = logging.getLogger("horoball")
    level, heard = logger.level, logger.isEnabledFor(logging.INFO)
    handler = logging.StreamHandler()
    if not heard:  # otherwise messages go where the program wants them
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
    try:
        yield shown()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def counted(what: str, steps: int, every: float = EVERY) -> Iterator[int]:
    """Numbers of the steps of some work that comes before training; it logs how far it is every half minute."""
    began = told = time.monotonic()
    for step in range(steps):
        yield step
        now = time.monotonic()
        if now - told >= every:
            told, left = now, (now - began) * (steps - step - 1) / (step + 1)
            _log.info("%s: step %d of %d, %s left.", what, step + 1, steps, duration(left))


class Progress(Protocol):
    """Progress reporter: what the training loop calls."""

    def start(self, epochs: int, done: int) -> None:
        """Training starts, with some epochs already done."""

    def step(self, step: int, steps: int, sums: list[float], rows: int, batch: int) -> None:
        """A step is done; sums are of the objective's terms, the loss first, over the rows of this epoch."""

    def epoch(self, line: dict[str, float]) -> None:
        """An epoch is done."""

    def stop(self) -> None:
        """Training ends."""


class Silent:
    """Reports nothing."""

    def start(self, epochs: int, done: int) -> None:
        """Nothing."""

    def step(self, step: int, steps: int, sums: list[float], rows: int, batch: int) -> None:
        """Nothing."""

    def epoch(self, line: dict[str, float]) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""


class Lines:
    """A line at the start, every half minute, and at the end: for log files and batch systems."""

    def __init__(self, console: Any = None, every: float = EVERY) -> None:
        from rich.console import Console

        self._console, self._every = console or Console(stderr=True), every

    def start(self, epochs: int, done: int) -> None:
        """Print the number of epochs."""
        self._epochs, self._done, self._first, self._last = epochs, done, done, ""
        self._began = self._printed = time.monotonic()
        self._print(f"Training: {epochs} epochs, {done} done.")

    def step(self, step: int, steps: int, sums: list[float], rows: int, batch: int) -> None:
        """Print loss and time left, if the last line is old."""
        now = time.monotonic()
        if now - self._printed < self._every or not rows:
            return
        self._printed = now
        part = self._done + step / steps
        left = (now - self._began) * (self._epochs - part) / max(part - self._first, 1e-9)
        self._print(
            f"Epoch {self._done + 1} of {self._epochs}, step {step} of {steps}: loss {sums[0] / rows:.4g}, "
            f"kl {sums[2] / rows:.3g}. {duration(now - self._began)} spent, at most {duration(left)} left."
        )

    def epoch(self, line: dict[str, float]) -> None:
        """Count the epoch."""
        self._done = int(line["epoch"])
        self._last = ", ".join(f"{name} {line[name]:.4g}" for name in ("loss", "validation") if name in line)

    def stop(self) -> None:
        """Print the epochs done and the last loss."""
        came = f": {self._last}" if self._last else ""
        spent = duration(time.monotonic() - self._began)
        self._print(f"{self._done} of {self._epochs} epochs done{came}. {spent} spent.")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, emoji=False, highlight=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """A time as people say it."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


class Bar:
    """A progress bar: epochs, loss, KL divergence, rows per second, time left."""

    def __init__(self, console: Any = None) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("epoch"),
            MofNCompleteColumn(),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(compact=True),
            console=console,
        )
        self._shown = 0.0

    def start(self, epochs: int, done: int) -> None:
        """Show the bar."""
        self._task = self._bar.add_task("fit", total=epochs, completed=done, numbers="")
        self._began, self._seen, self._done, self._watched = time.monotonic(), 0, done, ""
        self._bar.start()

    def step(self, step: int, steps: int, sums: list[float], rows: int, batch: int) -> None:
        """Renew the numbers, ten times a second at most."""
        self._seen += batch
        now = time.monotonic()
        if now - self._shown < 0.1 or not rows:
            return
        self._shown = now
        rate = self._seen / max(now - self._began, 1e-9)
        numbers = f"loss {sums[0] / rows:.4g}  kl {sums[2] / rows:.3g}{self._watched}  {rate:,.0f} rows/s"
        self._bar.update(self._task, completed=self._done + step / steps, numbers=numbers)

    def epoch(self, line: dict[str, float]) -> None:
        """Count the epoch."""
        self._done = int(line["epoch"])
        if "validation" in line:
            self._watched = f"  validation {line['validation']:.4g}"
        self._bar.update(self._task, completed=self._done)

    def stop(self) -> None:
        """Keep the last numbers on the screen."""
        self._bar.stop()


class Cell:
    """One line in the output of a notebook's cell, renewed in place twice a second; it needs no widgets.

    However long training takes, the notebook keeps a single line of it.
    """

    def __init__(self, every: float = 0.5) -> None:
        self._every = every
        self._handle: Any = None

    def start(self, epochs: int, done: int) -> None:
        """Show the line."""
        from importlib import import_module  # IPython is there wherever a notebook is, and nowhere else needed

        self._epochs, self._done, self._first, self._seen, self._watched, self._numbers = epochs, done, done, 0, "", ""
        self._began = self._shown = time.monotonic()
        display = import_module("IPython.display").display
        self._handle = display(self._line(done, ""), raw=True, display_id=True)

    def step(self, step: int, steps: int, sums: list[float], rows: int, batch: int) -> None:
        """Renew the numbers, if they are old."""
        self._seen += batch
        now = time.monotonic()
        if now - self._shown < self._every or not rows:
            return
        self._shown, part = now, self._done + step / steps
        rate = self._seen / max(now - self._began, 1e-9)
        left = (now - self._began) * (self._epochs - part) / max(part - self._first, 1e-9)
        self._numbers = f"loss {sums[0] / rows:.4g}  kl {sums[2] / rows:.3g}{self._watched}  {rate:,.0f} rows/s"
        self._renew(part, f"{self._numbers}  at most {duration(left)} left")

    def epoch(self, line: dict[str, float]) -> None:
        """Count the epoch."""
        self._done = int(line["epoch"])
        self._watched = f"  validation {line['validation']:.4g}" if "validation" in line else ""
        terms = [f"{name} {line[name]:.4g}" for name in ("loss", "kl") if name in line]
        self._numbers = "  ".join(terms) + self._watched

    def stop(self) -> None:
        """Leave the last numbers and the time spent."""
        self._renew(self._done, f"{self._numbers}  {duration(time.monotonic() - self._began)} spent")

    def _renew(self, part: float, text: str) -> None:
        if self._handle is not None:  # None outside of a notebook
            self._handle.update(self._line(part, text), raw=True)

    def _line(self, part: float, text: str) -> dict[str, str]:
        said = f"epoch {int(part)} of {self._epochs}  {text}".rstrip()
        bar = f'<progress value="{part:.3f}" max="{self._epochs}"></progress>'
        return {"text/plain": said, "text/html": f"{bar} <code>{said}</code>"}


_NOISE = 0.25, 1.0  # part of the first loss, and nats, that batches may differ by
_EARLY = 9.0, 10.0  # the same for a run that has hardly begun: large steps lead away before they lead anywhere
_NOTHING = 0.05  # nats
_SETTLED = 20  # epochs after which a run has begun
_LATEST = 10  # epochs, at most, whose mean loss is compared with that of as many before them
_FALLING = 1e-3  # part of the loss, or of a nat, by which the later mean has to be lower


def warn_if_diverged(first: float | None, history: list[dict[str, float]], config: TrainConfig) -> None:
    """Warn if the weights that are kept fit worse than those that training began with."""
    if first is None or not history or not math.isfinite(first):
        return
    # The weights are those of the best validation loss, where rows were held out, else those of the last epoch.
    kept = min(history, key=lambda line: line.get("validation", -line["epoch"]))
    last = min(kept["loss"], kept.get("validation", math.inf))  # a few rows held out may all be odd ones
    part, nats = _NOISE if len(history) >= _SETTLED else _EARLY
    if last <= first + max(part * abs(first), nats):
        return
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(
        f"Training diverged: the loss was {first:.4g} before it and is {last:.4g} after {len(history)} epochs. Do not "
        f"trust this model. Lower learning_rate, now {config.learning_rate:g}, to a tenth, and look for values far "
        "beyond the others.",
        ConvergenceWarning,
        stacklevel=4,
    )


def warn_if_collapsed(history: list[dict[str, float]], config: TrainConfig) -> None:
    """Warn if the weights that are kept place all rows alike: their posteriors are the prior.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True, action="always") as said:
        ...     warn_if_collapsed([{"epoch": 1.0, "loss": 5.0, "kl": 1e-3}] * 20, TrainConfig())
        >>> len(said)
        1
    """
    kept = min(history, key=lambda line: line.get("validation", -line["epoch"]), default={})
    if len(history) < _SETTLED or kept.get("kl", math.inf) >= _NOTHING:
        return
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(
        f"The latent space holds next to nothing: on average, the posterior of a row tells {kept['kl']:.2g} nats more "
        "than the prior. Places mean nothing. Either the columns have nothing in common, or training lost it early: "
        f"lower beta, now {config.beta:g}, or train in fewer dimensions.",
        ConvergenceWarning,
        stacklevel=4,
    )


def early_end(history: list[dict[str, float]], config: TrainConfig) -> str | None:
    """How training ended early, in words to be read after "ended"; None if it did not."""
    if not history or "validation" not in history[-1] or len(history) >= config.max_epochs or config.patience == 0:
        return None
    best = int(min(history, key=lambda line: line["validation"])["epoch"])
    if len(history) - best < config.patience:  # it was interrupted
        return None
    return (
        f"early, after epoch {len(history)} of {config.max_epochs}: the validation loss is lowest in epoch {best}, "
        "whose weights are kept"
    )


def warn_if_unfinished(history: list[dict[str, float]], config: TrainConfig) -> None:
    """Warn if training ended at its last epoch while the validation loss was still falling.

    A fit without rows held out, or with patience 0, is one of a number of epochs that was chosen, and is not judged.
    """
    watched = [line["validation"] for line in history if "validation" in line]
    latest = min(_LATEST, len(watched) // 4)
    if config.patience == 0 or len(watched) < config.max_epochs or latest < 2:
        return
    last = sum(watched[-latest:]) / latest
    before = sum(watched[-2 * latest : -latest]) / latest
    if not before - last > _FALLING * max(1.0, abs(last)):
        return
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(
        f"Training ended at its last epoch, {len(watched)}, while the validation loss was falling: from {before:.4g} "
        f"to {last:.4g} over {latest} epochs. Go on with warm_start=True, or `horoball fit --resume --max-epochs "
        f"{2 * len(watched)}`; or set max_epochs higher at once.",
        ConvergenceWarning,
        stacklevel=4,
    )
