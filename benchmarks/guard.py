"""Has something become slower? `OMP_NUM_THREADS=1 python -m benchmarks.guard`.

Times relative to the Euclidean twin's, each pair in turns on one thread, are compared with those below, which were
measured in the same way. More than 15 % above fails. A busy moment is not a slower program, so what is above is
measured again, and the lowest of some tries counts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Normal

import horoball as hb
from benchmarks.speed import Step, interleaved
from benchmarks.table import markdown
from horoball.training import elbo
from horoball.vae import VAE, ModelConfig

WORSE, TRIES, TURNS = 1.15, 12, 15
# Medians of six runs with nothing beside, torch 2.13 on an x86 with AVX-512. Lower one when it has become faster;
# raise one with a reason in the commit.
REFERENCE = {
    "training step, Riemannian / Euclidean, d = 2": 1.13,
    "training step, Riemannian / Euclidean, d = 10": 1.07,
    "training step, wrapped / Euclidean, d = 10": 1.15,
    "Riemannian normal / Normal, 128 × 2": 4.32,
    "wrapped normal / Normal, 128 × 2": 2.83,
    "Gyroplane / Linear and logarithms, 2 → 600, 3200 rows": 1.32,
}


def training_step(c: float, posterior: str, d: int) -> Step:
    """A step on 128 images: bound, gradients, Adam."""
    torch.manual_seed(0)
    config = ModelConfig(features=784, d=d, c=c, posterior=posterior, likelihood="bernoulli", hidden=(600,))
    model = VAE.from_config(config)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    x = torch.rand(128, 784).round()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        (-elbo(model, x, kl="sample").value.mean()).backward()
        optimizer.step()

    return step


def sample(law: Callable[[Tensor, Tensor], Any]) -> Step:
    """A sample, its log density, and gradients."""
    loc = torch.randn(128, 2, requires_grad=True)
    scale = torch.rand(128, 1).add_(0.5).requires_grad_()

    def step() -> None:
        q = law(loc, scale)
        if isinstance(q, Normal):
            z = q.rsample()
            log_q = q.log_prob(z).sum(-1)
        else:
            z, log_q = q.rsample_and_log_prob()
        (log_q.mean() + z.sum()).backward()

    return step


def layer(module: nn.Module) -> Step:
    """3200 points through it, and gradients."""
    z, grad = torch.randn(3200, 2, requires_grad=True), torch.randn(3200, 600)
    return lambda: module(z).backward(grad)


def gyroplane(ball: hb.PoincareBall) -> nn.Module:
    """The same hyperplanes each time, with one beyond reach: that takes a pass more, and not every draw has one."""
    torch.manual_seed(4)
    return hb.nn.Gyroplane(2, 600, ball)


def linear_and_logarithms() -> Step:
    """`layer` of a Linear, and the passes that an asinh and its slope take, in pieces that stay in the cache.

    Against a Linear alone the ratio would say how fast a machine's memory is beside its arithmetic.
    """
    linear = nn.Linear(2, 600)
    z, grad = torch.randn(3200, 2, requires_grad=True), torch.randn(3200, 600)

    def step() -> None:
        y = linear(z)
        pieces = y.detach().split(80)
        for piece in pieces:
            piece.square().add_(1).sqrt_().log_()
        y.backward(grad)
        for piece in pieces:
            piece.square().add_(1).sqrt_().reciprocal_()

    return step


def measured() -> dict[str, Callable[[], float]]:
    """How each ratio is measured."""
    ball = hb.PoincareBall(1.0)

    def plain(loc: Tensor, scale: Tensor) -> Normal:
        return Normal(loc, scale.expand_as(loc))

    def step(posterior: str, d: int) -> float:
        return interleaved(training_step(1.0, posterior, d), training_step(0.0, posterior, d), TURNS)

    ours = [
        lambda: step("riemannian", 2),
        lambda: step("riemannian", 10),
        lambda: step("wrapped", 10),
        lambda: interleaved(sample(lambda m, s: hb.RiemannianNormal(m, s, ball)), sample(plain), TURNS),
        lambda: interleaved(sample(lambda m, s: hb.WrappedNormal(m, s, ball)), sample(plain), TURNS),
        lambda: interleaved(layer(gyroplane(ball)), linear_and_logarithms(), TURNS),
    ]
    return dict(zip(REFERENCE, ours, strict=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if something has become slower."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true", help="measure once, and fail for nothing")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows, slower = [], False
    for name, measure in measured().items():
        ratio, most = measure(), WORSE * REFERENCE[name]
        for _ in range(0 if options.report else TRIES - 1):
            if ratio > most:
                ratio = min(ratio, measure())
        slower |= ratio > most
        rows.append([name, f"{ratio:.2f}", f"{REFERENCE[name]:.2f}", "slower" if ratio > most else ""])
    print(markdown(["", "ratio", "reference", ""], rows))
    return int(slower and not options.report)


if __name__ == "__main__":
    sys.exit(main())
