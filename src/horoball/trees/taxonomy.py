"""A taxonomy: nested groups of rows, each with a name, its support and examples.

What a group is called: the words, or the columns, that tell it from its siblings.

Note [Words]: of a word, p is the share of the group's texts that hold it and q that of its siblings' texts. Its weight
is p log(p/q), the word's part in how well texts tell the group from its siblings: TF-IDF with the siblings in the place
of all other texts. A word that all siblings share says nothing, however rare it is elsewhere; a word of a single text
says little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from horoball.plugins import required
from horoball.tables.frames import columns_of_frame, index_of
from horoball.trees.branches import differences
from horoball.trees.levels import Levels, group_nodes
from horoball.trees.tree import Tree

NameGroup = Callable[[list[str], list[str]], str]  # texts of some members, words: a name

LATER = "later"  # what a date says where it names a group, as in `signup = later`
MISSING = "missing"  # what a column says of a gap where it names a group, as in `income = missing`
_CLEAR = 1.2  # how much more frequent than in its siblings a word has to be
_WORD = r"(?u)\b[^\W\d_][\w-]+\b"  # two letters or more, and no number by itself


def siblings_of(levels: np.ndarray, level: int, number: int) -> np.ndarray:
    """Rows of the other groups in the same group of the level above; of all others at the first level."""
    here = levels[:, level] == number
    beside = ~here & (levels[:, level] >= 0)
    if level:
        beside &= levels[:, level - 1] == levels[np.argmax(here), level - 1]
    if not beside.any():  # an only child is told from all others
        beside = ~here
    return np.flatnonzero(beside)


class Words:
    """Words that tell some texts from others, see Note [Words]; all texts are counted once.

    Args:
        texts: One text per row.
        stop_words: Words to leave out; scikit-learn's list of English ones if not given.
    """

    def __init__(self, texts: Sequence[str], stop_words: Sequence[str] | str | None = "english") -> None:
        from sklearn.feature_extraction.text import CountVectorizer

        held = [str(text) for text in texts]
        stop: Any = list(stop_words) if stop_words is not None and not isinstance(stop_words, str) else stop_words
        counter = CountVectorizer(binary=True, stop_words=stop, token_pattern=_WORD, dtype=np.float32)
        try:
            self._holds = counter.fit_transform(held).tocsr()
        except ValueError:
            raise ValueError("The texts hold no words to name groups by. Give another column of texts.") from None
        self._words = counter.get_feature_names_out()

    def __call__(self, here: ArrayLike, beside: ArrayLike, most: int = 5) -> list[str]:
        """The words of the greatest weight, largest first; fewer if fewer are more frequent than in the others."""
        here, beside = np.asarray(here), np.asarray(beside)
        count = np.asarray(self._holds[here].sum(0)).ravel()
        other = np.asarray(self._holds[beside].sum(0)).ravel()
        p, q = (count + 0.5) / (len(here) + 1), (other + 0.5) / (len(beside) + 1)  # half a text, so that none is 0
        weight = np.where((count > 0) & (p > _CLEAR * q), p * np.log(p / q), 0.0)
        order = np.lexsort((self._words, -weight))[:most]  # by the alphabet where weights are equal
        return [str(self._words[i]) for i in order if weight[i] > 0]


def columns_of(x: np.ndarray, columns: Sequence[str], here: np.ndarray, beside: np.ndarray, most: int = 3) -> list[str]:
    """Columns that tell some rows from others, with the signs of their standardized differences, largest first."""
    named = [place for place, column in enumerate(columns) if column]
    if not named:
        return []
    apart = differences(x[here][:, named], x[beside][:, named], [columns[place] for place in named])
    more = {_column(one.column) for one in apart if one.value > 0}  # a level that is frequent says more than rare ones
    told: dict[str, str] = {}
    for one in apart:
        column = _column(one.column)
        if one.value > 0 or column == one.column or column not in more:
            told.setdefault(column, _signed(one.column, positive=one.value > 0))
    return list(told.values())[:most]


def _column(name: str) -> str:
    return name.partition(" = ")[0]


def _signed(column: str, *, positive: bool) -> str:
    """A column with the sign of its difference; a level, as `color = red`, is more frequent or less so."""
    if column.endswith(f" = {MISSING}"):
        return f"{_column(column)} {'missing' if positive else 'known'}"
    if column.endswith(f" = {LATER}"):
        return f"{_column(column)} {LATER if positive else 'earlier'}"
    if " = " in column:
        return column if positive else column.replace(" = ", " ≠ ", 1)
    return f"{column} {'+' if positive else '-'}"


def distinct(names: Sequence[str]) -> list[str]:
    """The same names, with numbers where one comes again."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return out


