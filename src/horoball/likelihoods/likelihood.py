"""What every likelihood says of itself: which numbers it is for, how they are prepared, where training starts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution

from horoball.geometry.autograd import Constants
from horoball.plugins import Registry
from horoball.tables.numbers import all_finite
from horoball.tables.scaling import Summary


class Likelihood(Constants):
    """p(x | h), the distribution of a row x given the decoder's output h, with all that a model needs to know of it.

    A subclass has a `name` and `forward`. The rest has defaults that suit real numbers as they are; override what
    differs. What it learns besides the networks (a dispersion per feature) is its own parameters.

    Args:
        features: Number of features of x.

    Example:
        >>> from horoball.likelihoods import Poisson
        >>> isinstance(Poisson(3), Likelihood), Poisson(3).outputs
        (True, 3)
    """

    name: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ()  # fields of `ModelConfig` that the constructor takes as well
    preference: ClassVar[int] = 50  # for "auto": the lowest of those that suit is taken
    standardizes: ClassVar[bool] = False  # whether the model sees standardized columns
    log_input: ClassVar[bool] = False  # whether the encoder sees log(1 + x)
    numeric: ClassVar[bool] = True  # whether differences of values mean something; those of codes do not
    library = False  # whether `forward` takes ℓ, the sum of each row, as well

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features

    @property
    def outputs(self) -> int:
        """Size of the decoder's output."""
        return self.features

    @property
    def domain(self) -> str:
        """What the rows hold, in words, for messages."""
        return f"numbers ({self.name})"

    @abstractmethod
    def forward(self, h: Tensor) -> Distribution:
        """The distribution of x, with batch shape (*batch) and event shape (features,)."""

    @classmethod
    def suits(cls, summary: Summary) -> str | None:
        """Why "auto" may choose this likelihood for a table, or None if it should not: the default."""
        del summary
        return None

    @classmethod
    def check(cls, summary: Summary, **options: Any) -> None:
        """Reject a table that has no probability under this likelihood.

        Args:
            summary: Of the table.
            options: Those of `options` that were chosen by the user.
        """

    @classmethod
    def fields(cls, summary: Summary) -> dict[str, Any]:
        """Fields of `ModelConfig` that follow from the table, unless the user sets them."""
        del summary
        return {"log_input": cls.log_input}

    def impossible(self, x: Tensor, *, whole: bool = False) -> Tensor:
        """Where values have no probability: a mask, of tensor operations only, so that it can be exported.

        Args:
            x: Values as the model sees them.
            whole: Whether the rows of the fit were whole numbers.
        """
        del whole
        return ~torch.isfinite(x)

    def check_rows(self, x: Tensor, first: int = 0, *, whole: bool = False) -> None:
        """Reject rows that have no probability under a fitted model.

        Args:
            x: Rows as the model sees them.
            first: Number of the first one, for the message.
            whole: Whether the rows of the fit were whole numbers; counts then have to be.

        Example:
            >>> from horoball.likelihoods import Poisson
            >>> Poisson(1).check_rows(torch.tensor([[1.0], [-2.0]]), first=10)
            Traceback (most recent call last):
            ...
            ValueError: Row 11 holds -2, but the model is one of counts (poisson). Give it rows like those of the fit.
        """
        bad, words = None if all_finite(x) else ~torch.isfinite(x), "numbers; none may be missing or infinite"
        if bad is None and type(self).impossible is Likelihood.impossible:
            return
        if bad is None or not bool(bad.any()):
            bad, words = self.impossible(x, whole=whole), self.domain
        if bool(bad.any()):
            row, column = bad.nonzero()[0].tolist()
            raise ValueError(
                f"Row {first + row} holds {float(x[row, column]):g}, but the model is one of {words}. Give it rows "
                "like those of the fit."
            )

    def start_at(self, mean: Tensor) -> Tensor:
        """The decoder's output at which the mean of x is the given one: the start of its last bias."""
        return mean

    def start_from(self, spread: Tensor) -> None:
        """Set what is learned besides from the standard deviation of each feature, in the units the model sees."""

    def point_estimate(self, distribution: Distribution) -> Tensor:
        """One row for a distribution of rows: its mean."""
        return distribution.mean

    def observed_log_prob(self, distribution: Distribution, x: Tensor, observed: Tensor) -> Tensor:
        """log p of the features that were observed: the others leave the sum.

        Args:
            distribution: What `forward` returned, of independent features.
            x: Values, with anything possible where none was observed, shape (*batch, features).
            observed: Where x was observed, of the same shape.

        Example:
            >>> from horoball.likelihoods import Normal
            >>> x, observed = torch.tensor([0.0, 1.0]), torch.tensor([True, False])
            >>> Normal(2).observed_log_prob(Normal(2)(torch.zeros(2)), x, observed)
            tensor(-0.9189)
        """
        base: Any = distribution.base_dist  # type: ignore[attr-defined]
        return torch.where(observed, base.log_prob(x), 0.0).sum(-1)

    @classmethod
    def network_input(cls, x: Tensor, sizes: Sequence[int]) -> Tensor:
        """Features of a mixed table as the encoder's network sees them.

        Args:
            x: Values as the model sees them, none missing, shape (*batch, features).
            sizes: Levels of each feature, where it has levels.
        """
        del sizes
        return x.log1p() if cls.log_input else x

    @classmethod
    def network_owners(cls, sizes: Sequence[int]) -> list[int]:
        """Which feature each number of `network_input` is of; one of each by default."""
        return list(range(len(sizes)))


LIKELIHOODS: Registry[type[Likelihood]] = Registry("likelihood")
register_likelihood = LIKELIHOODS.register  # a class decorator: models find the likelihood under its `name`


def make_likelihood(name: str, features: int, **options: Any) -> Likelihood:
    """A likelihood by its name.

    Example:
        >>> make_likelihood("poisson", 3).features
        3
    """
    return LIKELIHOODS[name](features, **options)


def guess_likelihood(summary: Summary) -> tuple[str, str]:
    """The likelihood that "auto" chooses for a table, and why: the one of lowest `preference` that suits.

    Example:
        >>> from horoball.tables.table import ArrayTable
        >>> from horoball.tables.scaling import summarize
        >>> guess_likelihood(summarize(ArrayTable([[0.0, 1.0], [1.0, 0.0]])))
        ('bernoulli', 'all values lie in [0, 1]')
    """
    kinds = sorted((LIKELIHOODS[name] for name in LIKELIHOODS), key=lambda kind: (kind.preference, kind.name))
    return next((kind.name, why) for kind in kinds if (why := kind.suits(summary)) is not None)
