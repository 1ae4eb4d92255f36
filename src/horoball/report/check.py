"""What needs no model: `check`, what a table is taken for and whether it has structure; and `tree`, of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import numpy as np
import torch

from horoball.hierarchy.delta import fixed_sample
from horoball.notebook import html_table
from horoball.options import ReadingOptions
from horoball.tables.frames import index_of
from horoball.tables.read import KINDS, read
from horoball.tables.schema import some_names
from horoball.tables.table import Table
from horoball.trees.grow import joined_by
from horoball.trees.grow import tree as tree_of_points
from horoball.trees.levels import Levels
from horoball.trees.taxonomy import NameGroup, Taxonomy, taxonomy
from horoball.trees.tree import Tree
from horoball.trees.verdict import Verdict
from horoball.vae.kinds import kind_named

_ROWS = 300  # of a table that are judged: the tree of as many, with its flat tables, takes some seconds
_COLUMNS = 100  # that they are judged by, at most
_FEWEST = 20  # rows that a verdict needs


@dataclass(frozen=True)
class Check:
    """What a table is taken for, and whether it has structure.

    Attributes:
        kind: What its rows are, of `horoball.tables.read.KINDS`.
        rows: Number of rows.
        columns: A line for each column: its name, what it is taken for, and why; only a few words where all are alike.
        gaps: Number of missing values, by the columns that have some.
        judged: Rows and columns that the verdict is of.
        verdict: The verdict of their tree; None for fewer than 20 rows.
        tree: That tree.

    Example:
        >>> import numpy as np
        >>> print(check(np.random.default_rng(0).normal(size=(100, 4))))
        100 rows of numbers: real numbers, complete, in columns that are alike.
        4 columns: x0, x1, x2, x3.
        ...
    """

    kind: str
    rows: int
    columns: tuple[str, ...]
    gaps: dict[str, int]
    judged: tuple[int, int]
    verdict: Verdict | None
    tree: Tree | None = field(default=None, repr=False)

    @property
    def advice(self) -> str:
        """What to do next."""
        if self.verdict is None:
            return f"A verdict needs {_FEWEST} rows or more."
        if self.verdict.answer == "not detected":
            some = "" if self.judged[0] == self.rows else " More rows may show some: horoball report --thorough."
            return f"Not detected is not no: branches of this size come back as often in flat data.{some}"
        return "Next: horoball tree DATA -o tree.html -o groups.csv; or a model, for a map: horoball fit DATA -o RUN."

    def __str__(self) -> str:
        return "\n".join([self._is, *self.columns, *self._found])

    def _repr_html_(self) -> str:
        columns = html_table(self._is, [(line,) for line in self.columns], ("columns",), rest="more columns")
        return columns + html_table("", [(line,) for line in self._found], ("found",))

    @property
    def _is(self) -> str:
        return f"{self.rows:,} rows of {self.kind}: {KINDS[self.kind]}."

    @property
    def _found(self) -> list[str]:
        """What is missing, the verdict, and what to do next."""
        lines = []
        if self.gaps:
            told = ", ".join(f"{name[:40]} {count:,}" for name, count in list(self.gaps.items())[:5])
            lines.append(f"{sum(self.gaps.values()):,} missing values: {told}{' …' if len(self.gaps) > 5 else ''}.")
        if self.verdict is not None:
            rows, columns = self.judged
            lines += [f"Of {rows:,} rows and {columns:,} columns:", self.verdict.sentence]
        return [*lines, self.advice]


def check(source: Any, label: str | None = None, *, seed: int = 0, **options: Unpack[ReadingOptions]) -> Check:
    """What a table is taken for, what is missing, and whether it has structure, before a model is made.

    The verdict is that of a tree of up to 300 rows by up to 100 columns, a fixed sample.

    Args:
        source: Where the rows come from, see `horoball.tables.read`.
        label: Name of a column to keep aside.
        seed: Seed of the sample and of the tree's draws.
        options: How the rows are read, see `horoball.tables.read`.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> check(20 * rng.normal(size=(3, 5)).repeat(30, 0) + rng.normal(size=(90, 5))).verdict.answer
        'clusters'
    """
    table = read(source, label, **options)
    found, judged = None, (0, 0)
    if table.rows >= _FEWEST:
        kind = kind_named(table.kind)
        points = kind.points(_sample(table, seed), table)
        some = fixed_sample(points.shape[1], _COLUMNS, seed)
        points, owners = points[:, some], kind.owners(table)
        owners = None if owners is None else owners[some]
        judged = len(points), points.shape[1] if owners is None else len(np.unique(owners))
        found = tree_of_points(points, standardize=kind.standardize, owners=owners, seed=seed)
    verdict = None if found is None else found.verdict
    return Check(table.kind, table.rows, tuple(_described(table)), _gaps(table), judged, verdict, found)


def tree(
    source: Any,
    label: str | None = None,
    *,
    by_label: bool = False,
    root: str | int = "center",
    method: str = "auto",
    draws: int = 100,
    seed: int = 0,
    told: Callable[[int, int], None] | None = None,
    **options: Unpack[ReadingOptions],
) -> Tree:
    """The tree of rows of any kind, or of their labels, with the support of every branch; without a model.

    A model weights columns by what it explains of them, and places new rows: see `PoincareVAE.tree`.

    Args:
        source: Where the rows come from, see `horoball.tables.read`.
        label: Name of a column to keep aside.
        by_label: Whether the leaves are the labels, and not the rows.
        root: Where the tree is seen from, see `horoball.trees.tree`.
        method: How rows are joined, see `horoball.trees.tree`; "auto" is the consensus for vectors.
        draws: Replicates for the support; 0 for none.
        seed: Seed of all draws.
        told: Called with the number of replicates that are done, and of all.
        options: How the rows are read, see `horoball.tables.read`.

    Example:
        >>> import pandas
        >>> frame = pandas.DataFrame({"color": ["red", "blue"] * 10, "size": [0.5, 7.5] * 10, "kind": ["a", "b"] * 10})
        >>> tree(frame, draws=0).leaves
        20
    """
    table = read(source, label, **options)
    labels = table.read_labels() if by_label else None
    if by_label and labels is None:
        raise ValueError("A tree of labels needs a label: name its column.")
    kind, names = kind_named(table.kind), table.read_names()
    names = index_of(source) if names is None else names
    joined = joined_by(method=method, root=root, draws=draws) if kind.joined else method
    return tree_of_points(
        _points(table),
        labels=labels,
        names=None if names is None or by_label else [str(name) for name in names],
        root=root,
        method=joined,
        standardize=kind.standardize,
        owners=kind.owners(table),
        draws=draws,
        seed=seed,
        told=told,
    )


_tree_of = tree


def groups(
    source: Any,
    label: str | None = None,
    *,
    levels: Levels = "auto",
    tree: Tree | None = None,
    texts: Sequence[str] | None = None,
    name: NameGroup | None = None,
    seed: int = 0,
    **options: Unpack[ReadingOptions],
) -> Taxonomy:
    """Groups of rows of any kind, with names and the support of each; without a model.

    Args:
        source: Where the rows come from, see `horoball.tables.read`.
        label: Name of a column to keep aside.
        levels: How many groups each level has at most, or how many levels there are. "auto" takes branches that can be
            believed: above chance, with a support of 0.5 or more.
        tree: The tree of the rows, made if not given.
        texts: A text for each row; groups are then named by words, otherwise by columns.
        name: A function from the texts of some examples, and from words, to a name; see `trees.language_model`.
        seed: Seed of the tree's draws.
        options: How the rows are read, see `horoball.tables.read`.

    Example:
        >>> import pandas
        >>> frame = pandas.DataFrame({"color": ["red", "blue"] * 20, "size": [0.5, 7.5] * 20, "kind": ["a", "b"] * 20})
        >>> frame["size"] += frame.index / 100
        >>> print(groups(frame))
        size -, color = red, kind ≠ b: 20 rows, support 1.00
        size +, color ≠ red, kind = b: 20 rows, support 1.00
    """
    table = read(source, label, **options)
    found = _tree_of(table, seed=seed) if tree is None else tree
    kind = kind_named(table.kind)
    x, columns = _filled(_points(table)), kind.point_names(table)
    made = taxonomy(found, levels, x=x, columns=columns, marks=kind.marks(table), texts=texts, name=name)
    return replace(made, index=index_of(source))


def _points(table: Table) -> np.ndarray:
    return kind_named(table.kind).points(torch.cat(list(table.blocks()))[:, : table.features], table)


def _filled(points: np.ndarray) -> np.ndarray:
    """Gaps at the mean of their column, where they set no group apart."""
    return np.where(np.isnan(points), np.nanmean(points, 0), points)


def _sample(table: Table, seed: int) -> torch.Tensor:
    """Features of a fixed sample of the rows."""
    chosen, parts, first = torch.from_numpy(fixed_sample(table.rows, _ROWS, seed)), [], 0
    for block in table.blocks():
        here = chosen[(chosen >= first) & (chosen < first + len(block))] - first
        parts.append(block[here, : table.features])
        first += len(block)
    return torch.cat(parts)


def _described(table: Table) -> list[str]:
    if table.schema is not None:
        return [f"{len(table.schema.columns):,} columns:", *(f"  {line}" for line in table.schema.lines())]
    return [f"{table.features:,} columns: {some_names(table.columns)}."]


def _gaps(table: Table) -> dict[str, int]:
    """How many values each column lacks; a date without a day lacks its month, too, and counts once."""
    if table.schema is None:
        return {}
    missing = torch.stack([block[:, : table.features].isnan().sum(0) for block in table.blocks()]).sum(0).tolist()
    found, place = {}, 0
    for column in table.schema.used:
        found[column.name] = missing[place]
        place += len(column.features)
    return {name: int(count) for name, count in found.items() if count}
