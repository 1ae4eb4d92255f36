"""The loss of some rows as a module, so that the engine can wrap it and a checkpoint can hold all that is learnt."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from horoball.distances import DistanceTerm
from horoball.models.vae import VAE
from horoball.objectives import elbo
from horoball.training.config import TrainConfig

__all__ = ["TableObjective"]


class TableObjective(nn.Module):
    """Minus the bound, with the distance term if there is one, and its parts; all summed over rows.

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

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the numbers that `forward` returns."""
        return ("loss", "reconstruction", "kl", *(("distance",) if self.distances is not None else ()))

    def forward(self, x: Tensor, side: Tensor | None = None) -> Tensor:
        """The loss and its terms.

        Args:
            x: Rows, shape (rows, features).
            side: Their distances to the landmarks, shape (rows, landmarks); needed by the distance term.
        """
        if not len(x):  # a rank without rows at this step still takes part in it, with a weight of 0
            return 0 * self(x.new_zeros(1, x.shape[1]), None if side is None else side.new_zeros(1, side.shape[1]))
        q = self.model.posterior(x)
        config = self.config
        bound = elbo(self.model, x, beta=config.beta, samples=config.samples, kl=config.kl, posterior=q)
        sums = [-bound.value.sum(), -bound.log_likelihood.sum(), bound.kl.sum()]
        if self.distances is not None:
            if side is None:
                raise ValueError("The distance term needs the rows' distances to its landmarks; the table has none.")
            sums.append(self.distances(self.model, self.model.ball, q.loc, side).sum())
            sums[0] = sums[0] + config.distance_weight * sums[3]
        return torch.stack(sums)
