"""Likelihoods of values in [0, 1] and of levels: categories, ordered ones, and those of a circle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli as TorchBernoulli
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import Distribution
from torch.nn.functional import logsigmoid, softplus

from horoball.distributions.base import BernoulliFeatures, Features
from horoball.geometry.kernels import broadcast_shapes
from horoball.likelihoods.likelihood import Likelihood
from horoball.tables.scaling import Summary

_IMPOSSIBLE = -1e9  # a logit whose probability is 0, and whose gradient is 0 and not NaN


def no_category(x: Tensor, sizes: Tensor | int) -> Tensor:
    """Where values are not the number of a level of their feature, 0 … size − 1."""
    return ~torch.isfinite(x) | (x < 0) | (x >= sizes) | (x != x.round())


def padded(flat: Tensor, sizes: Sequence[int]) -> Tensor:
    """Logits of features one after the other as a block for each feature, filled up with impossible levels.

    Args:
        flat: Shape (*batch, Σ sizes).
        sizes: Levels of each feature.
    """
    most = max(sizes)
    if all(size == most for size in sizes):
        return flat.unflatten(-1, (len(sizes), most))
    parts = [
        torch.nn.functional.pad(part, (0, most - size), value=_IMPOSSIBLE)
        for part, size in zip(flat.split(list(sizes), -1), sizes, strict=True)
    ]
    return torch.stack(parts, -2)


class _LevelsFirst(TorchCategorical):
    """torch's categorical distribution, with levels along the first axis in memory.

    A softmax over a dozen numbers that lie side by side takes torch several times as long as one over rows.
    """

    def __init__(self, logits: Tensor) -> None:
        self.logits = self._param = logits.movedim(-1, 0).contiguous().log_softmax(0).movedim(0, -1)
        self._num_events = logits.shape[-1]
        Distribution.__init__(self, logits.shape[:-1], validate_args=False)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self.__new__(type(self)) if _instance is None else _instance)

    def log_prob(self, value: Tensor) -> Tensor:
        shape = broadcast_shapes(value.shape, self.batch_shape)
        levels = self.logits.expand(*shape, self._num_events).movedim(-1, 0)
        return levels.gather(0, value.long().expand(shape).unsqueeze(0)).squeeze(0)


class Levels(Likelihood):
    """A likelihood of features that have levels; a subclass says how the decoder's output becomes logits."""

    sizes_of: Tensor

    def __init__(self, features: int, classes: int | Sequence[int] = 2) -> None:
        super().__init__(features)
        self.sizes = (classes,) * features if isinstance(classes, int) else tuple(classes)
        if len(self.sizes) != features or min(self.sizes) < 2:
            raise ValueError(f"The likelihood {self.name} needs at least 2 classes, got {classes}.")
        self.keep_constants()

    def constants(self) -> dict[str, Tensor]:
        """How many levels each feature has."""
        return {"sizes_of": torch.tensor(self.sizes)}

    @property
    def classes(self) -> int:
        """The most levels that a feature has."""
        return max(self.sizes)

    @property
    def domain(self) -> str:
        """What the rows hold, in words."""
        return f"levels 0 to {max(self.sizes) - 1}"

    def logits(self, h: Tensor) -> Tensor:
        """Logits of all levels, shape (*batch, features, most levels)."""
        raise NotImplementedError

    def forward(self, h: Tensor) -> Distribution:
        """Independent levels."""
        return Features(_LevelsFirst(self.logits(h)), 1, validate_args=False)

    @classmethod
    def check(cls, summary: Summary, *, classes: int | None = None, **options: Any) -> None:
        """Reject numbers that are no levels, and more of them than there are classes."""
        low, high = float(summary.low.min()), float(summary.high.max())
        if low < 0 or not summary.whole:
            raise ValueError(
                f"The likelihood {cls.name} needs categories 0, 1, 2 …, but the table holds other numbers. Number the "
                "categories first."
            )
        if classes is not None and high >= classes:
            raise ValueError(
                f"The table holds the category {high:g}, but there are {classes} classes: 0 to {classes - 1}."
            )

    @classmethod
    def fields(cls, summary: Summary) -> dict[str, Any]:
        """As many classes as the table has."""
        return super().fields(summary) | {"classes": max(2, int(summary.high.max()) + 1)}

    def start_at_shares(self, shares: Tensor) -> Tensor:
        """The decoder's output at which levels have their shares, as far as the likelihood can say that.

        Args:
            shares: How often each level occurs, shape (features, most levels); 0 beyond a feature's last.
        """
        return self.start_at(shares.new_zeros(self.features))

    def impossible(self, x: Tensor, *, whole: bool = False) -> Tensor:
        """What is not the number of a level."""
        return no_category(x, self.sizes_of)

    def point_estimate(self, distribution: Distribution) -> Tensor:
        """The likeliest level."""
        base: Any = distribution.base_dist  # type: ignore[attr-defined]
        return base.probs.argmax(-1)


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
            >>> from horoball.tables.table import ArrayTable
            >>> from horoball.tables.scaling import summarize
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


