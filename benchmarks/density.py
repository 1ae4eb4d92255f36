"""Accuracy of log densities, from the noise that made the sample, in nats.

The noise is drawn once more from the same seed; the oracle gets the tangent vector v as torch has it. `log_prob(z)` is
compared at the point that torch has, far out a rounded one; without a bar, since it has to find the noise again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import mpmath as mp
import torch
from torch import Tensor

from benchmarks import oracle, peer
from benchmarks.table import Row, worst
from horoball import PoincareBall, RiemannianNormal, WrappedNormal

__all__ = ["rows"]

_SAMPLES = 8
_NORMALS = {"wrapped": WrappedNormal, "Riemannian": RiemannianNormal}


def rows(quick: bool) -> list[Row]:
    return [row for kind in _NORMALS for row in _densities(kind, quick)]


def _truth(kind: str, v: Any, sigma: float, c: float) -> Any:
    if kind == "wrapped":
        return oracle.log_wrapped_normal(v, mp.mpf(sigma), mp.mpf(c))
    return oracle.log_riemannian_normal(mp.sqrt(v @ v), len(v), sigma, c)


def _densities(kind: str, quick: bool) -> Iterator[Row]:
    dimensions = (2, 50) if quick else (2, 5, 20, 50)
    scales = (1e-4, 2.0) if quick else (1e-4, 1e-2, 0.3, 1.0, 2.0)
    over = "R_μ ≤ 12, σ 1e-4…2, d 2…50, c .1…1.4"
    for dtype, bar in ((torch.float64, 1e-9), (torch.float32, 1e-3)):
        gaps, shares, theirs, at_points = [], [], [], []
        for d, c, sigma, R in itertools.product(dimensions, (0.1, 1.0, 1.4), scales, (0.0, 1.0, 12.0)):
            scale = torch.tensor([sigma], dtype=dtype)
            mu = torch.zeros(d, dtype=dtype)
            mu[:2] = torch.tensor([0.6, 0.8], dtype=dtype) * R
            q = _NORMALS[kind](mu, scale, PoincareBall(c))
            torch.manual_seed(d)
            z, log_q = q.rsample_and_log_prob((_SAMPLES,))
            torch.manual_seed(d)
            v, _ = q._draw(z.shape)
            again = q.log_prob(z)
            peers = peer.log_wrapped_normal(mu, v, sigma, c) if kind == "wrapped" else log_q
            with oracle.digits(2 * R):
                for i, noise in enumerate(oracle.exact(v)):
                    truth = _truth(kind, noise, scale.item(), c)
                    gaps.append(_gap(log_q[i], truth))
                    shares.append(gaps[-1] / float(max(1, abs(truth))))
                    theirs.append(_gap(peers[i], truth))
                    back = oracle.log(oracle.exact(mu), oracle.exact(z[i]), mp.mpf(c))
                    at_point = _truth(kind, back, scale.item(), c)
                    at_points.append(_gap(again[i], at_point) / float(max(1, abs(at_point))))
        compared = worst(theirs) if kind == "wrapped" else None
        yield Row(f"log_prob of a sample, {kind}, nats", over, dtype, worst(gaps), bar, compared)
        yield Row(f"log_prob of a sample, {kind}, relative", over, dtype, worst(shares))
        yield Row(f"log_prob(z) at a sample, {kind}, relative", over, dtype, worst(at_points))


def _gap(got: Tensor, truth: Any) -> float:
    return float(abs(mp.mpf(got.item()) - truth))
