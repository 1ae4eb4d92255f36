"""The variational graph auto-encoder: a posterior for every node, an edge by the distance of its ends [§5.3]."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor, nn

from horoball.distributions.normal import POSTERIORS, BallNormal
from horoball.geometry.ball import PoincareBall
from horoball.graphs.graph import Graph
from horoball.storage.settings import Range, Settings
from horoball.vae.encoder import LATENT_RANGES, Prior

__all__ = [
    "EDGES",
    "ENCODERS",
    "Direction",
    "Edges",
    "FermiDiracEdges",
    "FreeEncoder",
    "GraphConfig",
    "GraphEncoder",
    "GraphVAE",
    "TanhEdges",
]

ENCODERS = ("gcn", "free")
DETOUR = (1.5, 0.25)  # r and t that directed models start from: about the half-width of a cone; see `nested_cones`
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
        >>> from horoball.graphs import Graph
        >>> from horoball.graphs.convolution import propagation
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
        from horoball.graphs.convolution import GraphConvolution

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


class Edges(Protocol):
    """What a graph's likelihood needs: log p and log(1 − p) of an edge, by distance, each without cancellation."""

    def log_edge(self, d: Tensor) -> Tensor:
        """Log p(A_ij = 1)."""

    def log_no_edge(self, d: Tensor) -> Tensor:
        """Log p(A_ij = 0)."""

    def parameters(self) -> Any:
        """What is learned."""


class _LogTanh(torch.autograd.Function):
    """Log tanh d. For d → 0 it is log d and its rate 1/d; for d → ∞ both vanish as exp(−2d), to the last digit."""

    @staticmethod
    def forward(d: Tensor) -> Tensor:
        t = torch.exp(-2 * d)
        return torch.where(d < 0.5, torch.log(torch.tanh(d)), torch.log1p(-2 * t / (1 + t)))

    @staticmethod
    def setup_context(ctx: torch.autograd.function.FunctionCtx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> Tensor:
        (d,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return grad * (-4 * torch.exp(-2 * d) / torch.expm1(-4 * d))  # 2/sinh(2d)


class TanhEdges(nn.Module):
    """The paper's distribution, p = 1 − tanh d [eq:edge]: it has nothing to learn.

    Example:
        >>> edges = TanhEdges()
        >>> d = torch.tensor([0.5, 50.0])
        >>> edges.log_edge(d), edges.log_no_edge(d)
        (tensor([ -0.6201, -99.3069]), tensor([-7.7194e-01, -7.5670e-44]))
    """

    def log_edge(self, d: Tensor) -> Tensor:
        """log(1 − tanh d) = −2d − log((1 + exp(−2d))/2), which is −d near 0."""
        return -2 * d - torch.log1p(torch.expm1(-2 * d) / 2)

    def log_no_edge(self, d: Tensor) -> Tensor:
        """Log tanh d."""
        return _LogTanh.apply(d)


class FermiDiracEdges(nn.Module):
    """The Fermi–Dirac distribution, p = 1/(exp((d − r)/t) + 1), with radius r and temperature t learned.

    It starts at r = 0, t = ½, at half of the paper's probability: few pairs of a prior's points are then edges, as few
    pairs of a graph are. From r = 2, t = 1 training ends with all points in one place.

    Args:
        radius: Where r starts.
        temperature: Where t > 0 starts.

    Example:
        >>> FermiDiracEdges(radius=2.0).log_edge(torch.tensor([2.0])).exp()
        tensor([0.5000], grad_fn=<ExpBackward0>)
    """

    def __init__(self, radius: float = 0.0, temperature: float = 0.5) -> None:
        super().__init__()
        self.radius = nn.Parameter(torch.tensor(float(radius)))
        self.log_temperature = nn.Parameter(torch.tensor(math.log(temperature)))

    def log_edge(self, d: Tensor) -> Tensor:
        """Log p, a log-sigmoid."""
        return nn.functional.logsigmoid((self.radius - d) * torch.exp(-self.log_temperature))

    def log_no_edge(self, d: Tensor) -> Tensor:
        """log(1 − p), the log-sigmoid of the negative."""
        return nn.functional.logsigmoid((d - self.radius) * torch.exp(-self.log_temperature))


class Direction(nn.Module):
    """What tells a parent from a child: of a pair (i, j), a child and its parent, γ(|z_j| − |z_i|) is added to d.

    At γ = 1, d + |z_j| − |z_i| is the detour from the origin to i by way of j, twice a Gromov product: 0 for all points
    j on the way, and never less. A node is then below another if it is behind it. γ > 0 is learned.

    Args:
        weight: Where γ starts.

    Example:
        >>> Direction().offset(torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor([5., 1.], grad_fn=<MulBackward0>)
    """

    def __init__(self, weight: float = 1.0) -> None:
        super().__init__()
        self.log_weight = nn.Parameter(torch.tensor(math.log(weight)))

    def offset(self, z: Tensor) -> Tensor:
        """γ|z| of points in the tangent chart, shape (n,)."""
        return self.log_weight.exp() * torch.linalg.vector_norm(z, dim=-1)


EDGES = {"tanh": TanhEdges, "fermi_dirac": FermiDiracEdges}


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
            model = cls(encoder, prior, FermiDiracEdges(*DETOUR), Direction())
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
        from horoball.graphs.convolution import propagation

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
        """p(A_ij = 1) of pairs of points, (child, parent) if the model is directed, shape (pairs, …) for (n, …, d)."""
        return self.edges.log_edge(self.separation(z, pairs)).exp()
