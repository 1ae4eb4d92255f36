"""The prior of any model: a normal around the origin, and the ranges of what describes the latent space."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from horoball.distributions import POSTERIORS, BallNormal
from horoball.manifolds import PoincareBall
from horoball.numerics.constants import Constants
from horoball.numerics.kernels import in_graph
from horoball.storage.settings import Range

__all__ = ["LATENT_RANGES", "Prior", "check_family", "save_family"]

# What the space of any model can be like. Only √c·prior_scale matters: to shrink the space is to raise its curvature.
LATENT_RANGES = {
    "d": Range(1, 4096, "2 draws a map, 5 to 20 suit a density."),
    "c": Range(0, 1000, "It is minus the curvature: 1 suits most tables, 0 is the Euclidean model."),
    "prior_scale": Range(1e-3, 1000, "1 suits most tables."),
}


def save_family(family: type[BallNormal], destination: Any, prefix: str) -> None:
    """Put the name of a posterior family into a state dict, as bytes: weights of one mean nothing to another.

    Example:
        >>> destination = {}
        >>> save_family(POSTERIORS["wrapped"], destination, "encoder.")
        >>> bytes(destination["encoder.family"].tolist()).decode()
        'wrapped'
    """
    destination[prefix + "family"] = torch.tensor(list(family.name.encode()), dtype=torch.uint8, device="cpu")


def check_family(family: type[BallNormal], state_dict: Any, prefix: str, errors: list[str]) -> None:
    """Take the name of a family out of a state dict, and note an error if it is another one's.

    Example:
        >>> errors, held = [], {}
        >>> save_family(POSTERIORS["wrapped"], held, "")
        >>> check_family(POSTERIORS["riemannian"], held, "", errors)
        >>> errors
        ["The weights are of the posterior 'wrapped', this model has 'riemannian'. Make it with posterior='wrapped'."]
    """
    held = state_dict.pop(prefix + "family", None)
    name = family.name if held is None else bytes(held.tolist()).decode(errors="replace")[:60]
    if name != family.name:
        errors.append(
            f"The weights are of the posterior {name!r}, this model has {family.name!r}. Make it with "
            f"posterior={name!r}."
        )


class Prior(Constants):
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
        self.d, self.ball, self.family = d, ball.view(), POSTERIORS[kind]
        self.start, self.learn_scale = float(scale), learn_scale
        self._fixed: tuple[BallNormal, Tensor, Tensor] | None = None
        self.keep_constants()
        if learn_scale:
            self.log_scale = nn.Parameter(torch.full((1,), math.log(scale)))

    def constants(self) -> dict[str, Tensor]:
        """The location, and the scale unless it is learned."""
        loc = {"loc": torch.zeros(self.d)}
        return loc if self.learn_scale else loc | {"fixed_scale": torch.full((1,), self.start)}

    @property
    def scale(self) -> Tensor:
        """σ₀, shape (1,)."""
        return self.log_scale.exp() if self.learn_scale else self.fixed_scale

    def forward(self) -> BallNormal:
        """p(z)."""
        if self._fixed is not None and not in_graph():
            distribution, loc, scale = self._fixed
            if loc is self.loc and scale is self.fixed_scale:
                return distribution
        distribution = self.family.isotropic(self.loc, self.scale, self.ball)
        distribution.centered = True
        if not self.ball.learnable and not self.learn_scale and not in_graph():
            # The same one until the module moves or other buffers take the place of its own, with what it has found.
            self._fixed = distribution, self.loc, self.fixed_scale
        return distribution

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """A fixed scale and the family go with the weights: they were learned with these."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if not self.learn_scale:
            destination[prefix + "fixed_scale"] = torch.tensor(self.start, dtype=torch.float64, device="cpu")
        save_family(self.family, destination, prefix)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Refuse weights of another scale or family; those that an earlier version has written do not say theirs."""
        held = None if self.learn_scale else state_dict.pop(prefix + "fixed_scale", None)
        if held is not None and float(held) != self.start:
            rest[-1].append(
                f"The weights are of a prior of scale {float(held):g}, this one has {self.start:g}. Make it with "
                f"prior_scale={float(held):g}."
            )
        check_family(self.family, state_dict, prefix, rest[-1])
        super()._load_from_state_dict(state_dict, prefix, *rest)
