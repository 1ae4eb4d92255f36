"""Where a tree is seen from: the root point, and how far each row is from it."""

from __future__ import annotations

import numpy as np
import torch

from horoball.hierarchy.trees.leaves import Leaves
from horoball.hierarchy.trees.linkage import center_radius
from horoball.manifolds import PoincareBall

__all__ = ["Root", "find_root", "root_radius"]

Root = str | np.ndarray  # "center", "midpoint", or places of rows among those used


def find_root(root: str | int, leaves: Leaves) -> Root:
    """The rows that are the root, or the name of a rule.

    Args:
        root: "center", "midpoint", the number of a row, or the name of a leaf.
        leaves: The leaves.

    Example:
        >>> find_root("b", Leaves.of_rows(3, ["a", "b", "c"]))
        array([1])
    """
    if isinstance(root, str) and root in ("center", "midpoint"):
        return root
    if isinstance(root, str):
        leaf = leaves.names.index(root) if root in leaves.names else -1
        places = np.flatnonzero(leaves.leaf[leaves.rows] == leaf)
    else:
        places = np.flatnonzero(leaves.rows == root)
    if not len(places):
        known = ", ".join(leaves.names[:10]) + " …" * (len(leaves.names) > 10)
        raise ValueError(f"There is no leaf {root!r} to be the root. Leaves: {known}.")
    return places


def root_radius(d: np.ndarray, points: np.ndarray | None, c: float | None, root: Root) -> np.ndarray:
    """Distance of each row from the root.

    Args:
        d: Distances between the rows.
        points: The rows; None where only distances are known.
        c: Minus the curvature of the space of points: its center is the origin. None for columns.
        root: What `find_root` has found.

    Example:
        >>> x = np.array([0.0, 1.0, 4.0])
        >>> root_radius(abs(x - x[:, None]), None, None, "midpoint")
        array([2., 1., 2.])
    """
    if isinstance(root, np.ndarray):
        return d[:, root].mean(1, dtype=np.float64)
    if root == "midpoint":
        # On a tree, the distance from the middle of the longest way is that to its farther end, less half of it.
        i, j = np.unravel_index(int(d.argmax()), d.shape)
        return np.maximum(d[:, i], d[:, j]).astype(np.float64) - float(d[i, j]) / 2
    if c is None or points is None:
        return center_radius(d)
    z = torch.from_numpy(np.ascontiguousarray(points, np.float64))
    return PoincareBall(c).dist(z, torch.zeros_like(z[:1])).numpy()
