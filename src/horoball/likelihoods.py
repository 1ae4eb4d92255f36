"""The law of an observation x given the decoder's output, one per kind of data.

A likelihood is a module that turns a tensor of shape (*batch, features · parameters) into a distribution of x, with
event shape (features,). What it learns beside (a dispersion per feature) is its own parameters.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli as TorchBernoulli
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import Distribution
from torch.distributions import Normal as TorchNormal
from torch.distributions import Poisson as TorchPoisson

from horoball.distributions.features import BernoulliFeatures, Features, PoissonFeatures
from horoball.distributions.negative_binomial import NegativeBinomial as NegativeBinomialLaw

__all__ = [
    "LIKELIHOODS",
    "Bernoulli",
    "Categorical",
    "Likelihood",
    "NegativeBinomial",
    "Normal",
    "Poisson",
    "make_likelihood",
]

_LEAST_RATE = 1e-8  # a rate that rounds to 0 would give a count no probability
_FEW = 0.1  # spread in units of the others' below which a feature has next to nothing to say
_LEAST = 0.01  # of a learnt standard deviation: a feature that is copied exactly would make the likelihood infinite


class Likelihood(nn.Module):
    """p(x | h) for the decoder's output h.

    Args:
        features: Number of features of x.

    Example:
        >>> isinstance(Poisson(3), Likelihood), Poisson(3).outputs
        (True, 3)
    """

    name: str
    library = False  # whether `forward` is given ℓ as well, the sum of each row

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features

    @property
    def outputs(self) -> int:
        """Size of the decoder's output."""
        return self.features

    @abstractmethod
    def forward(self, h: Tensor) -> Distribution:
        """The law of x, with batch shape (*batch) and event shape (features,)."""

    def start_at(self, mean: Tensor) -> Tensor:
        """The decoder's output at which the mean of x is the given one: the start of its last bias."""
        return mean


class Normal(Likelihood):
    """Normal with unit variance, or with one learnt standard deviation per feature.

    Args:
        features: Number of features.
        learn_scale: Whether the standard deviations are learnt; they start at 1 and stay above 0.01.

    Example:
        >>> Normal(3)(torch.zeros(2, 3)).log_prob(torch.zeros(2, 3))
        tensor([-2.7568, -2.7568])
    """

    name = "normal"

    def __init__(self, features: int, learn_scale: bool = False) -> None:
        super().__init__(features)
        self.log_scale = nn.Parameter(torch.full((features,), math.log(1 - _LEAST))) if learn_scale else None

    def forward(self, h: Tensor) -> Distribution:
        """Normal with mean h."""
        scale = (
            torch.ones((), dtype=h.dtype, device=h.device) if self.log_scale is None else self.log_scale.exp() + _LEAST
        )
        return Features(TorchNormal(h, scale, validate_args=False), 1, validate_args=False)

    @torch.no_grad()
    def start_from(self, spread: Tensor) -> None:
        """Start learnt standard deviations at the features' own spread, where that is below 1.

        Features that hardly vary start at 1: at their own spread their errors would weigh thousands of times what the
        others' do, and the network would learn to be constant before it learns anything.

        Example:
            >>> likelihood = Normal(3, learn_scale=True)
            >>> likelihood.start_from(torch.tensor([0.5, 2.0, 0.0]))
            >>> likelihood(torch.zeros(3)).stddev.detach()
            tensor([0.5000, 1.0000, 1.0000])
        """
        if self.log_scale is not None:
            start = torch.where(spread < _FEW, 1.0, spread.clamp_max(1.0))
            self.log_scale.copy_((start - _LEAST).log())


class Bernoulli(Likelihood):
    """Bernoulli with logits h. Grey values in [0, 1] are taken as in the paper, by the cross-entropy [errata:11].

    Example:
        >>> Bernoulli(2)(torch.zeros(2)).log_prob(torch.tensor([0.0, 0.5]))
        tensor(-1.3863)
    """

    name = "bernoulli"

    def forward(self, h: Tensor) -> Distribution:
        """Bernoulli with logits h."""
        return BernoulliFeatures(TorchBernoulli(logits=h, validate_args=False), 1, validate_args=False)

    def start_at(self, mean: Tensor) -> Tensor:
        """The logit of the mean, held away from 0 and 1."""
        return torch.logit(mean.clamp(1e-4, 1 - 1e-4))


