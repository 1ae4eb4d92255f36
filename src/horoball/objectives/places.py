"""A term that asks a model to put rows where a layout has them."""

from __future__ import annotations

from torch import Tensor, nn

from horoball.manifolds import PoincareBall

__all__ = ["PlaceTerm"]


class PlaceTerm(nn.Module):
    """How far the posterior location μ_i of a row is from its place t_i in a layout: the distance d(μ_i, t_i).

    The distance is not squared: a row that the encoder cannot put where it belongs pulls no harder than one that is a
    little off, and what is learned of a region is its median.

    Example:
        >>> import torch
        >>> PlaceTerm()(PoincareBall(1.0), torch.tensor([[3.0, 0.0]]), torch.tensor([[-2.0, 0.0]]))
        tensor([5.])
    """

    def forward(self, ball: PoincareBall, loc: Tensor, places: Tensor) -> Tensor:
        """The term of each row, shape (rows,).

        Args:
            ball: The ball.
            loc: Posterior locations, shape (rows, d).
            places: Where the layout has the rows, shape (rows, d).
        """
        distance: Tensor = ball.dist(loc, places)
        return distance
