"""The variational graph auto-encoder: a posterior for every node, an edge by the distance of its ends [§5.3]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from horoball.data.graphs.graph import Graph
from horoball.distributions import POSTERIORS, BallNormal
from horoball.manifolds import PoincareBall
from horoball.models.graph.edges import EDGES, Direction, Edges, FermiDiracEdges
from horoball.models.graph.encoder import ENCODERS, FreeEncoder, GraphEncoder
from horoball.models.prior import LATENT_RANGES, Prior
from horoball.storage.settings import Range, Settings

__all__ = ["GraphConfig", "GraphVAE"]


@dataclass(frozen=True)
class GraphConfig(Settings):
    """Settings of a model of a graph, as stored in checkpoints. The defaults are the paper's.

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
    learn_prior: bool = False  # whether σ₀ is learned, from prior_scale on
    edges: str = "tanh"
    encoder: str = "gcn"  # the paper's; "free" gives every node a posterior of its own
    hidden: int = 32
    directed: bool = False  # whether edges are (child, parent), and p(A_ij) looks at the radii too
    transitive: bool = False  # whether the edges of a directed model are those to all ancestors

    RANGES: ClassVar[dict[str, Range]] = LATENT_RANGES | {
        "nodes": Range(2, 10**12, "A graph has two nodes or more."),
        "features": Range(0, 10**9),
        "hidden": Range(1, 10**6, "32 suits most graphs."),
    }

    def __post_init__(self) -> None:
        """Refuse what no model can be made from."""
        super().__post_init__()
        for name, value, choices in (
            ("edges", self.edges, EDGES),
            ("encoder", self.encoder, ENCODERS),
        ):
            if value not in choices:
                raise ValueError(f"Unknown {name} {value!r}. Choose one of: {', '.join(choices)}.")
        POSTERIORS.check(self.posterior)
        if self.directed and self.edges != "fermi_dirac":
            raise ValueError(f'A directed model needs edges="fermi_dirac", which learns its scale, got {self.edges!r}.')
        if self.features and self.encoder == "free":
            raise ValueError('The encoder "free" does not look at features. Leave them out, or take encoder="gcn".')


class GraphVAE(nn.Module):
    """A variational graph auto-encoder on the Poincaré ball; with c = 0 the Euclidean one.

    An edge has probability p(d(z_i, z_j)), 1 − tanh d in the paper. `training.fit_graph` trains it.

    Args:
        encoder: A module from node features and edges to a distribution on the ball.
        prior: A module that returns the prior of a node.
        edges: The distribution of an edge, given a distance.
        direction: What tells children from parents; None for edges without directions.

    Example:
        >>> graph = Graph.of([(0, 1), (1, 2), (2, 3)])
        >>> model = GraphVAE.from_config(GraphConfig(nodes=4, d=2))
        >>> model.embed(graph).shape, model.edge_probability(model.embed(graph), graph.edges).shape
        (torch.Size([4, 2]), torch.Size([3]))
    """

    def __init__(self, encoder: nn.Module, prior: Prior, edges: Edges, direction: Direction | None = None) -> None:
        super().__init__()
        self.encoder, self.prior, self.edges, self.direction = encoder, prior, edges, direction
        self.config: GraphConfig | None = None

    @classmethod
    def from_config(cls, config: GraphConfig, *, generator: torch.Generator | None = None) -> Self:
        """The model that the configuration describes.

        Args:
            config: What it is made from.
            generator: Where the initial weights come from; torch's global generator if not given.

        Example:
            >>> GraphVAE.from_config(GraphConfig(nodes=4, c=0.0)).ball
            PoincareBall(c=0)
        """
        ball = PoincareBall(config.c, learnable=config.learn_c)
        encoder: nn.Module
        if config.encoder == "free":
            encoder = FreeEncoder(config.nodes, config.d, ball, config.posterior, generator=generator)
        else:
            inputs, featureless = config.features or config.nodes, not config.features
            encoder = GraphEncoder(
                inputs,
                config.d,
                ball,
                config.hidden,
                config.posterior,
                featureless=featureless,
                generator=generator,
            )
        prior = Prior(config.d, ball, config.prior_scale, config.posterior, learn_scale=config.learn_prior)
        if config.directed:
            # A detour of 1.5 is about the half-width of the cones that training starts from; see `nested_cones`.
            model = cls(encoder, prior, FermiDiracEdges(1.5, 0.25), Direction())
        else:
            model = cls(encoder, prior, EDGES[config.edges]())
        model.config = config
        return model

    @property
    def ball(self) -> PoincareBall:
        """The ball of the latent space."""
        return self.prior.ball

    def posterior(self, x: Tensor | None, edges: Tensor | None) -> BallNormal:
        """q(z | A, X), for all nodes."""
        return self.encoder(x, edges)

    def propagation(self, graph: Graph) -> Tensor | None:
        """The edges as the encoder sees them, if it does."""
        if not self.encoder.propagates:
            return None
        from horoball.models.graph.convolution import propagation

        return propagation(graph)

    @torch.no_grad()
    def embed(self, graph: Graph) -> Tensor:
        """Posterior means of the nodes, in the tangent chart: `model.ball.to_ball` shows them in the ball."""
        mean = self.posterior(graph.features, self.propagation(graph)).mean
        return mean.clone()  # a free encoder's is its parameter

    def offset(self, z: Tensor) -> Tensor | None:
        """What a directed model adds to distances, offset_j − offset_i for child i and parent j; None if it is not."""
        return None if self.direction is None else self.direction.offset(z)

    def separation(self, z: Tensor, pairs: Tensor) -> Tensor:
        """Distances of pairs of points; of a directed model d + offset_j − offset_i for child i and parent j."""
        i, j = pairs.unbind(1)
        d, offset = self.ball.dist(z[i], z[j]), self.offset(z)
        return d if offset is None else d + offset[j] - offset[i]

    @torch.no_grad()
    def edge_probability(self, z: Tensor, pairs: Tensor) -> Tensor:
        """p(A_ij = 1) of pairs of points, (child, parent) if the model is directed, shape (pairs,)."""
        return self.edges.log_edge(self.separation(z, pairs)).exp()
