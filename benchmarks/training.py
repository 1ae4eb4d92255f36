"""Training and evaluation on MNIST: `python -m benchmarks.training step|map|iwae|count|kernels|finite`.

step    time of a training step through `fit` over that of a bare torch loop of the Euclidean model, in turns
map     time of a step with the term of a map over that without, in turns
iwae    time of the log-likelihood with 5000 samples over that of the Euclidean model, and peak memory
count   operations that a step starts, nested ones included, which is what a small batch spends its time on
kernels kernels that torch.compile generates for a step, matrix products not counted
finite  500 steps at every (d, c) of the paper's second table and beyond, both normals: finite, divergence above 0
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from horoball.datasets import mnist
from horoball.tables import ArrayTable
from horoball.training import TrainConfig, elbo, log_likelihood
from horoball.training.progress import Silent
from horoball.vae import VAE, ModelConfig, fit
from horoball.vae.distances import DistanceTerm, PlaceTerm
from horoball.vae.train import TableObjective

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
    return VAE.from_config(
        ModelConfig(features=784, d=d, c=c, posterior=posterior, likelihood="bernoulli", hidden=(600,))
    )


MODELS = {"N-VAE": (0.0, "wrapped"), "P-VAE wrapped": (1.0, "wrapped"), "P-VAE Riemannian": (1.0, "riemannian")}


class _Clock(Silent):
    """Notes when the steps end, so that the time of a step is known without that of setting up.

    It is the processor's time: on one thread that of the wall, less what other programs take.
    """

    def __init__(self) -> None:
        self.ends: list[float] = []

    def step(self, step: int, steps: int, sums: list[float], rows: int, new: int) -> None:
        """A step has ended."""
        self.ends.append(time.process_time())

    @property
    def seconds(self) -> float:
        """The median time of a step."""
        return statistics.median(b - a for a, b in zip(self.ends, self.ends[1:], strict=False))


def _through_fit(model: VAE, x: Tensor, batch: int) -> float:
    clock = _Clock()
    fit(model, ArrayTable(x), TrainConfig(max_epochs=1, batch_size=batch, validation=0.0), progress=clock)
    return clock.seconds


def _loss_and_adam(model: VAE, x: Tensor, batch: int) -> float:
    """The same without `fit`: its loss, gradients and Adam in a loop by hand."""
    objective = TableObjective(model, TrainConfig())
    optimizer, clock = torch.optim.Adam(objective.parameters(), 1e-3, fused=True), _Clock()
    index = torch.randperm(len(x))
    for number, start in enumerate(range(0, len(x), batch)):
        optimizer.zero_grad()
        (objective(x[index[start : start + batch]])[0] / batch).backward()
        optimizer.step()
        clock.step(number, 0, [], 0, 0)
    return clock.seconds


def _bare_loop(bare: Bare, optimizer: torch.optim.Optimizer, x: Tensor, batch: int) -> float:
    clock = _Clock()
    index = torch.randperm(len(x))
    for number, start in enumerate(range(0, len(x), batch)):
        optimizer.zero_grad()
        bare(x[index[start : start + batch]]).backward()
        optimizer.step()
        clock.step(number, 0, [], 0, 0)
    return clock.seconds


def _ratios(times: dict[str, list[float]]) -> dict[str, float]:
    """Median over turns of each time over that of the first."""
    first = next(iter(times.values()))
    return {name: statistics.median(t / f for t, f in zip(ts, first, strict=True)) for name, ts in times.items()}


def _turns(steps: Mapping[str, Callable[[], float]], count: int) -> dict[str, float]:
    """Ratios of the seconds that each returns, taken in turns; the first turn is for warming up."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(count + 1):
        for name, step in steps.items():
            seconds = step()
            if turn:
                times[name].append(seconds)
    return _ratios(times)


def step(x: Tensor, turns: int, batches: Sequence[int], dimensions: Sequence[int]) -> None:
    """Ratios of a training step."""
    goals = {"N-VAE": "≤ 1.05", "P-VAE wrapped": "≤ 1.2", "P-VAE Riemannian": "≤ 1.3"}
    print("| batch | d | model | step / bare N-VAE step | goal |\n|--:|--:|---|--:|--:|")
    for batch in batches:
        part = x[: batch * (100 if batch == 128 else 20)]
        for d in dimensions:
            bare = Bare(d)
            optimizer = torch.optim.Adam(bare.parameters(), 1e-3, fused=True)
            steps = {"bare": partial(_bare_loop, bare, optimizer, part, batch)}
            for name, (c, posterior) in MODELS.items():
                steps[name] = partial(_through_fit, _model(d, c, posterior), part, batch)
                steps[f"{name}, loss and Adam alone"] = partial(_loss_and_adam, _model(d, c, posterior), part, batch)
            for name, ratio in _turns(steps, turns).items():
                if name != "bare":
                    print(
                        f"| {batch} | {d} | {name} | {ratio:.2f} | {goals.get(name, '') if batch == 128 else ''} |",
                        flush=True,
                    )


def _with_term(x: Tensor, term: DistanceTerm | PlaceTerm | None, side: Tensor | None) -> float:
    """The median time of a step of the default map's model."""
    objective = TableObjective(_model(2, 1.0, "riemannian"), TrainConfig(), term)
    optimizer = torch.optim.Adam(objective.parameters(), fused=True)
    clock = _Clock()
    for number in range(60):
        optimizer.zero_grad()
        (objective(x, side)[0] / len(x)).backward()
        optimizer.step()
        clock.step(number, 0, [], 0, 0)
    return clock.seconds


