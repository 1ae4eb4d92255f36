"""The probability of an edge, given the graph: the decoder's, averaged over the nodes' posteriors.

    p(A_ij = 1 | A) ≈ 1/S Σ_s p(A_ij = 1 | z_iˢ, z_jˢ),   z_iˢ ~ q(z_i | A)

Training maximizes an expectation over the posteriors, and leaves the decoder such that pairs are told apart on average.
At the posterior means every pair is nearer to being an edge than the training has seen it: nodes that are not
quite apart, such as siblings, pass for child and parent.
"""

from __future__ import annotations

import torch
from torch import Tensor

from horoball.geometry.random import generator_for, shared
from horoball.graphs.run import GraphRun

_DRAWS = 32
_POSSIBLE = 1e-3  # probability at the means below which a pair is left at it: most pairs are, and none would reach ½
_PAIRS = 1 << 14  # that are averaged at a time


class EdgeProbability:
    """Probabilities of edges between the nodes of a fitted model; (child, parent) if it is directed.

    All nodes are drawn with the same noise, one for the first ends of pairs and one for the second: what is said of a
    pair does not depend on what else is asked.

    Args:
        run: A fitted model.

    Example:
        >>> from horoball.graphs import Graph
        >>> from horoball.graphs.run import train_graph
        >>> from horoball.graphs.fit import FREE_TRAINING
        >>> run = train_graph(Graph.of([(0, 1), (1, 2), (2, 3)]), {"d": 2}, FREE_TRAINING.replace(max_epochs=2))
        >>> probability = EdgeProbability(run)
        >>> probability.of(torch.tensor([[0, 1]])).shape, probability.to_all(torch.tensor([0])).shape
        (torch.Size([1]), torch.Size([1, 4]))
    """

    def __init__(self, run: GraphRun) -> None:
        self.model, self.z = run.model, run.points()
        model, graph = run.model, run.graph
        with torch.no_grad():
            self.offset = model.offset(self.z)
            self._whole = (
                model.posterior(graph.features, model.propagation(graph)) if model.encoder.propagates else None
            )

    @torch.no_grad()
    def of(self, pairs: Tensor) -> Tensor:
        """p(A_ij = 1) of pairs of nodes, shape (pairs,); 0 of a node with itself."""
        p = self.model.edge_probability(self.z, pairs)
        p[pairs[:, 0] == pairs[:, 1]] = 0.0
        possible = (p >= _POSSIBLE).nonzero()[:, 0]
        p[possible] = self._averaged(pairs[possible])
        return p

    @torch.no_grad()
    def to_all(self, nodes: Tensor, *, up: bool = True) -> Tensor:
        """p(edge from each of some nodes to every node), or the other way, shape (nodes, n); 0 to itself."""
        d = self.model.ball.cdist(self.z[nodes], self.z)
        if self.offset is not None:
            lift = self.offset - self.offset[nodes].unsqueeze(1)
            d = d + (lift if up else -lift)
        p = self.model.edges.log_edge(d).exp()
        p[torch.arange(len(nodes)), nodes] = 0.0
        at, other = (p >= _POSSIBLE).nonzero().unbind(1)
        p[at, other] = self._averaged(torch.stack((nodes[at], other) if up else (other, nodes[at]), 1))
        return p

    def _averaged(self, pairs: Tensor) -> Tensor:
        if self.offset is None:  # both directions are one pair
            pairs = pairs.sort(1).values
        parts = [self._average(part) for part in pairs.split(_PAIRS)]
        return torch.cat(parts) if parts else self.z.new_empty(0)

    def _average(self, pairs: Tensor) -> Tensor:
        (first, at), (second, other) = (nodes.unique(return_inverse=True) for nodes in pairs.unbind(1))
        z = torch.cat((self._draws(first, 0), self._draws(second, 1)))
        return self.model.edge_probability(z, torch.stack((at, len(first) + other), 1)).mean(1)

    def _draws(self, nodes: Tensor, end: int) -> Tensor:
        """Points of some nodes, shape (nodes, draws, d)."""
        with shared():
            q = self.model.encoder(nodes) if self._whole is None else self._whole
            z = q.rsample((_DRAWS,), generator=generator_for(end)).double()
        return (z if self._whole is None else z[:, nodes]).transpose(0, 1)
