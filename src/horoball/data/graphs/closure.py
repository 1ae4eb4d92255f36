"""All that a node is below: the transitive closure of edges from children to parents."""

from __future__ import annotations

from typing import Any

import torch

from horoball.data.graphs.graph import Graph

__all__ = ["CycleError", "transitive_closure", "transitive_reduction"]


class CycleError(ValueError):
    """Some node is its own ancestor.

    Example:
        >>> transitive_closure(Graph.of([(0, 1), (1, 0)], directed=True))
        Traceback (most recent call last):
        ...
        horoball.data.graphs.closure.CycleError: Node 0 is its own ancestor. ...
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
