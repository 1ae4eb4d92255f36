"""A taxonomy in the ball without training: every node a cone that holds the cones of its children."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from horoball.data.graphs.closure import transitive_closure
from horoball.data.graphs.graph import Graph

__all__ = ["nested_cones"]

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
    rng = np.random.default_rng((seed, 0xC0E5))
    parent, order = _tree(transitive_closure(graph))
    below = np.ones(graph.nodes)
    for node in order[::-1]:
        if parent[node] >= 0:
            below[parent[node]] += below[node]
    direction, angle = np.zeros((graph.nodes, d)), np.zeros(graph.nodes)
    roots = order[parent[order] < 0]
    if len(roots) == 1:
        angle[roots] = 1.0
        direction[roots] = _unit(rng.normal(size=(1, d)))
    else:
        angle[roots], direction[roots] = _caps(None, 1.0, below[roots], d, rng)
    # children of each node, those with most descendants first
    by_parent = order[np.lexsort((-below[order], parent[order]))]
    first = np.searchsorted(parent[by_parent], np.arange(graph.nodes))
    last = np.searchsorted(parent[by_parent], np.arange(graph.nodes), "right")
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
