"""How often each branch comes back in replicates of the data.

Note [Clades]: every leaf gets a random number of 64 bits, and a clade the sum of its leaves' modulo 2⁶⁴. Two different
clades have the same sum with a probability of 2⁻⁶⁴, so a replicate's clades are compared with the tree's in O(n).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from horoball.hierarchy.trees.tree import Tree

__all__ = ["clade_keys", "support"]

LARGE = 20  # leaves of a branch that gets a transfer support: smaller ones have few leaves to move


def support(tree: Tree, replicates: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Support and transfer support of every node of a tree, see `Tree`.

    Args:
        tree: The tree.
        replicates: Merges of the replicates' trees over the same leaves, each of shape (n − 1, 2).

    Example:
        >>> tree = Tree.from_merges([[0, 1], [2, 3], [4, 5]], [1.0, 2.0, 3.0])
        >>> support(tree, [np.array([[0, 1], [2, 3], [4, 5]]), np.array([[0, 2], [1, 3], [4, 5]])])[0]
        array([nan, nan, nan, nan, 0.5, 0.5, 1. ])
    """
    n = tree.leaves
    code = np.random.default_rng(0).integers(0, 2**64, n, dtype=np.uint64, endpoint=False)
    keys = _keys(tree.parent, code)
    order, first, last = tree.spans
    count = last - first
    large = np.flatnonzero((count >= LARGE) & (np.arange(tree.nodes) < tree.nodes - 1))
    inside = np.zeros((len(large), n), bool)
    for row, node in enumerate(large):
        inside[row, order[first[node] : last[node]]] = True
    found, moved, draws = np.zeros(tree.nodes), np.zeros(len(large)), 0
    for merges in replicates:
        found += np.isin(keys, clade_keys(merges, code))
        moved += _moves(inside, Tree.from_merges(merges, np.arange(1.0, n)))
        draws += 1
    if not draws:
        raise ValueError("support expects at least one replicate.")
    exact, soft = found / draws, np.full(tree.nodes, np.nan)
    most = np.minimum(count[large] - 1, n - count[large])
    soft[large] = 1 - moved / draws / np.maximum(most, 1)
    exact[:n], exact[-1], soft[-1] = np.nan, 1.0, 1.0
    return exact, soft


def clade_keys(merges: np.ndarray, code: np.ndarray) -> np.ndarray:
    """The key of each clade of a linkage; see Note [Clades].

    Example:
        >>> clade_keys(np.array([[0, 1], [2, 3]]), np.array([1, 2, 4], np.uint64)).tolist()
        [3, 7]
    """
    n = len(code)
    parent = np.full(2 * n - 1, -1, np.int64)
    parent[merges] = np.arange(n, 2 * n - 1)[:, None]
    return _keys(parent, code)[n:]


def _keys(parent: np.ndarray, code: np.ndarray) -> np.ndarray:
    """Sums of the leaves' codes below each node, modulo 2⁶⁴."""
    total = code.tolist() + [0] * (len(parent) - len(code))
    for node, up in enumerate(parent[:-1].tolist()):
        total[up] += total[node]
    return np.array([each & 0xFFFFFFFFFFFFFFFF for each in total], np.uint64)


def _moves(inside: np.ndarray, replicate: Tree) -> np.ndarray:
    """Leaves to move until each clade is one of the replicate's: the least over its nodes."""
    order, first, last = replicate.spans
    least = np.empty(len(inside))
    for row, clade in enumerate(inside):
        along = np.concatenate([[0], np.cumsum(clade[order])])  # members of the clade among the first leaves
        shared = along[last] - along[first]
        least[row] = (clade.sum() + (last - first) - 2 * shared).min()
    return least
