"""Likelihoods with more zeros than counts have by themselves, and for counts that are no longer whole numbers."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from horoball.data.tables.standardizer import Summary
from horoball.distributions.counts import zero_inflated
from horoball.likelihoods.counts import NegativeBinomial
from horoball.likelihoods.registry import register_likelihood

__all__ = ["ZeroInflatedGamma", "ZeroInflatedNegativeBinomial"]

_START = -3.0  # logit of the first share of extra zeros, 1 in 20: the mean explains most zeros, so let it try first


@register_likelihood
class ZeroInflatedNegativeBinomial(NegativeBinomial):
    """Negative binomial counts, each replaced by 0 with a probability that depends on z.

    The decoder gives two numbers per feature: that of the mean, as for `NegativeBinomial`, and the logit of π. Use it
    where zeros come from the measurement, as of protocols without molecular identifiers; counts of molecules rarely
    need it.

    Args:
        features: Number of features.
        library: Whether μ is ℓ·softmax(h), with ℓ given to `forward`.

    Example:
        >>> ZeroInflatedNegativeBinomial(2)(torch.zeros(4)).mean
        tensor([0.3466, 0.3466])
    """

    name = "zero_inflated_negative_binomial"
    distribution: Any = zero_inflated.ZeroInflatedNegativeBinomial

    @property
    def outputs(self) -> int:
        """Size of the decoder's output: a mean and a logit per feature."""
        return 2 * self.features

    def forward(self, h: Tensor, library: Tensor | None = None) -> Distribution:
        """The distribution of x, from means and logits side by side.

        Args:
            h: The decoder's output, shape (*batch, 2·features).
            library: ℓ, the counts of each row, shape (*rows) that broadcasts to (*batch).
        """
        logits = h[..., self.features :]
        log_mean = self.log_mean(h, library).expand(logits.shape)
        return self.distribution(log_mean, self.log_dispersion, logits, validate_args=False)

    @classmethod
    def suits(cls, summary: Summary) -> str | None:
        """Never chosen by itself: the numbers alone do not say where zeros come from."""
        del summary
        return None

    def start_at(self, mean: Tensor) -> Tensor:
        """The start of the base, for a mean that the first zeros reduce to the given one."""
        start = super().start_at(mean * (1 + math.exp(_START)))
        return torch.cat((start, torch.full_like(start, _START)))

    def observed_log_prob(self, distribution: Distribution, x: Tensor, observed: Tensor) -> Tensor:
        """log p of the features that were observed."""
        base: Any = distribution
        return torch.where(observed, base.log_prob_each(torch.where(observed, x, 0.0)), 0.0).sum(-1)


@register_likelihood
class ZeroInflatedGamma(ZeroInflatedNegativeBinomial):
    """0 with a probability that depends on z, otherwise gamma with one learned shape per feature.

    For counts that are no longer whole numbers, such as those corrected for ambient RNA or shared out among
    transcripts. Means are those of the numbers above 0.

    Args:
        features: Number of features.
        library: Whether μ is ℓ·softmax(h), with ℓ given to `forward`.

    Example:
        >>> ZeroInflatedGamma(1)(torch.tensor([1.0, 0.0])).log_prob(torch.tensor([0.0])).exp().detach()
        tensor(0.5000)
    """

    name = "zero_inflated_gamma"
    distribution = zero_inflated.ZeroInflatedGamma

    @property
    def domain(self) -> str:
        """What the rows hold, in words."""
        return f"numbers from 0 on ({self.name})"

    @classmethod
    def check(cls, summary: Summary, *, library: bool = False, **options: Any) -> None:
        """Reject negative numbers, and rows that are all 0 if they are shares of a library."""
        low = float(summary.low.min())
        if low < 0:
            raise ValueError(f"The likelihood {cls.name} needs numbers from 0 on, but the table holds {low:g}.")
        if library:
            cls.check_library(summary)

    def impossible(self, x: Tensor, *, whole: bool = False) -> Tensor:
        """Negative numbers."""
        del whole
        return super().impossible(x, whole=False)
