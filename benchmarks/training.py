"""Training and evaluation on MNIST: `python -m benchmarks.training step|iwae|finite`.

step    time of a training step through `fit` over that of a bare torch loop of the Euclidean model, in turns
iwae    time of the log-likelihood with 5000 samples over that of the Euclidean model, and peak memory
finite  500 steps at every (d, c) of the paper's second table and beyond, both normals: finite, divergence above 0
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from horoball.data import ArrayTable, mnist
from horoball.models import VAE, ModelConfig
from horoball.objectives import log_likelihood
from horoball.training import TrainConfig, fit

BATCH = 128


class Bare(nn.Module):
    """The N-VAE as one would write it by hand."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.d = d
        self.encoder = nn.Sequential(nn.Linear(784, 600), nn.ReLU(), nn.Linear(600, d + 1))
        self.decoder = nn.Sequential(nn.Linear(d, 600), nn.ReLU(), nn.Linear(600, 784))

    def forward(self, x: Tensor) -> Tensor:
        """Minus the bound, with the divergence from the same sample."""
        h = self.encoder(x)
        mu, sigma = h[:, : self.d], functional.softplus(h[:, self.d :]) + 1e-5
        epsilon = torch.randn_like(mu)
        z = mu + sigma * epsilon
        kl = (z.square() - epsilon.square()).sum(-1) / 2 - self.d * sigma.log().squeeze(-1)
        logits = self.decoder(z)
        return functional.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(-1).mean() + kl.mean()


def _model(d: int, c: float, posterior: str) -> VAE:
    torch.manual_seed(0)
    return VAE.from_config(ModelConfig(features=784, d=d, c=c, posterior=posterior, likelihood="bernoulli"))


MODELS = {"N-VAE": (0.0, "wrapped"), "P-VAE wrapped": (1.0, "wrapped"), "P-VAE Riemannian": (1.0, "riemannian")}


def _turns(steps: dict[str, Callable[[], object]], count: int) -> dict[str, float]:
    """Median over turns of each time over that of the first."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(count + 1):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if turn:
                times[name].append(time.perf_counter() - start)
    first = next(iter(times.values()))
    return {name: statistics.median(t / f for t, f in zip(ts, first, strict=True)) for name, ts in times.items()}


def step(x: Tensor, turns: int) -> None:
    """Ratios of a training step."""
    goals = {"N-VAE": 1.05, "P-VAE wrapped": 1.2, "P-VAE Riemannian": 1.35}
    print("| d | model | step / bare N-VAE step | goal |\n|--:|---|--:|--:|")
    x = x[: BATCH * 100]
    config = TrainConfig(max_epochs=1, batch_size=BATCH, validation=0.0)
    for d in (2, 10, 20):
        bare = Bare(d)
        optimizer = torch.optim.Adam(bare.parameters(), 1e-3, fused=True)

        def loop(bare: Bare = bare, optimizer: torch.optim.Optimizer = optimizer) -> None:
            index = torch.randperm(len(x))
            for start in range(0, len(x), BATCH):
                optimizer.zero_grad()
                bare(x[index[start : start + BATCH]]).backward()
                optimizer.step()

        steps: dict[str, Callable[[], object]] = {"bare": loop}
        for name, (c, posterior) in MODELS.items():
            model = _model(d, c, posterior)
            steps[name] = partial(fit, model, ArrayTable(x), config)
        for name, ratio in _turns(steps, turns).items():
            if name != "bare":
                print(f"| {d} | {name} | {ratio:.2f} | ≤ {goals[name]} |")


def iwae(x: Tensor, turns: int) -> None:
    """Ratios of the log-likelihood with 5000 samples, and memory."""
    print("| d | model | time / N-VAE | goal |\n|--:|---|--:|--:|")
    for d in (2, 10, 20):
        steps: dict[str, Callable[[], object]] = {}
        for name, (c, posterior) in MODELS.items():
            model = _model(d, c, posterior)
            steps[name] = partial(log_likelihood, model, x[:8], 5000)
        for name, ratio in _turns(steps, turns).items():
            if name != "N-VAE":
                print(f"| {d} | {name} | {ratio:.2f} | ≤ 1.3 |")
    model = _model(20, 1.0, "riemannian")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    log_likelihood(model, x[:64], samples=1000)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"\nPeak memory of a batch of 64 images at d = 20 above what was in use: {(after - before) / 1024:.0f} MiB.")


def finite(x: Tensor, steps: int) -> int:
    """Settings whose loss is finite and whose divergence is positive after some hundred steps."""
    cells = [(d, c) for d in (2, 5, 10, 20) for c in (0.1, 0.2, 0.7, 1.0, 1.4)] + [(64, 1.0), (128, 0.5), (2, 10.0)]
    failed = 0
    config = TrainConfig(max_epochs=1, batch_size=BATCH, validation=0.0, learning_rate=5e-4)
    for d, c in cells:
        for posterior in ("wrapped", "riemannian"):
            try:
                line = fit(_model(d, c, posterior), ArrayTable(x[: BATCH * steps]), config).history[-1]
                good = line["kl"] > 0
                said = f"loss {line['loss']:.1f}, divergence {line['kl']:.2f}"
            except (FloatingPointError, ValueError, RuntimeError) as error:
                good, said = False, str(error)
            failed += not good
            print(f"d = {d}, c = {c}, {posterior}: {said}{'' if good else '  FAILED'}", flush=True)
    print(f"\n{2 * len(cells)} settings, {failed} failed.")
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table; 1 if a setting failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["step", "iwae", "finite"])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--steps", type=int, default=500)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    x = mnist(train=True).x[torch.randperm(60000, generator=torch.Generator().manual_seed(0))]
    if options.what == "finite":
        return int(finite(x[:60000], min(options.steps, 468)) > 0)
    (step if options.what == "step" else iwae)(x, options.turns)
    return 0


if __name__ == "__main__":
    sys.exit(main())
