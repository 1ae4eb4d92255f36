"""The loss of some rows as a module, so that the engine can wrap it and a checkpoint can hold all that is learned."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from horoball.models.table.vae import VAE
from horoball.numerics.kernels import wide
from horoball.objectives import elbo
from horoball.objectives.chords import ChordPoints, chord_distance
from horoball.objectives.distances import DistanceTerm
from horoball.objectives.places import PlaceTerm
from horoball.training.config import TrainConfig

__all__ = ["TableObjective"]


class TableObjective(nn.Module):
    """Minus the bound and its parts, all summed over rows; a map adds a term, times `distance_weight`.

    Args:
        model: The model.
        config: Settings of the training.
        term: The term of a map.

    Example:
        >>> from horoball.models import ModelConfig
        >>> objective = TableObjective(VAE.from_config(ModelConfig(features=3, hidden=(8,))), TrainConfig())
        >>> objective.terms, objective(torch.zeros(4, 3)).shape
        (('loss', 'reconstruction', 'kl'), torch.Size([3]))
    """

    def __init__(self, model: VAE, config: TrainConfig, term: DistanceTerm | PlaceTerm | None = None) -> None:
        super().__init__()
        self.model, self.config, self.term = model, config, term

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the numbers that `forward` returns."""
        map_terms = () if self.term is None else ("place" if isinstance(self.term, PlaceTerm) else "distance",)
        return ("loss", "reconstruction", "kl", *map_terms)

    @property
    def paces(self) -> list[dict[str, Any]]:
        """The encoder, the likelihood's own parameters, which may have far to go, and all others."""
        rates = {"encoder": self.config.encoder_rate, "likelihood": self.config.scale_rate}
        groups: list[dict[str, Any]]
        groups = [
            {"params": list(getattr(self.model, part).parameters()), "pace": rate}
            for part, rate in rates.items()
            if rate != 1  # a model that is trained in part may lack one
        ]
        apart = {id(p) for group in groups for p in group["params"]}
        groups.insert(0, {"params": [p for p in self.parameters() if id(p) not in apart], "pace": 1.0})
        return [group for group in groups if group["params"]]

    def forward(
        self,
        x: Tensor,
        side: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The loss and its terms.

        Args:
            x: Rows, shape (rows, features).
            side: What the term of a map compares them with: their distances to the landmarks, shape (rows, landmarks),
                or their places in a layout, shape (rows, d).
            generator: Where the noise comes from; torch's global generator if not given.
        """
        if not len(x):  # a rank without rows at this step still takes part in it, with a weight of 0
            side = None if side is None else side.new_zeros(1, side.shape[1])
            return 0 * self(x.new_zeros(1, x.shape[1]), side, generator)
        q = self.model.posterior(x)
        config = self.config
        bound = elbo(
            self.model, x, beta=config.beta, samples=config.samples, kl=config.kl, posterior=q, generator=generator
        )
        # The parts are for reading: their gradients would be zeros that are added up.
        sums = [-bound.value.sum(), -bound.log_likelihood.detach().sum(), bound.kl.detach().sum()]
        if self.term is not None:
            if side is None:
                raise ValueError("The term of a map needs numbers beside the rows, and the table has none.")
            if isinstance(self.term, PlaceTerm):
                term = self.term(self.model.ball, q.loc, side).sum()
            else:
                term = self._distances(self.term, q.loc, side, generator).sum()
            sums[0] = sums[0] + config.distance_weight * term
            sums.append(term.detach())
        return torch.stack(sums)

    def _distances(self, term: DistanceTerm, loc: Tensor, side: Tensor, generator: torch.Generator | None) -> Tensor:
        """The distance term of each row."""
        landmarks, g = term.drawn(side, generator)
        ball = self.model.ball
        others = ChordPoints(ball, wide(self.model.posterior(landmarks).loc))
        square = ChordPoints(ball, wide(loc)).between(others)
        distance: Tensor = term(chord_distance(ball, square).to(loc.dtype), g)
        return distance
