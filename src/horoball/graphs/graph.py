"""A graph: who is joined to whom, what the nodes are called and what is known of them.

The transitive closure of edges from children to parents is all that a node is below.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

_LOG = logging.getLogger("horoball")
_MOST_NODES = 3_037_000_499  # the key i·n + j of a pair has to fit into 63 bits


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph without weights, undirected or directed; `Graph.of` makes one from pairs in any order.

    Example:
        >>> graph = Graph.of([(0, 1), (2, 1), (1, 0)])
        >>> graph
        Graph(nodes=3, edges=2)
        >>> graph.edges.tolist()
        [[0, 1], [1, 2]]
    """

    edges: Tensor  # int64, (m, 2): each edge once, in the order of (i, j); i < j unless directed
    nodes: int
    names: np.ndarray | None = None  # of strings, one a node; None where nodes are the numbers 0 … n − 1
    features: Tensor | None = None  # float32, (nodes, k)
    directed: bool = False  # whether an edge is (child, parent)

    @classmethod
    def of(
        cls,
        edges: Any,
        nodes: int | None = None,
        names: np.ndarray | None = None,
        features: Tensor | None = None,
        *,
        directed: bool = False,
    ) -> Graph:
        """A graph from pairs of node numbers, in any order, some of them perhaps twice.

        Self-loops and repeated edges are dropped, and counted in the log.

        Args:
            edges: Pairs of numbers from 0 to nodes − 1, shape (m, 2).
            nodes: Number of nodes; one more than the largest number if it is not given.
            names: One name a node; numbers become text.
            features: Numbers that are known of the nodes, shape (nodes, k).
            directed: Whether a pair is (child, parent), rather than two nodes in either order.

        Example:
            >>> Graph.of(np.array([[3, 0], [1, 1]]), nodes=6)
            Graph(nodes=6, edges=1)
        """
        pairs = _pairs(edges)
        largest = int(pairs.max()) if pairs.numel() else -1
        if pairs.numel() and int(pairs.min()) < 0:
            raise ValueError(
                f"Nodes are numbered from 0, got {int(pairs.min())}. Pass other numbers to read_graph, which keeps "
                "them as names."
            )
        n = largest + 1 if nodes is None else int(nodes)
        if n <= largest:
            raise ValueError(f"An edge names node {largest}, but the graph has {n} nodes: 0 to {n - 1}.")
        if n > _MOST_NODES:
            raise ValueError(
                f"A graph of {n} nodes is too large, at most {_MOST_NODES} are. Pass sparse ids to read_graph, which "
                "numbers only those that occur."
            )
        if names is not None and len(names) != n:
            raise ValueError(f"Expected one name for each of {n} nodes, got {len(names)} names.")
        if features is not None and (features.dim() != 2 or len(features) != n):
            raise ValueError(
                f"Expected one row of features for each of {n} nodes, got features of shape {tuple(features.shape)}."
            )
        words = None if names is None else np.asarray(names).astype(str, copy=False)
        numbers = None if features is None else features.to(torch.float32)
        return cls(_cleaned(pairs, n, directed), n, words, numbers, directed)

    def __repr__(self) -> str:
        named = "" if self.names is None else ", named"
        features = "" if self.features is None else f", features={self.features.shape[1]}"
        directed = ", directed" if self.directed else ""
        return f"Graph(nodes={self.nodes}, edges={len(self.edges)}{named}{features}{directed})"

    def degrees(self) -> Tensor:
        """Number of neighbors of each node, shape (nodes,)."""
        return torch.bincount(self.edges.flatten(), minlength=self.nodes)

    def adjacency(self) -> Any:
        """The symmetric matrix of zeros and ones, whatever the directions, as a scipy CSR array of float32.

        Example:
            >>> Graph.of([(0, 1), (1, 2)]).adjacency().toarray()[1]
            array([1., 0., 1.], dtype=float32)
        """
        import scipy.sparse

        if self.directed:
            return self.undirected().adjacency()
        i, j = self.edges.numpy().T
        ones = np.ones(2 * len(i), np.float32)
        ends = np.concatenate([i, j]), np.concatenate([j, i])
        return scipy.sparse.coo_array((ones, ends), shape=(self.nodes, self.nodes)).tocsr()

    def relation(self) -> Any:
        """The matrix whose entry (child, parent) is one, as a scipy CSR array; without directions, the adjacency.

        Example:
            >>> Graph.of([(0, 1), (2, 1)], directed=True).relation().toarray()[:, 1]
            array([1., 0., 1.], dtype=float32)
        """
        import scipy.sparse

        if not self.directed:
            return self.adjacency()
        ones = np.ones(len(self.edges), np.float32)
        return scipy.sparse.coo_array((ones, tuple(self.edges.numpy().T)), shape=(self.nodes, self.nodes)).tocsr()

    def undirected(self) -> Graph:
        """The same nodes and edges without directions."""
        return Graph.of(self.edges, self.nodes, self.names, self.features) if self.directed else self

    def holds(self, pairs: Tensor) -> Tensor:
        """Whether each pair, in either order unless the graph is directed, is an edge.

        Args:
            pairs: Node numbers, shape (k, 2).
        """
        low, high = (int(pairs.min()), int(pairs.max())) if pairs.numel() else (0, 0)
        if low < 0 or high >= max(1, self.nodes):
            raise ValueError(f"Nodes are numbered from 0 to {self.nodes - 1}, got pairs of {low} to {high}.")
        if not len(self.edges):
            return torch.zeros(len(pairs), dtype=torch.bool)
        known, asked = (_keys(each, self.nodes, self.directed) for each in (self.edges, pairs))
        place = torch.searchsorted(known, asked).clamp(max=len(known) - 1)
        return known[place] == asked

    def numbers(self, nodes: Any) -> np.ndarray:
        """The numbers of nodes that are asked for by name, or by number if they have no names; any shape.

        Example:
            >>> Graph.of([(0, 1)], names=np.array(["lion", "cat"])).numbers(["cat", "lion"])
            array([1, 0])
        """
        asked = np.asarray(nodes)
        known = np.arange(self.nodes) if self.names is None else self.names
        if self.names is not None:
            asked = asked.astype(str)
        elif asked.dtype.kind not in "iu":
            shown = asked.ravel()[:1].tolist()
            raise ValueError(f"The nodes are the numbers 0 to {self.nodes - 1}, got {str(*shown)!r}.")
        order = np.argsort(known, kind="stable")
        number: np.ndarray = order[np.searchsorted(known, asked, sorter=order).clip(max=self.nodes - 1)]
        unknown = known[number] != asked
        if unknown.any():
            raise ValueError(f"The graph has no node {asked[unknown][0].item()!r}. Ask for those in nodes_.")
        return number

    def with_edges(self, edges: Tensor) -> Graph:
        """The same nodes, with their names and features, joined otherwise.

        Example:
            >>> Graph.of([(0, 1), (1, 2)]).with_edges(torch.tensor([[0, 2]]))
            Graph(nodes=3, edges=1)
        """
        return Graph.of(edges, self.nodes, self.names, self.features, directed=self.directed)


