"""The loss of a graph as a module, so that the engine can wrap it and a checkpoint can hold all that is learned."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from horoball.data.graphs.graph import Graph
from horoball.data.graphs.pair_tiles import Tiles
from horoball.models.graph.device_sums import Matrices, log_prob_of_matrices
from horoball.models.graph.pair_sums import (
    log_prob_of_non_edges,
    log_prob_of_pairs,
    log_prob_of_tiles,
    matrices_of_non_edges,
)
from horoball.models.graph.vae import GraphVAE
from horoball.numerics.kernels import wide_dtype
from horoball.training.config import TrainConfig

__all__ = ["GraphObjective"]


class GraphObjective(nn.Module):
    """Minus the evidence lower bound of a graph, and its parts.

        E_q Σ_{i≠j} log p(A_ij | z_i, z_j) − β Σ_i KL(q_i ‖ p),

    over ordered pairs as Kipf & Welling (2016) have it, exactly or from sampled pairs; see Note [Sampled pairs].

    Args:
        model: The model.
        graph: The graph that the encoder sees.
        config: Settings of the training.

    Example:
        >>> from horoball.models import GraphConfig
        >>> graph = Graph.of([(0, 1), (1, 2), (2, 3)])
        >>> objective = GraphObjective(GraphVAE.from_config(GraphConfig(nodes=4)), graph, TrainConfig())
        >>> objective.terms, objective(graph.edges).shape
        (('loss', 'reconstruction', 'kl'), torch.Size([3]))
    """

    def __init__(self, model: GraphVAE, graph: Graph, config: TrainConfig) -> None:
        super().__init__()
        self.model, self.config = model, config
        # Not buffers: they are the graph's, not the model's, and DDP cannot send sparse ones.
        self._propagation, self._features = model.propagation(graph), graph.features
        self._graph, self._adjacency = graph, None
        self._matrices: list[Matrices] = []  # of all non-edges, where they are counted on a GPU

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the numbers that `forward` returns."""
        return "loss", "reconstruction", "kl"

    @property
    def paces(self) -> list[dict[str, Any]]:
        """All parameters learn equally fast."""
        return [{"params": list(self.parameters()), "pace": 1.0}]

    def forward(
        self,
        edges: Tensor,
        non_edges: Tiles | None = None,
        edge_weight: float = 2.0,
        non_edge_weight: float = 1.0,
        share: tuple[int, int] = (0, 1),
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The loss and its terms, of a rank's share of the pairs and nodes.

        Args:
            edges: Edges, shape (edges, 2).
            non_edges: Pairs that are not joined; None for all there are.
            edge_weight: What an edge counts for; twice if all are given, for each stands for two ordered pairs unless
                the graph is directed.
            non_edge_weight: What a pair that is no edge counts for.
            share: The rank and how many there are.
            generator: Where the noise comes from; torch's global generator if not given.
        """
        model, rank, ranks = self.model, *share
        self._place(model.prior.loc.device)
        q, p = model.posterior(self._features, self._propagation), model.prior()
        z, log_q = q.rsample_and_log_prob(generator=generator)
        offset = model.offset(z)
        kl = (log_q - p.log_prob(z))[rank::ranks].sum(dtype=wide_dtype(z))
        joined = edge_weight * log_prob_of_pairs(model.edges, z, model.ball, edges, joined=True, offset=offset)
        if non_edges is None and z.device.type != "cpu":
            self._matrices = self._matrices or matrices_of_non_edges(
                self.adjacency(), z.detach(), rank, ranks, directed=offset is not None
            )
            apart = log_prob_of_matrices(model.edges, False, z, model.ball, self._matrices, offset)
        elif non_edges is None:
            apart = log_prob_of_non_edges(model.edges, z, model.ball, self.adjacency(), rank, ranks, offset=offset)
        else:
            apart = log_prob_of_tiles(model.edges, z, model.ball, non_edges, offset=offset)
        reconstruction = -joined - non_edge_weight * apart
        return torch.stack((reconstruction + self.config.beta * kl, reconstruction, kl))

    def _place(self, device: torch.device) -> None:
        """Bring what the encoder sees to the model's device, once."""
        if self._features is not None:
            self._features = self._features.to(device)
        if self._propagation is not None:
            self._propagation = self._propagation.to(device)

    def adjacency(self) -> Any:
        """The graph's matrix `relation`, made when it is first needed: sampled pairs do not need it."""
        if self._adjacency is None:
            self._adjacency = self._graph.relation()
        return self._adjacency
