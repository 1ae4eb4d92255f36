"""Accuracy without float64, as on Apple's GPUs: the same formulas with one scalar per point in float32 too.

Values are of generic points up to √cR = 12, normwise, relative to max(1, size of the truth). Densities are of
posteriors that far out, at points drawn from them. The CPU is told to have no float64 for the while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mpmath as mp
import torch
from torch import Tensor

from benchmarks import oracle
from benchmarks.geometry import distance, generic, layer
from benchmarks.table import Row, worst
from horoball import PoincareBall, WrappedNormal, devices

__all__ = ["rows", "without_float64"]

_REACH, _BAR = 12.0, 1e-5
_CURVATURES = (0.125, 1.0, 1.4)


@contextmanager
def without_float64() -> Iterator[None]:
    """Within this context the CPU does what a device without float64 would do."""
    devices.WITHOUT_FLOAT64.add("cpu")
    try:
        yield
    finally:
        devices.WITHOUT_FLOAT64.discard("cpu")


def _quantities(ball: PoincareBall, z: Tensor, y: Tensor, v: Tensor) -> dict[str, tuple[Callable[[], Tensor], Any]]:
    """What is computed, and the truth for one point of each."""
    weight, bias, scale = v[:1].clone(), torch.tensor([0.3]), torch.full((1,), 0.7)

    def log_prob(mu: Any, at: Any, c: Any) -> Any:
        return oracle.log_wrapped_normal(oracle.log(mu, at, c), mp.mpf(float(scale)), c)

    def gyroplane(point: Any, c: Any) -> Any:
        return oracle.gyroplane(point, oracle.exact(weight)[0], mp.mpf(float(bias)), c)

    near = ball.exp(z, 0.7 * v).detach()  # float32 as it stands: both get the same numbers
    return {
        "dist": (lambda: ball.dist(z, y), (oracle.dist, z, y)),
        "exp": (lambda: ball.exp(z, v), (oracle.exp, z, v)),
        "log": (lambda: ball.log(z, y), (oracle.log, z, y)),
        "log_volume": (lambda: ball.log_volume(v), (oracle.log_volume, v)),
        "gyroplane": (lambda: layer(y, weight, bias, ball).squeeze(-1), (gyroplane, y)),
        "log_prob, wrapped": (lambda: WrappedNormal(z, scale, ball).log_prob(near), (log_prob, z, near)),
    }


def rows(quick: bool) -> Iterator[Row]:
    """The worst error of each quantity."""
    generator = torch.Generator().manual_seed(4)
    errors: dict[str, list[float]] = {}
    for d in (2, 10) if quick else (2, 3, 5, 10, 20):
        for c in _CURVATURES:
            z, y = (generic(4 if quick else 16, d, _REACH, c, generator).float() for _ in range(2))
            v = torch.randn(len(z), d, generator=generator)
            for name, (compute, (f, *points)) in _quantities(PoincareBall(c), z, y, v).items():
                with without_float64():
                    got = compute()
                with oracle.digits(3 * _REACH):
                    exact = zip(*(oracle.exact(point) for point in points), strict=True)
                    truth = [f(*point, mp.mpf(c)) for point in exact]
                    errors.setdefault(name, []).append(distance(got, truth))
    for name, found in errors.items():
        # Near a hyperplane, and near the mean of a posterior far out, float32 points themselves are that coarse.
        bar = None if name in ("gyroplane", "log_prob, wrapped") else _BAR
        yield Row(f"{name}, without float64", f"√cR ≤ {_REACH:g}, d 2…20", torch.float32, worst(found), bar)
