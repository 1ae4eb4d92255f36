"""Who is below whom in a fitted taxonomy: parents, ancestors and descendants, with probabilities.

Nodes that a model was not trained on are placed by their edges to known nodes, which stay where they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.geometry.random import generator_for
from horoball.graphs.graph import Graph, transitive_closure
from horoball.graphs.growth import place_beside
from horoball.graphs.model import FreeEncoder, GraphVAE
from horoball.graphs.predictive import EdgeProbability
from horoball.graphs.run import GraphRun
from horoball.tables.cell_values import is_missing
from horoball.tables.schema import some_names

_LIKELY = 0.5  # probability from which a relation counts as one
_MANY = 256  # ancestors that are compared with each other; of more, the farther from the origin are the more special


class Relatives(NamedTuple):
    """Nodes by number, and the probability that each is what was asked for."""

    nodes: Tensor
    probability: Tensor


class Lineage:
    """Relations between the nodes of a directed model.

    A model of the closure knows p(i is below j) of all pairs, see `EdgeProbability`. Of a model of parents alone, an
    ancestor is reached by a chain of likely parents, and its probability is the product along the best chain.

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
        if run.model.direction is None:
            raise ValueError("The model has no directions, so no node is above another. Fit it with directed=True.")
        self.transitive, self.probability = run.record.model.transitive, EdgeProbability(run)
        self.radius = torch.linalg.vector_norm(self.probability.z, dim=-1)

    def above(self, nodes: Tensor) -> Tensor:
        """p(edge from each of some nodes to every node), shape (nodes, n); 0 to itself."""
        return self.probability.to_all(nodes, up=True)

    def below(self, nodes: Tensor) -> Tensor:
        """p(edge from every node to each of some nodes), shape (nodes, n)."""
        return self.probability.to_all(nodes, up=False)

    def parents(self, node: int, k: int = 1) -> Relatives:
        """The k nodes that are most likely the parents of a node, the first first.

        Of a model of the closure they are the most special of the likely ancestors, see `ancestors`.

        Args:
            node: The child.
            k: How many.
        """
        if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
            raise ValueError(f"k is how many parents, a whole number from 1 on, got {k!r}.")
        p = self.above(torch.tensor([node]))[0]
        rank = p.clone()
        if self.transitive:
            likely = (p >= _LIKELY).nonzero()[:, 0]
            rank[likely] = 1 + self._special(likely, p[likely])
        nodes = rank.topk(min(k, len(p) - 1)).indices
        return Relatives(nodes, p[nodes])

    def ancestors(self, node: int, threshold: float = _LIKELY) -> Relatives:
        """All nodes that a node is below, the most special first: those with most of the others above them.

        The number of ancestors above a node is expected, and weighed by its own probability: a sibling that is barely
        likely has as many as the parent, and one more.

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
            return self.probability.of(pairs)
        return torch.stack([self._reached(int(i), up=True)[j] for i, j in pairs])

    def _relatives(self, node: int, threshold: float, *, up: bool) -> Relatives:
        if not 0 < threshold <= 1:
            raise ValueError(f"A threshold is a probability above 0 and at most 1, got {threshold}.")
        asked = torch.tensor([node])
        p = self.probability.to_all(asked, up=up)[0] if self.transitive else self._reached(node, up=up)
        found = (p >= threshold).nonzero()[:, 0]
        special = self._special(found, p[found]) if up and self.transitive else self.radius[found]
        found = found[special.argsort(descending=up)]
        return Relatives(found, p[found])

    def _special(self, found: Tensor, p: Tensor) -> Tensor:
        """How special each ancestor of a node is: p(it is one) · Σ p(it is below another one)."""
        if len(found) > _MANY:
            return self.radius[found]
        pairs = torch.cartesian_prod(found, found).view(-1, 2)
        below = self.probability.of(pairs).view(len(found), len(found)).fill_diagonal_(0.0)
        return p * below.sum(1)

    def _reached(self, node: int, *, up: bool) -> Tensor:
        """Probability of the best chain of likely edges from a node to every node; without a chain, of the edge."""
        best = self.probability.to_all(torch.tensor([node]), up=up)[0]
        waiting = (best >= _LIKELY).nonzero()[:, 0]
        while len(waiting):
            steps = self.probability.to_all(waiting, up=up)
            through = (best[waiting].unsqueeze(1) * torch.where(steps >= _LIKELY, steps, 0.0)).amax(0)
            through[node] = 0.0
            waiting = (through > best).nonzero()[:, 0]
            best = torch.maximum(best, through)
        return best


def add_nodes(run: GraphRun, edges: Iterable[tuple[Any, Any]], *, steps: int = 200, seed: int = 0) -> GraphRun:
    """The same model with more nodes. A new node's posterior maximizes the bound with all known nodes fixed.

    The bound of a new node has its pairs with known nodes, both ways, at their posterior means; of many known nodes,
    with those near it and some that are drawn (`graphs.growth`). Pairs of two new nodes do not count. Of a taxonomy, a
    parent's ancestors become ancestors.

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
    if isinstance(steps, bool) or not isinstance(steps, Integral) or steps < 1:
        raise ValueError(f"steps is a whole number from 1 on, got {steps!r}.")
    graph, stated = _extended(run.graph, list(edges), transitive=run.record.model.transitive)
    known = run.graph.nodes
    ends = [
        pairs[(pairs[:, 0] >= known) & (pairs[:, 1] < known)] - torch.tensor([known, 0])
        for pairs in (graph.edges, graph.edges.flip(1))  # new below known, and known below new
    ]
    above, below = ends if graph.directed else (torch.cat(ends), torch.cat(ends))
    new = graph.nodes - known
    loc, raw = place_beside(run, above, below, new, steps=steps, generator=generator_for(seed))
    weights = run.model.state_dict()
    for name, rows in (("encoder.loc", loc), ("encoder.raw_scale", raw)):
        weights[name] = torch.cat((weights[name], rows))
    grown = _with_weights(run, graph, weights)
    if graph.directed:
        _warn_of_lost(grown, stated)
    return grown


