"""The log-normal likelihood, for positive numbers whose spread grows with their size: incomes, prices, areas."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.distributions import LogNormal as TorchLogNormal

from horoball.data.tables.standardizer import Summary
from horoball.distributions.features import Features
from horoball.likelihoods.likelihood import Likelihood
from horoball.likelihoods.registry import register_likelihood

__all__ = ["LogNormal"]

_MIN_SCALE = 0.01  # of a learned standard deviation of the logarithm, as for the normal likelihood


class _LogNormalFeatures(Features):
    """Features whose samples come from a generator too."""

    @torch.no_grad()
    def sample(self, sample_shape: Any = (), generator: torch.Generator | None = None) -> Tensor:
        base: Any = self.base_dist.base_dist
        shape = self.base_dist._extended_shape(torch.Size(sample_shape))
        # Where the generator is, so that a seed gives the same numbers on every device.
        device = base.loc.device if generator is None else generator.device
        loc, scale = base.loc.to(device).expand(shape), base.scale.to(device).expand(shape)
        return torch.normal(loc, scale, generator=generator).exp().to(base.loc.device)


@register_likelihood
class LogNormal(Likelihood):
    """log x is normal with mean h and one learned standard deviation per feature. Densities are of x.

    "auto" chooses it for columns of a mixed table only.

    Args:
        features: Number of features.

    Example:
        >>> LogNormal(1)(torch.zeros(1)).log_prob(torch.tensor([1.0])).detach()
        tensor(-0.9189)
    """

    name = "log_normal"

    def __init__(self, features: int) -> None:
        super().__init__(features)
        self.log_scale = nn.Parameter(torch.full((features,), 1 - _MIN_SCALE).log())

    @property
    def domain(self) -> str:
        """What the rows hold, in words."""
        return "numbers above 0 (log_normal)"

    def forward(self, h: Tensor) -> Distribution:
        """Log-normal with median exp(h)."""
        scale = self.log_scale.exp() + _MIN_SCALE
        return _LogNormalFeatures(TorchLogNormal(h, scale, validate_args=False), 1, validate_args=False)

    @classmethod
    def check(cls, summary: Summary, **options: Any) -> None:
        """Reject numbers that are not above 0."""
        low = float(summary.low.min())
        if low <= 0:
            raise ValueError(
                f"The likelihood log_normal needs numbers above 0, but the table holds {low:g}. Take the likelihood "
                "normal, or name the columns that are positive with columns=."
            )

    def impossible(self, x: Tensor, *, whole: bool = False) -> Tensor:
        """Numbers that are not above 0."""
        return super().impossible(x) | (x <= 0)

    def start_at(self, mean: Tensor) -> Tensor:
        """The logarithm of the mean; one of 0 is not of positive numbers, and starts far below 1."""
        return mean.clamp_min(1e-6).log()

    @torch.no_grad()
    def start_from(self, spread: Tensor) -> None:
        """Start at the spread of the logarithm of a variable with mean 1 and this spread, at most 1."""
        start = spread.square().log1p().sqrt().clamp(0.1, 1.0)
        self.log_scale.copy_((start - _MIN_SCALE).log())

    def point_estimate(self, distribution: Distribution) -> Tensor:
        """The median: half of all values lie below it, however long the tail is."""
        base: Any = distribution.base_dist  # type: ignore[attr-defined]
        return base.base_dist.loc.exp()

    @classmethod
    def network_input(cls, x: Tensor, sizes: Any) -> Tensor:
        """log x."""
        return x.log()
