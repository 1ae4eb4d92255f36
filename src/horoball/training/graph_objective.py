"""The loss of a graph as a module, so that the engine can wrap it and a checkpoint can hold all that is learnt."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from horoball.data.graphs import Graph
from horoball.data.pair_tiles import Tiles
from horoball.models.graph_vae import GraphVAE
from horoball.models.pair_sums import log_prob_of_non_edges, log_prob_of_pairs, log_prob_of_tiles
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

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the numbers that `forward` returns."""
        return "loss", "reconstruction", "kl"

    def forward(
        self,
        edges: Tensor,
        non_edges: Tiles | None = None,
        edge_weight: float = 2.0,
        non_edge_weight: float = 1.0,
        share: tuple[int, int] = (0, 1),
    ) -> Tensor:
        """The loss and its terms, of a rank's share of the pairs and nodes.

        Args:
            edges: Edges, shape (edges, 2).
            non_edges: Pairs that are not joined; None for all there are.
            edge_weight: What an edge counts for; twice if all are given, for each stands for two ordered pairs.
            non_edge_weight: What a pair that is no edge counts for.
            share: The rank and how many there are.
        """
        model, rank, ranks = self.model, *share
        q, p = model.posterior(self._features, self._propagation), model.prior()
        z, log_q = q.rsample_and_log_prob()
        kl = (log_q - p.log_prob(z))[rank::ranks].sum(dtype=torch.float64)
        joined = edge_weight * log_prob_of_pairs(model.edges, z, model.ball, edges, joined=True)
        if non_edges is None:
            apart = log_prob_of_non_edges(model.edges, z, model.ball, self.adjacency(), rank, ranks)
        else:
            apart = log_prob_of_tiles(model.edges, z, model.ball, non_edges)
        reconstruction = -joined - non_edge_weight * apart
        return torch.stack((reconstruction + self.config.beta * kl, reconstruction, kl))

    def adjacency(self) -> Any:
        """The graph's matrix, made when it is first needed: sampled pairs do not need it."""
        if self._adjacency is None:
            self._adjacency = self._graph.adjacency()
        return self._adjacency
