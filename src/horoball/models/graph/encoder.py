"""Encoders of a graph: from what is known of its nodes and edges to a posterior for every node."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from horoball.distributions import POSTERIORS, BallNormal
from horoball.manifolds import PoincareBall

__all__ = ["ENCODERS", "FreeEncoder", "GraphEncoder"]

ENCODERS = ("gcn", "free")
_CLOSE = -3.0  # raw scale of a start that is to be kept: σ is 0.05 then


class GraphEncoder(nn.Module):
    """Two graph convolutions that emit every node's posterior.

    A family with a diagonal scale has one for each axis, as in Kipf & Welling (2016); the others have one scale.

    Args:
        inputs: Features of a node, or the number of nodes if there are none.
        d: Dimension of the ball.
        ball: The ball.
        hidden: Size of the hidden layer.
        posterior: Name of the family: "wrapped", "riemannian", or one that a plugin registers.
        featureless: Whether nodes have no features.
        generator: Where the initial weights come from; torch's global generator if not given.

    Example:
        >>> from horoball.data import Graph
        >>> from horoball.models.graph.convolution import propagation
        >>> encoder = GraphEncoder(3, 2, PoincareBall(1.0), featureless=True)
        >>> encoder(None, propagation(Graph.of([(0, 1), (1, 2)]))).loc.shape
        torch.Size([3, 2])
    """

    propagates = True  # whether it needs a matrix of `propagation`

    def __init__(
        self,
        inputs: int,
        d: int,
        ball: PoincareBall,
        hidden: int = 32,
        posterior: str = "wrapped",
        *,
        featureless: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        from horoball.models.graph.convolution import GraphConvolution

        self.d, self.ball, self.family = d, ball.view(), POSTERIORS[posterior]
        self.scale = "diagonal" if "diagonal" in self.family.scales else "isotropic"
        self.first = GraphConvolution(inputs, hidden, featureless=featureless, generator=generator)
        self.second = GraphConvolution(hidden, self.family.network_size(d, self.scale), generator=generator)

    def forward(self, x: Tensor | None, edges: Tensor) -> BallNormal:
        """q(z | A, X)."""
        outputs = self.second(torch.relu(self.first(x, edges)), edges)
        return self.family.from_network(outputs, self.d, self.ball, self.scale)


class FreeEncoder(nn.Module):
    """A location and a scale of its own for every node: it holds what a graph holds, and says nothing of new nodes.

    A graph convolution averages over neighbors, so the nodes below one hub are hard to tell apart. Here nothing is
    averaged, and a step costs no propagation.

    Args:
        nodes: Number of nodes.
        d: Dimension of the ball.
        ball: The ball.
        posterior: Name of the family: "wrapped", "riemannian", or one that a plugin registers.
        generator: Where the initial locations come from; torch's global generator if not given.

    Example:
        >>> FreeEncoder(3, 2, PoincareBall(1.0))(None, None).loc.shape
        torch.Size([3, 2])
    """

    propagates = False

    def __init__(
        self,
        nodes: int,
        d: int,
        ball: PoincareBall,
        posterior: str = "wrapped",
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.d, self.ball, self.family = d, ball.view(), POSTERIORS[posterior]
        self.loc = nn.Parameter(torch.randn(nodes, d, generator=generator))
        self.raw_scale = nn.Parameter(torch.full((nodes, self.family.network_size(d) - d), -1.0))

    def start_at(self, loc: Tensor) -> None:
        """Start near some points rather than at random, but no two nodes in one place."""
        with torch.no_grad():
            self.loc.mul_(0.1).add_(loc)

    def start_in(self, loc: Tensor) -> None:
        """Start at some points, with scales small beside the distances between them."""
        with torch.no_grad():
            self.loc.copy_(loc)
            self.raw_scale.fill_(_CLOSE)

    def forward(self, nodes: Tensor | None = None, edges: Tensor | None = None) -> BallNormal:
        """q(z), of all nodes or of those with some numbers; edges are not looked at."""
        loc, raw = (p if nodes is None else p[nodes] for p in (self.loc, self.raw_scale))
        return self.family.from_network(torch.cat((loc, raw), -1), self.d, self.ball)
