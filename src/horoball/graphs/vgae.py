"""PyTorch Geometric's own variational graph auto-encoder, as a baseline: Euclidean, with an inner product for edges."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from horoball.data.graphs.graph import Graph
from horoball.numerics.random import global_seed
from horoball.runtime.extras import require_geometric

__all__ = ["vgae_scores"]

_BLOCK = 1_000_000  # pairs scored at a time


def vgae_scores(train: Graph, pairs: Tensor, d: int = 16, hidden: int = 32, epochs: int = 200, seed: int = 0) -> Tensor:
    """Scores of pairs by `torch_geometric.nn.VGAE`, fitted to the train graph.

    Kipf & Welling's model without features: two graph convolutions, inner products of posterior means as scores. The
    loss is the library's, with as many sampled non-edges as edges and the KL divergence over the number of nodes;
    Adam at 0.01.

    Args:
        train: The graph without the edges that were held out.
        pairs: Node numbers, shape (k, 2).
        d: Dimension of the latent space.
        hidden: Units of the first convolution.
        epochs: Steps, each over all edges.
        seed: Seed of the weights, the noise and the non-edges.

    Returns:
        Scores in float32, shape (k,).

    Example:
        >>> ring = Graph.of([(i, (i + 1) % 12) for i in range(12)])
        >>> score = vgae_scores(ring, torch.tensor([[0, 1], [0, 6]]), epochs=50)
        >>> bool(score[0] > score[1])
        True
    """
    if not len(train.edges):
        raise ValueError(f"vgae_scores needs edges to fit, got a graph of {train.nodes} nodes without any.")
    both_ways = torch.cat([train.edges, train.edges.flip(1)]).T
    with _seeded(seed):
        model = _model(both_ways, train.nodes, hidden, d)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        for _ in range(epochs):
            optimizer.zero_grad()
            loss = model.recon_loss(model.encode(), both_ways) + model.kl_loss() / train.nodes
            loss.backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        z = model.encode()  # the posterior mean, now that training is over
        return torch.cat([model.decode(z, block.T, sigmoid=False) for block in pairs.split(_BLOCK)])


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Torch's generator, and Python's, from which the library draws non-edges; both are then put back."""
    with global_seed(seed):
        before = random.getstate()
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(before)


def _model(edges: Tensor, nodes: int, hidden: int, d: int) -> Any:
    GCNConv = require_geometric("nn").GCNConv
    gcn_norm = require_geometric("nn.conv.gcn_conv").gcn_norm

    class Encoder(nn.Module):
        """Two convolutions of one unit vector a node, which are not formed: their product with weights is a lookup."""

        def __init__(self) -> None:
            super().__init__()
            self.first = GCNConv(1, hidden, normalize=False)
            self.first.lin = nn.Embedding(nodes, hidden)
            self.mean = GCNConv(hidden, d, normalize=False)
            self.log_scale = GCNConv(hidden, d, normalize=False)
            self.graph = gcn_norm(edges, num_nodes=nodes)

        def forward(self) -> tuple[Tensor, Tensor]:
            h = self.first(torch.arange(nodes), *self.graph).relu()
            return self.mean(h, *self.graph), self.log_scale(h, *self.graph)

    model = require_geometric("nn").VGAE(Encoder())
    require_geometric("nn.inits").glorot(
        model.encoder.first.lin.weight
    )  # as in a linear layer; an embedding starts far larger
    return model
