"""Where free posteriors are before training."""

from __future__ import annotations

from horoball.data.graphs.closure import CycleError
from horoball.data.graphs.graph import Graph
from horoball.data.graphs.nested_cones import nested_cones
from horoball.data.graphs.path_axes import path_axes
from horoball.models.graph.encoder import FreeEncoder

__all__ = ["place_nodes"]


def place_nodes(encoder: FreeEncoder, graph: Graph, *, seed: int = 0) -> None:
    """Place the nodes before training: a taxonomy in nested cones, all else along the axes of path lengths.

    Args:
        encoder: The free posteriors, changed in place.
        graph: The graph. Directed graphs with cycles, on the line or in flat space, have no nested cones.
        seed: Seed of random directions.

    Example:
        >>> from horoball.manifolds import PoincareBall
        >>> encoder = FreeEncoder(3, 2, PoincareBall(1.0))
        >>> place_nodes(encoder, Graph.of([(1, 0), (2, 0)], directed=True))
        >>> bool(encoder.loc[0].norm() < encoder.loc[1].norm())
        True
    """
    if graph.directed and encoder.d > 1 and not encoder.ball.is_euclidean:
        try:
            cones = nested_cones(graph, encoder.d, seed=seed)
        except CycleError:
            pass
        else:
            encoder.start_in(cones / encoder.ball.c_value**0.5)
            return
    encoder.start_at(path_axes(graph, encoder.d, seed=seed))
