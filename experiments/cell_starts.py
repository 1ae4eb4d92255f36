"""Where the decoder's hyperplanes start, on three tables of cells: `python -m experiments.cell_starts`.

Olsson, Moignard2015 and krumsiek11_blobs from `HOROBALL_DATA`, two dimensions, c = 1 and its Euclidean twin, trained
until rows that are held out get no more likely, as `horoball fit` is. A seed draws a split; every model has the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from experiments import mnist
from experiments.beyond import STARTS
from experiments.runs import Setting, arguments, carry_out, counted, paired, results
from horoball.tables import ArrayTable
from horoball.training import TrainConfig, log_likelihood
from horoball.vae import VAE, ModelConfig, fit

STUDY = "cell_starts"
TABLES = ("Olsson", "Moignard2015", "krumsiek11_blobs")


def settings(seeds: int) -> Iterator[Setting]:
    """Every run: a seed of everything first."""
    for seed in range(seeds):
        for table in TABLES:
            for c in (1.0, 0.0):
                yield from (Setting(table=table, c=c, start=start, seed=seed) for start in STARTS)


def split(table: str, seed: int) -> tuple[Tensor, Tensor]:
    """Cells to train on and to test on, 0.7 and 0.3 of them; genes have mean 0 and variance 1 over the former."""
    path = Path(os.environ["HOROBALL_DATA"]) / "cells" / f"{table}.csv"
    values = np.genfromtxt(path, delimiter=",", dtype=str, skip_header=1)[:, :-1].astype(np.float32)
    order = np.random.default_rng(seed).permutation(len(values))
    train, test = np.split(values[order], [round(0.7 * len(values))])
    mean, scale = train.mean(0), train.std(0)
    scale[scale == 0] = 1  # a gene that is the same in all cells
    return torch.from_numpy((train - mean) / scale), torch.from_numpy((test - mean) / scale)


def run(table: str, c: float, start: str, seed: int, samples: int = 1000) -> dict[str, Any]:
    """The negative log-likelihood of the held-out cells, in nats."""
    train, test = split(table, seed)
    torch.manual_seed(seed)
    model = VAE.from_config(ModelConfig(features=train.shape[1], c=c, hidden=(200,)))
    if start == "spread":
        mnist.spread(model.decoder.network[0])  # type: ignore[index, arg-type]
    fit(model, ArrayTable(train), TrainConfig(seed=seed))
    torch.manual_seed(seed)
    return {"nll": float(-log_likelihood(model.eval(), test, samples).mean())}


def found(table: str, c: float, start: str) -> dict[int, float]:
    """Negative log-likelihoods so far, by seed."""
    wanted = {"table": table, "c": c, "start": start}
    runs = {r["setting"]["seed"]: r for r in results(STUDY) if wanted.items() <= r["setting"].items()}
    return {seed: runs[seed]["result"]["nll"] for seed in sorted(runs)}


def table() -> str:
    """Both starts for either model, and what the spread one gains."""
    names = " | ".join(f"{model}, {start}" for model in ("P-VAE", "N-VAE") for start in ("as `Linear`", "spread − it"))
    lines = [f"| negative log-likelihood, nats | {names} |", "|---|--:|--:|--:|--:|"]
    for name in TABLES:
        cells = []
        for c in (1.0, 0.0):
            linear, spread = (found(name, c, start) for start in STARTS)
            cells += [counted(linear, 2), counted(paired(spread, linear), 2, "+")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the table."""
    options = arguments(__doc__, 5)
    carry_out(STUDY, settings(options.seeds), run, options.workers)
    print(table())


if __name__ == "__main__":
    main()
