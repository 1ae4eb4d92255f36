"""The loss of a graph from sampled neighbours as a module."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from horoball.models.graph_vae import GraphVAE
from horoball.models.pair_sums import log_prob_of_pairs
from horoball.training.config import TrainConfig

__all__ = ["SubgraphObjective"]


class SubgraphObjective(nn.Module):
    """An estimate of `GraphObjective` from pairs and neighbours of theirs; see Note [Sampled neighbours].

    Args:
        model: The model, with the encoder "gcn".
        config: Settings of the training.

    Example:
        >>> from horoball.models import GraphConfig
        >>> objective = SubgraphObjective(GraphVAE.from_config(GraphConfig(nodes=9, encoder="gcn")), TrainConfig())
        >>> pairs, matrix = torch.tensor([[0, 1]]), torch.eye(2).to_sparse()
        >>> objective(torch.tensor([7, 3]), matrix, pairs, pairs, pairs, (1.0, 1.0, 1.0)).shape
        torch.Size([3])
    """

    def __init__(self, model: GraphVAE, config: TrainConfig) -> None:
        super().__init__()
        self.model, self.config = model, config

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the numbers that `forward` returns."""
        return "loss", "reconstruction", "kl"

    def forward(
        self,
        known: Tensor,
        matrix: Tensor,
        edges: Tensor,
        non_edges: Tensor,
        drawn: Tensor,
        weights: tuple[float, float, float],
    ) -> Tensor:
        """The loss and its terms, of a `SubgraphBatch`.

        Args:
            known: Features of the part's nodes, or their numbers.
            matrix: The part's Â.
            edges: Edges, shape (edges, 2).
            non_edges: Pairs that are no edges, shape (pairs, 2).
            drawn: Pairs of which each node is as likely an end as any other.
            weights: What an edge, a non-edge and the divergence of an end of `drawn` count for.
        """
        model, (of_edge, of_non_edge, of_end) = self.model, weights
        q, p = model.posterior(known, matrix), model.prior()
        z, log_q = q.rsample_and_log_prob()
        kl = of_end * (log_q - p.log_prob(z))[drawn.flatten()].sum(dtype=torch.float64)
        joined = of_edge * log_prob_of_pairs(model.edges, z, model.ball, edges, joined=True)
        apart = of_non_edge * log_prob_of_pairs(model.edges, z, model.ball, non_edges, joined=False)
        reconstruction = -joined - apart
        return torch.stack((reconstruction + self.config.beta * kl, reconstruction, kl))
