"""Whether an embedding keeps known labels together: nearest neighbors, and the tree of clusters."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from horoball.data.missing import category_names
from horoball.hierarchy.space import Space

__all__ = ["dendrogram_purity", "merges_purity", "neighbor_accuracy", "nested_labels"]


def neighbor_accuracy(embedding: Space, labels: ArrayLike, *, neighbors: int = 5) -> float:
    """Share of points whose label is that of most of their nearest neighbors, themselves left out.

    Where labels have equally many votes, the first in their order is taken, as scikit-learn does.

    Args:
        embedding: Distances in the embedding.
        labels: One label per point.
        neighbors: k.

    Example:
        >>> neighbor_accuracy(Space.of_points(np.arange(8.0)[:, None]), list("aaaabbbb"), neighbors=3)
        0.875
    """
    _, code = np.unique(_one_per_point(embedding, labels), return_inverse=True)
    k = min(neighbors, embedding.n - 1)
    everything = np.arange(embedding.n)
    right = 0
    for rows in embedding.row_blocks():
        d = embedding.between(rows, everything)
        d[np.arange(len(rows)), rows] = np.inf
        nearest = np.argpartition(d, k - 1, axis=1)[:, :k]
        votes = np.zeros((len(rows), code.max() + 1), np.int64)
        np.add.at(votes, (np.arange(len(rows))[:, None], code[nearest]), 1)
        right += int((votes.argmax(1) == code[rows]).sum())
    return right / embedding.n


def dendrogram_purity(embedding: Space, labels: ArrayLike) -> float:
    """How pure the clusters are in which points of one label meet, in the embedding's dendrogram.

    The dendrogram is that of average linkage. Two points of one label first meet in some cluster; the share of
    the label in it is averaged over all such pairs (Heller and Ghahramani, 2005). Nested labels, one column per level,
    give the mean over levels.

    Args:
        embedding: Distances in the embedding; all are held at once, so a few thousand points.
        labels: One label per point, or one per point and level: `nested_labels` makes them from a tree.

    Example:
        >>> dendrogram_purity(Space.of_points([[0.0], [1.0], [5.0], [6.0]]), ["a", "a", "b", "b"])
        1.0
    """
    labels = _one_per_point(embedding, labels)
    d = embedding.matrix()
    merges = linkage(squareform((d + d.T) / 2, checks=False), "average")[:, :2].astype(np.int64)
    levels = labels[:, None] if labels.ndim == 1 else labels
    return float(np.mean([merges_purity(merges, level) for level in levels.T]))


def nested_labels(parent: ArrayLike, node: ArrayLike | None = None) -> np.ndarray:
    """The ancestors of each point in a tree of labels, one column per level below the root.

    Args:
        parent: The parent of each node; a root is its own.
        node: The node of each point; every node once if not given.

    Returns:
        Shape (points, levels). A point above a level has its own node there.

    Example:
        >>> nested_labels([0, 0, 0, 1, 1])
        array([[0, 0],
               [1, 1],
               [2, 2],
               [1, 3],
               [1, 4]])
    """
    above = np.asarray(parent, np.int64)
    path = [np.arange(len(above))]
    while (above[path[-1]] != path[-1]).any():
        if len(path) > len(above):
            raise ValueError("Expected a tree, got a circle of parents. A root is its own parent.")
        path.append(above[path[-1]])
    up = np.stack(path)  # up[s]: s steps toward the root
    depth = (up[1:] != up[:-1]).sum(0)
    levels = np.arange(1, max(2, len(path)))
    ancestors = up[np.maximum(depth[:, None] - levels, 0), np.arange(len(above))[:, None]]
    return ancestors if node is None else ancestors[np.asarray(node, np.int64)]


def _one_per_point(embedding: Space, labels: ArrayLike) -> np.ndarray:
    values = np.asarray(labels)
    if values.dtype == object and values.ndim == 1:
        values = category_names(values)  # missing ones are a label of their own
    if values.ndim not in (1, 2) or len(values) != embedding.n:
        raise ValueError(f"Expected {embedding.n} labels, one per point, got shape {values.shape}.")
    return values


def merges_purity(merges: np.ndarray, labels: np.ndarray) -> float:
    """Dendrogram purity of a linkage, given by its merges; see `dendrogram_purity`.

    Args:
        merges: Pairs of nodes, shape (n − 1, 2), as scipy numbers them.
        labels: One label per point.

    Example:
        >>> merges_purity(np.array([[0, 1], [2, 3], [4, 5]]), np.array(["a", "a", "b", "b"]))
        1.0
    """
    _, code = np.unique(labels, return_inverse=True)
    n = len(code)
    counts = np.zeros((2 * n - 1, code.max() + 1))
    counts[np.arange(n), code] = 1
    pure = pairs = 0.0
    for step, (left, right) in enumerate(merges):
        meeting = counts[left] * counts[right]
        counts[n + step] = counts[left] + counts[right]
        pure += float(meeting @ counts[n + step] / counts[n + step].sum())
        pairs += float(meeting.sum())
    return pure / pairs if pairs else 1.0
