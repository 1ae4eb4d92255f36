"""A rooted tree of rows or groups, with a support for every branch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from horoball.hierarchy.trees.evidence import Candidate
from horoball.hierarchy.trees.levels import level_sizes, nested_groups
from horoball.hierarchy.trees.linkage import METHODS
from horoball.hierarchy.trees.newick import newick
from horoball.runtime.extras import require_networkx

__all__ = ["SHARED_CHANGE", "TREE_METHODS", "Tree"]

SHARED_CHANGE = "shared change"  # of groups of cells since a root group
TREE_METHODS = (*METHODS, "consensus", SHARED_CHANGE)


@dataclass(frozen=True, eq=False)
class Tree:
    """A rooted tree, its branches' support and how it was made.

    Nodes 0 to n − 1 are the leaves; every parent has a larger number than its children, so the root is the last node.
    A *branch* is an inner node with the leaves below it (its clade).

    Attributes:
        names: What the leaves are called.
        parent: The parent of each node; −1 for the root.
        depth: Distance from the root point at which each node lies.
        size: Number of rows of each leaf.
        support: Of each inner node, the share of replicates that have exactly its clade; NaN for leaves, 1 for the
            root. None if no replicates were drawn.
        transfer: Transfer support of large branches, which gives partial credit: 1 less the share of its leaves that
            have to move, on average, until a replicate has the branch (Lemoine et al., 2018); NaN for small ones.
        leaf: The leaf of each row.
        method: How leaves were joined: "gromov", "average", "consensus" or "shared change".
        source: Which distances were used.
        evidence: The candidates that method and source were chosen from, the best first.

    Example:
        >>> tree = Tree.from_merges([[0, 1], [2, 3]], [1.0, 3.0], names=["cat", "dog", "oak"])
        >>> print(tree.to_newick())
        (oak:3,(cat:1,dog:1):2);
        >>> tree.cut(2)
        array([0, 0, 1])
    """

    names: tuple[str, ...]
    parent: np.ndarray
    depth: np.ndarray
    size: np.ndarray
    support: np.ndarray | None = None
    transfer: np.ndarray | None = None
    leaf: np.ndarray | None = None
    method: str = "average"
    source: str = "distances"
    evidence: tuple[Candidate, ...] = ()

    @classmethod
    def from_merges(
        cls, merges: Any, height: Any, *, names: Sequence[str] | None = None, radius: Any = None, **about: Any
    ) -> Tree:
        """A binary tree from the merges of a linkage, as scipy numbers them, at non-decreasing heights.

        Args:
            merges: Pairs of nodes, shape (n − 1, 2); the k-th makes node n + k.
            height: Height of each merge. Nodes lie at a depth of the largest radius less their height.
            names: Names of the leaves; their numbers if not given.
            radius: Depth of each leaf, for trees whose leaves end at different depths; the largest height if not given.
            about: Other attributes.
        """
        merges, height = np.asarray(merges, np.int64), np.asarray(height, np.float64)
        n = len(merges) + 1
        parent = np.full(2 * n - 1, -1, np.int64)
        parent[merges] = np.arange(n, 2 * n - 1)[:, None]
        top = np.full(n, height.max(initial=0.0)) if radius is None else np.asarray(radius, np.float64)
        depth = np.concatenate([top, np.maximum(top.max() - height, 0.0)])
        # A leaf nearer to the root than the place where it joins ends there.
        depth[:n] = np.maximum(depth[:n], depth[parent[:n]]) if n > 1 else depth[:n]
        about = {"size": np.ones(n, np.int64)} | about
        return cls(tuple(names or map(str, range(n))), parent, depth, **about)

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return len(self.names)

    @property
    def nodes(self) -> int:
        """Number of nodes, leaves included."""
        return len(self.parent)

    @cached_property
    def children(self) -> list[np.ndarray]:
        """The children of each node; none of leaves."""
        order = np.argsort(self.parent, kind="stable")[1:]  # without the root, whose parent is −1
        bounds = np.searchsorted(self.parent[order], np.arange(self.nodes + 1))
        return [order[first:last] for first, last in pairwise(bounds)]

    @cached_property
    def rows(self) -> np.ndarray:
        """Number of rows below each node."""
        return self._below(self.size)

    @cached_property
    def spans(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The leaves in an order in which every clade is a range, and the first and past-the-end place of each node."""
        count = self._below(np.ones(self.leaves, np.int64))
        first = np.zeros(self.nodes, np.int64)
        for node in range(self.nodes - 1, self.leaves - 1, -1):
            place = first[node]
            for child in self.children[node]:
                first[child] = place
                place += count[child]
        order = np.empty(self.leaves, np.int64)
        order[first[: self.leaves]] = np.arange(self.leaves)
        return order, first, first + count

    @property
    def branch_support(self) -> np.ndarray | None:
        """How stable each branch is: transfer support if it is large, exact support if it is small; NaN for leaves."""
        if self.support is None or self.transfer is None:
            return self.support
        return np.where(np.isnan(self.transfer), self.support, self.transfer)

    def members(self, node: int) -> np.ndarray:
        """The leaves below a node, in the order of a drawing."""
        order, first, last = self.spans
        return order[first[node] : last[node]]

    def collapse(self, support: float = 0.5) -> Tree:
        """The tree without the branches below a support; their children join the branch above.

        Example:
            >>> tree = Tree.from_merges([[0, 1], [2, 3]], [1.0, 3.0], support=np.array([np.nan] * 3 + [0.4, 1.0]))
            >>> tree.collapse(0.5).to_newick()
            '(0:3,1:3,2:3);'
        """
        if self.support is None:
            raise ValueError("This tree has no support to collapse by. Make it with draws=100.")
        kept = ~(self.support < support)  # leaves have none, and stay
        kept[-1] = True
        target = np.arange(self.nodes)
        for node in range(self.nodes - 2, -1, -1):  # from the root down: the nearest kept node above or at each
            target[node] = node if kept[node] else target[self.parent[node]]
        number = np.cumsum(kept) - 1
        parent = np.append(number[target[self.parent[:-1]]], -1)[kept]
        soft = None if self.transfer is None else self.transfer[kept]
        return replace(self, parent=parent, depth=self.depth[kept], support=self.support[kept], transfer=soft)

    def cut(self, groups: int) -> np.ndarray:
        """The group of each leaf when the tree is cut into about so many groups, from the root down.

        Groups are numbered by the first leaf they hold, so that the same tree always gives the same numbers. Where
        branches are collapsed, a cut can go past the number asked for.
        """
        if not 1 <= groups <= self.leaves:
            raise ValueError(f"cut expects between 1 and {self.leaves} groups, got {groups}.")
        opened, open_ = 1, np.zeros(self.nodes, bool)
        for node in np.lexsort((-np.arange(self.nodes), self.depth)):
            if opened >= groups:
                break
            if node >= self.leaves:
                open_[node] = True
                opened += len(self.children[node]) - 1
        head = np.arange(self.nodes)
        for node in range(self.nodes - 2, -1, -1):
            if not open_[self.parent[node]]:
                head[node] = head[self.parent[node]]
        _, first, group = np.unique(head[: self.leaves], return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[group]

    def levels(self, groups: int | Sequence[int]) -> np.ndarray:
        """Nested groups of the leaves, one column per level, from coarse to fine; −1 where a leaf is unsure.

        Groups are cut where support is highest, and outliers are left out of them; see Note [Levels] in `levels`.

        Args:
            groups: How many groups each level has, or how many levels there are.

        Example:
            >>> tree = Tree.from_merges([[0, 1], [2, 3], [4, 5]], [1.0, 2.0, 5.0])
            >>> tree.levels([3, 2]).tolist()
            [[0, 0], [0, 0], [1, 1], [1, 2]]
        """
        sizes = level_sizes(self.leaves, groups) if isinstance(groups, int) else list(groups)
        return nested_groups(self, sizes)

    def to_linkage(self) -> np.ndarray:
        """The linkage matrix of scipy, for `scipy.cluster.hierarchy.dendrogram` and `fcluster`.

        Heights are the greatest depth less the node's. Where a node has more than two children, they are joined one
        after the other at the same height.
        """
        n, top = self.leaves, float(self.depth.max())
        merges = []
        name = np.arange(self.nodes)
        order = sorted(range(n, self.nodes), key=lambda node: (-self.depth[node], node))
        count = self._below(np.ones(n, np.int64)).tolist()
        for node in order:
            first, *others = self.children[node].tolist()
            at, held = int(name[first]), count[first]
            for child in others:
                held += count[child]
                merges.append((min(at, name[child]), max(at, name[child]), top - self.depth[node], held))
                at = n + len(merges) - 1
            name[node] = at
        return np.array(merges, np.float64).reshape(-1, 4)

    def to_newick(self, *, support: bool = True, digits: int = 6) -> str:
        """Newick text with branch lengths, and support in percent as the names of inner nodes."""
        length = np.append(self.depth[:-1] - self.depth[self.parent[:-1]], 0.0)
        return newick(self.names, self.children, length, self.support if support else None, digits)

    def to_networkx(self) -> Any:
        """A networkx.DiGraph from the root down; nodes have `name`, `depth`, `rows` and `support`."""
        graph = require_networkx().DiGraph()
        for node in range(self.nodes):
            name = self.names[node] if node < self.leaves else ""
            sure = None if self.support is None or node < self.leaves else float(self.support[node])
            graph.add_node(node, name=name, depth=float(self.depth[node]), rows=int(self.rows[node]), support=sure)
        for node, up in enumerate(self.parent[:-1]):
            graph.add_edge(int(up), node, length=float(self.depth[node] - self.depth[up]))
        return graph

    def __str__(self) -> str:
        sure = ""
        if self.support is not None:
            inner = self.support[self.leaves : -1]
            sure = f", {int((inner >= 0.9).sum())} of {len(inner)} branches with support of at least 0.9"
        return f"Tree of {self.leaves:,} leaves and {int(self.size.sum()):,} rows{sure} ({self.method}, {self.source})"

    def _below(self, of_leaf: np.ndarray) -> np.ndarray:
        """Sums over the leaves below each node."""
        total = np.zeros(self.nodes, np.int64)
        total[: self.leaves] = of_leaf
        for node in range(self.nodes - 1):
            total[self.parent[node]] += total[node]
        return total
