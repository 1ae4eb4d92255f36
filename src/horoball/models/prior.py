"""The prior of any model: a normal around the origin, and the ranges of what describes the latent space."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from horoball.distributions import POSTERIORS, BallNormal
from horoball.manifolds import PoincareBall
from horoball.storage.settings import Range

__all__ = ["LATENT_RANGES", "Prior"]

# What the space of any model can be like. Only √c·prior_scale matters: to shrink the space is to raise its curvature.
LATENT_RANGES = {
    "d": Range(1, 4096, "2 draws a map, 5 to 20 suit a density."),
    "c": Range(0, 1000, "It is minus the curvature: 1 suits most tables, 0 is the Euclidean model."),
    "prior_scale": Range(1e-3, 1000, "1 suits most tables."),
}


class Prior(nn.Module):
    """A normal around the origin, of the posterior's family.

    Args:
        d: Dimension of the ball.
        ball: The ball.
        scale: σ₀.
        kind: Name of the family: "riemannian", "wrapped", or one that a plugin registers.
        learn_scale: Makes σ₀ a parameter, which starts at the given value.

    Example:
        >>> Prior(2, PoincareBall(1.0))().loc
        tensor([0., 0.])
    """

    loc: Tensor
    fixed_scale: Tensor

    def __init__(
        self,
        d: int,
        ball: PoincareBall,
        scale: float = 1.0,
        kind: str = "riemannian",
        *,
        learn_scale: bool = False,
    ) -> None:
        super().__init__()
        self.ball, self.family = ball, POSTERIORS[kind]
        self._fixed: BallNormal | None = None
        self.register_buffer("loc", torch.zeros(d), persistent=False)
        if learn_scale:
            self.log_scale = nn.Parameter(torch.full((1,), math.log(scale)))
        else:
            self.register_buffer("fixed_scale", torch.full((1,), float(scale)), persistent=False)

    @property
    def scale(self) -> Tensor:
        """σ₀, shape (1,)."""
        return self.log_scale.exp() if hasattr(self, "log_scale") else self.fixed_scale

    def forward(self) -> BallNormal:
        """p(z)."""
        if self._fixed is not None and self._fixed.loc is self.loc and not torch.compiler.is_compiling():
            return self._fixed
        distribution = self.family.isotropic(self.loc, self.scale, self.ball)
        distribution.centered = True
        if not self.ball.learnable and not hasattr(self, "log_scale") and not torch.compiler.is_compiling():
            self._fixed = distribution  # the same one until the module moves, with what it has worked out
        return distribution
