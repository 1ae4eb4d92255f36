"""Metrics for TensorBoard, where it is installed: `pip install tensorboard`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from horoball.training.progress import Progress

__all__ = ["Scalars"]


class Scalars:
    """Tells another, and writes the numbers of every epoch to an event file.

    Args:
        folder: Where the event file goes.
        told: Who else is told how it goes.

    Example:
        >>> import tempfile
        >>> from horoball.training.progress import Silent
        >>> Scalars(Path(tempfile.mkdtemp()), Silent()).epoch({"epoch": 1.0, "loss": 3.0})  # doctest: +SKIP
    """

    def __init__(self, folder: Path, told: Progress) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ValueError("TensorBoard is not installed: pip install tensorboard.") from None
        self.writer: Any = SummaryWriter(str(folder))
        self.told = told

    def start(self, epochs: int, done: int) -> None:
        """Training starts."""
        self.told.start(epochs, done)

    def step(self, step: int, steps: int, sums: list[float], rows: int, batch: int) -> None:
        """A step is done."""
        self.told.step(step, steps, sums, rows, batch)

    def epoch(self, line: dict[str, float]) -> None:
        """An epoch is done: its numbers are written."""
        for name, value in line.items():
            if name != "epoch":
                self.writer.add_scalar(name, value, int(line["epoch"]))
        self.told.epoch(line)

    def stop(self) -> None:
        """Training ends."""
        self.writer.close()
        self.told.stop()
