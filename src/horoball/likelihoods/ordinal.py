"""The ordinal likelihood, for ratings and other levels that have an order but no distances."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, softplus

from horoball.likelihoods.levels import Levels
from horoball.likelihoods.registry import register_likelihood

__all__ = ["Ordinal"]

_FAR = 1e4  # stands for ±∞ among thresholds: σ(±_FAR) is 1 or 0 to the last digit, and its gradient is 0


@register_likelihood
class Ordinal(Levels):
    """Ordered levels 0 … k − 1 by a cumulative logit: P(x ≤ j) = σ(θ_j − h), with learned thresholds θ₀ < θ₁ < ….

    The decoder gives one number h for each feature; the thresholds say how far apart the levels are. "auto" chooses it
    for columns of a mixed table only.

    Args:
        features: Number of features.
        classes: Levels of each feature, or of all of them.

    Example:
        >>> Ordinal(1, classes=4)(torch.zeros(1)).log_prob(torch.tensor([0.0])).exp().detach()
        tensor(0.2500)
    """

    name = "ordinal"
    options = ("classes",)

    def __init__(self, features: int, classes: int | Sequence[int] = 2) -> None:
        super().__init__(features, classes)
        self.first = nn.Parameter(torch.zeros(features))
        self.gaps = nn.Parameter(torch.zeros(self.classes - 2, features))  # softplus of it is the distance
        self.start_at_shares(torch.stack([_even(size, self.classes) for size in self.sizes]))

    def thresholds(self) -> Tensor:
        """θ of each feature, shape (features, most levels − 1)."""
        first = self.first.unsqueeze(-1)
        return torch.cat((first, first + softplus(self.gaps).cumsum(0).T), -1)

    def logits(self, h: Tensor) -> Tensor:
        """log P(x = j) = log(1 − exp(θ_{j−1} − θ_j)) + log σ(θ_j − h) + log σ(h − θ_{j−1}), which does not cancel."""
        theta, most = self.thresholds(), self.classes
        low = torch.nn.functional.pad(theta, (1, 0), value=-_FAR)
        high = torch.nn.functional.pad(theta, (0, 1), value=_FAR)
        level = torch.arange(most, device=h.device)
        last, beyond = level == self.sizes_of.unsqueeze(-1) - 1, level >= self.sizes_of.unsqueeze(-1)
        high = torch.where(last, _FAR, high)
        width = torch.where(beyond, 1.0, high - low)
        h = h.unsqueeze(-1)
        found = torch.log(-torch.expm1(-width)) + logsigmoid(high - h) + logsigmoid(h - low)
        return torch.where(beyond, -1e9, found)

    @torch.no_grad()
    def start_at_shares(self, shares: Tensor) -> Tensor:
        """Set the thresholds so that h = 0 gives each level its share."""
        # A level that was never seen gets one row in ten thousand, or its threshold would be infinite.
        for row, (share, size) in enumerate(zip(shares, self.sizes, strict=True)):
            smooth = (share[:size] + 1e-4) / (share[:size] + 1e-4).sum()
            below = smooth.cumsum(0)[:-1].clamp(1e-6, 1 - 1e-6)
            theta = torch.logit(below)
            self.first[row] = theta[0]
            gap = (theta[1:] - theta[:-1]).clamp_min(1e-3)
            self.gaps[: size - 2, row] = gap + torch.log(-torch.expm1(-gap))
        return shares.new_zeros(self.features)

    def start_at(self, mean: Tensor) -> Tensor:
        """0: the thresholds hold the shares of the levels."""
        return torch.zeros_like(mean)

    @classmethod
    def network_input(cls, x: Tensor, sizes: Sequence[int]) -> Tensor:
        """Levels from −1 to 1."""
        return x * (2 / (x.new_tensor(sizes) - 1)) - 1


def _even(size: int, most: int) -> Tensor:
    share = torch.zeros(most)
    share[:size] = 1 / size
    return share
