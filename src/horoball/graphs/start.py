"""Where nodes are before training: along the main axes of path lengths, or in nested cones, and free posteriors there.

Nested cones are a taxonomy in the ball without training: every node is a cone that holds the cones of its children.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from horoball.graphs.graph import CycleError, Graph, transitive_closure
from horoball.graphs.model import DETOUR, FreeEncoder
from horoball.graphs.settle import rank_cones, settle_cones, settle_distances


def path_axes(graph: Graph, d: int, *, landmarks: int = 32, seed: int = 0) -> Tensor:
    """Coordinates of the nodes, float32, shape (nodes, d), of which the first has mean square 1.

    Lengths of shortest paths from landmarks to all nodes are centered by rows and columns, and the d main axes kept,
    as pivot multidimensional scaling does (Brandes & Pich, 2007). Nodes that no path joins to a landmark count as one
    step farther than the farthest that one does. It takes O(landmarks · edges).

    Args:
        graph: The graph.
        d: Number of axes.
        landmarks: Nodes from which lengths are taken: that of highest degree, and random ones.
        seed: Seed of the random ones.

    Example:
        >>> x = path_axes(Graph.of([(0, 1), (1, 2), (2, 3)]), 1)
        >>> bool((x.diff(dim=0) > 0).all() or (x.diff(dim=0) < 0).all())
        True
    """
    from scipy.sparse.csgraph import dijkstra

    n = graph.nodes
    hub = int(graph.degrees().argmax())
    others = np.setdiff1d(np.arange(n), hub)
    drawn = np.random.default_rng((seed, 0xA5E5)).choice(others, min(landmarks, n) - 1, replace=False)
    adjacency = graph.adjacency()
    lengths = np.empty((n, 1 + len(drawn)), np.float32)
    for column, start in enumerate((hub, *drawn)):
        lengths[:, column] = dijkstra(adjacency, indices=start, unweighted=True)
    reached = np.isfinite(lengths)
    lengths[~reached] = lengths[reached].max() + 1
    centered = lengths - lengths.mean(0) - lengths.mean(1, keepdims=True) + lengths.mean()
    # The axes are eigenvectors of a small matrix: the long one is never decomposed.
    values, vectors = np.linalg.eigh(centered.T.astype(np.float64) @ centered)
    axes = np.zeros((n, d), np.float32)
    kept = min(d, len(values))
    axes[:, :kept] = centered @ vectors[:, ::-1][:, :kept]
    spread = float(np.sqrt((axes[:, 0].astype(np.float64) ** 2).mean()))
    return torch.from_numpy(axes / spread if spread > 0 else axes)


_FILLED = 0.3  # share of a cone that its children fill: random caps of more would overlap
_NARROWER = 0.75  # largest angle of a child, by its parent's: an only child is below its parent, too
_TRIES = 16  # directions that are tried for a child; the one farthest from its siblings is taken
_POWER = 2
_ROOM = 1.5  # angle that children of the root spread over, in units of the root's


def nested_cones(graph: Graph, d: int, *, seed: int = 0) -> Tensor:
    """Points in the tangent chart of the ball with c = 1, float32, shape (nodes, d).

    A node gets a cap of the sphere of directions, inside the cap of its parent and apart from those of its siblings,
    of a volume by the number of nodes below it. Its point lies in the middle of the cap at the distance −log(angle)
    from the origin, where a step of length one is as wide as the cap. So a node is general if it is near the origin,
    and below another if it is behind it as seen from there. Of several parents, the one with fewest descendants counts.

    Args:
        graph: A directed graph without cycles, edges (child, parent).
        d: Dimension, at least 2.
        seed: Seed of the directions that are tried.

    Example:
        >>> z = nested_cones(Graph.of([(1, 0), (2, 0), (3, 1)], directed=True), 2)
        >>> radius = z.norm(dim=1)
        >>> bool(radius[0] < radius[1] < radius[3])
        True
    """
    if d < 2:
        raise ValueError(f"nested_cones needs two dimensions or more, got {d}.")
    return _nested(*_tree(transitive_closure(graph)), d, seed)


def distance_cones(graph: Graph, d: int, *, seed: int = 0) -> Tensor:
    """Points of a taxonomy whose nearest nodes are their ancestors, in the tangent chart of the ball with c = 1.

    Float32, shape (nodes, d). Nested cones, settled for ranks by distance alone; a directed model asks for the
    direction, too, and starts from others.

    Args:
        graph: A directed graph without cycles, edges (child, parent).
        d: Dimension, at least 2.
        seed: Seed of all that is drawn.

    Example:
        >>> z = distance_cones(Graph.of([(1, 0), (2, 0), (3, 1)], directed=True), 2)
        >>> bool((z[3] - z[1]).norm() < (z[3] - z[2]).norm())
        True
    """
    closure = transitive_closure(graph)
    parent, _ = _tree(closure)
    return settle_distances(nested_cones(graph, d, seed=seed), closure, parent, seed=seed)


def _nested(parent: np.ndarray, order: np.ndarray, d: int, seed: int) -> Tensor:
    """The same, from one parent a node, and the nodes with ancestors first."""
    rng = np.random.default_rng((seed, 0xC0E5))
    nodes = len(parent)
    below = np.ones(nodes)
    for node in order[::-1]:
        if parent[node] >= 0:
            below[parent[node]] += below[node]
    direction, angle = np.zeros((nodes, d)), np.zeros(nodes)
    roots = order[parent[order] < 0]
    if len(roots) == 1:
        angle[roots] = 1.0
        direction[roots] = _unit(rng.normal(size=(1, d)))
    else:
        angle[roots], direction[roots] = _caps(None, 1.0, below[roots], d, rng)
    # children of each node, those with most descendants first
    by_parent = order[np.lexsort((-below[order], parent[order]))]
    first = np.searchsorted(parent[by_parent], np.arange(nodes))
    last = np.searchsorted(parent[by_parent], np.arange(nodes), "right")
    for node in order:
        children = by_parent[first[node] : last[node]]
        if not len(children):
            continue
        if len(roots) == 1 and node == roots[0]:
            angle[children], direction[children] = _caps(None, _ROOM, below[children], d, rng)
        else:
            angle[children], direction[children] = _caps(direction[node], angle[node], below[children], d, rng)
    return torch.from_numpy((direction * -np.log(angle)[:, None]).astype(np.float32))


def _tree(closure: Graph) -> tuple[np.ndarray, np.ndarray]:
    """One parent a node, −1 for none: its ancestor with fewest descendants; and the nodes, ancestors first."""
    child, ancestor = closure.edges.numpy().T
    descendants = np.bincount(ancestor, minlength=closure.nodes)
    parent = np.full(closure.nodes, -1)
    general_first = np.lexsort((-descendants[ancestor], child))
    parent[child[general_first]] = ancestor[general_first]  # the last that is written stays
    return parent, np.argsort(-descendants, kind="stable")


def _caps(
    center: np.ndarray | None, room: float, below: np.ndarray, d: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Angles and directions of siblings, in the order of their sizes: in a cap around a center, or all around."""
    angle = room * np.minimum(_NARROWER, (_FILLED * below / below.sum()) ** (1 / min(_POWER, d - 1)))
    placed = np.zeros((len(below), d))
    if center is not None:
        axes = np.linalg.qr(np.concatenate((center[:, None], rng.normal(size=(d, d - 1))), 1))[0][:, 1:]
    for i in range(len(below)):
        tried = _unit(rng.normal(size=(_TRIES, d if center is None else d - 1)))
        if center is not None:
            inside = (room - angle[i]) * rng.random((_TRIES, 1)) ** (1 / (d - 1))
            tried = _unit(center + (inside * tried) @ axes.T)
        apart = np.linalg.norm(tried[:, None] - placed[None, :i], axis=-1) - angle[:i]
        placed[i] = tried[apart.min(1, initial=np.inf).argmax()]
    return angle, placed


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def place_nodes(encoder: FreeEncoder, graph: Graph, *, seed: int = 0) -> None:
    """Place the nodes before training: a taxonomy in nested cones, all else along the axes of path lengths.

    Cones of a closure are settled, too; see Note [Settling].

    Args:
        encoder: The free posteriors, changed in place.
        graph: The graph. Directed graphs with cycles, on the line or in flat space, have no nested cones.
        seed: Seed of random directions.

    Example:
        >>> from horoball.geometry import PoincareBall
        >>> encoder = FreeEncoder(3, 2, PoincareBall(1.0))
        >>> place_nodes(encoder, Graph.of([(1, 0), (2, 0)], directed=True))
        >>> bool(encoder.loc[0].norm() < encoder.loc[1].norm())
        True
    """
    if graph.directed and encoder.d > 1 and not encoder.ball.is_euclidean:
        try:
            closure = transitive_closure(graph)
        except CycleError:
            pass
        else:
            parent, order = _tree(closure)
            cones = _nested(parent, order, encoder.d, seed)
            if len(closure.edges) == len(graph.edges):  # of a model of parents alone, ancestors are no edges
                ranked = rank_cones(cones, closure, parent, seed=seed)
                cones = settle_cones(ranked, closure, parent, *DETOUR, seed=seed)
            encoder.start_in(cones / encoder.ball.c_value**0.5)
            return
    encoder.start_at(path_axes(graph, encoder.d, seed=seed))
