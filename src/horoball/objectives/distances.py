"""A term that asks a map for faithful distances, which likelihood alone does not."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from horoball.numerics.kernels import may_hold

__all__ = ["NEAR", "DistanceTerm"]

NEAR = 0.01  # added to g², in units of the median: pairs closer than a tenth of it weigh alike


class DistanceTerm(nn.Module):
    """How far the distances of a map are from the data's own.

    For row i with posterior location μ_i it is the mean over landmarks l of

        (d(μ_i, μ_l)/s − g_il)² / (g_il² + 0.01),

    where g are distances in the data in units of their median, and s > 0 is learned: a small map is no more faithful
    than a large one. Rows are compared with landmarks, not with each other, so the cost is linear in their number. An
    infinite g_il is not known, as between batches, and left out of the mean.

    Args:
        landmarks: The landmarks as the model sees them, shape (landmarks, features).
        at_once: Landmarks that are compared at a step, drawn anew each time.

    Example:
        >>> from horoball.models import VAE, ModelConfig
        >>> model = VAE.from_config(ModelConfig(features=3, hidden=(8,)))
        >>> x = torch.randn(5, 3)
        >>> term = DistanceTerm(x[:2])
        >>> landmarks, g = term.drawn(torch.cdist(x, x[:2]))
        >>> term(model.ball.cdist(model.posterior(x).loc, model.posterior(landmarks).loc), g).shape
        torch.Size([5])
    """

    landmarks: Tensor

    def __init__(self, landmarks: Tensor, at_once: int = 128) -> None:
        super().__init__()
        self.at_once = at_once
        self.register_buffer("landmarks", landmarks, persistent=False)
        self.log_scale = nn.Parameter(torch.zeros(()))

    def drawn(self, g: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """The landmarks that are compared at this step, shape (at_once, features), and the rows' distances to them.

        Args:
            g: Distances in the data from rows to all landmarks, shape (rows, landmarks).
            generator: Draws the landmarks; torch's global generator if not given.
        """
        if len(self.landmarks) <= self.at_once:
            return self.landmarks, g
        index = torch.randperm(len(self.landmarks), generator=generator)[: self.at_once].to(g.device)
        return self.landmarks[index], g[:, index]

    def forward(self, distance: Tensor, g: Tensor) -> Tensor:
        """The term of each row, shape (rows,).

        Args:
            distance: Distances in the map from rows to landmarks, shape (rows, landmarks).
            g: The same distances in the data.
        """
        known = g.isfinite()
        if not may_hold(~known):
            return self._error(distance, g).mean(-1)
        error = torch.where(known, self._error(distance, torch.where(known, g, 0.0)), 0.0)
        return error.sum(-1) / known.sum(-1).clamp_min(1)  # a row may know no landmark

    def _error(self, distance: Tensor, g: Tensor) -> Tensor:
        return (distance * (-self.log_scale).exp() - g).square() / (g.square() + NEAR)
