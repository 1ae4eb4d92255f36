"""Negative binomial counts, and numbers with more zeros than their distribution has.

Counts are given by the logarithm of their mean, and finite for any count, mean and dispersion of the dtype.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.nn.functional import logsigmoid, softplus

from horoball.geometry.kernels import broadcast_shapes, looks_ahead, may_hold, wide

_THRESHOLD = 40.0  # above it log(1 + exp u) is u to the last digit of float64; torch's own is 20
_LARGE = 1e4  # dispersion from which three terms of Stirling's series have all digits of float64


class NegativeBinomial(Distribution):
    r"""A vector of independent negative binomials with means μ and dispersions r.

        p(x) = Γ(x + r)/(Γ(r) x!) · (μ/(μ + r))ˣ (r/(μ + r))ʳ,    variance μ + μ²/r,

    Poisson for r → ∞. The event is the whole vector, so `log_prob` sums over it. Gradients are with respect to
    log μ and log r; counts have none.

    Args:
        log_mean: log μ, shape (*batch, features).
        log_dispersion: log r, shape (features,).
        validate_args: Whether arguments and values are checked.

    Example:
        >>> distribution = NegativeBinomial(torch.tensor([[0.0, 2.0]]), torch.tensor([1.0, 5.0]))
        >>> distribution.log_prob(torch.tensor([3.0, 0.0]))
        tensor([-9.9294])
        >>> distribution.mean, distribution.variance
        (tensor([[1.0000, 7.3891]]), tensor([[1.3679, 7.7569]]))
    """

    arg_constraints = {"log_mean": constraints.real_vector, "log_dispersion": constraints.real_vector}  # noqa: RUF012
    support = constraints.independent(constraints.nonnegative_integer, 1)

    def __init__(self, log_mean: Tensor, log_dispersion: Tensor, validate_args: bool | None = None) -> None:
        if log_dispersion.shape != log_mean.shape[-1:]:
            raise ValueError(
                f"NegativeBinomial expects a dispersion for each of the {log_mean.shape[-1]} features, got shape "
                f"{tuple(log_dispersion.shape)}."
            )
        self.log_mean, self.log_dispersion = log_mean, log_dispersion
        super().__init__(log_mean.shape[:-1], log_mean.shape[-1:], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> NegativeBinomial:
        """The same distribution for a larger batch."""
        log_mean = self.log_mean.expand(*batch_shape, *self.event_shape)
        return NegativeBinomial(log_mean, self.log_dispersion, validate_args=False)

    @property
    def mean(self) -> Tensor:
        """μ."""
        return self.log_mean.exp()

    @property
    def variance(self) -> Tensor:
        """μ + μ²/r."""
        return self.mean + (2 * self.log_mean - self.log_dispersion).exp()

    @torch.no_grad()
    def sample(self, sample_shape: Any = (), generator: torch.Generator | None = None) -> Tensor:
        """Counts: Poisson's with a rate from the gamma distribution of mean μ and shape r.

        Example:
            >>> NegativeBinomial(torch.zeros(2), torch.zeros(2)).sample((5,)).shape
            torch.Size([5, 2])
        """
        shape = self._extended_shape(torch.Size(sample_shape))
        # Where the generator is, so that a seed gives the same counts on every device.
        device = self.log_mean.device if generator is None else generator.device
        log_mean, log_r = self.log_mean.to(device), self.log_dispersion.to(device)
        gamma = torch._standard_gamma(log_r.exp().expand(shape), generator=generator)
        return torch.poisson(gamma * (log_mean - log_r).exp(), generator=generator).to(self.log_mean.device)

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(x), summed over the features.

        Example:
            >>> NegativeBinomial(torch.zeros(1), torch.zeros(1)).log_prob(torch.tensor([0.0]))
            tensor(-0.6931)
        """
        if self._validate_args:
            self._validate_sample(value)
        log_mean, x = self.log_mean, value.to(self.log_mean.dtype)
        if log_mean.shape[-x.dim() :] != x.shape:  # beyond several points for each observation
            shape = broadcast_shapes(log_mean.shape, x.shape)
            log_mean, x = log_mean.expand(shape), x.expand(shape)
        if not looks_ahead(log_mean):
            return count_log_prob(wide(log_mean), wide(self.log_dispersion), wide(x)).sum(-1).to(log_mean.dtype)
        return _log_prob_of_few(log_mean, self.log_dispersion, x)


