"""Trains a small model, as a process of its own that tests stop, kill and start again."""

from __future__ import annotations

import argparse
import math
import os
import signal
from pathlib import Path

import torch

from horoball.tables import ArrayTable, Table, read
from horoball.training import TrainConfig
from horoball.training.progress import Silent
from horoball.vae import VAE, ModelConfig, fit


def table(source: str, broken: bool) -> Table:
    """601 rows: the last of an epoch's batches has one, and so a second rank none."""
    if source != "memory":
        return read(source, streamed=True, kind="numbers")
    x = torch.randn(601, 6, generator=torch.Generator().manual_seed(0))
    if broken:
        x[17] = math.inf
    return ArrayTable(x)


class Signal(Silent):
    """Sends the last of the ranks a signal, at its 20th step."""

    def __init__(self) -> None:
        self.left = 20 if int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1 else -1

    def step(self, step: int, steps: int, sums: list[float], rows: int, batch: int) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--source", default="memory")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--fits", type=int, default=1)
    parser.add_argument("--broken", action="store_true")
    parser.add_argument("--sigterm", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = VAE.from_config(ModelConfig(features=6, hidden=(16,), learn_c=True))
    rows, progress = table(options.source, options.broken), Signal() if options.sigterm else None
    config = TrainConfig(max_epochs=options.epochs, batch_size=50, checkpoint_seconds=0.0)
    options.folder.mkdir(parents=True, exist_ok=True)
    print("started", flush=True)
    for _ in range(options.fits):
        fit(model, rows, config, options.folder, resume=options.fits == 1, progress=progress)


if __name__ == "__main__":
    main()
