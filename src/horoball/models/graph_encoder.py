"""Encoders of a graph: from what is known of its nodes and edges to a posterior for every node."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from horoball.distributions import RiemannianNormal, WrappedNormal
from horoball.manifolds import PoincareBall
from horoball.models.posterior import posterior, posterior_size

__all__ = ["ENCODERS", "FreeEncoder", "GraphEncoder"]

ENCODERS = ("gcn", "free")


class GraphEncoder(nn.Module):
    """Two graph convolutions that emit every node's posterior.

    A wrapped normal has a scale for each axis, as in Kipf & Welling (2016); a Riemannian normal has one.

    Args:
        inputs: Features of a node, or the number of nodes if there are none.
        d: Dimension of the ball.
        ball: The ball.
        hidden: Size of the hidden layer.
        posterior: "wrapped" or "riemannian".
        featureless: Whether nodes have no features.

    Example:
        >>> from horoball.data import Graph
        >>> from horoball.models.graph_convolution import propagation
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
    ) -> None:
        super().__init__()
        from horoball.models.graph_convolution import GraphConvolution

        self.d, self.ball, self.posterior = d, ball, posterior
        self.scale = "diagonal" if posterior == "wrapped" else "isotropic"
        self.first = GraphConvolution(inputs, hidden, featureless=featureless)
        self.second = GraphConvolution(hidden, posterior_size(d, self.scale))

    def forward(self, x: Tensor | None, edges: Tensor) -> RiemannianNormal | WrappedNormal:
        """q(z | A, X)."""
        outputs = self.second(torch.relu(self.first(x, edges)), edges)
        return posterior(outputs, self.d, self.ball, self.posterior, self.scale)


class FreeEncoder(nn.Module):
    """A location and a scale of its own for every node: it holds what a graph holds, and says nothing of new nodes.

    A graph convolution averages over neighbours, so the nodes below one hub are hard to tell apart. Here nothing is
    averaged, and a step costs no propagation.

    Args:
        nodes: Number of nodes.
        d: Dimension of the ball.
        ball: The ball.
        posterior: "wrapped" or "riemannian".

    Example:
        >>> FreeEncoder(3, 2, PoincareBall(1.0))(None, None).loc.shape
        torch.Size([3, 2])
    """

    propagates = False

    def __init__(self, nodes: int, d: int, ball: PoincareBall, posterior: str = "wrapped") -> None:
        super().__init__()
        self.d, self.ball, self.posterior = d, ball, posterior
        self.loc = nn.Parameter(torch.randn(nodes, d))
        self.raw_scale = nn.Parameter(torch.full((nodes, 1), -1.0))

    def start_at(self, loc: Tensor) -> None:
        """Start near some points rather than at random, but no two nodes in one place."""
        with torch.no_grad():
            self.loc.mul_(0.1).add_(loc)

    def forward(self, nodes: Tensor | None = None, edges: Tensor | None = None) -> RiemannianNormal | WrappedNormal:
        """q(z), of all nodes or of those with some numbers; edges are not looked at."""
        loc, raw = (p if nodes is None else p[nodes] for p in (self.loc, self.raw_scale))
        return posterior(torch.cat((loc, raw), -1), self.d, self.ball, self.posterior)
