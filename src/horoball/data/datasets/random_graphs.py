"""Random graphs of any size: trees, and graphs whose nodes prefer neighbors that have many."""

from __future__ import annotations

import numpy as np

from horoball.data.graphs.graph import Graph

__all__ = ["preferential_attachment", "random_tree"]


def random_tree(nodes: int, seed: int = 0) -> Graph:
    """A random recursive tree: the parent of node i is one of the nodes before it, each as likely.

    Args:
        nodes: Number of nodes, at least 1.
        seed: Seed of the draw.

    Example:
        >>> random_tree(1000)
        Graph(nodes=1000, edges=999)
    """
    if nodes < 1:
        raise ValueError(f"A tree has at least one node, got nodes={nodes}.")
    child = np.arange(1, nodes)
    parent = np.random.default_rng((seed, 0x7EE)).integers(0, child)
    return Graph.of(np.stack([parent, child], 1), nodes)


def preferential_attachment(nodes: int, edges_per_node: int, seed: int = 0) -> Graph:
    """A graph of Barabási & Albert: each new node draws its neighbors in proportion to the degrees so far.

    The copy model of Batagelj & Brandes (2005): the ends of all edges stand in one array, the new node at 2k and its
    neighbor at 2k + 1, and the neighbor is a copy of a uniformly drawn place of the nodes before. A node that draws a
    neighbor twice keeps one edge, so that the graph has a few edges less than (nodes − 1) × edges_per_node.

    Args:
        nodes: Number of nodes, at least 1.
        edges_per_node: Edges that each new node draws, at least 1.
        seed: Seed of the draw.

    Example:
        >>> graph = preferential_attachment(1000, 5)
        >>> graph
        Graph(nodes=1000, edges=4866)
        >>> int(graph.degrees().max())
        274
    """
    if nodes < 1 or edges_per_node < 1:
        raise ValueError(
            f"Expected at least one node and one edge a node, got nodes={nodes}, edges_per_node={edges_per_node}."
        )
    source = np.repeat(np.arange(nodes), edges_per_node)
    # Node 0 begins with loops, which are left out of the graph: place 0 holds node 0.
    place = np.random.default_rng((seed, 0xBA)).integers(0, np.maximum(2 * edges_per_node * source, 1))
    # Even places hold a node, odd ones a copy of an earlier place, which is followed until it meets a node. Half of
    # the copies still on their way arrive at each step, so that about log₂ of the edges steps are enough.
    copied = place.copy()
    way = np.flatnonzero(place & 1)
    while len(way):
        place[way] = copied[place[way] >> 1]
        way = way[place[way] & 1 == 1]
    ends = np.stack([source, source[place >> 1]], 1)
    return Graph.of(ends[edges_per_node:], nodes)