def _warn_of_lost(run: GraphRun, stated: Tensor) -> None:
    """Name edges of new nodes that the places of the known ones leave no room for."""
    probability = EdgeProbability(run)
    down, up = probability.of(stated), probability.of(stated.flip(1))
    lost = ((down < _LIKELY) | (up >= _LIKELY)).nonzero()[:, 0]
    if len(lost):
        names: Any = run.graph.names
        shown = [f"{names[i]} below {names[j]} ({p:.2f})" for (i, j), p in zip(stated[lost], down[lost], strict=True)]
        warnings.warn(
            f"{len(lost)} of {len(stated)} edges of the new nodes are not held: {some_names(shown)}. They are below a "
            "probability of one half, or go both ways. Known nodes stay where they are, which leaves no room below "
            "parents far apart, nor above a root: fit the graph with the new nodes.",
            stacklevel=4,
        )


def remove_nodes(run: GraphRun, names: Iterable[Any]) -> GraphRun:
    """The same model with fewer nodes; all others stay where they are.

    Of a taxonomy, what is below a node that goes stays below that node's ancestors. Of a model of parents alone, its
    children lose a parent.

    Args:
        run: A fitted model with the encoder "free".
        names: The nodes that go, by name.

    Example:
        >>> from horoball.graphs import read_graph
        >>> from horoball.graphs.fit import FREE_TRAINING
        >>> from horoball.graphs.run import train_graph
        >>> training = FREE_TRAINING.replace(max_epochs=5)
        >>> run = train_graph(read_graph([("cat", "animal"), ("dog", "animal")]), {"edges": "fermi_dirac"}, training)
        >>> remove_nodes(run, ["dog"]).graph.names.tolist()
        ['animal', 'cat']
    """
    if not isinstance(run.model.encoder, FreeEncoder):
        raise ValueError('Nodes can be removed from models with encoder="free". Fit the graph without them again.')
    graph = run.graph
    if graph.names is None:
        raise ValueError("The nodes have no names but numbers, which would change. Fit edges of text ids.")
    if isinstance(names, str):
        raise ValueError(f"remove_nodes expects a list of names, got the text {names!r}. Put it in brackets.")
    gone = torch.from_numpy(graph.numbers([str(name) for name in names]))
    kept = torch.ones(graph.nodes, dtype=torch.bool)
    kept[gone] = False
    number = kept.cumsum(0) - 1
    edges = number[graph.edges[kept[graph.edges].all(1)]]
    if not len(edges):
        raise ValueError(
            f"Without the {len(gone)} nodes that go, no edge is left of {len(graph.edges)}. Keep more nodes."
        )
    left = Graph.of(edges, int(kept.sum()), graph.names[kept.numpy()], directed=graph.directed)
    weights = run.model.state_dict()
    for name in ("encoder.loc", "encoder.raw_scale"):
        weights[name] = weights[name][kept]
    return _with_weights(run, left, weights)


def _with_weights(run: GraphRun, graph: Graph, weights: dict[str, Tensor]) -> GraphRun:
    """The run with other nodes."""
    model = GraphVAE.from_config(run.record.model.replace(nodes=graph.nodes), generator=generator_for(0))
    model.load_state_dict(weights)
    return run.grown(model.eval(), graph)


def _extended(graph: Graph, pairs: list[tuple[Any, Any]], *, transitive: bool) -> tuple[Graph, Tensor]:
    """The graph with new nodes behind the known ones, and the pairs by number."""
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"add_nodes expects pairs of a new and a known node, got {pairs[:1]}.")
    if graph.names is None:
        raise ValueError("The nodes have no names but numbers, so a new one cannot be told. Fit edges of text ids.")
    number = {name: i for i, name in enumerate(graph.names.tolist())}
    known, edges = graph.nodes, []
    for pair in pairs:
        if any(is_missing(end) or not str(end).strip() for end in pair):
            raise ValueError(f"A node id is missing in {tuple(pair)}: None, NaN or an empty text.")
        ends = [number.setdefault(str(end), len(number)) for end in pair]
        if (ends[0] < known) == (ends[1] < known):
            raise ValueError(f"Each edge joins a new node to a known one, got {tuple(pair)}.")
        edges.append(ends)
    names = np.array(list(number))
    stated = added = torch.tensor(edges)
    if transitive and bool((added[:, 1] < known).all()):
        # Only leaves are new, and the ancestors of their parents are known: the rest is closed as it is.
        parents = Graph.of(added, len(names), directed=True).relation()[known:, :known]
        leaf, ancestor = (parents @ graph.relation()).nonzero()
        added = torch.cat((added, torch.from_numpy(np.stack((leaf + known, ancestor), 1).astype(np.int64))))
        transitive = False
    larger = Graph.of(torch.cat((graph.edges, added)), len(names), names, directed=graph.directed)
    if not transitive:
        return larger, stated
    closure = transitive_closure(larger)
    old = closure.edges[(closure.edges < known).all(1)]
    if len(old) > len(graph.edges):
        child, parent = names[old[~graph.holds(old)][0].numpy()].tolist()
        raise ValueError(
            f"The new nodes would put {child!r} below {parent!r}. Both are known, and stay where they are: fit the "
            "graph with the new nodes."
        )
    return closure, stated
