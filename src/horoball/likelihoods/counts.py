"""Likelihoods of counts: Poisson, and negative binomial for counts that vary more."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.distributions import Poisson as TorchPoisson

from horoball.distributions import negative_binomial as zero_inflated
from horoball.distributions.base import PoissonFeatures
from horoball.distributions.negative_binomial import NegativeBinomial as NegativeBinomialDistribution
from horoball.likelihoods.likelihood import Likelihood
from horoball.tables.profile import MOSTLY_COUNTED, looks_counted
from horoball.tables.scaling import Summary

_LEAST_RATE = 1e-8  # a rate that rounds to 0 would give a count no probability
_EXACT = 1 << 24  # from here on float32 has whole numbers only, which says nothing about what they were
_OVERDISPERSED = 1.5  # variance in units of the mean from which on counts are not taken for Poisson's


class Counts(Likelihood):
    """What likelihoods of counts share: the domain, and an encoder that sees log(1 + x)."""

    log_input = True

    @property
    def domain(self) -> str:
        """What the rows hold, in words."""
        return f"counts ({self.name})"

    @classmethod
    def suits(cls, summary: Summary) -> str | None:
        """Whole numbers from 0 on that look counted in most columns."""
        whole = summary.whole and float(summary.low.min()) >= 0 and float(summary.high.max()) < _EXACT
        counted = whole and float(looks_counted(summary.sample).double().mean()) >= MOSTLY_COUNTED
        return "the values are counts" if counted else None

    @classmethod
    def check(cls, summary: Summary, **options: Any) -> None:
        """Reject negative numbers."""
        if float(summary.low.min()) < 0:
            raise ValueError(
                f"The likelihood {cls.name} needs counts, but the table holds negative numbers. Take the likelihood "
                "normal."
            )

    def impossible(self, x: Tensor, *, whole: bool = False) -> Tensor:
        """Negative numbers; fractions too, if the rows of the fit had none."""
        bad = super().impossible(x) | (x < 0)
        return bad | (x != x.round()) if whole else bad

    def start_at(self, mean: Tensor) -> Tensor:
        """The inverse of softplus."""
        mean = mean.clamp_min(math.exp(-10.0))
        return mean + torch.log(-torch.expm1(-mean))


class Poisson(Counts):
    """Poisson with rate softplus(h).

    Example:
        >>> Poisson(1)(torch.zeros(1)).mean
        tensor([0.6931])
    """

    name = "poisson"
    preference = 30

    def forward(self, h: Tensor) -> Distribution:
        """Poisson with rate softplus(h)."""
        rate = nn.functional.softplus(h) + _LEAST_RATE
        return PoissonFeatures(TorchPoisson(rate, validate_args=False), 1, validate_args=False)


class NegativeBinomial(Counts):
    """Negative binomial with one learned dispersion r per feature: variance = mean + mean²/r.

    The mean is softplus(h), or ℓ·softmax(h) where rows are shares of a library of ℓ counts, as those of cells are: how
    deep a cell was sequenced is then no matter of z.

    Args:
        features: Number of features.
        library: Whether the mean is ℓ·softmax(h), with ℓ given to `forward`.

    Example:
        >>> NegativeBinomial(1)(torch.zeros(1)).variance.detach()
        tensor([1.1736])
        >>> NegativeBinomial(4, library=True)(torch.zeros(2, 4), torch.tensor([8.0, 100.0])).mean.round()[:, 0]
        tensor([ 2., 25.])
    """

    name = "negative_binomial"
    options = ("library",)
    preference = 20

    def __init__(self, features: int, library: bool = False) -> None:
        super().__init__(features)
        self.library = library
        self.log_dispersion = nn.Parameter(torch.zeros(features))

    def forward(self, h: Tensor, library: Tensor | None = None) -> Distribution:
        """Negative binomial with mean softplus(h) or ℓ·softmax(h).

        Args:
            h: The decoder's output, shape (*batch, features).
            library: ℓ, the counts of each row, shape (*rows) that broadcasts to (*batch).
        """
        return NegativeBinomialDistribution(self.log_mean(h, library), self.log_dispersion, validate_args=False)

    def log_mean(self, h: Tensor, library: Tensor | None = None) -> Tensor:
        """log μ of each feature, shape (*batch, features), from the first `features` numbers of h.

        Example:
            >>> NegativeBinomial(4, library=True).log_mean(torch.zeros(4), torch.tensor(8.0)).exp()
            tensor([2., 2., 2., 2.])
        """
        if self.library != (library is not None):
            raise ValueError(
                f"This {self.name} has means ℓ·softmax(h): pass library=, the counts of each row."
                if self.library
                else f"This {self.name} has means softplus(h): make it with library=True to give it ℓ."
            )
        h = h[..., : self.features]
        if library is not None:
            # What is added is below a rounding of any count, and lets a row without counts have a logarithm.
            return nn.functional.log_softmax(h, -1) + (library + _LEAST_RATE).log().unsqueeze(-1)
        return (nn.functional.softplus(h) + _LEAST_RATE).log()

    @classmethod
    def suits(cls, summary: Summary) -> str | None:
        """Counts whose variance is well above their mean."""
        mean, variance = float(summary.mean.mean()), float(summary.std.square().mean())
        if super().suits(summary) is None or variance <= _OVERDISPERSED * mean:
            return None
        return "the values are counts that vary more than Poisson's"

    @classmethod
    def check(cls, summary: Summary, *, library: bool = False, **options: Any) -> None:
        """Reject negative numbers; for counts out of a library, also fractions and rows without any count.

        Example:
            >>> from horoball.tables.scaling import summarize
            >>> from horoball.tables.table import ArrayTable
            >>> NegativeBinomial.check(summarize(ArrayTable([[0.0, 1.5]])), library=True)
            Traceback (most recent call last):
            ...
            ValueError: Counts are whole numbers from 0 on, but the table holds 1.5...
        """
        low = float(summary.low.min())
        if library and (not summary.whole or low < 0):
            shown = summary.odd if summary.odd is not None else low
            raise ValueError(
                f"Counts are whole numbers from 0 on, but the table holds {shown:g}. Choose the layer with the raw "
                "counts, not normalized, not logarithms, not scaled; those in adata.raw become one by "
                'adata.layers["counts"] = adata.raw[:, adata.var_names].X. Or take the likelihood normal, for real '
                "numbers. For counts corrected for ambient RNA, which are not whole, take the likelihood "
                "zero_inflated_gamma."
            )
        if library:
            cls.check_library(summary)
        super().check(summary)

    @classmethod
    def check_library(cls, summary: Summary) -> None:
        """Reject rows without any count, which are shares of nothing."""
        if summary.empty:
            raise ValueError(
                f"{summary.empty:,} of {summary.rows:,} rows hold no count at all in the {len(summary.low):,} columns "
                "that are taken. Drop these rows first, or take more columns. Of cells with all of their genes, "
                "scanpy.pp.filter_cells(adata, min_counts=1) does."
            )

    def start_at(self, mean: Tensor) -> Tensor:
        """The inverse of softplus, or log-shares of the mean."""
        if not self.library:
            return super().start_at(mean)
        # A feature that was never counted starts at a ten-thousandth of the mean one.
        return mean.clamp_min(1e-4 * mean.mean().clamp_min(_LEAST_RATE)).log()

    def observed_log_prob(self, distribution: Distribution, x: Tensor, observed: Tensor) -> Tensor:
        """Of all features with 0 in place of a missing value, without what these zeros add: −r log(1 + μ/r)."""
        base: Any = distribution
        zeros = nn.functional.softplus(base.log_mean - base.log_dispersion, threshold=40) * base.log_dispersion.exp()
        return base.log_prob(torch.where(observed, x, 0.0)) + torch.where(observed, 0.0, zeros).sum(-1)


_START = -3.0  # logit of the first share of extra zeros, 1 in 20: the mean explains most zeros, so let it try first


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
