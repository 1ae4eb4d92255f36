"""The loss of some rows as a module, so that the engine can wrap it and a checkpoint can hold all that is learned."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from horoball.models.table.vae import VAE
from horoball.objectives import elbo
from horoball.objectives.chords import chord_distance, chords_between, paired_chords
from horoball.objectives.distances import DistanceTerm
from horoball.objectives.neighbors import NeighborTerm
from horoball.training.config import TrainConfig

__all__ = ["TableObjective"]


class TableObjective(nn.Module):
    """Minus the bound, with the terms of a map if there are any, and its parts; all summed over rows.

    A map adds W((1 − λ) distance term + λ neighbor term), where W is `distance_weight` and λ is `locality`.

    Args:
        model: The model.
        config: Settings of the training.
        distances: The distance term.

    Example:
        >>> from horoball.models import ModelConfig
        >>> objective = TableObjective(VAE.from_config(ModelConfig(features=3, hidden=(8,))), TrainConfig())
        >>> objective.terms, objective(torch.zeros(4, 3)).shape
        (('loss', 'reconstruction', 'kl'), torch.Size([3]))
    """

    def __init__(self, model: VAE, config: TrainConfig, distances: DistanceTerm | None = None) -> None:
        super().__init__()
        self.model, self.config, self.distances = model, config, distances
        self.neighbors = NeighborTerm() if distances is not None and config.locality > 0 else None

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the numbers that `forward` returns."""
        maps = (("distance", self.distances), ("neighbor", self.neighbors))
        return ("loss", "reconstruction", "kl", *(name for name, term in maps if term is not None))

    def forward(
        self,
        x: Tensor,
        side: Tensor | None = None,
        partners: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The loss and its terms.

        Args:
            x: Rows, shape (rows, features).
            side: Their distances to the landmarks, shape (rows, landmarks); needed by the terms of a map.
            partners: A neighbor of each row, shape (rows, features); needed by the neighbor term.
            generator: Where the noise comes from; torch's global generator if not given.
        """
        if not len(x):  # a rank without rows at this step still takes part in it, with a weight of 0
            side = None if side is None else side.new_zeros(1, side.shape[1])
            blank = x.new_zeros(1, x.shape[1])
            return 0 * self(blank, side, None if partners is None else blank, generator)
        q = self.model.posterior(x)
        config = self.config
        bound = elbo(
            self.model, x, beta=config.beta, samples=config.samples, kl=config.kl, posterior=q, generator=generator
        )
        sums = [-bound.value.sum(), -bound.log_likelihood.sum(), bound.kl.sum()]
        if self.distances is not None:
            terms = self._map_terms(self.distances, q.loc, side, partners, generator)
            weights = (1 - config.locality, config.locality)
            sums[0] = sums[0] + config.distance_weight * sum(w * t for w, t in zip(weights, terms, strict=False))
            sums += terms
        return torch.stack(sums)

    def _map_terms(
        self,
        distances: DistanceTerm,
        loc: Tensor,
        side: Tensor | None,
        partners: Tensor | None,
        generator: torch.Generator | None,
    ) -> list[Tensor]:
        """The distance term, and the neighbor term if there is one, from one set of distances to landmarks."""
        if side is None:
            raise ValueError("The distance term needs the rows' distances to its landmarks; the table has none.")
        landmarks, g = distances.drawn(side, generator)
        ball, rows = self.model.ball, len(loc)
        if self.neighbors is None:
            far = chords_between(ball, loc, self.model.posterior(landmarks).loc)
            return [distances(chord_distance(ball, far).to(loc.dtype), g).sum()]
        if partners is None:
            raise ValueError("The neighbor term needs a neighbor of each row; the table has none.")
        others = self.model.posterior(torch.cat((partners, landmarks))).loc
        far = chords_between(ball, loc, others[rows:])
        near = paired_chords(ball, loc, others[:rows])
        terms = (distances(chord_distance(ball, far).to(loc.dtype), g), self.neighbors(near, far))
        return [term.sum().to(loc.dtype) for term in terms]
