"""Nested groups of about the numbers that are asked for, cut where branches have the most support.

Note [Levels]: a cut at one height gives a few large groups and many single rows, since the branches that part first are
often those of outliers. Here a group has at least m rows, a third of the largest number at which there are enough
groups: with that number itself, groups are of one size and a quarter of the rows is in none. A group is a branch whose
support is above chance, or nothing: smaller branches that part on the way, and those that chance would have made as
well, are in no group. There may be fewer such branches than groups asked for. Among all ways to take so many of them,
the one is taken whose rows, each counted by (1 + support of its branch)/2, are most. A level divides the groups of the
level above it, so groups are nested.

Note [Finest]: where no number of groups is given, they are branches above chance with a support of 0.5 or more, of at
least five rows and one in a hundred. The finest level has the largest of these, each of which gives way to those inside
it if two or more of them hold 4/5 of its rows. If branches give way there is a level above it, of the largest that hold
less than 4/5 of all rows, if one holds so many. Where the verdict is "not detected" there are no groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np

Levels = int | Sequence[int] | Literal["auto"]

_TIE = 1e-6  # where support does not tell, tight groups are better
_LIKELY = 0.5  # support of a branch that is rather real than not
_FEWEST = 5  # rows of a group where nobody says how many there are
_PART = 0.01  # of all rows, that such a group has at least
_HELD = 0.8  # of a branch's rows, that branches inside it hold together if they take its place
_LEVELS = 2  # of groups, where there is no support to find them by
_ROOM = 3  # how much smaller than the others a group may be


class Branching(Protocol):
    """What is asked of a `Tree`, which uses this module."""

    @property
    def parent(self) -> np.ndarray:
        """The parent of each node."""

    @property
    def depth(self) -> np.ndarray:
        """Depth of each node."""

    @property
    def leaves(self) -> int:
        """Number of leaves."""

    @property
    def nodes(self) -> int:
        """Number of nodes."""

    @property
    def rows(self) -> np.ndarray:
        """Number of rows below each node."""

    @property
    def children(self) -> list[np.ndarray]:
        """The children of each node."""

    @property
    def support(self) -> np.ndarray | None:
        """Support of each branch."""

    @property
    def supported(self) -> np.ndarray:
        """Which nodes are above chance."""

    @property
    def micro(self) -> bool:
        """Whether leaves are micro-clusters."""

    @property
    def verdict(self) -> Any:
        """What the branches say of the rows."""

    def members(self, node: int) -> np.ndarray:
        """The leaves below a node."""


def level_sizes(leaves: int, levels: int) -> list[int]:
    """Numbers of groups for some levels, in equal ratios up to the square root of the number of leaves."""
    if levels < 1:
        raise ValueError(f"levels expects one level or more, got {levels}.")
    most = max(2.0, leaves**0.5)
    return sorted({min(leaves, max(2, round(most ** (step / levels)))) for step in range(1, levels + 1)})


def nested_groups(tree: Branching, levels: Levels) -> np.ndarray:
    """The group of each leaf at every level, coarse to fine; −1 where it is unsure. See Note [Levels].

    Args:
        tree: The tree.
        levels: Number of groups of each level, in any order; the number of levels; or "auto", see Note [Finest].
    """
    found = group_nodes(tree, levels)
    out = np.full((tree.leaves, len(found)), -1, np.int64)
    for level, nodes in enumerate(found):
        for number, node in enumerate(nodes):
            out[tree.members(node), level] = number
    return out


def group_nodes(tree: Branching, levels: Levels) -> list[list[int]]:
    """The nodes whose leaves are the groups, for every level, coarse to fine, in the order of the first leaf they hold.

    The same tree therefore always gives groups the same numbers.
    """
    if levels == "auto" and tree.support is not None:
        return _believed(tree, tree.support)
    if isinstance(levels, int | str):
        levels = level_sizes(tree.leaves, levels if isinstance(levels, int) else _LEVELS)
    for size in levels:
        if not 1 <= size <= tree.leaves:
            raise ValueError(f"levels expects between 1 and {tree.leaves} groups, got {size}.")
    root = tree.nodes - 1
    found: list[list[int]] = []
    above = [root]
    for size in sorted(levels):
        above = _divided(tree, above, max(size, len(above)))
        if size > 1 and above == [root]:
            found.append([])  # all rows are not a group
            continue
        found.append(above)
    return found


def _believed(tree: Branching, sure: np.ndarray) -> list[list[int]]:
    """The groups that branches of enough support are, the largest and the finest; see Note [Finest]."""
    believed = tree.supported & (sure >= _LIKELY) & (tree.rows >= max(_FEWEST, _PART * tree.rows[-1]))
    believed[-1] = False
    if tree.verdict is not None and tree.verdict.answer == "not detected":
        # One flat branch in twenty is above chance: whoever asked no more would find groups in any noise.
        return [[]]
    largest: list[list[int]] = []
    finest: list[list[int]] = []
    within: dict[int, list[int]] = {}  # the largest inside each
    for node in range(tree.nodes):  # children come before their parents
        inside = [group for child in tree.children[node] for group in finest[child]]
        around = [group for child in tree.children[node] for group in largest[child]]
        for child in tree.children[node]:
            finest[child], largest[child] = [], []  # which need not be held twice
        divided = len(inside) > 1 and sum(tree.rows[group] for group in inside) >= _HELD * tree.rows[node]
        finest.append([node] if believed[node] and not divided else inside)
        largest.append([node] if believed[node] else around)
        within[node] = around
    coarse = largest[-1]
    while len(coarse) == 1 and tree.rows[coarse[0]] >= _HELD * tree.rows[-1]:  # all rows but some outliers
        coarse = within[coarse[0]]
    levels = [sorted(found, key=lambda node: int(tree.members(node).min())) for found in (coarse, finest[-1])]
    whole = np.full(tree.leaves, -1)
    for number, node in enumerate(coarse):
        whole[tree.members(node)] = number
    held = all((whole[tree.members(node)] >= 0).all() for node in levels[1])
    return levels if held and coarse and levels[0] != levels[1] else levels[1:]


def _divided(tree: Branching, above: list[int], size: int) -> list[int]:
    """So many groups within some nodes, or as many as there are; at least one in each."""
    size = min(size, sum(_large(tree, 1)[node] or 1 for node in above))
    least = _least(tree, above, size)
    inside = _large(tree, max(min(least, 2), least // _ROOM))  # a single row is no group, if there are others
    return sorted(_best(tree, above, inside, size), key=lambda node: int(tree.members(node).min()))


def _least(tree: Branching, above: list[int], size: int) -> int:
    """The largest number of rows of a group at which there are enough groups."""
    low, high = 1, int(tree.rows.max())
    while low < high:
        middle = (low + high + 1) // 2
        if sum(_large(tree, middle)[node] or 1 for node in above) >= size:
            low = middle
        else:
            high = middle - 1
    return low


def _may_be_groups(tree: Branching) -> np.ndarray:
    """Nodes above chance; where support is known, neither a single row nor a micro-cluster is one of them."""
    if tree.support is None:
        return tree.supported
    return tree.supported & (tree.rows > 1) & ~(tree.micro & (np.arange(tree.nodes) < tree.leaves))


def _large(tree: Branching, least: int) -> list[int]:
    """How many branches of at least so many rows are below each node, itself included, that hold no smaller one.

    The number falls as they have to be larger.
    """
    rows, inside, above = tree.rows.tolist(), [0] * tree.nodes, _may_be_groups(tree).tolist()
    parent = tree.parent.tolist()
    for node in range(tree.nodes):  # children come before their parents
        if not inside[node] and above[node] and rows[node] >= least:
            inside[node] = 1
        if parent[node] >= 0:
            inside[parent[node]] += inside[node]
    return inside


def _best(tree: Branching, above: list[int], inside: list[int], size: int) -> list[int]:
    """Branches of the greatest score, by dynamic programming over the places where large branches part."""
    sure = tree.support
    score = tree.rows * (1.0 if sure is None else (1 + np.where(np.isnan(sure), 1.0, sure)) / 2)
    score = score + _TIE * tree.rows * tree.depth / (tree.depth.max() or 1.0)
    score = np.where(_may_be_groups(tree), score, -np.inf)
    best: dict[int, list[float]] = {}  # of a node: the best score for 1, 2, … groups in it
    ways: dict[int, list[list[int]]] = {}  # and how the groups are divided among its parts
    parts: dict[int, list[int]] = {}
    head: dict[int, int | None] = {}  # the branch to take for one group; None if it is further down
    taken_of: dict[int, int] = {}
    stack = [(node, False) for node in above]
    while stack:
        node, ready = stack.pop()
        if not ready:
            taken, at = node, node
            while len(below := [int(child) for child in tree.children[at] if inside[child]]) == 1:
                at = below[0]  # only small branches part here
                taken = at if score[at] > score[taken] else taken
            taken_of[node], parts[node] = taken, below
            stack += [(node, True), *((child, False) for child in below)]
            continue
        table, ways[node] = [0.0], []
        for child in parts[node]:
            table, chosen = _together(table, best[child], size)
            ways[node].append(chosen)
        whole = float(score[taken_of[node]])
        deeper = len(table) > 1 and table[1] > whole
        head[node] = None if deeper else taken_of[node]
        best[node] = [0.0, table[1] if deeper else whole, *table[2:]]  # a branch may be left out
    total, chosen_of = [0.0], []
    for node in above:
        total, chosen = _together(total, [float("-inf"), *best[node][1:]], size)  # but no group of the level above
        chosen_of.append(chosen)
    most = max((count for count in range(1, min(size, len(total) - 1) + 1) if total[count] > -np.inf), default=0)
    return _taken(above, chosen_of, most, parts, ways, head) if most else []


def _together(left: list[float], right: list[float], most: int) -> tuple[list[float], list[int]]:
    """The best scores of two parts together, and how many of the groups are in the second."""
    one, two = np.array(left), np.array(right)
    length = min(len(one) + len(two) - 1, most + 1)
    score, chosen = np.full(length, -np.inf), np.zeros(length, np.int64)
    for count in range(len(two)):
        end = min(len(one), length - count)
        if end <= 0:
            break
        new = one[:end] + two[count]
        better = new > score[count : count + end]
        score[count : count + end][better] = new[better]
        chosen[count : count + end][better] = count
    return score.tolist(), chosen.tolist()


def _taken(
    above: list[int],
    chosen_of: list[list[int]],
    size: int,
    parts: dict[int, list[int]],
    ways: dict[int, list[list[int]]],
    head: dict[int, int | None],
) -> list[int]:
    """Follow the choices down to the branches."""
    found: list[int] = []
    waiting = [(above, chosen_of, size)]
    while waiting:
        nodes, chosen, left = waiting.pop()
        for node, choice in zip(reversed(nodes), reversed(chosen), strict=True):
            count = choice[left]
            left -= count
            taken = head[node]
            if count == 1 and taken is not None:
                found.append(taken)
            elif count:
                waiting.append((parts[node], ways[node], count))
    return found