class Categorical(Levels):
    """Categories 0 … classes − 1 in each feature, with logits h. "auto" chooses it for columns of a mixed table only.

    Args:
        features: Number of features.
        classes: Number of categories of each feature, or of all of them.

    Example:
        >>> Categorical(3, classes=4)(torch.zeros(2, 12)).log_prob(torch.zeros(2, 3))
        tensor([-4.1589, -4.1589])
    """

    name = "categorical"
    numeric = False
    options = ("classes",)

    @property
    def outputs(self) -> int:
        """One logit per feature and class."""
        return sum(self.sizes)

    @property
    def domain(self) -> str:
        """What the rows hold, in words."""
        return f"categories 0 to {max(self.sizes) - 1}"

    def logits(self, h: Tensor) -> Tensor:
        """The decoder's output, a block for each feature."""
        return padded(h, self.sizes)

    def start_at(self, mean: Tensor) -> Tensor:
        """Equal logits: a mean of categories says nothing of their frequencies."""
        return mean.new_zeros(self.outputs)

    def start_at_shares(self, shares: Tensor) -> Tensor:
        """Their logarithms; a category that was never seen gets one row in ten thousand."""
        return torch.cat([(share[:size] + 1e-4).log() for share, size in zip(shares, self.sizes, strict=True)])

    @classmethod
    def network_input(cls, x: Tensor, sizes: Sequence[int]) -> Tensor:
        """One-hot, the categories of one feature after those of the other."""
        levels = torch.cat([torch.arange(size, device=x.device) for size in sizes])
        owners = torch.tensor(cls.network_owners(sizes), device=x.device)
        return (x.index_select(-1, owners) == levels).to(x.dtype)

    @classmethod
    def network_owners(cls, sizes: Sequence[int]) -> list[int]:
        """Which feature each number of the network's input is of."""
        return [feature for feature, size in enumerate(sizes) for _ in range(size)]


_FAR = 1e4  # stands for ±∞ among thresholds: σ(±_FAR) is 1 or 0 to the last digit, and its gradient is 0


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


class Circular(Levels):
    """Points 0 … k − 1 of a circle by the discrete von Mises distribution.

        log P(j) = u cos(2πj/k) + v sin(2πj/k) − log Z

    The decoder gives (u, v) for each feature: its direction is the likeliest point, its length the concentration, and
    (0, 0) is the uniform distribution. "auto" chooses it for the month and weekday of dates only.

    Args:
        features: Number of features.
        classes: Points of each feature's circle, or of all of them: 7 weekdays, 12 months.

    Example:
        >>> january = Circular(1, classes=12)(torch.tensor([3.0, 0.0]))
        >>> january.log_prob(torch.tensor([[0.0], [6.0]])).exp().round(decimals=3)
        tensor([0.3430, 0.0010])
    """

    name = "circular"
    options = ("classes",)
    table: Tensor
    outside: Tensor

    def constants(self) -> dict[str, Tensor]:
        """Points of the circle, and which of them a feature does not have."""
        levels, sizes = torch.arange(self.classes), torch.tensor(self.sizes).unsqueeze(-1)
        angle = _angles(levels.double(), sizes)
        table = torch.stack((angle.cos(), angle.sin()), -1)
        return super().constants() | {"table": table, "outside": levels >= sizes}

    @property
    def outputs(self) -> int:
        """Two per feature."""
        return 2 * self.features

    def logits(self, h: Tensor) -> Tensor:
        """u cos + v sin at every point."""
        uv = h.unflatten(-1, (self.features, 1, 2))
        return (uv * self.table.to(h.dtype)).sum(-1).masked_fill(self.outside, -1e9)

    def start_at(self, mean: Tensor) -> Tensor:
        """Uniform."""
        return mean.new_zeros(self.outputs)

    @classmethod
    def network_input(cls, x: Tensor, sizes: Sequence[int]) -> Tensor:
        """Cosines, then sines."""
        angle = _angles(x, x.new_tensor(sizes))
        return torch.cat((angle.cos(), angle.sin()), -1)

    @classmethod
    def network_owners(cls, sizes: Sequence[int]) -> list[int]:
        """Which feature each number of the network's input is of."""
        return [*range(len(sizes)), *range(len(sizes))]


def _angles(x: Tensor, points: Tensor) -> Tensor:
    return 2 * math.pi * x / points