def count_log_prob(log_mean: Tensor, log_r: Tensor, x: Tensor, feature: Any = ...) -> Tensor:
    """log p(x) of each count, with u = log(μ/r): μ/(μ + r) = σ(u), r/(μ + r) = σ(−u).

    Args:
        log_mean: log μ of each count.
        log_r: log r of each feature.
        x: Counts.
        feature: The feature of each count; the last axis of counts if not given.

    Example:
        >>> count_log_prob(torch.zeros(2), torch.zeros(2), torch.tensor([0.0, 1.0])).exp()
        tensor([0.5000, 0.2500])
    """
    r = log_r.exp()
    log_gamma, r = torch.lgamma(r)[feature], r[feature]
    u, rise = log_mean - log_r[feature], torch.lgamma(x + r) - log_gamma
    if may_hold(r > _LARGE):
        # Stirling's series: log Γ(r) itself is so large that the difference would have no digits left.
        far = x * r.log() + (x + r - 0.5) * torch.log1p(x / r) - x + (1 / (x + r) - 1 / r) / 12
        rise = torch.where(r > _LARGE, far, rise)
    return rise - torch.lgamma(x + 1) + x * logsigmoid(u) - r * softplus(u, threshold=_THRESHOLD)


def _log_prob_of_few(log_mean: Tensor, log_r: Tensor, x: Tensor) -> Tensor:
    """The sum of log p(x) over features, where most counts are 0.

    Of a count of 0 no more is left than −r log(1 + μ/r). The other counts, few in most tables, are taken in float64:
    there log Γ(x) is larger than log p(x), by which digits are lost.
    """
    features = max(1, x.shape[-1])
    points = log_mean.numel() // max(1, x.numel())  # for each observation
    at = x.reshape(-1).nonzero().squeeze(-1)  # places in all of x
    row, feature = at // features, at % features
    of_zeros = torch.where(x == 0, softplus(log_mean - log_r, threshold=_THRESHOLD) * log_r.exp(), 0.0)
    counted = wide(log_mean.reshape(points, x.numel())[:, at])
    each = count_log_prob(counted, wide(log_r), wide(x.reshape(-1)[at]), feature)
    sums = each.new_zeros(len(each), x.numel() // features).index_add(1, row, each)
    return (sums.view(log_mean.shape[:-1]) - of_zeros.sum(-1)).to(log_mean.dtype)


class ZeroInflated(Distribution):
    """A vector of independent features, each 0 with probability π and otherwise drawn from a base with mean μ.

    The event is the whole vector, so `log_prob` sums over it; `log_prob_each` does not.

    Args:
        log_mean: log μ, shape (*batch, features).
        log_dispersion: Logarithm of the base's second parameter, shape (features,).
        logits: log(π/(1 − π)), shape (*batch, features).
        validate_args: Whether arguments and values are checked.

    Example:
        >>> zeros = torch.zeros(2)
        >>> ZeroInflatedNegativeBinomial(zeros, zeros, zeros).mean, ZeroInflatedGamma(zeros, zeros, zeros).mean
        (tensor([0.5000, 0.5000]), tensor([0.5000, 0.5000]))
    """

    arg_constraints = {  # noqa: RUF012
        "log_mean": constraints.real_vector,
        "log_dispersion": constraints.real_vector,
        "logits": constraints.real_vector,
    }

    def __init__(
        self, log_mean: Tensor, log_dispersion: Tensor, logits: Tensor, validate_args: bool | None = None
    ) -> None:
        if log_dispersion.shape != log_mean.shape[-1:] or logits.shape != log_mean.shape:
            raise ValueError(
                f"{type(self).__name__} expects logits of the shape of the means, {tuple(log_mean.shape)}, and a "
                f"dispersion for each feature, got {tuple(logits.shape)} and {tuple(log_dispersion.shape)}."
            )
        self.log_mean, self.log_dispersion, self.logits = log_mean, log_dispersion, logits
        super().__init__(log_mean.shape[:-1], log_mean.shape[-1:], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        """The same distribution for a larger batch."""
        shape = (*batch_shape, *self.event_shape)
        return type(self)(self.log_mean.expand(shape), self.log_dispersion, self.logits.expand(shape), False)

    @property
    def mean(self) -> Tensor:
        """(1 − π) μ."""
        return (self.log_mean + logsigmoid(-self.logits)).exp()

    @property
    def variance(self) -> Tensor:
        """(1 − π)(v + π μ²), with v the variance of the base."""
        return (-self.logits).sigmoid() * (self._base_variance() + self.logits.sigmoid() * (2 * self.log_mean).exp())

    @torch.no_grad()
    def sample(self, sample_shape: Any = (), generator: torch.Generator | None = None) -> Tensor:
        """Numbers of the base, some of them replaced by 0.

        Example:
            >>> zeros = torch.zeros(2)
            >>> ZeroInflatedNegativeBinomial(zeros, zeros, zeros).sample((5,)).shape
            torch.Size([5, 2])
        """
        shape = self._extended_shape(torch.Size(sample_shape))
        # Where the generator is, so that a seed gives the same numbers on every device.
        device = self.log_mean.device if generator is None else generator.device
        kept = torch.bernoulli((-self.logits).sigmoid().to(device).expand(shape), generator=generator)
        return kept.to(self.log_mean.device) * self._draw(torch.Size(sample_shape), generator)

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(x), summed over the features.

        Example:
            >>> ZeroInflatedGamma(torch.zeros(1), torch.zeros(1), torch.zeros(1)).log_prob(torch.tensor([0.0]))
            tensor(-0.6931)
        """
        return self.log_prob_each(value).sum(-1)

    def log_prob_each(self, value: Tensor) -> Tensor:
        """log p(x) of each feature.

        Example:
            >>> ZeroInflatedGamma(torch.zeros(1), torch.zeros(1), torch.zeros(1)).log_prob_each(torch.tensor([1.0]))
            tensor([-1.6931])
        """
        if self._validate_args:
            self._validate_sample(value)
        x = value.to(self.log_mean.dtype).expand(broadcast_shapes(self.log_mean.shape, value.shape))
        log_mean, logits = self.log_mean.expand(x.shape), self.logits.expand(x.shape)
        each = torch.where(x == 0, self._log_zero(log_mean, logits), logsigmoid(-logits)).reshape(-1)
        # Numbers other than 0 are few in most tables; log Γ is taken of these only, in float64.
        at = x.reshape(-1).nonzero().squeeze(-1)
        feature = at % max(1, x.shape[-1])
        counted = self._log_base(
            wide(log_mean.reshape(-1)[at]), wide(self.log_dispersion), wide(x.reshape(-1)[at]), feature
        )
        return each.index_add(0, at, counted.to(each.dtype)).view(x.shape)

    @abstractmethod
    def _base_variance(self) -> Tensor:
        """Variance of the base, shape (*batch, features)."""

    @abstractmethod
    def _draw(self, sample_shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        """Samples of the base."""

    @abstractmethod
    def _log_zero(self, log_mean: Tensor, logits: Tensor) -> Tensor:
        """log p(0)."""

    @abstractmethod
    def _log_base(self, log_mean: Tensor, log_dispersion: Tensor, x: Tensor, feature: Tensor) -> Tensor:
        """log p(x) of the base for x > 0, each of one feature."""


class ZeroInflatedNegativeBinomial(ZeroInflated):
    """Negative binomial counts with mean μ and dispersion r, replaced by 0 with probability π; see `ZeroInflated`.

    p(0) = π + (1 − π)(r/(μ + r))ʳ, and p(x) is (1 − π) times that of `NegativeBinomial` for x > 0.

    Example:
        >>> zeros = torch.zeros(1)
        >>> ZeroInflatedNegativeBinomial(zeros, zeros, zeros).log_prob(torch.zeros(1)).exp()
        tensor(0.7500)
    """

    support = constraints.independent(constraints.nonnegative_integer, 1)

    def _base_variance(self) -> Tensor:
        return self.log_mean.exp() + (2 * self.log_mean - self.log_dispersion).exp()

    def _draw(self, sample_shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        return NegativeBinomial(self.log_mean, self.log_dispersion, validate_args=False).sample(sample_shape, generator)

    def _log_zero(self, log_mean: Tensor, logits: Tensor) -> Tensor:
        none = -softplus(log_mean - self.log_dispersion, threshold=_THRESHOLD) * self.log_dispersion.exp()
        return torch.logaddexp(logsigmoid(logits), logsigmoid(-logits) + none)

    def _log_base(self, log_mean: Tensor, log_dispersion: Tensor, x: Tensor, feature: Tensor) -> Tensor:
        return count_log_prob(log_mean, log_dispersion, x, feature)


class ZeroInflatedGamma(ZeroInflated):
    """0 with probability π, otherwise gamma with mean μ and shape a, whose variance is μ²/a; see `ZeroInflated`.

    The density is with respect to Lebesgue measure plus a unit mass at 0, so log p(0) is a probability's and the rest
    a density's.

    Example:
        >>> zeros = torch.zeros(1)
        >>> ZeroInflatedGamma(zeros, zeros, zeros).log_prob(torch.ones(1)).exp()  # exp(−1)/2
        tensor(0.1839)
    """

    support = constraints.independent(constraints.nonnegative, 1)

    def _base_variance(self) -> Tensor:
        return (2 * self.log_mean - self.log_dispersion).exp()

    def _draw(self, sample_shape: torch.Size, generator: torch.Generator | None) -> Tensor:
        device = self.log_mean.device if generator is None else generator.device
        log_a, shape = self.log_dispersion.to(device), self._extended_shape(sample_shape)
        gamma = torch._standard_gamma(log_a.exp().expand(shape), generator=generator)
        return (gamma * (self.log_mean.to(device) - log_a).exp()).to(self.log_mean.device)

    def _log_zero(self, log_mean: Tensor, logits: Tensor) -> Tensor:
        del log_mean
        return logsigmoid(logits)

    def _log_base(self, log_mean: Tensor, log_dispersion: Tensor, x: Tensor, feature: Tensor) -> Tensor:
        log_a = log_dispersion[feature]
        a = log_a.exp()
        return a * (log_a - log_mean) - torch.lgamma(a) + (a - 1) * x.log() - (x.log() + log_a - log_mean).exp()
