"""A taxonomy: nested groups of rows, each with a name, its support and examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from horoball.hierarchy.taxonomies.group_names import NameGroup, Words, columns_of, distinct, siblings_of
from horoball.hierarchy.trees.levels import group_nodes, level_sizes
from horoball.hierarchy.trees.tree import Tree

__all__ = ["Group", "Taxonomy", "taxonomy"]

_EXAMPLES = 5  # nearest to a group's center
_WORDS = 5  # of which a name has the first three


@dataclass(frozen=True)
class Group:
    """A group of a level.

    Example:
        >>> print(Group("fever, typhoid", 0, None, 12, 0.9, ("fever", "typhoid"), (3,)))
        fever, typhoid: 12 rows, support 0.90
    """

    name: str
    number: int  # within its level
    parent: int | None  # number of the group of the level above
    rows: int
    support: float | None  # of its branch
    words: tuple[str, ...]  # words or columns that tell it from its siblings, the clearest first
    exemplars: tuple[int, ...]  # rows nearest to its center

    def __str__(self) -> str:
        sure = "" if self.support is None else f", support {self.support:.2f}"
        return f"{self.name}: {self.rows:,} rows{sure}"


@dataclass(frozen=True, eq=False)
class Taxonomy:
    """Nested groups of rows.

    Attributes:
        levels: The group of each row, one column per level, coarse to fine; −1 where it is in none.
        groups: The groups of every level.

    Example:
        >>> tree = Tree.from_merges([[0, 1], [2, 3], [4, 5]], [1.0, 2.0, 5.0])
        >>> found = taxonomy(tree, [2], texts=["red apple", "green apple", "fast car", "red car"])
        >>> print(found)
        apple, green: 2 rows
        car, fast: 2 rows
        >>> found.names
        [['apple, green', 'apple, green', 'car, fast', 'car, fast']]
    """

    levels: np.ndarray
    groups: tuple[tuple[Group, ...], ...]

    @property
    def names(self) -> list[list[str | None]]:
        """For every level, the name of each row's group; None where it is in none."""
        return [
            [groups[number].name if number >= 0 else None for number in level]
            for groups, level in zip(self.groups, self.levels.T.tolist(), strict=True)
        ]

    def __str__(self) -> str:
        def lines(level: int, parent: int | None) -> list[str]:
            if level == len(self.groups):
                return []
            return [
                line
                for group in self.groups[level]
                if level == 0 or group.parent == parent
                for line in ("  " * level + str(group), *lines(level + 1, group.number))
            ]

        return "\n".join(lines(0, None))


def taxonomy(
    tree: Tree,
    levels: int | Sequence[int],
    *,
    x: ArrayLike | None = None,
    columns: Sequence[str] | None = None,
    texts: Sequence[str] | None = None,
    name: NameGroup | None = None,
    stop_words: Sequence[str] | str | None = "english",
) -> Taxonomy:
    """Nested groups of a tree's rows, each named by what tells it from its siblings.

    Args:
        tree: The tree.
        levels: How many groups each level has at most, or how many levels there are; see `Tree.levels`.
        x: The rows that it was made from, shape (rows, columns): for examples, and for names where there are no texts.
        columns: Names of the columns of x. Without these and without texts, groups are named by their number.
        texts: A text for each row; groups are then named by words.
        name: A function from the texts of some examples, and from words, to a name, such as a call of a language model.
        stop_words: Words that no group is named by; None for texts in other languages than English.

    Example:
        >>> tree = Tree.from_merges([[0, 1], [2, 3], [4, 5]], [1.0, 2.0, 5.0])
        >>> texts = ["red apple", "green apple", "fast car", "red car"]
        >>> print(taxonomy(tree, [2], texts=texts, name=lambda examples, words: words[0].upper()))
        APPLE: 2 rows
        CAR: 2 rows
    """
    leaf = np.arange(tree.leaves) if tree.leaf is None else tree.leaf
    for what, given in (("x", x), ("texts", texts)):
        if given is not None and len(given) != len(leaf):  # type: ignore[arg-type]
            raise ValueError(f"{what} must hold one entry per row of the tree: got {len(given)} for {len(leaf)}.")  # type: ignore[arg-type]
    rows = None if x is None else np.asarray(x, np.float64)
    words = None if texts is None else Words(texts, stop_words)
    nodes = group_nodes(tree, level_sizes(tree.leaves, levels) if isinstance(levels, int) else list(levels))
    of_leaf = np.full((tree.leaves, len(nodes)), -1, np.int64)
    for level, heads in enumerate(nodes):
        for number, node in enumerate(heads):
            of_leaf[tree.members(node), level] = number
    of_row = of_leaf[leaf]
    sure = tree.support
    made = []
    for level, heads in enumerate(nodes):
        described = []
        for number, node in enumerate(heads):
            here, beside = np.flatnonzero(of_row[:, level] == number), siblings_of(of_row, level, number)
            near = here if rows is None else here[_from_center(rows[here])]
            told: list[str] = []
            if words is not None:
                told = words(here, beside, _WORDS)
            elif rows is not None and columns is not None:
                told = columns_of(rows, columns, here, beside, _WORDS)
            called = ", ".join(told[:3]) or f"group {number}"
            if name is not None:
                examples = [str(row if texts is None else texts[row]) for row in near[:_EXAMPLES].tolist()]
                called = name(examples, told)
            parent = int(of_row[here[0], level - 1]) if level else None
            certain = None if sure is None else float(sure[node])
            described.append(
                Group(called, number, parent, len(here), certain, tuple(told), tuple(near[:_EXAMPLES].tolist()))
            )
        names = distinct([group.name for group in described])
        made.append(tuple(Group(**(vars(one) | {"name": new})) for one, new in zip(described, names, strict=True)))
    return Taxonomy(of_row, tuple(made))


def _from_center(x: np.ndarray) -> np.ndarray:
    """Places of rows in the order of their distance from their mean."""
    return np.argsort(np.square(x - x.mean(0)).sum(1), kind="stable")
