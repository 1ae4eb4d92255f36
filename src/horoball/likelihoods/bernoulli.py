"""The Bernoulli likelihood, for values in [0, 1]."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Bernoulli as TorchBernoulli
from torch.distributions import Distribution

from horoball.data.tables.standardizer import Summary
from horoball.distributions.features import BernoulliFeatures
from horoball.likelihoods.likelihood import Likelihood
from horoball.likelihoods.registry import register_likelihood

__all__ = ["Bernoulli"]


@register_likelihood
class Bernoulli(Likelihood):
    """Bernoulli with logits h. Gray values in [0, 1] are taken as in the paper, by the cross-entropy [errata:11].

    Example:
        >>> Bernoulli(2)(torch.zeros(2)).log_prob(torch.tensor([0.0, 0.5]))
        tensor(-1.3863)
    """

    name = "bernoulli"
    preference = 10
    domain = "values in [0, 1]"

    def forward(self, h: Tensor) -> Distribution:
        """Bernoulli with logits h."""
        return BernoulliFeatures(TorchBernoulli(logits=h, validate_args=False), 1, validate_args=False)

    @classmethod
    def suits(cls, summary: Summary) -> str | None:
        """Zeros and ones, and gray values that reach both."""
        low, high = float(summary.low.min()), float(summary.high.max())
        suited = low >= 0 and high <= 1 and (summary.whole or (low == 0 and high == 1))
        return "all values lie in [0, 1]" if suited else None

    @classmethod
    def check(cls, summary: Summary, **options: Any) -> None:
        """Reject values outside [0, 1].

        Example:
            >>> from horoball.data.tables.array_table import ArrayTable
            >>> from horoball.data.tables.standardizer import summarize
            >>> Bernoulli.check(summarize(ArrayTable([[0.0, 1.5]])))
            Traceback (most recent call last):
            ...
            ValueError: The likelihood bernoulli needs values in [0, 1], got 0 to 1.5. Scale them, or take the ...
        """
        low, high = float(summary.low.min()), float(summary.high.max())
        if low < 0 or high > 1:
            raise ValueError(
                f"The likelihood bernoulli needs values in [0, 1], got {low:g} to {high:g}. Scale them, or take the "
                "likelihood normal."
            )

    def impossible(self, x: Tensor, *, whole: bool = False) -> Tensor:
        """Values outside [0, 1]."""
        return super().impossible(x, whole=whole) | (x < 0) | (x > 1)

    def start_at(self, mean: Tensor) -> Tensor:
        """The logit of the mean, held away from 0 and 1."""
        return torch.logit(mean.clamp(1e-4, 1 - 1e-4))