def _pairs(edges: Any) -> Tensor:
    """Pairs of whole numbers as int64, shape (m, 2)."""
    if isinstance(edges, Tensor):
        whole = not (edges.is_floating_point() or edges.is_complex() or edges.dtype == torch.bool)
        pairs = edges.detach().to("cpu", torch.int64) if whole else edges
    else:
        array = np.asarray(edges)
        if array.size == 0:
            array = np.empty((0, 2), np.int64)
        whole = array.dtype.kind in "iu"
        pairs = torch.from_numpy(array.astype(np.int64)) if whole else torch.empty(array.shape)
    if not whole:
        raise ValueError(
            f"Expected pairs of node numbers, got {getattr(edges, 'dtype', type(edges).__name__)}. Pass other ids to "
            "read_graph, which keeps them as names."
        )
    if pairs.dim() != 2 or pairs.shape[1] != 2:
        raise ValueError(f"Expected pairs of node numbers, shape (m, 2), got shape {tuple(pairs.shape)}.")
    return pairs


def _keys(pairs: Tensor, nodes: int, directed: bool) -> Tensor:
    """One number a pair: i·n + j, with i ≤ j, the same for both orders, unless they are directed."""
    i, j = pairs.unbind(1)
    if directed:
        return i * nodes + j
    return torch.minimum(i, j) * nodes + torch.maximum(i, j)