_EXAMPLES = 5  # nearest to a group's center
_WORDS = 5  # of which a name has the first three


@dataclass(frozen=True)
class Group:
    """A group of a level."""

    name: str
    number: int  # within its level
    parent: int | None  # number of the group of the level above
    rows: int
    support: float | None  # of its branch
    words: tuple[str, ...]  # words or columns that tell it from its siblings, the clearest first
    exemplars: tuple[int, ...]  # rows nearest to its center
    chance: float | None = None  # support that chance gives a branch of its size

    def __str__(self) -> str:
        sure = "" if self.support is None else f", support {self.support:.2f}"
        return f"{self.name}: {self.rows:,} rows{sure}"


@dataclass(frozen=True, eq=False, repr=False)
class Taxonomy:
    """Nested groups of rows.

    Attributes:
        levels: The group of each row, one column per level, coarse to fine; −1 where it is in none.
        groups: The groups of every level.
        index: Labels of the rows, such as the index of their data frame; None for their numbers.

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
    index: Any = None

    @property
    def names(self) -> list[list[str | None]]:
        """For every level, the name of each row's group; None where it is in none."""
        return [
            [groups[number].name if number >= 0 else None for number in level]
            for groups, level in zip(self.groups, self.levels.T.tolist(), strict=True)
        ]

    def to_frame(self, *, rows: bool = False) -> Any:
        """A pandas data frame with one row per group, or with one per row of the data.

        Of groups, the index is the level, from 1 for the coarsest, and the group's number in it. Columns: `parent`, the
        number of the group of the level above; `name`; `rows`; `support` and `chance`, NaN where they are not known;
        `exemplars`, labels of the rows nearest to its center.

        Args:
            rows: Whether to give the rows of the data, in their order and with their labels as the index: the name of
                each one's group in columns `level_1` and so on, None where it is in none.

        Example:
            >>> tree = Tree.from_merges([[0, 1], [2, 3], [4, 5]], [1.0, 2.0, 5.0])
            >>> found = taxonomy(tree, [2], texts=["red apple", "green apple", "fast car", "red car"])
            >>> found.to_frame()[["name", "rows", "exemplars"]]
                                 name  rows exemplars
            level group
            1     0      apple, green     2    (0, 1)
                  1         car, fast     2    (2, 3)
            >>> found.to_frame(rows=True)["level_1"].tolist()
            ['apple, green', 'apple, green', 'car, fast', 'car, fast']
        """
        pandas = required("pandas")
        if rows:
            named = {f"level_{level}": pandas.array(names, "object") for level, names in enumerate(self.names, 1)}
            return pandas.DataFrame(named, index=self._index(pandas))
        flat = [(level, group) for level, groups in enumerate(self.groups, 1) for group in groups]
        labels = self._index(pandas)
        values: dict[str, Any] = {
            "parent": pandas.array([group.parent for _, group in flat], "Int64"),
            "name": [group.name for _, group in flat],
            "rows": np.array([group.rows for _, group in flat], np.int64),
        }
        for name in ("support", "chance"):
            values[name] = np.array([getattr(group, name) for _, group in flat], np.float64)  # None is NaN
        values["exemplars"] = [tuple(labels[list(group.exemplars)].tolist()) for _, group in flat]
        numbers = [(level, group.number) for level, group in flat]
        return pandas.DataFrame(values, index=pandas.MultiIndex.from_tuples(numbers, names=["level", "group"]))

    def _index(self, pandas: Any) -> Any:
        return pandas.RangeIndex(len(self.levels)) if self.index is None else pandas.Index(self.index)

    def __str__(self) -> str:
        return "\n".join("  " * level + str(group) for level, group in self._in_order())

    def __repr__(self) -> str:
        return f"Taxonomy({self._counts})"

    def _repr_html_(self) -> str:
        from horoball.notebook import html_table  # which a fit does not need

        lines = [
            ("  " * level + group.name, f"{group.rows:,}", "" if group.support is None else f"{group.support:.2f}")
            for level, group in self._in_order()
        ]
        return html_table(f"Taxonomy of {self._counts}", lines, ("group", "rows", "support"), rest="more groups")

    @property
    def _counts(self) -> str:
        return f"{len(self.levels):,} rows in {' and '.join(str(len(level)) for level in self.groups)} groups"

    def _in_order(self) -> list[tuple[int, Group]]:
        """The groups with their levels, each before the groups in it; once, if it is the same at several levels."""

        def below(level: int, above: Group | None) -> list[tuple[int, Group]]:
            found = []
            for group in self.groups[level] if level < len(self.groups) else ():
                if above is None or group.parent == above.number:
                    again = above is not None and group.rows == above.rows
                    found += [*([] if again else [(level, group)]), *below(level + 1, group)]
            return found

        return below(0, None)


