"""Is a GPU faster, and are its numbers those of the CPU? `python -m benchmarks.device [--device auto] [--quick]`.

A training step is bound, gradients and Adam on images of 784 pixels, hidden 600, d = 10. The bare model is the
Euclidean one in torch's own layers and distributions. Nothing is read between steps; the device is waited for at the
end. Nobody has run this on a GPU yet: please send what it prints, with an issue.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from benchmarks.table import markdown
from horoball.devices import available, resolved
from horoball.training import TrainConfig
from horoball.vae import VAE, ModelConfig
from horoball.vae.train import TableObjective

__all__ = ["main"]

_MODELS = {"c = 0": (0.0, "wrapped"), "wrapped": (1.0, "wrapped"), "Riemannian": (1.0, "riemannian")}
Step = Callable[[], Tensor]


class Bare(nn.Module):
    """The Euclidean variational auto-encoder, as one would write it."""

    def __init__(self, d: int = 10) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(784, 600), nn.ReLU(), nn.Linear(600, d + 1))
        self.decoder = nn.Sequential(nn.Linear(d, 600), nn.ReLU(), nn.Linear(600, 784))
        self.d = d

    def forward(self, x: Tensor) -> Tensor:
        """The loss and its terms, summed over rows."""
        loc, raw = self.encoder(x).split((self.d, 1), -1)
        q = torch.distributions.Normal(loc, softplus(raw).expand_as(loc), validate_args=False)
        z = q.rsample()
        kl = (q.log_prob(z) + z.square() / 2).sum()
        reconstruction = binary_cross_entropy_with_logits(self.decoder(z), x, reduction="sum")
        return torch.stack((kl + reconstruction, reconstruction, kl))


def model(name: str) -> nn.Module:
    """An objective; the same weights each time."""
    torch.manual_seed(0)
    if name == "bare":
        return Bare()
    c, posterior = _MODELS[name]
    config = ModelConfig(features=784, d=10, c=c, posterior=posterior, likelihood="bernoulli", hidden=(600,))
    return TableObjective(VAE.from_config(config), TrainConfig())


def training_step(module: nn.Module, x: Tensor) -> Step:
    """A step with noise from the CPU, as in training."""
    optimizer = torch.optim.Adam(module.parameters(), fused=True)
    generator = torch.Generator().manual_seed(0)
    options = {} if isinstance(module, Bare) else {"generator": generator}

    def step() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        losses = module(x, **options)
        (losses[0] / len(x)).backward()
        optimizer.step()
        return losses

    return step


def milliseconds(step: Step, steps: int, turns: int) -> float:
    """Median time of a step over turns."""
    times = []
    for turn in range(turns + 1):
        start = time.perf_counter()
        for _ in range(steps):
            losses = step()
        losses.tolist()  # which waits
        if turn:  # the first warms up
            times.append((time.perf_counter() - start) / steps * 1000)
    return statistics.median(times)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.device", description=__doc__)
    parser.add_argument("--device", default="auto", help=f"one of {', '.join(available())}, or auto")
    parser.add_argument("--quick", action="store_true", help="few steps, for tests")
    options = parser.parse_args(arguments)
    device = resolved(options.device)
    steps, turns = (2, 1) if options.quick else (50, 5)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    print(f"torch {torch.__version__}, {name}, {torch.get_num_threads()} threads on the CPU\n")
    lines, gaps = [], []
    for batch in (128,) if options.quick else (128, 1024, 8192):
        x = torch.rand(batch, 784, generator=torch.Generator().manual_seed(0)).round()
        bare: list[float] = []
        for label in ("bare", *_MODELS):
            placed = [(module, x.to(place)) for place in ("cpu", device) for module in [model(label).to(place)]]
            if label != "bare" and batch == 128:
                gaps.append([label, f"{_gap(label, *placed[1], x):.1e}"])
            times = [milliseconds(training_step(*each), steps, turns) for each in placed]
            bare = bare or times
            ratios = [f"{own / of_bare:.2f}" for own, of_bare in zip(times, bare, strict=True)]
            lines.append([str(batch), label, *(f"{own:.2f}" for own in times), *ratios])
    print(markdown(["batch", "model", "CPU, ms", f"{device.type}, ms", "CPU / bare", f"{device.type} / bare"], lines))
    print("\nLargest difference of a step's losses from the CPU's, relative\n")
    print(markdown(["model", "difference"], gaps))
    return 0


def _gap(label: str, placed: nn.Module, there: Tensor, here: Tensor) -> float:
    with torch.no_grad():
        got, truth = (
            module(x, generator=torch.Generator().manual_seed(0)).cpu().double()
            for module, x in ((placed, there), (model(label), here))
        )
    return float(((got - truth) / truth).abs().max())


if __name__ == "__main__":
    sys.exit(main())
