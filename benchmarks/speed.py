"""Speed as ratios, measured side by side: `python -m benchmarks.speed [--quick]`.

Every pair is timed in turns on one thread, some hundred calls a turn, and the median ratio over the turns is printed: a
slow moment of the machine then falls on both. geoopt is measured where it has the operation.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import horoball as hb

Step = Callable[[], Any]


class Row(NamedTuple):
    """One line of the table."""

    what: str
    ratio: float
    goal: float | None  # None where a peer is measured for comparison


def interleaved(subject: Step, reference: Step, turns: int, seconds: float = 0.05) -> float:
    """Median over turns of the time of the subject over that of the reference."""
    for step in (subject, reference):
        for _ in range(3):
            step()
    calls = [max(1, round(seconds / _time(step, 3))) for step in (subject, reference)]
    ratios = []
    for turn in range(turns):
        pair = [(subject, calls[0]), (reference, calls[1])]
        times = dict(enumerate(_time(step, count) for step, count in (pair if turn % 2 else pair[::-1])))
        ratios.append(times[0] / times[1] if turn % 2 else times[1] / times[0])
    return statistics.median(ratios)


def _time(step: Step, count: int) -> float:
    start = time.process_time()  # of this process: what others take of the machine does not count
    for _ in range(count):
        step()
    return (time.process_time() - start) / count


def normals(turns: int, compiled: bool) -> list[Row]:
    """rsample + log_prob + backward against torch's Normal."""
    rows = []
    goals = {("wrapped", 128): 4.0, ("riemannian", 128): 6.0, ("riemannian", 4096): 12.0}
    for batch, d in ((128, 2), (128, 10), (128, 20), (4096, 2), (4096, 20)):
        loc, scale, reference = _normal(batch, d)
        for name, kind in (("wrapped", hb.WrappedNormal), ("riemannian", hb.RiemannianNormal)):
            goal = 5.0 if (name, batch, d) == ("riemannian", 4096, 20) else goals.get((name, batch))
            step = _sampling(kind, loc, scale, validate=True)
            rows.append(Row(f"{name} normal / Normal, B = {batch}, d = {d}", interleaved(step, reference, turns), goal))
            if compiled and batch == 128 and d in (2, 20) and name == "riemannian":
                step = _sampling(kind, loc, scale, validate=False, compile_it=True)
                ratio = interleaved(step, reference, turns)
                rows.append(Row(f"{name} normal, compiled / Normal, B = {batch}, d = {d}", ratio, 3.5))
    return rows


def _normal(batch: int, d: int) -> tuple[Tensor, Tensor, Step]:
    loc = torch.randn(batch, d, requires_grad=True)
    scale = torch.rand(batch, 1).add_(0.5).requires_grad_()

    def reference() -> None:
        q = torch.distributions.Normal(loc, scale.expand(batch, d))
        z = q.rsample()
        (q.log_prob(z).sum(-1).mean() + z.sum()).backward()

    return loc, scale, reference


def _sampling(kind: Callable[..., Any], loc: Tensor, scale: Tensor, validate: bool, compile_it: bool = False) -> Step:
    ball = hb.PoincareBall(1.0)

    def loss(loc: Tensor, scale: Tensor) -> Tensor:
        q = kind(loc, scale, ball, validate_args=None if validate else False)
        z, log_q = q.rsample_and_log_prob()
        return log_q.mean() + z.sum()

    if compile_it:
        torch._dynamo.reset()
        loss = torch.compile(loss, fullgraph=True, dynamic=False)
    return lambda: loss(loc, scale).backward()


def layers(turns: int) -> list[Row]:
    """Gyroplane against Linear, alone and in the decoder of the paper."""
    rows = []
    ball = hb.PoincareBall(1.0)
    for features, batch in ((2, 3200), (20, 3200), (2, 12800)):
        z, grad = torch.randn(batch, features, requires_grad=True), torch.randn(batch, 600)
        ours = _backward(hb.nn.Gyroplane(features, 600, ball), z, grad)
        ratio = interleaved(ours, _backward(nn.Linear(features, 600), z, grad), turns)
        rows.append(Row(f"Gyroplane / Linear, {features}→600, {batch} rows", ratio, 3.0))
    for batch, goal in ((128, None), (3200, 1.15)):
        z, grad = torch.randn(batch, 2, requires_grad=True), torch.randn(batch, 784)
        ours, plain = (
            _backward(nn.Sequential(layer, nn.ReLU(), nn.Linear(600, 784)), z, grad)
            for layer in (hb.nn.Gyroplane(2, 600, ball), nn.Linear(2, 600))
        )
        ratio = interleaved(ours, plain, turns)
        rows.append(Row(f"decoder 2→600→784, gyroplane / linear, {batch} rows", ratio, goal))
    return rows


