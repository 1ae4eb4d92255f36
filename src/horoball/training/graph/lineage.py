"""Who is below whom in a fitted taxonomy: parents, ancestors and descendants, with probabilities."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from horoball.training.graph.run import GraphRun

__all__ = ["Lineage", "Relatives"]

_LIKELY = 0.5  # probability from which a relation counts as one


class Relatives(NamedTuple):
    """Nodes by number, and the probability that each is what was asked for.

    Example:
        >>> Relatives(torch.tensor([3]), torch.tensor([0.9])).nodes.tolist()
        [3]
    """

    nodes: Tensor
    probability: Tensor


class Lineage:
    """Relations between the nodes of a directed model, from their posterior means.

    A model of the closure knows p(i is below j) of all pairs. Of a model of parents alone, an ancestor is reached by a
    chain of likely parents, and its probability is the product along the best chain.

    Args:
        run: A fitted directed model.

    Example:
        >>> from horoball.data import Graph
        >>> from horoball.training.graph.fit import TAXONOMY_TRAINING
        >>> from horoball.training.graph.run import train_graph
        >>> training = TAXONOMY_TRAINING.replace(max_epochs=50)
        >>> model = {"edges": "fermi_dirac", "transitive": True}
        >>> run = train_graph(Graph.of([(1, 0), (2, 1), (3, 1)], directed=True), model, training)
        >>> Lineage(run).ancestors(3).nodes.tolist()
        [1, 0]
    """

    def __init__(self, run: GraphRun) -> None:
        direction = run.model.direction
        if direction is None:
            raise ValueError("The model has no directions, so no node is above another. Fit it with directed=True.")
        self.model, self.transitive = run.model, run.record.model.transitive
        with torch.no_grad():
            self.z = run.points()
            self.radius = torch.linalg.vector_norm(self.z, dim=-1)
            self.offset = direction.offset(self.z)

    def above(self, nodes: Tensor) -> Tensor:
        """p(edge from each of some nodes to every node), shape (nodes, n); 0 to itself."""
        return self._probability(nodes, up=True)

    def below(self, nodes: Tensor) -> Tensor:
        """p(edge from every node to each of some nodes), shape (nodes, n)."""
        return self._probability(nodes, up=False)

    @torch.no_grad()
    def _probability(self, nodes: Tensor, *, up: bool) -> Tensor:
        d = self.model.ball.cdist(self.z[nodes], self.z)
        lift = self.offset - self.offset[nodes].unsqueeze(1)
        p = self.model.edges.log_edge(d + (lift if up else -lift)).exp()
        p[torch.arange(len(nodes)), nodes] = 0.0
        return p

    def parents(self, node: int, k: int = 1) -> Relatives:
        """The k nodes that are most likely the parents of a node, the first first.

        Of a model of the closure they are the most special of the likely ancestors: those farthest from the origin.

        Args:
            node: The child.
            k: How many.
        """
        p = self.above(torch.tensor([node]))[0]
        likely = p >= _LIKELY
        rank = torch.where(likely, 1 + self.radius, p) if self.transitive else p
        nodes = rank.topk(min(k, len(p) - 1)).indices
        return Relatives(nodes, p[nodes])

    def ancestors(self, node: int, threshold: float = _LIKELY) -> Relatives:
        """All nodes that a node is below, the most special first.

        Args:
            node: The descendant.
            threshold: Smallest probability; a smaller one finds more and errs more often.
        """
        return self._relatives(node, threshold, up=True)

    def descendants(self, node: int, threshold: float = _LIKELY) -> Relatives:
        """All nodes that are below a node, the most general first.

        Args:
            node: The ancestor.
            threshold: Smallest probability; a smaller one finds more and errs more often.
        """
        return self._relatives(node, threshold, up=False)

    def is_a(self, pairs: Tensor) -> Tensor:
        """p(the first of each pair is below the second), shape (pairs,)."""
        if self.transitive:
            return self.model.edge_probability(self.z, pairs)
        return torch.stack([self._reached(int(i), up=True)[j] for i, j in pairs])

    def _relatives(self, node: int, threshold: float, *, up: bool) -> Relatives:
        if not 0 < threshold <= 1:
            raise ValueError(f"A threshold is a probability above 0 and at most 1, got {threshold}.")
        p = self._probability(torch.tensor([node]), up=up)[0] if self.transitive else self._reached(node, up=up)
        found = (p >= threshold).nonzero()[:, 0]
        found = found[self.radius[found].argsort(descending=up)]
        return Relatives(found, p[found])

    def _reached(self, node: int, *, up: bool) -> Tensor:
        """Probability of the best chain of likely edges from a node to every node; without a chain, of the edge."""
        best = self._probability(torch.tensor([node]), up=up)[0]
        waiting = (best >= _LIKELY).nonzero()[:, 0]
        while len(waiting):
            steps = self._probability(waiting, up=up)
            through = (best[waiting].unsqueeze(1) * torch.where(steps >= _LIKELY, steps, 0.0)).amax(0)
            through[node] = 0.0
            waiting = (through > best).nonzero()[:, 0]
            best = torch.maximum(best, through)
        return best
