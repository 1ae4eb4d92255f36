"""How much of a graph an embedding holds. Nothing is held out, so no split can leak."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from horoball.data.graphs.graph import Graph
from horoball.graphs.ranking import ranking
from horoball.hierarchy.delta import fixed_sample
from horoball.hierarchy.distortion import Distortion, distortion
from horoball.hierarchy.space import Space
from horoball.manifolds import PoincareBall

__all__ = ["Reconstruction", "reconstruction"]

_POINTS = 2000  # nodes up to which all pairs are measured; among as many of a larger graph
_SEARCHES = 200  # of a larger graph, which cost the most: 0.7 s each on 10⁶ nodes with 5 edges a node


@dataclass(frozen=True)
class Reconstruction:
    """What is left of a graph in the distances between its nodes' points.

    Example:
        >>> import torch
        >>> path = Graph.of([(0, 1), (1, 2), (2, 3)])
        >>> found = reconstruction(path, torch.arange(4.0)[:, None], PoincareBall(0.0))
        >>> found.map, found.mean_rank, found.distortion.worst
        (1.0, 1.0, 1.0)
    """

    map: float  # mean average precision of nodes' neighbors, at most 1
    mean_rank: float  # of a neighbor among the nodes that are none, at least 1
    distortion: Distortion  # of shortest-path lengths; pairs that no path joins are left out
    nodes: int  # whose neighbors were ranked


def reconstruction(
    graph: Graph,
    z: Tensor,
    ball: PoincareBall,
    *,
    offset: Tensor | None = None,
    sources: int | None = None,
    seed: int = 0,
) -> Reconstruction:
    """Mean average precision, mean rank and distortion of an embedding of a graph.

    See `horoball.graphs.ranking` for the first two; of a directed graph, parents are ranked.
    Lengths of paths are compared between all nodes, or among a fixed sample of 2000 nodes, from 200 of them, if there
    are more.

    Args:
        graph: The full graph.
        z: One point a node, in the tangent chart of the ball, shape (nodes, d).
        ball: Where the points lie; c = 0 is flat space.
        offset: Of a directed model, `model.offset(z)`: parents are ranked by distance plus offset.
        sources: Rank the neighbors of at most so many nodes, and take paths from at most so many; for large graphs.
        seed: Seed of the samples.

    Example:
        >>> import torch
        >>> star = Graph.of([(0, 1), (0, 2), (0, 3)])
        >>> z = 4 * torch.tensor([[0.0, 0.0], [0.0, 1.0], [0.87, -0.5], [-0.87, -0.5]])
        >>> found = reconstruction(star, z, PoincareBall(1.0))
        >>> print(f"{found.map:.2f} {found.mean_rank:.2f} {found.distortion.worst:.2f}")
        1.00 1.00 1.04
    """
    adjacency = graph.adjacency()
    ranked = ranking(graph.relation(), z, ball, offset=offset, sources=sources, seed=seed)
    index = fixed_sample(graph.nodes, _POINTS, seed)
    starts = len(index) if graph.nodes <= _POINTS else _SEARCHES
    stretched = distortion(
        Space.of_graph(adjacency, allow_parts=True).take(index),
        Space.of_points(z, ball).take(index),
        sources=starts if sources is None else min(starts, sources),
        seed=seed,
    )
    return Reconstruction(ranked.map, ranked.mean_rank, stretched, ranked.nodes)
