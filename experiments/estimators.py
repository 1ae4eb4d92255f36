"""What cheaper estimates of a likelihood are worth: `python -m experiments.estimators`.

The bound of 5000 samples on 10,000 images takes as long as training. On the same images, and with the same seed, it is
compared with bounds of fewer samples, which are looser, and in two dimensions with the integral over the disc. A part
of the images has an interval of its own; the difference between two models on the same images has a smaller one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from experiments import mnist
from experiments.disc_likelihood import disc_log_likelihood, narrow
from experiments.runs import Setting, arguments, carry_out, results
from horoball.training import log_likelihood

__all__ = ["STUDY", "run", "settings", "table"]

STUDY = "estimators"
SAMPLES = (100, 500, 5000)
IMAGES = 100
MODELS = ((2, 1.4), (2, 0.0), (10, 0.2), (10, 0.0))


def settings(seeds: int, epochs: int) -> Iterator[Setting]:
    """The paper's best cell and the N-VAE, in few and in many dimensions."""
    for seed in range(seeds):
        for d, c in MODELS:
            yield {"d": d, "c": c, "epochs": epochs, "seed": seed}


def run(d: int, c: float, epochs: int, seed: int) -> dict[str, Any]:
    """Negative log-likelihoods of some test images by every estimator, and milliseconds of the processor an image."""
    model = mnist.trained(d, c, seed, epochs=epochs)
    x = mnist.digits(False).x
    x = x[:: len(x) // IMAGES][:IMAGES]
    nll: dict[str, list[float]] = {}
    cost: dict[str, float] = {}
    for samples in SAMPLES:
        torch.manual_seed(seed)
        began = time.process_time()
        nll[f"{samples} samples"] = (-log_likelihood(model, x, samples, batch=16, prior_share=0.0)).tolist()
        cost[f"{samples} samples"] = 1e3 * (time.process_time() - began) / len(x)
    if d == 2:
        every = mnist.digits(False).x
        spacing = narrow(model, every)
        began = time.process_time()
        disc_log_likelihood(model, every[:2000], spacing)
        cost["disc"] = 1e3 * (time.process_time() - began) / 2000
        nll["disc"] = (-disc_log_likelihood(model, x, spacing)).tolist()
        nll["disc, half the spacing"] = (-disc_log_likelihood(model, x, spacing / 2)).tolist()
    return {"nll": nll, "milliseconds": {name: round(value, 3) for name, value in cost.items()}}


def _half(values: np.ndarray) -> float:
    """Half the width of the 95 % interval of a mean over many images."""
    return float(1.96 * values.std(ddof=1) / np.sqrt(len(values)))


def table() -> str:
    """How far each estimator is from the bound of most samples on the same images, in nats."""
    lines = [
        "| d | c | epochs | estimator | mean | − 5000 samples, paired | largest difference | ms an image |",
        "|--:|--:|--:|---|--:|--:|--:|--:|",
    ]
    full = f"{SAMPLES[-1]} samples"
    for record in results(STUDY):
        which, result = record["setting"], record["result"]
        reference = np.array(result["nll"][full])
        for name, values in result["nll"].items():
            x = np.array(values)
            away = x - reference
            far = "" if name == full else f"{away.mean():+.3f} ± {_half(away):.3f} | {np.abs(away).max():.2f}"
            price = result["milliseconds"].get(name)
            cells = [
                f"{which['d']} | {which['c']:g} | {which['epochs']} | {name}",
                f"{x.mean():.2f} ± {_half(x):.2f}",
                far or " | ",
                "" if price is None else f"{price:.3g}",
            ]
            lines.append(f"| {' | '.join(cells)} |".replace("-", "−"))
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the table."""
    options = arguments(__doc__, 1, epochs=80)
    carry_out(STUDY, settings(options.seeds, options.epochs), run, options.workers)
    print(table())


if __name__ == "__main__":
    main()
