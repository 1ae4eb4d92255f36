"""A term that asks a map to keep neighbors together and all other rows apart."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["NeighborTerm"]


class NeighborTerm(nn.Module):
    """How hard it is to tell a row's neighbor from rows drawn at random, by distances in the map (InfoNC-t-SNE).

    With a neighbor j of row i in the data, and landmarks l, which stand for all rows, it is

        −log k(i, j) / (k(i, j) + m mean_l k(i, l)),    k = 1 / (1 + s/τ²),    s = 4 sinh²(√c d/2)/c.

    The kernel's tail falls as the area of a hyperbolic circle grows, exp(−√c d), as t-SNE's 1/(1 + d²) falls in the
    plane, which it is for c = 0. The scale τ > 0 is learned, so the size of the map does not matter.

    Args:
        crowd: m, rows that are told apart from the neighbor; more make finer groups.

    Example:
        >>> term = NeighborTerm()
        >>> near, far = torch.tensor([0.1]), torch.tensor([[9.0, 16.0]])
        >>> bool(term(near, far) < term(near + 4, far))
        True
    """

    def __init__(self, crowd: float = 10.0) -> None:
        super().__init__()
        self.crowd = crowd
        self.log_scale = nn.Parameter(torch.zeros(()))

    def forward(self, near: Tensor, far: Tensor) -> Tensor:
        """The term of each row, shape (rows,).

        Args:
            near: Squared chords s from rows to one neighbor each, shape (rows,); see `horoball.objectives.chords`.
            far: The same from rows to landmarks, shape (rows, landmarks).
        """
        narrow = (-2 * self.log_scale).exp()
        wanted = 1 + near * narrow
        others = (1 + far * narrow).reciprocal().mean(-1)
        return torch.log1p(self.crowd * others * wanted)
