"""Whether whole numbers were counted or measured: counts begin near 0 and have a tail that measurements lack."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["MOSTLY_COUNTED", "looks_counted"]

MOSTLY_COUNTED = 2 / 3  # part of the columns of a table that have to look counted

_NEAR_ZERO = 0.25  # of the mean: below this comes the lowest of counts that vary more than Poisson's
_POISSON = 2.0  # variance over mean up to which counts may stay far from 0
_DISPERSION = 0.5  # variance over mean that counts have at least
_SKEW = 0.5  # part of the skewness of a negative binomial that counts have at least


def looks_counted(x: Tensor) -> Tensor:
    r"""For each column of whole numbers from 0 on, whether they look counted; gray values and scores do not.

    A negative binomial of mean μ and variance σ² ≥ μ has the skewness (2σ²/μ − 1)/σ, a Poisson distribution 1/√μ. A
    column looks counted if it has half of that, less two standard errors √(6/n), if its variance is not below half of
    its mean (below what chance leaves of it in a few rows), and if it comes near 0 where it varies more than Poisson's.

    Args:
        x: Rows or a sample of them, shape (n, features).

    Example:
        >>> rows = torch.Generator().manual_seed(0)
        >>> counts = torch.poisson(torch.full((500, 1), 3.0), generator=rows)
        >>> scores = torch.randn(500, 1, generator=rows).mul(20).add(100).round()
        >>> looks_counted(torch.cat((counts, scores), 1))
        tensor([ True, False])
    """
    x = x.double()
    mean, variance = x.mean(0), x.var(0, correction=0)
    std = variance.sqrt().clamp_min(torch.finfo(torch.float64).tiny)
    skew = ((x - mean) / std).pow(3).mean(0)
    ratio = variance / mean.clamp_min(torch.finfo(torch.float64).tiny)
    least = _SKEW * (2 * ratio.clamp_min(1) - 1) / std - 2 * (6 / len(x)) ** 0.5
    near = (ratio <= _POISSON) | (x.amin(0) <= (_NEAR_ZERO * mean).clamp_min(1))
    dispersed = ratio >= min(_DISPERSION, 1 - 3 * (2 / len(x)) ** 0.5)
    return (variance == 0) | (near & dispersed & (skew >= least))
