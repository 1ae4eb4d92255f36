"""Progress reporters: a bar in a terminal or notebook, lines in a log file, or nothing."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

__all__ = ["Bar", "Lines", "Progress", "Silent", "counted", "duration", "shown", "watched"]

_log = logging.getLogger("horoball")

EVERY = 30.0  # seconds between lines


def shown(console: Any = None) -> Progress:
    """A progress bar in a terminal or notebook; elsewhere a line every half minute.

    Args:
        console: A rich console; without one, stderr at a terminal and the cell's output in a notebook.

    Example:
        >>> import io
        >>> from rich.console import Console
        >>> type(shown(Console(file=io.StringIO()))).__name__
        'Lines'
    """
    from rich.console import Console

    seen = Console(stderr=True) if console is None else console
    return Bar(seen) if seen.is_terminal or seen.is_jupyter else Lines(seen)


@contextmanager
def watched(verbose: bool | int) -> Iterator[Progress]:
    """The progress reporter for `verbose`, with the library's log messages shown; or a silent one.

    Example:
        >>> with watched(False) as progress:
        ...     type(progress).__name__
        'Silent'
    """
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
    """Numbers of the steps of some work that comes before training; it logs how far it is every half minute.

    Example:
        >>> sum(counted("Layout", 4))
        6
    """
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
    """Reports nothing.

    Example:
        >>> Silent().stop()
    """

    def start(self, epochs: int, done: int) -> None:
        """Nothing."""

    def step(self, step: int, steps: int, sums: list[float], rows: int, batch: int) -> None:
        """Nothing."""

    def epoch(self, line: dict[str, float]) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""


class Lines:
    """A line at the start, every half minute, and at the end: for log files and batch systems.

    Args:
        console: A rich console; stderr if not given.
        every: Seconds between lines.

    Example:
        >>> import sys
        >>> from rich.console import Console
        >>> lines = Lines(Console(file=sys.stdout, width=200), every=0.0)
        >>> lines.start(2, 0)
        Training: 2 epochs, 0 done.
        >>> lines.step(1, 10, [5.0, 4.0, 1.0], 2, 2)
        Epoch 1 of 2, step 1 of 10: loss 2.5, kl 0.5...
        >>> lines.epoch({"epoch": 1.0, "loss": 2.0, "validation": 2.25})
        >>> lines.stop()
        1 of 2 epochs done: loss 2, validation 2.25...
    """

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
    """A time as people say it.

    Example:
        >>> duration(95.2)
        '1 min 35 s'
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


class Bar:
    """A progress bar: epochs, loss, KL divergence, rows per second, time left.

    Args:
        console: A rich console; the terminal's if not given.

    Example:
        >>> from rich.console import Console
        >>> bar = Bar(Console(quiet=True))
    """

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
