"""A rooted tree of rows or groups, with a support for every branch.

Newick: the text that programs of phylogenetics exchange trees in.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, pairwise
from typing import Any

import numpy as np

from horoball.plugins import required
from horoball.trees.chance import SURE, Chance, Judged
from horoball.trees.levels import Levels, nested_groups
from horoball.trees.linkage import METHODS, Candidate, rows_lie_along
from horoball.trees.split import Split
from horoball.trees.verdict import LEVEL, Verdict, nesting

_SPECIAL = frozenset("()[]{}:;,'_\" \t\r\n")


def newick(
    names: Sequence[str],
    children: Sequence[np.ndarray],
    length: np.ndarray,
    support: np.ndarray | None = None,
    digits: int = 6,
) -> str:
    """Newick text: the lengths of branches after a colon, support in percent after an inner node.

    Args:
        names: Names of the leaves. Programs take equal names for the same leaf, so those that occur more than once are
            numbered, "a #1", "a #2" and so on in the order of the leaves, with a warning.
        children: The children of every node, which come before it; the root is the last.
        length: Length of the branch above every node; the root's is not written.
        support: Of every node, between 0 and 1, or NaN for none; leaves and the root have none in the text.
        digits: Significant digits of numbers; large ones are filled up with zeros, as not all programs read 1e+02.
    """
    names = _distinct(names)
    text: list[str] = []
    for node, below in enumerate(children):
        if node < len(names):
            inside = quoted(names[node])
        else:
            inside = f"({','.join(text[child] for child in below)})"
            for child in below:
                text[child] = ""  # what is written out need not be held twice
        if node == len(children) - 1:
            break
        if support is not None and node >= len(names) and not np.isnan(support[node]):
            inside += _number(100 * support[node], digits)
        text.append(f"{inside}:{_number(length[node], digits)}")
    return inside + ";"


def _number(value: float, digits: int) -> str:
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e+" in text else text


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of the leaves as they are written, numbered where several are equal."""
    spaced = [_on_one_line(name) for name in names]
    several = {name: held for name, held in Counter(spaced).items() if held > 1}
    if not several:
        return spaced
    taken, numbers, distinct = set(spaced), {name: count(1) for name in several}, []
    for name in spaced:
        if name in several:
            name = next(made for number in numbers[name] if (made := f"{name} #{number}") not in taken)
        distinct.append(name)
    first = next(iter(several))
    called = distinct[spaced.index(first)]
    warnings.warn(
        f"{len(several):,} names are those of several leaves, such as {first!r}, of {several[first]:,} leaves. Newick "
        f"needs different names, so these are numbered, as in {called!r}. Name leaves by ids that occur once to keep "
        "them as they are.",
        stacklevel=4,  # who called Tree.to_newick
    )
    return distinct


def _on_one_line(name: str) -> str:
    return "".join(" " if letter in "\r\n\t" else letter for letter in name)


def quoted(name: str) -> str:
    """A name as Newick has it: in quotes where it holds characters with a meaning."""
    if name and not _SPECIAL & set(name):
        return name
    return "'" + _on_one_line(name).replace("'", "''") + "'"


SHARED_CHANGE = "shared change"  # of groups of cells since a root group
TREE_METHODS = (*METHODS, "consensus", SHARED_CHANGE)
_SMALLER = 0.7  # of the rows of a branch has one of the next level at most