def _cleaned(pairs: Tensor, nodes: int, directed: bool) -> Tensor:
    """Each edge once, sorted; i < j unless they are directed; what was dropped is logged."""
    apart = pairs[:, 0] != pairs[:, 1]
    loops = len(pairs) - int(apart.sum())
    keys = _keys(pairs[apart] if loops else pairs, nodes, directed)
    # numpy's sort of int64 takes a fifth of the time of torch.unique
    order = np.sort(keys.numpy())
    first = np.ones(len(order), bool)
    np.not_equal(order[1:], order[:-1], out=first[1:])
    twice = len(order) - int(first.sum())
    if loops or twice:
        _LOG.info("Dropped %s and %s.", _count(loops, "self-loop"), _count(twice, "duplicate edge"))
    kept = torch.from_numpy(order[first])
    return torch.stack([kept // max(nodes, 1), kept % max(nodes, 1)], 1)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


class CycleError(ValueError):
    """Some node is its own ancestor.

    Example:
        >>> transitive_closure(Graph.of([(0, 1), (1, 0)], directed=True))
        Traceback (most recent call last):
        ...
        horoball.graphs.graph.CycleError: Node 0 is its own ancestor. ...
    """


def transitive_closure(graph: Graph) -> Graph:
    """The same nodes with an edge from each to all of its ancestors. It takes one sparse product a level.

    Args:
        graph: A directed graph without cycles, edges (child, parent).

    Example:
        >>> transitive_closure(Graph.of([(2, 1), (1, 0)], directed=True)).edges.tolist()
        [[1, 0], [2, 0], [2, 1]]
    """
    if not graph.directed:
        raise ValueError("A closure needs directions, got an undirected graph. Make it with directed=True.")
    step = graph.relation()
    reached, size = step, -1
    while reached.nnz != size:
        size = reached.nnz
        reached = step + reached @ step
        reached.data[:] = 1  # how many ways there are does not matter, and would overflow
    loops = reached.diagonal().nonzero()[0]
    if len(loops):
        node = loops[0] if graph.names is None else graph.names[loops[0]]
        raise CycleError(
            f"Node {node.item()!r} is its own ancestor. A taxonomy has no cycles: drop an edge of each, or pass "
            "transitive=False to model the edges as they are."
        )
    return _with_entries(graph, reached)


def transitive_reduction(graph: Graph) -> Graph:
    """The same nodes with the fewest edges that have the same closure: those to parents.

    Args:
        graph: A directed graph without cycles, edges (child, parent) or (descendant, ancestor).

    Example:
        >>> transitive_reduction(Graph.of([(1, 0), (2, 0), (2, 1)], directed=True)).edges.tolist()
        [[1, 0], [2, 1]]
    """
    ancestors = transitive_closure(graph).relation()
    between = ancestors @ ancestors  # how many nodes lie between two
    return _with_entries(graph, ancestors > ancestors.multiply(between))


def _with_entries(graph: Graph, matrix: Any) -> Graph:
    i, j = matrix.nonzero()
    return graph.with_edges(torch.stack((torch.from_numpy(i), torch.from_numpy(j)), 1).long())
