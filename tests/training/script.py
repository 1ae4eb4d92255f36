"""Trains a small model, as a process of its own that tests stop, kill and start again."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from horoball.data import ArrayTable, Table, read
from horoball.models import VAE, ModelConfig
from horoball.training import TrainConfig, fit


def table(source: str) -> Table:
    if source != "memory":
        return read(source)
    return ArrayTable(torch.randn(600, 6, generator=torch.Generator().manual_seed(0)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--source", default="memory")
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = VAE.from_config(ModelConfig(features=6, hidden=(16,), learn_c=True))
    config = TrainConfig(max_epochs=options.epochs, batch_size=50, checkpoint_seconds=0.0)
    options.folder.mkdir(parents=True, exist_ok=True)
    print("started", flush=True)
    fit(model, table(options.source), config, options.folder, resume=True)


if __name__ == "__main__":
    main()