def taxonomy(
    tree: Tree,
    levels: Levels = "auto",
    *,
    x: ArrayLike | None = None,
    columns: Sequence[str] | None = None,
    marks: tuple[ArrayLike, Sequence[str]] | None = None,
    texts: Sequence[str] | None = None,
    name: NameGroup | None = None,
    stop_words: Sequence[str] | str | None = "english",
) -> Taxonomy:
    """Nested groups of a tree's rows, each named by what tells it from its siblings.

    Args:
        tree: The tree.
        levels: How many groups each level has at most, how many levels there are, or "auto"; see `Tree.levels`.
        x: The rows that it was made from, shape (rows, columns): for examples, and for names where there are no texts.
        columns: Names of the columns of x, those of a data frame if not given; "" for one that names nothing, and
            `color = red` for a share of rows. Without names and texts, groups are called by their number.
        marks: Zeros and ones of the rows, shape (rows, marks), and their names, such as `income = missing`: groups are
            named by these too, and examples are not chosen by them.
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
    columns = columns_of_frame(x) if columns is None else columns
    rows = None if x is None else np.asarray(x, np.float64)
    naming, called_by = rows, list(columns or ())
    if rows is not None and columns is not None and marks is not None:
        naming, called_by = np.concatenate([rows, np.asarray(marks[0], np.float64)], 1), [*columns, *marks[1]]
    words = None if texts is None else Words(texts, stop_words)
    nodes = group_nodes(tree, levels)
    of_leaf = np.full((tree.leaves, len(nodes)), -1, np.int64)
    for level, heads in enumerate(nodes):
        for number, node in enumerate(heads):
            of_leaf[tree.members(node), level] = number
    of_row = of_leaf[leaf]
    made = []
    for level, heads in enumerate(nodes):
        described = []
        for number, node in enumerate(heads):
            here, beside = np.flatnonzero(of_row[:, level] == number), siblings_of(of_row, level, number)
            near = here if rows is None else here[_from_center(rows[here])]
            told: list[str] = []
            if words is not None:
                told = words(here, beside, _WORDS)
            elif naming is not None and called_by:
                told = columns_of(naming, called_by, here, beside, _WORDS)
            called = ", ".join(told[:3]) or f"group {number}"
            if name is not None:
                examples = [str(row if texts is None else texts[row]) for row in near[:_EXAMPLES].tolist()]
                called = name(examples, told) or called
            parent = int(of_row[here[0], level - 1]) if level else None
            certain, chance = (None if of is None else float(of[node]) for of in (tree.support, tree.chance))
            nearest = tuple(near[:_EXAMPLES].tolist())
            described.append(Group(called, number, parent, len(here), certain, tuple(told), nearest, chance))
        names = distinct([group.name for group in described])
        made.append(tuple(Group(**(vars(one) | {"name": new})) for one, new in zip(described, names, strict=True)))
    return Taxonomy(of_row, tuple(made), index_of(x))


def _from_center(x: np.ndarray) -> np.ndarray:
    """Places of rows in the order of their distance from their mean."""
    return np.argsort(np.square(x - x.mean(0)).sum(1), kind="stable")
