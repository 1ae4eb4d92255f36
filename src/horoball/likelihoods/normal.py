"""The normal likelihood, for real numbers."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.distributions import Normal as TorchNormal

from horoball.data.tables.standardizer import Summary
from horoball.distributions.features import Features
from horoball.likelihoods.likelihood import Likelihood
from horoball.likelihoods.registry import register_likelihood

__all__ = ["Normal"]

_MIN_RELATIVE_SPREAD = 0.1  # spread in units of the others' below which a feature has next to nothing to say
_MIN_SCALE = 0.01  # of a learned standard deviation: a feature copied exactly would make the likelihood infinite


@register_likelihood
class Normal(Likelihood):
    """Normal with unit variance, or with one learned standard deviation per feature.

    Args:
        features: Number of features.
        learn_scale: Whether the standard deviations are learned; they start at 1 and stay above 0.01.

    Example:
        >>> Normal(3)(torch.zeros(2, 3)).log_prob(torch.zeros(2, 3))
        tensor([-2.7568, -2.7568])
    """

    name = "normal"
    options = ("learn_scale",)
    preference = 100  # it suits every table, so the others are asked first
    standardizes = True

    def __init__(self, features: int, learn_scale: bool = False) -> None:
        super().__init__(features)
        self.log_scale = nn.Parameter(torch.full((features,), math.log(1 - _MIN_SCALE))) if learn_scale else None

    def forward(self, h: Tensor) -> Distribution:
        """Normal with mean h."""
        scale = (
            torch.ones((), dtype=h.dtype, device=h.device)
            if self.log_scale is None
            else self.log_scale.exp() + _MIN_SCALE
        )
        return Features(TorchNormal(h, scale, validate_args=False), 1, validate_args=False)

    @classmethod
    def suits(cls, summary: Summary) -> str | None:
        """Every table."""
        del summary
        return "the values are real numbers"

    @classmethod
    def fields(cls, summary: Summary) -> dict[str, Any]:
        """Standard deviations are learned."""
        return super().fields(summary) | {"learn_scale": True}

    @torch.no_grad()
    def start_from(self, spread: Tensor) -> None:
        """Start learned standard deviations at the features' own spread, where that is below 1.

        Features that hardly vary start at 1: at their own spread their errors would weigh thousands of times what the
        others' do, and the network would learn to be constant before it learns anything.

        Example:
            >>> likelihood = Normal(3, learn_scale=True)
            >>> likelihood.start_from(torch.tensor([0.5, 2.0, 0.0]))
            >>> likelihood(torch.zeros(3)).stddev.detach()
            tensor([0.5000, 1.0000, 1.0000])
        """
        if self.log_scale is not None:
            start = torch.where(spread < _MIN_RELATIVE_SPREAD, 1.0, spread.clamp_max(1.0))
            self.log_scale.copy_((start - _MIN_SCALE).log())
