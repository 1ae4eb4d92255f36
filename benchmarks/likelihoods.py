"""How far estimates of a log-likelihood are from the truth, by the share of samples from the prior.

`python -m benchmarks.likelihoods` fits four fifths of scikit-learn's digits with the default settings in several
dimensions, and prints the mean log-likelihood of unseen rows, in nats. All estimates are from below, so the highest is
the closest.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits

from benchmarks.table import markdown
from horoball import PoincareVAE
from horoball.geometry.random import generator_for
from horoball.tables import ArrayTable
from horoball.training import elbo, log_likelihood
from horoball.training.bounds import PRIOR_SHARE

DIMENSIONS = (2, 3, 5, 10)
SHARES = (0.0, 0.1, 0.25, 0.5)
SAMPLES = (500, 5000)
ROWS = 200


def line(d: int, samples: Sequence[int], **options: Any) -> list[str]:
    """Estimates of a model, and how many rows gain more than a nat from samples of the prior."""
    x = load_digits().data.astype(np.float32)
    order = np.random.default_rng(0).permutation(len(x))
    cut = len(x) * 4 // 5
    run = PoincareVAE(n_components=d, random_state=0, **options).fit(x[order[:cut]]).run_
    unseen = torch.cat(list(run.blocks(ArrayTable(torch.from_numpy(x[order[cut:]][:ROWS])))))
    with torch.no_grad():
        bound = float(elbo(run.model, unseen, samples=64, kl="auto", generator=generator_for(0)).value.mean())
    cells = [f"{d}", f"{bound:.2f}"]
    for count in samples:
        by_share = [
            log_likelihood(run.model, unseen, count, prior_share=share, generator=generator_for(0)) for share in SHARES
        ]
        cells += [f"{values.mean():.2f}" for values in by_share]
    gained = by_share[SHARES.index(PRIOR_SHARE)] - by_share[0]
    cells += [f"{(gained > 1).double().mean():.2f}", f"{gained.max():.1f}"]
    return [cell.replace("-", "−") for cell in cells]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Log-likelihoods by the share of samples from the prior.")
    parser.add_argument("--quick", action="store_true", help="A short training, few samples.")
    quick = parser.parse_args(arguments).quick
    samples = (20, 50) if quick else SAMPLES
    options: dict[str, Any] = {"max_epochs": 1, "hidden": (8,)} if quick else {}
    names = [f"{share:g} of {count}" for count in samples for share in SHARES]
    header = ["d", "ELBO", *names, f"rows that gain a nat at {PRIOR_SHARE}", "most"]
    print(markdown(header, [line(d, samples, **options) for d in (DIMENSIONS[:1] if quick else DIMENSIONS)]))


if __name__ == "__main__":
    main()
