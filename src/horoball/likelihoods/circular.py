"""The circular likelihood, for months, weekdays, hours and other values that come around again."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from horoball.likelihoods.levels import Levels
from horoball.likelihoods.registry import register_likelihood

__all__ = ["Circular"]


@register_likelihood
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
