"""The variational graph auto-encoder: a posterior for every node, an edge by the distance of its ends [§5.3]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn

from horoball.data.graphs import Graph
from horoball.distributions import RiemannianNormal, WrappedNormal
from horoball.manifolds import PoincareBall
from horoball.models.edges import EDGES, Edges
from horoball.models.graph_encoder import ENCODERS, FreeEncoder, GraphEncoder
from horoball.models.posterior import POSTERIORS
from horoball.models.vae import Prior
from horoball.settings import Settings

__all__ = ["GraphConfig", "GraphVAE"]


@dataclass(frozen=True)
class GraphConfig(Settings):
    """What a model of a graph is made from: numbers and names only, as they stand in a checkpoint.

    Example:
        >>> GraphConfig(nodes=100, d=5).edges
        'tanh'
    """

    nodes: int
    features: int = 0  # known of a node; 0 for none, and then the model belongs to this graph alone
    d: int = 2
    c: float = 1.0
    learn_c: bool = False
    posterior: str = "wrapped"
    prior_scale: float = 1.0
    learn_prior: bool = False  # whether σ₀ is learnt, from prior_scale on
    edges: str = "tanh"
    encoder: str = "gcn"  # the paper's; "free" gives every node a posterior of its own
    hidden: int = 32

    def __post_init__(self) -> None:
        """Refuse what no model can be made from."""
        super().__post_init__()
        for name, value, choices in (
            ("posterior", self.posterior, POSTERIORS),
            ("edges", self.edges, EDGES),
            ("encoder", self.encoder, ENCODERS),
        ):
            if value not in choices:
                raise ValueError(f"Unknown {name} {value!r}. Choose one of: {', '.join(choices)}.")
        if self.nodes < 2 or self.d < 1 or self.hidden < 1:
            raise ValueError(
                f"A model of a graph needs two nodes or more, d >= 1 and hidden >= 1, got {self.nodes} nodes, "
                f"d = {self.d} and hidden = {self.hidden}."
            )
        if self.features and self.encoder == "free":
            raise ValueError('The encoder "free" does not look at features. Leave them out, or take encoder="gcn".')
        if not self.prior_scale > 0:
            raise ValueError(f"prior_scale must be above 0, got {self.prior_scale}.")


class GraphVAE(nn.Module):
    """A variational graph auto-encoder on the Poincaré ball; with c = 0 the Euclidean one.

    An edge has probability p(d(z_i, z_j)), 1 − tanh d in the paper. `training.fit_graph` trains it.

    Args:
        encoder: A module from node features and edges to a distribution on the ball.
        prior: A module that returns the prior of a node.
        edges: The law of an edge, given a distance.

    Example:
        >>> graph = Graph.of([(0, 1), (1, 2), (2, 3)])
        >>> model = GraphVAE.from_config(GraphConfig(nodes=4, d=2))
        >>> model.embed(graph).shape, model.edge_probability(model.embed(graph), graph.edges).shape
        (torch.Size([4, 2]), torch.Size([3]))
    """

    def __init__(self, encoder: nn.Module, prior: Prior, edges: Edges) -> None:
        super().__init__()
        self.encoder, self.prior, self.edges = encoder, prior, edges
        self.config: GraphConfig | None = None

    @classmethod
    def from_config(cls, config: GraphConfig) -> Self:
        """The model that the configuration describes.

        Example:
            >>> GraphVAE.from_config(GraphConfig(nodes=4, c=0.0)).ball
            PoincareBall(c=0)
        """
        ball = PoincareBall(config.c, learnable=config.learn_c)
        encoder: nn.Module
        if config.encoder == "free":
            encoder = FreeEncoder(config.nodes, config.d, ball, config.posterior)
        else:
            inputs, featureless = config.features or config.nodes, not config.features
            encoder = GraphEncoder(inputs, config.d, ball, config.hidden, config.posterior, featureless=featureless)
        prior = Prior(config.d, ball, config.prior_scale, config.posterior, learn_scale=config.learn_prior)
        model = cls(encoder, prior, EDGES[config.edges]())
        model.config = config
        return model

    @property
    def ball(self) -> PoincareBall:
        """The ball of the latent space."""
        return self.prior.ball

    def posterior(self, x: Tensor | None, edges: Tensor | None) -> RiemannianNormal | WrappedNormal:
        """q(z | A, X), for all nodes."""
        return self.encoder(x, edges)

    def propagation(self, graph: Graph) -> Tensor | None:
        """The edges as the encoder sees them, if it does."""
        if not self.encoder.propagates:
            return None
        from horoball.models.graph_convolution import propagation

        return propagation(graph)

    @torch.no_grad()
    def embed(self, graph: Graph) -> Tensor:
        """Posterior means of the nodes, in the tangent chart: `model.ball.to_ball` shows them in the ball."""
        mean = self.posterior(graph.features, self.propagation(graph)).mean
        return mean.clone()  # a free encoder's is its parameter

    @torch.no_grad()
    def edge_probability(self, z: Tensor, pairs: Tensor) -> Tensor:
        """p(A_ij = 1) of pairs of points, shape (pairs,)."""
        return self.edges.log_edge(self.ball.dist(z[pairs[:, 0]], z[pairs[:, 1]])).exp()
