"""Whether both normals stay finite everywhere: `python -m benchmarks.stability [--quick]`.

Each setting of dimension, c, σ and |μ| is constructed, sampled, evaluated by `rsample_and_log_prob` and by
`log_prob(z)`, and differentiated in the location, the scale and c, in both dtypes. What raises, or returns something
that is not finite, is counted; nothing is excused. A second table takes the 280 settings on which the paper's closed
sum for log Z was tried. The exit code is 1 if anything was counted.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import mpmath as mp
import torch
from torch import Tensor

from benchmarks import oracle
from benchmarks.table import markdown, short
from horoball import PoincareBall, RiemannianNormal, WrappedNormal

__all__ = ["Setting", "grid", "main", "outcome"]

_DIMENSIONS = (2, 3, 5, 10, 20, 50, 100, 300, 1024)
_CURVATURES = (0.0, 0.01, 0.1, 0.2, 0.7, 1.0, 1.4, 10.0)
_SCALES = (1e-4, 1e-2, 0.05, 0.1, 0.3, 1.0, 1.7, 3.0, 7.0, 30.0)
_RADII = (0.0, 1.0, 10.0, 40.0)
_SAMPLES = 8
_NORMALS = {"wrapped": WrappedNormal, "Riemannian": RiemannianNormal}
# What the class of the paper's authors gets right of them; on the others it raises, returns NaN or is silently wrong.
_AUTHORS = "171 of 280"


class Setting(NamedTuple):
    """A normal in d dimensions."""

    d: int
    c: float
    sigma: float
    radius: float  # |μ|


def grid(quick: bool) -> list[Setting]:
    every = [Setting(*x) for x in itertools.product(_DIMENSIONS, _CURVATURES, _SCALES, _RADII)]
    return [x for x in every if x.d in (2, 50, 1024)][::11] if quick else every


def outcome(kind: str, setting: Setting, dtype: torch.dtype) -> tuple[str, str]:
    """What happened, "finite", "raises", "NaN" or "inf", and where."""
    torch.manual_seed(0)
    direction = torch.nn.functional.normalize(torch.randn(setting.d, dtype=dtype), dim=-1)
    loc = (setting.radius * direction).requires_grad_()
    scale = torch.tensor([setting.sigma], dtype=dtype, requires_grad=True)
    c = torch.tensor(setting.c, dtype=dtype, requires_grad=True)
    try:
        q = _NORMALS[kind](loc, scale, PoincareBall(c))
        z, log_q = q.rsample_and_log_prob((_SAMPLES,))
        log_p = q.log_prob(z)
        ((z * torch.randn_like(z)).sum() + log_q.sum() + log_p.sum()).backward()
    except Exception as error:
        return "raises", f"{type(error).__name__}: {error}"
    return _worst_of({"z": z, "log_q": log_q, "log_prob": log_p, "∂loc": loc.grad, "∂scale": scale.grad, "∂c": c.grad})


def _worst_of(tensors: dict[str, Tensor | None]) -> tuple[str, str]:
    for name, tensor in tensors.items():
        if tensor is None or bool(tensor.isnan().any()):
            return "NaN", name
        if bool(tensor.isinf().any()):
            return "inf", name
    return "finite", ""


def _finite(quick: bool) -> Iterator[tuple[list[str], int]]:
    settings = grid(quick)
    for kind in _NORMALS:
        for dtype in (torch.float64, torch.float32):
            seen: Counter[str] = Counter()
            for setting in settings:
                result, where = outcome(kind, setting, dtype)
                seen[result] += 1
                if result != "finite":
                    print(f"{kind}, {short(dtype)}, {setting}: {result} {where}")
            bad = len(settings) - seen["finite"]
            counts = [str(seen[result]) for result in ("finite", "raises", "NaN", "inf")]
            yield [kind, short(dtype), str(len(settings)), *counts, "FAIL" if bad else "pass"], bad


def _known(quick: bool) -> Iterator[tuple[list[str], int]]:
    """The 280 settings: finite, and log Z within 1e-6 of the truth relative to max(1, |log Z|)."""
    dimensions, curvatures = (2, 3, 5, 10, 20, 30, 50, 100), (0.1, 0.2, 0.7, 1.0, 1.4)
    scales = (0.05, 0.1, 0.3, 1.0, 1.7, 3.0, 7.0)
    settings = [Setting(*x, 0.0) for x in itertools.product(dimensions, curvatures, scales)][:: 6 if quick else 1]
    for dtype in (torch.float64, torch.float32):
        right = 0
        for setting in settings:
            error = _normalizer_error(setting, dtype)
            if outcome("Riemannian", setting, dtype)[0] == "finite" and error <= 1e-6:
                right += 1
            else:
                print(f"{short(dtype)}, {setting}: log Z errs by {error:.1e}")
        bad = len(settings) - right
        yield [short(dtype), f"{right} of {len(settings)}", _AUTHORS, "FAIL" if bad else "pass"], bad


def _normalizer_error(setting: Setting, dtype: torch.dtype) -> float:
    d = setting.d
    scale = torch.tensor([setting.sigma], dtype=dtype)
    c = torch.tensor(setting.c, dtype=dtype)
    got = RiemannianNormal(torch.zeros(d, dtype=dtype), scale, PoincareBall(c)).log_normalizer.item()
    law = oracle.radius_distribution(d, scale.item(), c.item())
    with mp.workdps(36):
        truth = d * mp.log(mp.mpf(scale.item())) + law.J + oracle.log_area(d)
        return float(abs(got - truth) / max(1, abs(truth))) if math.isfinite(got) else math.inf


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stability", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a thin grid, for tests")
    quick = parser.parse_args(argv).quick
    start = time.perf_counter()
    finite, known = list(_finite(quick)), list(_known(quick))
    header = ["normal", "dtype", "settings", "finite", "raises", "NaN", "inf", ""]
    print(f"Sample, log density and gradients in loc, scale and c\n\n{markdown(header, (x for x, _ in finite))}\n")
    header = ["dtype", "horoball right", "authors' class right", ""]
    print(f"Riemannian normal, settings of the closed sum\n\n{markdown(header, (x for x, _ in known))}\n")
    bad = sum(count for _, count in (*finite, *known))
    print(f"{bad} settings failed, {time.perf_counter() - start:.0f} s.")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
