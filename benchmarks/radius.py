"""Accuracy of the radius distribution of the Riemannian normal: log Z, quantiles, and their gradients in σ and c.

Errors are relative to max(1, |truth|), but for probabilities, which are compared as they are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import mpmath as mp
import numpy as np
import torch
from torch import Tensor

from benchmarks import oracle
from benchmarks.oracle import radius_distribution
from benchmarks.table import Row, worst
from horoball import PoincareBall, RiemannianNormal
from horoball.distributions import HyperbolicRadius
from horoball.distributions.radius import draw, log_normalizer

__all__ = ["relative", "rows"]

_DIMENSIONS = (2, 3, 4, 5, 10, 20, 50, 128, 512, 1024, 4096)
_SPLITS = (1.0, 0.01, 1.4, 10.0, 0.2)  # values of c for one √cσ, in turn
_DTYPES = (torch.float64, torch.float32)
_WIDTHS = "√cσ 1e-4…30"


def relative(got: Tensor, truth: Any) -> float:
    """|got − truth|/max(1, |truth|)."""
    value = got.item()
    return math.inf if not math.isfinite(value) else float(abs(mp.mpf(value) - truth) / max(1, abs(truth)))


def _widths(count: int, widest: float = 30.0) -> Iterator[tuple[float, float]]:
    """σ and c for √cσ from 1e-4 to the widest."""
    for i, width in enumerate(np.geomspace(1e-4, widest, count)):
        c = _SPLITS[i % len(_SPLITS)]
        yield float(width) / math.sqrt(c), c


def _leaf(value: float, dtype: torch.dtype) -> Tensor:
    return torch.tensor(value, dtype=dtype, requires_grad=True)


def rows(quick: bool) -> list[Row]:
    with mp.workdps(36):
        return [*_normalizer(quick), *_quantiles(quick), *_sample_gradients(quick)]


def _normalizer(quick: bool) -> Iterator[Row]:
    dimensions = (2, 5, 128, 4096) if quick else _DIMENSIONS
    over = f"d 2…4096, {_WIDTHS}"
    for dtype, bar, bar_gradient in zip(_DTYPES, (1e-12, 1e-6), (1e-10, 1e-5), strict=True):
        errors: dict[str, list[float]] = {"log Z_r": [], "∂log Z/∂σ": [], "∂log Z/∂c": [], "log Z of the normal": []}
        for d in dimensions:
            for width, curvature in _widths(3 if quick else 14):
                sigma, c = _leaf(width, dtype), _leaf(curvature, dtype)
                value = log_normalizer(sigma, c, d)
                value.backward()
                normal = RiemannianNormal(torch.zeros(d, dtype=dtype), sigma.reshape(1), PoincareBall(c))
                numbers = radius_distribution(d, sigma.item(), c.item())
                s = mp.mpf(sigma.item())
                truth = d * mp.log(s) + numbers.J
                gradients = (d + numbers.n * numbers.lam * numbers.M) / s, numbers.n * s**2 * numbers.M / 2
                answers = value, sigma.grad, c.grad, normal.log_normalizer
                truths = truth, *gradients, truth + oracle.log_area(d)
                for found, got, true in zip(errors.values(), answers, truths, strict=True):
                    assert got is not None
                    found.append(relative(got, true))
        for name, found in errors.items():
            yield Row(name, over, dtype, worst(found), bar_gradient if "∂" in name else bar)


def _quantiles(quick: bool) -> Iterator[Row]:
    """|F(icdf(u)) − u|, F by the oracle.

    Far out, where r/σ ≈ (d − 1)√cσ, one unit in the last place of r moves F by its density: 1e-12 at r/σ = 1e4. So the
    bar ends at √cσ = 10, and wider distributions have a row without.
    """
    tails = (1e-9, 0.5) if quick else (1e-9, 1e-6, 1e-3, 0.1, 0.5)
    u = torch.tensor(sorted({*tails, *(1 - p for p in tails)}), dtype=torch.float64)
    for over, widths, bar in (
        ("√cσ 1e-4…10", list(_widths(3 if quick else 7, 10.0)), 1e-12),
        ("√cσ = 30", [(30 / math.sqrt(c), c) for c in _SPLITS[: 1 if quick else 3]], None),
    ):
        by_icdf, by_cdf = [], []
        for (sigma, c), d in itertools.product(widths, (2, 1024) if quick else (2, 3, 5, 10, 50, 128, 1024)):
            numbers = HyperbolicRadius(d, torch.tensor(sigma, dtype=torch.float64), PoincareBall(c))
            r = numbers.icdf(u)
            for radius, probability, lower in zip(r.tolist(), u.tolist(), numbers.cdf(r).tolist(), strict=True):
                truth, _ = radius_distribution(d, sigma, c).tails(mp.mpf(radius) / mp.mpf(sigma))
                by_icdf.append(float(abs(truth - probability)))
                by_cdf.append(float(abs(truth - lower)))
        over = f"u 1e-9…1−1e-9, d 2…1024, {over}"
        yield Row("F(icdf(u)) − u", over, torch.float64, worst(by_icdf), bar)
        yield Row("cdf(r) − F(r)", over, torch.float64, worst(by_cdf))


def _sample_gradients(quick: bool) -> Iterator[Row]:
    """Of the radius drawn from a given standard normal ε, F(r) = Φ(ε)."""
    noise = (-2.0,) if quick else (-6.0, -3.0, -1.0, 0.1, 2.0, 4.5)
    over = f"ε −6…4.5, d 2…1024, {_WIDTHS}"
    for dtype, bar in zip(_DTYPES, (1e-9, 1e-5), strict=True):
        errors: dict[str, list[float]] = {"r given ε": [], "∂r/∂σ given ε": [], "∂r/∂c given ε": []}
        for d in (2, 1024) if quick else (2, 3, 5, 10, 50, 128, 1024):
            for width, curvature in _widths(3 if quick else 7):
                for epsilon in noise:
                    sigma, c = _leaf(width, dtype), _leaf(curvature, dtype)
                    r, _ = draw(sigma, c, torch.tensor(epsilon, dtype=torch.float64), d)
                    r.backward()
                    s = mp.mpf(sigma.item())
                    numbers = radius_distribution(d, sigma.item(), c.item())
                    t = numbers.quantile(epsilon, r.item() / sigma.item())
                    rate = numbers.rate(t)
                    truths = s * t, t + 2 * numbers.lam * rate, s**3 * rate
                    for found, got, true in zip(errors.values(), (r, sigma.grad, c.grad), truths, strict=True):
                        assert got is not None
                        found.append(relative(got, true))
        for name, found in errors.items():
            yield Row(name, over, dtype, worst(found), bar if "∂" in name else None)
