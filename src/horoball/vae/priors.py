"""Priors that are learned: a mixture of normals, and the VampPrior (Tomczak & Welling 2018)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Distribution

from horoball.distributions.mixture import BallMixture
from horoball.distributions.normal import POSTERIORS, positive
from horoball.distributions.product import family_on
from horoball.geometry.manifold import held
from horoball.vae.parts import register_prior

_ONE = 0.5413  # what softplus makes 1 of


@register_prior
class MixturePrior(nn.Module):
    """p(z) = Σ π_k N(z | μ_k, σ_k²), of the posterior's family, with all of π, μ and σ learned.

    Args:
        d: Dimension of the space.
        manifold: The space.
        scale: Where every σ_k starts.
        posterior: Name of the family.
        components: How many normals there are.
        generator: Where the first means are drawn from, a normal of the chart; torch's global one if not given.

    Example:
        >>> from horoball import PoincareBall
        >>> prior = MixturePrior(2, PoincareBall(1.0), components=3)
        >>> prior().log_prob(torch.zeros(5, 2)).shape, prior().sample((4,)).shape
        (torch.Size([5]), torch.Size([4, 2]))
    """

    name = "mixture"

    def __init__(
        self,
        d: int,
        manifold: Any,
        scale: float = 1.0,
        posterior: str = "riemannian",
        components: int = 10,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.ball, self.scale = held(manifold), float(scale)
        self.family = family_on(POSTERIORS[posterior], self.ball)
        self.logits = nn.Parameter(torch.zeros(components))
        self.loc = nn.Parameter(scale * torch.randn(components, d, generator=generator))
        self.raw_scale = nn.Parameter(torch.full((components, 1), _ONE))

    def forward(self) -> Distribution:
        """p(z)."""
        normals = self.family.isotropic(self.loc, self.scale * positive(self.raw_scale), self.ball)
        return BallMixture(Categorical(logits=self.logits, validate_args=False), normals, validate_args=False)


@register_prior
class VampPrior(nn.Module):
    """p(z) = Σ π_k q(z | u_k): the mean of the posteriors of learned rows u_k, which start at rows of the data.

    Example:
        >>> from horoball import PoincareBall
        >>> from horoball.vae.encoder import Encoder
        >>> ball = PoincareBall(1.0)
        >>> prior = VampPrior(ball, Encoder(10, 2, ball, hidden=[32]), components=3)
        >>> prior.start_from_rows(torch.randn(20, 10))
        >>> prior().log_prob(torch.zeros(5, 2)).shape
        torch.Size([5])
    """

    name = "vamp"

    def __init__(self, manifold: Any, encoder: Any, components: int = 50) -> None:
        super().__init__()
        if encoder.covariates or encoder.view is not None:
            raise ValueError(
                "The prior 'vamp' learns rows of numbers; rows with batches or gaps are none. Use 'mixture'."
            )
        self.ball = held(manifold)
        self._encoder = [encoder]  # not a module of its own: the model has it already
        self.logits = nn.Parameter(torch.zeros(components))
        self.inputs = nn.Parameter(torch.zeros(components, encoder.features))

    @torch.no_grad()
    def start_from_rows(self, rows: Tensor) -> None:
        """Start at some rows, as the network sees them; at some several times, if they are fewer than components."""
        seen = self._encoder[0].inputs(rows)
        self.inputs.copy_(seen[torch.arange(len(self.inputs)) % len(seen)])

    def forward(self) -> Distribution:
        """p(z)."""
        posteriors = self._encoder[0].posterior(self.inputs)
        return BallMixture(Categorical(logits=self.logits, validate_args=False), posteriors, validate_args=False)
