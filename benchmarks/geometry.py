"""Accuracy of distance, exponential map and gyroplanes, value and vector-Jacobian product, in the tangent chart.

Errors are normwise per point (per hyperplane for weights and biases), relative to max(1, size of the truth). The
oracle gets the very numbers that torch gets.

Note [Generic points]: radii spread over the range, directions random. For gyroplanes generic means besides: not close
to a hyperplane, |Y| at least 1/20 of its terms in f = asinh(κY)/κ. Closer to it f changes with the direction of the
point as 1/Y does, so that the rounding of the point itself moves f and its gradient by as much as is measured; such
points have a row of their own, without a bar.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
import torch
from torch import Tensor

from benchmarks import oracle, peer
from benchmarks.table import Row, worst
from horoball import PoincareBall
from horoball.nn.gyroplane import Gyroplane

__all__ = ["distance", "generic", "layer", "rows", "with_gradients"]

_BARS = {16.0: 1e-5, 80.0: 1e-4}
_CURVATURES = (0.125, 1.0, 1.4)


class Errors(NamedTuple):
    """Of a value and of its gradient."""

    value: float
    gradient: float


def generic(count: int, d: int, reach: float, c: float, generator: torch.Generator) -> Tensor:
    """Points in random directions, √c·radius from reach down, evenly."""
    x = torch.randn(count, d, generator=generator, dtype=torch.float64)
    share = torch.linspace(1, 1 / count, count, dtype=torch.float64)[torch.randperm(count, generator=generator)]
    radius = share * (reach / math.sqrt(c) * (1 - 1e-6))  # still within reach when rounded to float32
    return x * (radius / x.norm(dim=-1)).unsqueeze(-1)


def distance(got: Tensor, truth: Any) -> float:
    """The largest of |got − truth|/max(1, |truth|) over rows, normwise; numbers if truth is one-dimensional."""
    got_, truth = oracle.exact(got) if bool(got.isfinite().all()) else None, np.asarray(truth, dtype=object)
    if got_ is None:
        return math.inf
    gap, size = (np.abs(x)[..., None] if x.ndim < 2 else x for x in (got_ - truth, truth))
    return worst(float(mp.norm(list(e)) / max(1, mp.norm(list(t)))) for e, t in zip(gap, size, strict=True))


def with_gradients(f: Callable[..., Tensor], inputs: tuple[Tensor, ...], cotangent: Tensor) -> tuple[Tensor, ...]:
    """The value of f and its vector-Jacobian product in each input."""
    inputs = tuple(x.detach().clone().requires_grad_() for x in inputs)
    value = f(*inputs)
    return value.detach(), *torch.autograd.grad(value, inputs, cotangent.to(value.dtype))


def _errors(answer: tuple[Tensor, ...], truth: list[Any]) -> Errors:
    value, *gradients = (distance(got, true) for got, true in zip(answer, truth, strict=True))
    return Errors(value, worst(gradients))


def _pairwise(f: Callable[..., Any], inputs: tuple[Tensor, ...], cotangent: Tensor, c: float) -> list[Any]:
    """Truth for a function of one point of each input: values, and gradients in each."""
    values, gradients = [], []
    for g, *points in zip(oracle.exact(cotangent), *(oracle.exact(x) for x in inputs), strict=True):
        values.append(f(*points, mp.mpf(c)))
        gradients.append(oracle.gradient(lambda *at, g=g: np.sum(f(*at, mp.mpf(c)) * g), *points))
    return [np.array(values), *(np.array(list(column)) for column in zip(*gradients, strict=True))]


def _planewise(inputs: tuple[Tensor, ...], cotangent: Tensor, c: float) -> list[Any]:
    """Truth for the gyroplane layer: values and gradients, each pair of a point and a hyperplane by itself."""
    z, w, b = (oracle.exact(x) for x in inputs)
    g = oracle.exact(cotangent)
    values = np.array([[oracle.gyroplane(p, q, r, mp.mpf(c)) for q, r in zip(w, b, strict=True)] for p in z])
    totals = [0 * z, 0 * w, 0 * b]
    for i, point in enumerate(z):
        for k in range(len(w)):
            rates = oracle.gradient(partial(oracle.gyroplane, c=mp.mpf(c)), point, w[k], b[k])
            for total, row, rate in zip(totals, (i, k, k), rates, strict=True):
                total[row] = total[row] + g[i, k] * rate
    return [values, *totals]


def layer(z: Tensor, weight: Tensor, bias: Tensor, ball: PoincareBall) -> Tensor:
    """The gyroplane layer as a function of its parameters too."""
    module = Gyroplane(z.shape[-1], len(weight), ball)
    return torch.func.functional_call(module, {"weight": weight, "bias": bias}, (z,))


class _Case(NamedTuple):
    name: str
    ours: Callable[..., Tensor]
    theirs: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]
    output: tuple[int, ...]
    truth: Callable[..., list[Any]]


def _clear_of(planes: tuple[Tensor, Tensor], z: Tensor, c: float) -> Tensor:
    """Which points are generic for all the hyperplanes."""
    w, b = planes
    x = math.sqrt(c) * b / w.norm(dim=-1)
    lift = PoincareBall(c).to_lorentz(z)
    along, up = lift[:, 1:] @ w.mT * x.cosh(), lift[:, :1] * w.norm(dim=-1) * x.sinh() / math.sqrt(c)
    size = lift[:, 1:].norm(dim=-1, keepdim=True) * w.norm(dim=-1) * x.cosh() + up.abs()
    return ((along + up).abs() > size / 20).all(-1)


def _cases(count: int, d: int, reach: float, c: float, generator: torch.Generator) -> Iterator[_Case]:
    ball = PoincareBall(c)
    z, y = generic(count, d, reach, c, generator), generic(count, d, reach, c, generator)

    def pairs(f: Callable[..., Any]) -> Callable[..., list[Any]]:
        return lambda *given: _pairwise(f, *given)

    yield _Case("dist", ball.dist, peer.dist, (z, y), (count,), pairs(oracle.dist))
    yield _Case("exp", ball.exp, peer.exp, (z, y), (count, d), pairs(oracle.exp))
    planes = (
        torch.randn(3, d, generator=generator, dtype=torch.float64),
        torch.randn(3, generator=generator, dtype=torch.float64),
    )
    many = generic(16 * count, d, reach, c, generator)
    clear = _clear_of(planes, many, c)
    f = partial(layer, ball=ball)
    for name, points in (("gyroplane", many[clear][:count]), ("gyroplane near a plane", many[~clear][:count])):
        yield _Case(name, f, peer.gyroplane, (points, *planes), (len(points), 3), _planewise)


def rows(quick: bool) -> list[Row]:
    found: dict[tuple[str, float, torch.dtype], list[tuple[Errors, Errors]]] = {}
    generator = torch.Generator().manual_seed(0)
    for reach in _BARS:
        for c in _CURVATURES[:: 2 if quick else 1]:
            for d in (2,) if quick else (2, 3, 10):
                for case in _cases(4 if quick else 12, d, reach, c, generator):
                    g = torch.randn(case.output, generator=generator)
                    for dtype in (torch.float64, torch.float32):
                        inputs = tuple(x.to(dtype) for x in case.inputs)
                        with oracle.digits(2 * reach):
                            truth = case.truth(inputs, g, c)
                            ours = _errors(with_gradients(case.ours, inputs, g), truth)
                            theirs = _errors(with_gradients(partial(case.theirs, c=c), inputs, g), truth)
                        found.setdefault((case.name, reach, dtype), []).append((ours, theirs))
    return [*_summary(found), *_near_pairs(quick)]


def _summary(found: dict[tuple[str, float, torch.dtype], list[tuple[Errors, Errors]]]) -> Iterator[Row]:
    for name in dict.fromkeys(case for case, _, _ in found):
        for part in ("value", "gradient"):
            for (case, reach, dtype), errors in found.items():
                if case == name:
                    ours, theirs = (worst(getattr(side, part) for side in sides) for sides in zip(*errors, strict=True))
                    bar = _BARS[reach] if dtype == torch.float32 and "near" not in name else None
                    yield Row(f"{name}, {part}", f"√cR ≤ {reach:g}", dtype, ours, bar, theirs)


def _near_pairs(quick: bool) -> Iterator[Row]:
    """Pairs one unit apart, made in float64 and then rounded to the dtype."""
    generator = torch.Generator().manual_seed(1)
    for dtype, bar in ((torch.float64, 1e-10), (torch.float32, 1e-4)):
        ours, theirs = [], []
        for c in _CURVATURES:
            for d in (2, 5, 20):
                z = generic(8 if quick else 40, d, 8.0, c, generator)
                step = torch.randn(z.shape, generator=generator, dtype=torch.float64)
                y = PoincareBall(c).exp(z, step / step.norm(dim=-1, keepdim=True)).to(dtype)
                z = z.to(dtype)
                with oracle.digits(20):
                    pairs = zip(oracle.exact(z), oracle.exact(y), strict=True)
                    truth = np.array([oracle.dist(p, q, mp.mpf(c)) for p, q in pairs])
                    ours.append(distance(PoincareBall(c).dist(z, y), truth))
                    theirs.append(distance(peer.dist(z, y, c), truth))
        yield Row("dist, pairs 1 apart", "√cR ≤ 8", dtype, worst(ours), bar, worst(theirs))
