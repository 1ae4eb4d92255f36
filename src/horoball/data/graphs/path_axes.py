"""Where the nodes of a graph lie along the main axes of its path lengths: a start for a map."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from horoball.data.graphs.graph import Graph

__all__ = ["path_axes"]


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
