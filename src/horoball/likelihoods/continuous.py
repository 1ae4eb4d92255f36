"""Likelihoods of real numbers, positive numbers and directions."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.distributions import LogNormal as TorchLogNormal
from torch.distributions import Normal as TorchNormal

from horoball.distributions.base import Features
from horoball.distributions.sphere import VonMisesFisher as Directions
from horoball.likelihoods.likelihood import Likelihood
from horoball.tables.scaling import Summary

_MIN_RELATIVE_SPREAD = 0.1  # spread in units of the others' below which a feature has next to nothing to say
_MIN_SCALE = 0.01  # of a learned standard deviation: a feature copied exactly would make the likelihood infinite


class Normal(Likelihood):
    """Normal with unit variance, or with one learned standard deviation per feature.

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


class LogNormal(Likelihood):
    """log x is normal with mean h and one learned standard deviation per feature. Densities are of x.

    "auto" chooses it for columns of a mixed table only.

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


_MOST = 0.999  # mean length of unit vectors above which they are all but the same, and κ has no bound


class VonMisesFisher(Likelihood):
    """Directions by the von Mises–Fisher distribution, whose natural parameter κμ is the decoder's output.

    The length of a row does not matter: embeddings of texts, pictures or products are compared by their cosine. A
    decoded row is the mean of its distribution, which is the shorter the less sure its direction is. Never chosen by
    "auto": numbers do not say that only their direction counts.

    Example:
        >>> likelihood = VonMisesFisher(3)
        >>> law = likelihood(torch.tensor([0.0, 0.0, 5.0]))
        >>> torch.equal(law.log_prob(torch.tensor([1.0, 0.0, 1.0])), law.log_prob(torch.tensor([4.0, 0.0, 4.0])))
        True
    """

    name = "von_mises_fisher"
    _squares: float | None = None  # sum of the columns' variances, where training starts

    @property
    def domain(self) -> str:
        """What the rows hold."""
        return "vectors with a direction (von_mises_fisher)"

    def forward(self, h: Tensor) -> Distribution:
        """Directions with natural parameter h."""
        return Directions(h, validate_args=False)

    @classmethod
    def check(cls, summary: Summary, **options: Any) -> None:
        """Refuse rows of zeros."""
        del options
        if len(summary.mean) < 2:
            raise ValueError("Directions need vectors of two numbers or more, got 1. Use another likelihood.")
        if summary.empty:
            raise ValueError(f"{summary.empty:,} rows are all 0, and have no direction. Drop them.")

    @classmethod
    def fields(cls, summary: Summary) -> dict[str, Any]:
        """The encoder sees directions, too."""
        return super().fields(summary) | {"unit_input": True}

    def impossible(self, x: Tensor, *, whole: bool = False) -> Tensor:
        """Rows of zeros."""
        return super().impossible(x, whole=whole) | (x == 0).all(-1, keepdim=True)

    def start_from(self, spread: Tensor) -> None:
        """Remember how far the rows spread, which `start_at` needs for their concentration."""
        self._squares = float(spread.double().square().sum())

    def start_at(self, mean: Tensor) -> Tensor:
        """κμ of the mean direction, by the approximation of Banerjee et al. (2005), κ = R(p − R²)/(1 − R²)."""
        p, length = self.features, float(torch.linalg.vector_norm(mean.double()))
        if length == 0:
            return torch.zeros_like(mean)
        # The root mean square of the rows' lengths stands for their lengths, which need not be 1.
        square = length**2 + (1.0 if self._squares is None else self._squares)
        share = min(length / square**0.5, _MOST)
        return mean * (share * (p - share**2) / (1 - share**2) / length)