def maps(x: Tensor, turns: int) -> None:
    """What the terms of a map cost."""
    rows, landmarks = x[:BATCH], x[BATCH : 5 * BATCH]
    steps = {
        "without": partial(_with_term, rows, None, None),
        "places in a layout, the default": partial(_with_term, rows, PlaceTerm(), torch.randn(BATCH, 2)),
        "distances to landmarks": partial(_with_term, rows, DistanceTerm(landmarks), torch.cdist(rows, landmarks)),
    }
    print("| term of a map, batch 128, d = 2 | step / step without | goal |\n|---|--:|--:|")
    for name, ratio in _turns(steps, turns).items():
        if name != "without":
            print(f"| {name} | {ratio:.2f} | ≤ 1.3 |")


def generated_kernels(model: nn.Module, x: Tensor) -> int:
    """Loops that Inductor generates for a loss and its gradients."""
    from torch._inductor import metrics

    torch._dynamo.reset()
    metrics.reset()
    losses = torch.compile(model, fullgraph=True)(x)
    (losses if losses.dim() == 0 else losses[0]).backward()
    return metrics.generated_kernel_count


def kernels(x: Tensor) -> None:
    """Generated loops at d = 10."""
    goals = {"bare": "", "N-VAE": "", "P-VAE wrapped": "≤ 50", "P-VAE Riemannian": "≤ 50"}
    models: dict[str, nn.Module] = {"bare": Bare(10)}
    models |= {name: TableObjective(_model(10, *kind), TrainConfig()) for name, kind in MODELS.items()}
    print("| model | generated kernels | goal |\n|---|--:|--:|")
    for name, model in models.items():
        print(f"| {name} | {generated_kernels(model, x[:BATCH])} | {goals[name]} |", flush=True)


def _evaluate(model: VAE, x: Tensor) -> float:
    start = time.perf_counter()
    log_likelihood(model, x, 5000)
    return time.perf_counter() - start


def _both_passes(model: nn.Module, x: Tensor) -> None:
    bound = elbo(model, x, kl="sample").value.mean() if isinstance(model, VAE) else model(x)
    bound.backward()


def count(x: Tensor) -> None:
    """Operations of a forward and a backward pass at d = 10."""
    from torch.profiler import ProfilerActivity, profile

    models: dict[str, nn.Module] = {"bare": Bare(10)}
    models |= {name: _model(10, c, posterior) for name, (c, posterior) in MODELS.items()}
    print("| model | operations |\n|---|--:|")
    for name, model in models.items():
        _both_passes(model, x[:BATCH])  # the first of a Riemannian model builds a table
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            _both_passes(model, x[:BATCH])
        print(f"| {name} | {sum(event.name.startswith('aten::') for event in seen.events() or [])} |")


def _memory(name: str) -> float:
    """A line of the kernel's account of this process, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


def _evaluation_memory(x: Tensor) -> float:
    """What the log-likelihood of a batch adds to this process, in MiB: the first in it, as later ones reuse memory."""
    model = _model(20, 1.0, "riemannian")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = _memory("VmRSS")
    log_likelihood(model, x, samples=1000)
    return _memory("VmHWM") - before


def iwae(x: Tensor, turns: int) -> None:
    """Ratios of the log-likelihood with 5000 samples, and memory."""
    grown = _evaluation_memory(x[:64])
    print("| d | model | time / N-VAE | goal |\n|--:|---|--:|--:|")
    for d in (2, 10, 20):
        steps = {name: partial(_evaluate, _model(d, c, posterior), x[:8]) for name, (c, posterior) in MODELS.items()}
        for name, ratio in _turns(steps, turns).items():
            if name != "N-VAE":
                print(f"| {d} | {name} | {ratio:.2f} | ≤ 1.3 |")
    print(f"\nPeak memory of a batch of 64 images at d = 20 above what was in use: {grown:.0f} MiB, goal ≤ 600.")


def finite(x: Tensor, steps: int) -> int:
    """Settings whose loss is finite and whose divergence is positive after some hundred steps."""
    x = torch.cat((x, x))[: BATCH * steps]  # an epoch of MNIST has 468 steps
    cells = [(d, c) for d in (2, 5, 10, 20) for c in (0.0, 0.1, 0.2, 0.7, 1.4)] + [(64, 1.0), (128, 0.5), (2, 10.0)]
    failed = 0
    config = TrainConfig(max_epochs=1, batch_size=BATCH, validation=0.0, learning_rate=5e-4)
    for d, c in cells:
        for posterior in ("wrapped", "riemannian"):
            try:
                line = fit(_model(d, c, posterior), ArrayTable(x), config).history[-1]
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
    parser.add_argument("what", choices=["step", "map", "iwae", "count", "kernels", "finite"])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, nargs="+", default=[128, 1024])
    parser.add_argument("--d", type=int, nargs="+", default=[2, 10, 20])
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    x = mnist(train=True).x[torch.randperm(60000, generator=torch.Generator().manual_seed(0))]
    if options.what == "finite":
        return int(finite(x, options.steps) > 0)
    if options.what in ("count", "kernels"):
        {"count": count, "kernels": kernels}[options.what](x)
    elif options.what == "step":
        step(x, options.turns, options.batch, options.d)
    else:
        {"map": maps, "iwae": iwae}[options.what](x, options.turns)
    return 0


if __name__ == "__main__":
    sys.exit(main())