class Poisson(Likelihood):
    """Poisson with rate softplus(h), for counts.

    Example:
        >>> Poisson(1)(torch.zeros(1)).mean
        tensor([0.6931])
    """

    name = "poisson"

    def forward(self, h: Tensor) -> Distribution:
        """Poisson with rate softplus(h)."""
        rate = nn.functional.softplus(h) + _LEAST_RATE
        return PoissonFeatures(TorchPoisson(rate, validate_args=False), 1, validate_args=False)

    def start_at(self, mean: Tensor) -> Tensor:
        """The inverse of softplus."""
        return _inverse_softplus(mean)


class NegativeBinomial(Likelihood):
    """Negative binomial with one learnt dispersion r per feature: variance = mean + mean²/r.

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
        if self.library != (library is not None):
            raise ValueError(
                "This negative binomial has means ℓ·softmax(h): pass library=, the counts of each row."
                if self.library
                else "This negative binomial has means softplus(h): make it with library=True to give it ℓ."
            )
        if library is not None:
            # What is added is below a rounding of any count, and lets a row without counts have a logarithm.
            log_mean = nn.functional.log_softmax(h, -1) + (library + _LEAST_RATE).log().unsqueeze(-1)
        else:
            log_mean = (nn.functional.softplus(h) + _LEAST_RATE).log()
        return NegativeBinomialLaw(log_mean, self.log_dispersion, validate_args=False)

    def start_at(self, mean: Tensor) -> Tensor:
        """The inverse of softplus, or log-shares of the mean."""
        if not self.library:
            return _inverse_softplus(mean)
        # A feature that was never counted starts at a ten-thousandth of the mean one.
        return mean.clamp_min(1e-4 * mean.mean().clamp_min(_LEAST_RATE)).log()


class Categorical(Likelihood):
    """Categories 0 … classes − 1 in each feature, with logits h.

    Args:
        features: Number of features.
        classes: Number of categories of each.

    Example:
        >>> Categorical(3, classes=4)(torch.zeros(2, 12)).log_prob(torch.zeros(2, 3))
        tensor([-4.1589, -4.1589])
    """

    name = "categorical"

    def __init__(self, features: int, classes: int = 2) -> None:
        super().__init__(features)
        if classes < 2:
            raise ValueError(f"A categorical likelihood needs at least 2 classes, got {classes}.")
        self.classes = classes

    @property
    def outputs(self) -> int:
        """One logit per feature and class."""
        return self.features * self.classes

    def forward(self, h: Tensor) -> Distribution:
        """Categorical with logits h of shape (*batch, features · classes)."""
        logits = h.unflatten(-1, (self.features, self.classes))
        return Features(TorchCategorical(logits=logits, validate_args=False), 1, validate_args=False)

    def start_at(self, mean: Tensor) -> Tensor:
        """Equal logits: a mean of categories says nothing of their frequencies."""
        return mean.new_zeros(self.outputs)


LIKELIHOODS: dict[str, type[Likelihood]] = {
    kind.name: kind for kind in (Normal, Bernoulli, Poisson, NegativeBinomial, Categorical)
}


def make_likelihood(name: str, features: int, **options: int) -> Likelihood:
    """A likelihood by its name.

    Example:
        >>> make_likelihood("poisson", 3).features
        3
    """
    if name not in LIKELIHOODS:
        raise ValueError(f"Unknown likelihood {name!r}. Choose one of: {', '.join(LIKELIHOODS)}.")
    return LIKELIHOODS[name](features, **options)


def _inverse_softplus(mean: Tensor) -> Tensor:
    mean = mean.clamp_min(math.exp(-10.0))
    return mean + torch.log(-torch.expm1(-mean))