def _backward(layer: nn.Module, z: Tensor, grad: Tensor) -> Step:
    return lambda: layer(z).backward(grad)


def peers(turns: int) -> list[Row]:
    """geoopt's exponential map and distance to hyperplanes beside ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # geoopt warns at import of torch.jit's deprecation
        try:
            import geoopt
        except ImportError:
            return []
    ball, theirs = hb.PoincareBall(1.0), geoopt.PoincareBall(c=1.0)
    rows = []
    z, v = (torch.randn(4096, 10, requires_grad=True) for _ in range(2))
    x = ball.to_ball(z).detach().requires_grad_()
    plain = _sum_backward(lambda: z + v)
    rows.append(
        Row("exp / sum of vectors, 4096 × 10", interleaved(_sum_backward(lambda: ball.exp(z, v)), plain, turns), None)
    )
    step = _sum_backward(lambda: theirs.expmap(x, v))
    rows.append(Row("  the same, geoopt 0.5.1", interleaved(step, plain, turns), None))
    rows += _transports(ball, theirs, turns)
    points, grad = torch.randn(320, 2, requires_grad=True), torch.randn(320, 600)
    point, normal = (
        (0.3 * torch.randn(600, 2)).tanh_().mul_(0.5).requires_grad_(),
        torch.randn(600, 2, requires_grad=True),
    )
    inside = ball.to_ball(points).detach().requires_grad_()
    linear = _backward(nn.Linear(2, 600), points, grad)
    ours = _backward(hb.nn.Gyroplane(2, 600, ball), points, grad)
    rows.append(Row("Gyroplane / Linear, 2→600, 320 rows", interleaved(ours, linear, turns), None))

    def their_layer() -> None:
        distance = theirs.dist2plane(x=inside.unsqueeze(-2), p=point, a=normal, signed=True, scaled=True)
        distance.backward(grad)

    rows.append(Row("  the same, geoopt 0.5.1 dist2plane", interleaved(their_layer, linear, turns), None))
    return rows


def _transports(ball: hb.PoincareBall, theirs: Any, turns: int) -> list[Row]:
    """Parallel transport and distance beside geoopt's for a batch, where what costs is to start operations."""
    rows = []
    for d in (2, 10):
        z, y, v = (torch.randn(128, d) for _ in range(3))
        ends = ball.to_ball(z), ball.to_ball(y)
        ratio = interleaved(partial(ball.transport, z, y, v), partial(theirs.transp, *ends, v), turns)
        rows.append(Row(f"transport / geoopt 0.5.1, 128 × {d}, without gradients", ratio, 2.0))
        ratio = interleaved(partial(ball.dist, z, y), partial(theirs.dist, *ends), turns)
        rows.append(Row(f"dist / geoopt 0.5.1, 128 × {d}, without gradients", ratio, 1.5))
        z, y, v, x, w = (part.clone().requires_grad_() for part in (z, y, v, *ends))
        ours, other = _sum_backward(partial(ball.transport, z, y, v)), _sum_backward(partial(theirs.transp, x, w, v))
        ratio = interleaved(ours, other, turns)
        rows.append(Row(f"transport / geoopt 0.5.1, 128 × {d}, with gradients", ratio, 2.0))
    return rows


def _sum_backward(f: Callable[[], Tensor]) -> Step:
    return lambda: f().sum().backward()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few turns and nothing compiled")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    turns = 5 if options.quick else 25
    rows = normals(turns, compiled=not options.quick) + layers(turns) + peers(turns)
    print(f"torch {torch.__version__}, one thread, median of {turns} interleaved turns, forward + backward\n")
    print("| | ratio | goal |\n|---|--:|--:|")
    for row in rows:
        met = "" if row.goal is None else f"≤ {row.goal:g}" + ("" if row.ratio <= row.goal else " missed")
        print(f"| {row.what} | {row.ratio:.2f} | {met} |")
    return int(any(row.goal is not None and row.ratio > row.goal for row in rows))


if __name__ == "__main__":
    sys.exit(main())
