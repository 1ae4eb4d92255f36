"""Who is below whom in a fitted taxonomy: parents, ancestors and descendants, with probabilities.

Nodes that a model was not trained on are placed by their edges to known nodes, which stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.geometry.random import generator_for
from horoball.graphs.graph import Graph, transitive_closure
from horoball.graphs.model import FreeEncoder, GraphVAE
from horoball.graphs.run import GraphRun

__all__ = ["Lineage", "Relatives", "add_nodes"]

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
        >>> from horoball.graphs import Graph
        >>> from horoball.graphs.fit import TAXONOMY_TRAINING
        >>> from horoball.graphs.run import train_graph
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


_PAIRS = 1 << 19  # distances that are held at a time, with all that autograd keeps of them
_BESIDE = 0.5  # how far from its neighbors, and outward, a node starts


def add_nodes(run: GraphRun, edges: Iterable[tuple[Any, Any]], *, steps: int = 200, seed: int = 0) -> GraphRun:
    """The same model with more nodes. A new node's posterior maximizes the bound with all known nodes fixed.

    The bound of a new node has its pairs with all known nodes, both ways, at their posterior means; pairs of two new
    nodes do not count. Of a taxonomy, a parent's ancestors become ancestors.

    Args:
        run: A fitted model with the encoder "free".
        edges: Pairs of a new and a known node, by name; (child, parent) if the model is directed.
        steps: Steps of Adam. More are slower and place the nodes better. Useful: 100 to 500.
        seed: Seed of the noise.

    Example:
        >>> from horoball.graphs import read_graph
        >>> from horoball.graphs.fit import FREE_TRAINING
        >>> from horoball.graphs.run import train_graph
        >>> training = FREE_TRAINING.replace(max_epochs=5)
        >>> run = train_graph(read_graph([("cat", "animal"), ("dog", "animal")]), {"edges": "fermi_dirac"}, training)
        >>> add_nodes(run, [("lion", "cat")], steps=5).graph.names.tolist()
        ['animal', 'cat', 'dog', 'lion']
    """
    if not isinstance(run.model.encoder, FreeEncoder):
        raise ValueError('Nodes can be added to models with encoder="free". Fit the graph with the new nodes again.')
    graph = _extended(run.graph, list(edges), transitive=run.record.model.transitive)
    known = run.graph.nodes
    joined = torch.zeros(2, graph.nodes - known, known, dtype=torch.bool)  # new below known, and known below new
    for way, pairs in enumerate((graph.edges, graph.edges.flip(1))):
        pairs = pairs[(pairs[:, 0] >= known) & (pairs[:, 1] < known)]
        joined[way, pairs[:, 0] - known, pairs[:, 1]] = True
    if not graph.directed:
        joined = (joined[0] | joined[1]).expand_as(joined)
    z, generator = run.points().float(), generator_for(seed)
    parts = joined.split(max(1, _PAIRS // known), 1)
    placed = [_placed(run, z, part, steps, generator) for part in parts]
    loc, raw = (torch.cat(each) for each in zip(*placed, strict=True))
    config = run.record.model.replace(nodes=graph.nodes)
    model = GraphVAE.from_config(config, generator=generator_for(0))
    weights = run.model.state_dict()
    for name, rows in (("encoder.loc", loc), ("encoder.raw_scale", raw)):
        weights[name] = torch.cat((weights[name], rows))
    model.load_state_dict(weights)
    return run.grown(model.eval(), graph)


def _extended(graph: Graph, pairs: list[tuple[Any, Any]], *, transitive: bool) -> Graph:
    """The graph with new nodes behind the known ones."""
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"add_nodes expects pairs of a new and a known node, got {pairs[:1]}.")
    if graph.names is None:
        raise ValueError("The nodes have no names but numbers, so a new one cannot be told. Fit edges of text ids.")
    number = {name: i for i, name in enumerate(graph.names.tolist())}
    known, edges = graph.nodes, []
    for pair in pairs:
        ends = [number.setdefault(str(end), len(number)) for end in pair]
        if (ends[0] < known) == (ends[1] < known):
            raise ValueError(f"Each edge joins a new node to a known one, got {tuple(pair)}.")
        edges.append(ends)
    names = np.array(list(number))
    both = torch.cat((graph.edges, torch.tensor(edges)))
    larger = Graph.of(both, len(names), names, directed=graph.directed)
    return transitive_closure(larger) if transitive else larger


def _placed(run: GraphRun, z: Tensor, joined: Tensor, steps: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Locations and raw scales of some new nodes; joined has shape (2, new, known)."""
    model, beta = run.model, run.record.training.beta
    encoder: Any = model.encoder
    loc, raw = _start(run, z, joined, generator)
    here = FreeEncoder(len(loc), encoder.d, encoder.ball, run.record.model.posterior, generator=generator)
    with torch.no_grad():
        here.loc.copy_(loc)
        here.raw_scale.copy_(raw)
    optimizer = torch.optim.Adam(here.parameters(), 0.05)
    rate = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.1 ** (1 / max(1, steps)))
    prior = model.prior()
    with torch.no_grad():
        offset = model.offset(z)
    for _ in range(steps):
        new, log_q = here().rsample_and_log_prob(generator=generator)
        apart = model.ball.cdist(new, z)
        up = down = apart
        if offset is not None:
            lift = offset - model.offset(new).unsqueeze(1)  # type: ignore[union-attr]
            up, down = apart + lift, apart - lift
        loss = beta * (log_q - prior.log_prob(new)).sum()
        for d, is_edge in zip((up, down), joined, strict=True):
            loss = loss - torch.where(is_edge, model.edges.log_edge(d), model.edges.log_no_edge(d)).sum()
        optimizer.zero_grad()
        loss.backward(inputs=list(here.parameters()))
        optimizer.step()
        rate.step()
    return here.loc.detach(), here.raw_scale.detach()


def _start(run: GraphRun, z: Tensor, joined: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Beside the neighbor that is farthest from the origin, and behind it: that is the parent in a taxonomy."""
    radius = torch.linalg.vector_norm(z, dim=-1)
    beside = torch.where(joined.any(0), radius, -1.0).argmax(1)
    noise = torch.randn(len(beside), z.shape[1], generator=generator)
    start = z[beside] * (1 + _BESIDE / radius[beside].clamp_min(_BESIDE)).unsqueeze(1)
    loc = start + 0.1 * noise * torch.exp(-radius[beside]).unsqueeze(1)
    encoder: Any = run.model.encoder
    return loc, encoder.raw_scale.detach()[beside]
