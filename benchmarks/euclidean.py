"""Accuracy at c = 0: the Euclidean formulas for a number and for a tensor c, and the derivative in c there.

Values are compared in units of the last place, normwise; of a sum, of the size of its terms, as a dot product of
torch's own has it. Derivatives are relative to max(1, |truth|).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
import torch
from torch import Tensor

from benchmarks import oracle
from benchmarks.geometry import layer
from benchmarks.radius import relative
from benchmarks.table import Row, worst
from horoball import PoincareBall, RiemannianNormal, WrappedNormal

__all__ = ["rows"]


class _Inputs(NamedTuple):
    z: Tensor
    y: Tensor
    weight: Tensor
    bias: Tensor
    scale: Tensor


def _draw(d: int, dtype: torch.dtype, generator: torch.Generator) -> _Inputs:
    z, y, weight, bias = (torch.randn(k, generator=generator, dtype=torch.float64).to(dtype) for k in (d, d, d, 1))
    scale = torch.rand(1, generator=generator, dtype=torch.float64).to(dtype) + 0.5
    return _Inputs(z, y, weight, bias, scale)


def _ours(x: _Inputs, ball: PoincareBall) -> dict[str, Callable[[], Tensor]]:
    return {
        "dist": lambda: ball.dist(x.z, x.y),
        "exp": lambda: ball.exp(x.z, x.y),
        "log": lambda: ball.log(x.z, x.y),
        "log_volume": lambda: ball.log_volume(x.y),
        "gyroplane": lambda: layer(x.z, x.weight.unsqueeze(0), x.bias, ball).squeeze(),
        "log Z": lambda: RiemannianNormal(x.z, x.scale, ball).log_normalizer,
        "log_prob, wrapped": lambda: WrappedNormal(x.z, x.scale, ball).log_prob(x.y),
        "log_prob, Riemannian": lambda: RiemannianNormal(x.z, x.scale, ball).log_prob(x.y),
    }


def _truths(x: _Inputs) -> dict[str, Callable[[Any], Any]]:
    """As functions of c, right at 0 in value and first derivative."""
    z, y, weight, bias, scale = (oracle.exact(tensor) for tensor in x)
    d, sigma = len(z), scale[0]
    law = oracle.radius_distribution(d, float(sigma), 0.0)
    log_normalizer = d * mp.log(sigma) + law.J + oracle.log_area(d)

    def normalizer(c: Any) -> Any:
        return log_normalizer + c * law.n * sigma**2 * law.M / 2

    return {
        "dist": lambda c: oracle.dist(z, y, c),
        "exp": lambda c: oracle.exp(z, y, c),
        "log": lambda c: oracle.log(z, y, c),
        "log_volume": lambda c: oracle.log_volume(y, c),
        "gyroplane": lambda c: oracle.gyroplane(z, weight, bias[0], c),
        "log Z": normalizer,
        "log_prob, wrapped": lambda c: oracle.log_wrapped_normal(oracle.log(z, y, c), sigma, c),
        "log_prob, Riemannian": lambda c: -((oracle.dist(z, y, c) / sigma) ** 2) / 2 - normalizer(c),
    }


_GROUPS = {
    "dist, exp, log, log_volume": ("dist", "exp", "log", "log_volume"),
    "gyroplane": ("gyroplane",),
    "log_prob, wrapped": ("log_prob, wrapped",),
    "log Z and log_prob, Riemannian": ("log Z", "log_prob, Riemannian"),
}


def _terms(x: _Inputs) -> dict[str, float]:
    """Sizes of the largest terms of those that are sums."""
    normalizer = len(x.z) * (abs(math.log(x.scale.item())) + math.log(2 * math.pi) / 2)
    density = normalizer + ((x.z - x.y) / x.scale).square().sum().item() / 2
    return {
        "gyroplane": (x.z * x.weight).abs().sum().item() + x.bias.abs().item(),
        "log Z": normalizer,
        "log_prob, wrapped": density,
        "log_prob, Riemannian": density,
    }


def rows(quick: bool) -> Iterator[Row]:
    generator = torch.Generator().manual_seed(2)
    dimensions = (2, 10) if quick else (2, 3, 5, 10, 20, 50)
    over = "c = 0, d 2…50"
    places: dict[tuple[str, str, torch.dtype], list[float]] = {}
    slopes: dict[tuple[str, torch.dtype], list[float]] = {}
    for dtype in (torch.float64, torch.float32):
        for d in dimensions:
            for _ in range(2 if quick else 12):
                x = _draw(d, dtype, generator)
                with oracle.digits(0):
                    for name, truth in _truths(x).items():
                        slopes.setdefault((name, dtype), []).append(_slope_error(name, x, truth, generator))
                        for kind, c in (("number", 0.0), ("tensor", torch.zeros((), dtype=dtype))):
                            got, terms = _ours(x, PoincareBall(c))[name](), _terms(x).get(name, 0.0)
                            places.setdefault((name, kind, dtype), []).append(_places(got, truth(mp.mpf(0)), terms))
    for group, names in _GROUPS.items():
        for kind in ("number", "tensor"):
            for dtype in (torch.float64, torch.float32):
                error = worst(worst(places[name, kind, dtype]) for name in names)
                # log Z is an integral at c = 0 too; its bar is that of the radius law, 1e-12
                yield Row(f"{group}, c a {kind}, ulp", over, dtype, error, None if "log Z" in names else 2.0)
    for name in (name for names in _GROUPS.values() for name in names):
        for dtype, bar in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
            yield Row(f"∂/∂c {name}", over, dtype, worst(slopes[name, dtype]), bar)


def _places(got: Tensor, truth: Any, terms: float) -> float:
    """The normwise error in units of the last place of the truth, or of the terms where they are larger."""
    if not bool(got.isfinite().all()):
        return math.inf
    gap, size = (mp.norm(list(np.ravel(x))) for x in (oracle.exact(got) - truth, truth))
    return float(gap / max(1, size, terms)) / torch.finfo(got.dtype).eps


def _slope_error(name: str, x: _Inputs, truth: Callable[[Any], Any], generator: torch.Generator) -> float:
    c = torch.zeros((), dtype=x.z.dtype, requires_grad=True)
    value = _ours(x, PoincareBall(c))[name]()
    g = torch.randn(value.shape, generator=generator).to(value.dtype)
    (slope,) = torch.autograd.grad(value, c, g)
    (expected,) = oracle.gradient(lambda at: np.sum(oracle.exact(g) * truth(at)), mp.mpf(0))
    return relative(slope, expected)
