"""Who is told how training goes: nobody, or a person at a terminal."""

from __future__ import annotations

import time
from typing import Any, Protocol

__all__ = ["Bar", "Progress", "Silent"]


class Progress(Protocol):
    """What the training loop tells."""

    def start(self, epochs: int, done: int) -> None:
        """Training starts, with some epochs already done."""

    def step(self, step: int, steps: int, sums: list[float], rows: int, batch: int) -> None:
        """A step is done; sums are of the objective's terms, the loss first, over the rows of this epoch."""

    def epoch(self, line: dict[str, float]) -> None:
        """An epoch is done."""

    def stop(self) -> None:
        """Training ends."""


class Silent:
    """Tells nobody.

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


class Bar:
    """A line at a terminal: epochs, loss, divergence, rows per second, time left.

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
        """Leave the last numbers standing."""
        self._bar.stop()
