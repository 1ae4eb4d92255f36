"""What likelihoods of levels share: a feature has one of some values 0 … k − 1, and features may have different k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import Distribution

from horoball.data.tables.standardizer import Summary
from horoball.distributions.features import Features
from horoball.likelihoods.likelihood import Likelihood

__all__ = ["Levels", "no_category", "padded"]

_IMPOSSIBLE = -1e9  # a logit whose probability is 0, and whose gradient is 0 and not NaN


def no_category(x: Tensor, sizes: Tensor | int) -> Tensor:
    """Where values are not the number of a level of their feature, 0 … size − 1.

    Example:
        >>> no_category(torch.tensor([0.0, 1.5, 2.0]), torch.tensor([2, 2, 3]))
        tensor([False,  True, False])
    """
    return ~torch.isfinite(x) | (x < 0) | (x >= sizes) | (x != x.round())


def padded(flat: Tensor, sizes: Sequence[int]) -> Tensor:
    """Logits of features one after the other as a block for each feature, filled up with impossible levels.

    Args:
        flat: Shape (*batch, Σ sizes).
        sizes: Levels of each feature.

    Example:
        >>> padded(torch.zeros(5), (2, 3)).exp()
        tensor([[1., 1., 0.],
                [1., 1., 1.]])
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
        shape = torch.broadcast_shapes(value.shape, self.batch_shape)
        levels = self.logits.expand(*shape, self._num_events).movedim(-1, 0)
        return levels.gather(0, value.long().expand(shape).unsqueeze(0)).squeeze(0)


class Levels(Likelihood):
    """A likelihood of features that have levels; a subclass says how the decoder's output becomes logits.

    Args:
        features: Number of features.
        classes: Levels of each feature, or of all of them.

    Example:
        >>> from horoball.likelihoods import Ordinal
        >>> Ordinal(2, classes=(3, 5)).sizes
        (3, 5)
    """

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