@dataclass(frozen=True, eq=False, repr=False)
class Tree:
    """A rooted tree, its branches' support and how it was made.

    Nodes 0 to n − 1 are the leaves; every parent has a larger number than its children, so the root is the last node.
    A *branch* is an inner node with the leaves below it (its clade).

    Attributes:
        names: What the leaves are called.
        parent: The parent of each node; −1 for the root.
        depth: Distance from the root point at which each node lies.
        size: Number of rows of each leaf.
        support: Of each inner node, the share of replicates that have its clade up to a few leaves, see
            Note [Support]; NaN for leaves, 1 for the root. None if no replicates were drawn.
        chance: What the support of a clade of that size comes to in flat data, see Note [Chance]; NaN for leaves, 0 for
            the root. None if it was not measured.
        verdict: What structure the rows have, beside flat data. None if that was not measured.
        leaf: The leaf of each row.
        micro: Whether leaves are micro-clusters, of rows near each other, which are no groups by themselves.
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
    chance: np.ndarray | None = None
    verdict: Verdict | None = None
    leaf: np.ndarray | None = None
    method: str = "average"
    source: str = "distances"
    evidence: tuple[Candidate, ...] = ()
    micro: bool = False

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
        count = self.clade_sizes
        first = np.zeros(self.nodes, np.int64)
        for node in range(self.nodes - 1, self.leaves - 1, -1):
            place = first[node]
            for child in self.children[node]:
                first[child] = place
                place += count[child]
        order = np.empty(self.leaves, np.int64)
        order[first[: self.leaves]] = np.arange(self.leaves)
        return order, first, first + count

    def with_support(self, judged: Judged, chance: Chance, points: np.ndarray, split: Split | None = None) -> Tree:
        """The tree with the support of its branches, what chance gives, and the verdict.

        Args:
            judged: The branches in the order of their nodes, with their support.
            chance: Branches of flat tables.
            points: The leaves in the columns that the tree was made from, shape (leaves, columns).
            split: The main split of the tree, where it counts.
        """
        none, level = np.full(self.leaves, np.nan), chance.level(judged, self.leaves)
        sure = (judged.support >= SURE) & (judged.support > level) & chance.large(judged, self.leaves)
        groups, levels = self._tips(np.concatenate([np.zeros(self.leaves, bool), sure, [False]]))
        centers = [np.average(points[at], axis=0, weights=self.size[at]) for at in map(self.members, groups)]
        branches, flat, p = chance.structure(judged, self.leaves)
        parted = 1.0 if split is None else chance.parted(judged, split, self.leaves)
        two = p > LEVEL >= parted
        found = Verdict(
            branches,
            flat,
            parted if two else p,
            two=two,
            groups=len(groups),
            levels=levels,
            nesting=nesting(np.array(centers)),
            along=self.method == "gromov" and rows_lie_along(self.evidence),
        )
        return replace(
            self,
            support=np.concatenate([none, judged.support, [1.0]]),
            chance=np.concatenate([none, level, [0.0]]),
            verdict=found,
        )

    def _tips(self, chosen: np.ndarray) -> tuple[list[int], int]:
        """Those of some nodes that hold no other, and how many lie inside each other, each much smaller."""
        holds, level, room = np.zeros(self.nodes, bool), np.zeros(self.nodes, np.int64), np.full(self.nodes, np.inf)
        for node, up in enumerate(self.parent[:-1]):
            holds[up] |= chosen[node] or holds[node]
        for node in range(self.nodes - 2, self.leaves - 1, -1):  # from the root down
            up = self.parent[node]
            level[node], room[node] = level[up], room[up]
            if chosen[node] and self.clade_sizes[node] <= room[up]:
                level[node], room[node] = level[up] + 1, _SMALLER * self.clade_sizes[node]
        return np.flatnonzero(chosen & ~holds).tolist(), int(level.max())

    @cached_property
    def clade_sizes(self) -> np.ndarray:
        """Number of leaves below each node."""
        return self._below(np.ones(self.leaves, np.int64))

    @property
    def supported(self) -> np.ndarray:
        """Which nodes can be told from chance: their support is above it. Leaves and the root count as supported.

        Where chance was not measured, all do.
        """
        if self.support is None or self.chance is None:
            return np.ones(self.nodes, bool)
        return np.isnan(self.support) | (self.support > self.chance)

    @property
    def shown_support(self) -> np.ndarray | None:
        """Support of the nodes that are above chance, NaN for the others, which are shown without a number."""
        return None if self.support is None else np.where(self.supported, self.support, np.nan)

    def members(self, node: int) -> np.ndarray:
        """The leaves below a node, in the order of a drawing."""
        order, first, last = self.spans
        return order[first[node] : last[node]]

    def collapse(self, support: float = 0.5) -> Tree:
        """The tree without the branches below a support or not above chance; their children join the branch above.

        Example:
            >>> tree = Tree.from_merges([[0, 1], [2, 3]], [1.0, 3.0], support=np.array([np.nan] * 3 + [0.4, 1.0]))
            >>> tree.collapse(0.5).to_newick()
            '(0:3,1:3,2:3);'
        """
        if self.support is None:
            raise ValueError("This tree has no support to collapse by. Make it with draws=100.")
        kept = ~(self.support < support) & self.supported  # leaves have none, and stay
        kept[-1] = True
        target = np.arange(self.nodes)
        for node in range(self.nodes - 2, -1, -1):  # from the root down: the nearest kept node above or at each
            target[node] = node if kept[node] else target[self.parent[node]]
        number = np.cumsum(kept) - 1
        parent = np.append(number[target[self.parent[:-1]]], -1)[kept]
        chance = None if self.chance is None else self.chance[kept]
        return replace(self, parent=parent, depth=self.depth[kept], support=self.support[kept], chance=chance)

    def cut(self, groups: int) -> np.ndarray:
        """The group of each leaf when the tree is cut into so many groups; −1 where a leaf is in none.

        It is the one column of `levels([groups])`: groups are branches above chance, at most as many as are asked for.
        """
        if not 1 <= groups <= self.leaves:
            raise ValueError(f"cut expects between 1 and {self.leaves} groups, got {groups}.")
        return self.levels([groups])[:, 0]

    def levels(self, groups: Levels = "auto") -> np.ndarray:
        """Nested groups of the leaves, one column per level, from coarse to fine; −1 where a leaf is unsure.

        Groups are branches above chance, cut where support is highest; see Note [Levels] in `levels`.

        Args:
            groups: How many groups each level has at most, or how many levels there are. "auto" takes branches with a
                support of 0.5 or more: the largest, and the finest if these are others.

        Example:
            >>> tree = Tree.from_merges([[0, 1], [2, 3], [4, 5]], [1.0, 2.0, 5.0])
            >>> tree.levels([3, 2]).tolist()
            [[0, 0], [0, 0], [1, 1], [1, 2]]
        """
        return nested_groups(self, groups)

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
        """Newick text with branch lengths, and support in percent as the names of inner nodes that are above chance."""
        length = np.append(self.depth[:-1] - self.depth[self.parent[:-1]], 0.0)
        return newick(self.names, self.children, length, self.shown_support if support else None, digits)

    def to_networkx(self) -> Any:
        """A networkx.DiGraph from the root down; nodes have `name`, `depth`, `rows` and, above chance, `support`."""
        graph, shown = required("networkx").DiGraph(), self.shown_support
        for node in range(self.nodes):
            name = self.names[node] if node < self.leaves else ""
            sure = None if shown is None or np.isnan(shown[node]) else float(shown[node])
            graph.add_node(node, name=name, depth=float(self.depth[node]), rows=int(self.rows[node]), support=sure)
        for node, up in enumerate(self.parent[:-1]):
            graph.add_edge(int(up), node, length=float(self.depth[node] - self.depth[up]))
        return graph

    def to_frame(self, *, leaves: bool = False) -> Any:
        """A pandas data frame with one row per branch, by the numbers of their nodes.

        Columns: `parent`, the node above; `depth`; `length`, from the node above; `leaves` and `rows` below it;
        `support` and `chance`, NaN where they are not known; `above_chance`; `examples`, names of three leaves below.

        Args:
            leaves: Whether leaves and the root have rows too; a column `name` then has the leaves' names.

        Example:
            >>> tree = Tree.from_merges([[0, 1], [2, 3]], [1.0, 3.0], names=["cat", "dog", "oak"])
            >>> tree.to_frame()[["parent", "length", "rows", "examples"]]
                  parent  length  rows    examples
            node
            3          4     2.0     2  (cat, dog)
        """
        pandas = required("pandas")
        node = np.arange(0 if leaves else self.leaves, self.nodes if leaves else self.nodes - 1)
        none, (order, first, last) = np.full(self.nodes, np.nan), self.spans
        length = np.append(self.depth[:-1] - self.depth[self.parent[:-1]], np.nan)  # the root has nothing above it
        values: dict[str, Any] = {"parent": self.parent, "depth": self.depth, "length": length}
        values |= {"leaves": self.clade_sizes, "rows": self.rows}
        values |= {"support": none if self.support is None else self.support}
        values |= {"chance": none if self.chance is None else self.chance, "above_chance": self.supported}
        frame = pandas.DataFrame(
            {name: column[node] for name, column in values.items()}, index=pandas.Index(node, name="node")
        )
        frame["examples"] = [tuple(self.names[at] for at in order[first[i] : min(first[i] + 3, last[i])]) for i in node]
        if leaves:
            frame.insert(0, "name", [self.names[i] if i < self.leaves else None for i in node])
        return frame

    def __str__(self) -> str:
        sure = "" if self._above_chance is None else f", {self._above_chance} branches above chance"
        said = "" if self.verdict is None else f"; {self.verdict}"
        return f"Tree of {self._counts}{sure} ({self.method}, {self.source}){said}"

    def __repr__(self) -> str:
        return f"Tree({self._counts}; {self.method}, {self.source})"

    def _repr_html_(self) -> str:
        from horoball.notebook import facts_table  # which a fit does not need

        facts = {"branches above chance": self._above_chance, "method": self.method, "distances": self.source}
        said = None if self.verdict is None else self.verdict.sentence
        return facts_table(f"Tree of {self._counts}", facts | {"verdict": said})

    @property
    def _counts(self) -> str:
        rows = f"{int(self.size.sum()):,} rows"
        return f"{self.leaves:,} micro-clusters of {rows}" if self.micro else f"{self.leaves:,} leaves and {rows}"

    @property
    def _above_chance(self) -> str | None:
        if self.support is None:
            return None
        inner = self.supported[self.leaves : -1]
        return f"{int(inner.sum())} of {len(inner)}"

    def _below(self, of_leaf: np.ndarray) -> np.ndarray:
        """Sums over the leaves below each node."""
        total = np.zeros(self.nodes, np.int64)
        total[: self.leaves] = of_leaf
        for node in range(self.nodes - 1):
            total[self.parent[node]] += total[node]
        return total
