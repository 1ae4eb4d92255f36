"""The categorical likelihood, for category codes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from horoball.likelihoods.levels import Levels, padded
from horoball.likelihoods.registry import register_likelihood

__all__ = ["Categorical"]


@register_likelihood
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
