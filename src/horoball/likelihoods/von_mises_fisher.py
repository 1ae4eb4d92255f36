"""The von Mises–Fisher likelihood, for vectors that are compared by their cosine."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from horoball.data.tables.standardizer import Summary
from horoball.distributions.von_mises_fisher import VonMisesFisher as Directions
from horoball.likelihoods.likelihood import Likelihood
from horoball.likelihoods.registry import register_likelihood

__all__ = ["VonMisesFisher"]

_MOST = 0.999  # mean length of unit vectors above which they are all but the same, and κ has no bound


@register_likelihood
class VonMisesFisher(Likelihood):
    """Directions by the von Mises–Fisher distribution, whose natural parameter κμ is the decoder's output.

    The length of a row does not matter: embeddings of texts, pictures or products are compared by their cosine. A
    decoded row is the mean of its distribution, which is the shorter the less sure its direction is. Never chosen by
    "auto": numbers do not say that only their direction counts.

    Args:
        features: Number of features, two or more.

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
