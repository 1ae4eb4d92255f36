"""Metrics for TensorBoard, where it is installed: `pip install tensorboard`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from horoball.training.progress import Progress

__all__ = ["Scalars"]


class Scalars:
    """Writes the metrics of every epoch to an event file, and passes them on to another progress reporter.

    Args:
        folder: Folder for the event file.
        inner: The other progress reporter.

    Example:
        >>> import tempfile
        >>> from horoball.training.progress import Silent
        >>> Scalars(Path(tempfile.mkdtemp()), Silent()).epoch({"epoch": 1.0, "loss": 3.0})  # doctest: +SKIP
    """

    def __init__(self, folder: Path, inner: Progress) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ValueError("TensorBoard is not installed: pip install tensorboard.") from None
        self.writer: Any = SummaryWriter(str(folder))
        self.inner = inner

    def start(self, epochs: int, done: int) -> None:
        """Training starts."""
        self.inner.start(epochs, done)

    def step(self, step: int, steps: int, sums: list[float], rows: int, batch: int) -> None:
        """A step is done."""
        self.inner.step(step, steps, sums, rows, batch)

    def epoch(self, line: dict[str, float]) -> None:
        """An epoch is done: its numbers are written."""
        for name, value in line.items():
            if name != "epoch":
                self.writer.add_scalar(name, value, int(line["epoch"]))
        self.inner.epoch(line)

    def stop(self) -> None:
        """Training ends."""
        self.writer.close()
        self.inner.stop()
