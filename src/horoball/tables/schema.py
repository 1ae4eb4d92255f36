"""What the columns of a table are: their names, kinds and roles."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

_LONGEST = 40  # characters of a name
_MOST = 8  # names


def some_names(names: Sequence[str]) -> str:
    """Some names on one line."""
    shown = ("".join(filter(str.isprintable, name[:_LONGEST])) for name in names[:_MOST])
    return ", ".join(shown) + (" …" if len(names) > _MOST else "")


KINDS = {
    "real": "real numbers, by the normal distribution",
    "positive": "numbers above 0 with a long tail, by the log-normal distribution",
    "count": "whole numbers from 0 on, by the negative binomial distribution",
    "binary": "one of two values, by the Bernoulli distribution",
    "category": "one of some values without an order, by the categorical distribution",
    "ordinal": "levels with an order, such as ratings, by a cumulative logit",
    "circular": "whole numbers that come around again, such as hours, by a distribution on the circle",
    "date": "dates: a trend in days, the month and the weekday",
    "skip": "not used",
}
OTHER = "(other)"  # what rare categories are pooled under
_FORMS = ("number", "whole", "truth", "text", "date", "time", "seconds", "milliseconds")
_LEVELS = {"category": "categorical", "ordinal": "ordinal"}
_PLAIN = {"real": "normal", "positive": "log_normal", "count": "negative_binomial", "binary": "bernoulli"}
_MOST_TEXT = 1 << 16  # characters of a stored name or category


class Feature(NamedTuple):
    """A column of numbers that a model sees: one of each column, three of a date."""

    name: str
    likelihood: str  # of the registry, with the number of its levels where it has some


@dataclass(frozen=True)
class Column:
    """One column of a source: what it is taken for, and why."""

    name: str
    kind: str
    reason: str
    form: str = "number"  # how values are given back
    levels: tuple[str, ...] = ()  # texts of categories, of ordered levels, or of 0 and 1
    start: float = 0.0  # what is subtracted: the first day of dates, the first point of a circle
    period: int = 0  # points of a circle
    gaps: tuple[str, ...] = ()  # words that the user takes for a missing value, beside those that always are

    def __post_init__(self) -> None:
        """Refuse what no column can be; descriptions may come from a file."""
        for name in ("name", "kind", "reason", "form"):
            if not isinstance(getattr(self, name), str) or len(getattr(self, name)) > _MOST_TEXT:
                raise ValueError(f"The {name} of a column is not a text.")
        if self.kind not in KINDS:
            raise ValueError(
                f"Column {self.name[:40]!r} is to be {self.kind[:40]!r}, which is no kind. Choose one of: "
                f"{', '.join(KINDS)}."
            )
        levels = self.levels
        if not isinstance(levels, tuple) or not all(isinstance(level, str) for level in levels):
            raise ValueError(f"The levels of column {self.name[:40]!r} are not texts.")
        if not isinstance(self.gaps, tuple) or not all(isinstance(word, str) for word in self.gaps):
            raise ValueError(f"The words for a gap in column {self.name[:40]!r} are not texts.")
        if self.form not in _FORMS or len(set(levels)) != len(levels):
            raise ValueError(f"The description of column {self.name[:40]!r} is damaged.")
        if (self.kind in _LEVELS and len(levels) < 2) or (self.kind == "binary" and len(levels) not in (0, 2)):
            raise ValueError(f"Column {self.name[:40]!r} has {len(levels)} levels, which are too few.")
        if type(self.period) is not int or (self.kind == "circular") != (2 <= self.period <= 10**6):
            raise ValueError(f"Column {self.name[:40]!r} has a circle of {str(self.period)[:20]} points.")
        if type(self.start) not in (int, float) or not math.isfinite(self.start):
            raise ValueError(f"Column {self.name[:40]!r} has a start that is no number.")

    @property
    def features(self) -> list[Feature]:
        """What a model sees of the column."""
        if self.kind == "skip":
            return []
        if self.kind == "date":
            circles = ((self.name + " (month)", "circular:12"), (self.name + " (weekday)", "circular:7"))
            return [Feature(self.name, "normal"), *(Feature(*circle) for circle in circles)]
        if self.kind in _LEVELS:
            return [Feature(self.name, f"{_LEVELS[self.kind]}:{len(self.levels)}")]
        if self.kind == "circular":
            return [Feature(self.name, f"circular:{self.period}")]
        return [Feature(self.name, _PLAIN[self.kind])]


@dataclass(frozen=True)
class Schema:
    """The columns of a mixed table, used ones and those that are skipped."""

    columns: tuple[Column, ...]
    uniform: bool = False  # whether the used columns are plain numbers of one kind, with one likelihood for all

    @property
    def used(self) -> list[Column]:
        """Columns that are modeled."""
        return [column for column in self.columns if column.kind != "skip"]

    @property
    def skipped(self) -> list[Column]:
        """Columns that are not."""
        return [column for column in self.columns if column.kind == "skip"]

    @property
    def features(self) -> list[Feature]:
        """What a model sees of all columns."""
        return [feature for column in self.columns for feature in column.features]

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        return [feature.name for feature in self.features]

    @property
    def likelihoods(self) -> str:
        """The likelihood of each feature, as `horoball.likelihoods.mixed.column_groups` takes it."""
        return ",".join(feature.likelihood for feature in self.features)

    def slices(self) -> Iterator[tuple[Column, slice]]:
        """The used columns with the places of their features in a row."""
        first = 0
        for column in self.used:
            yield column, slice(first, first + len(column.features))
            first += len(column.features)

    def as_json(self) -> list[dict[str, Any]]:
        """As stored with a run."""
        described = [asdict(column) | {"levels": list(column.levels)} for column in self.columns]
        for entry in described:
            words = list(entry.pop("gaps"))
            if words:  # which few columns have, and older versions do not know
                entry["gaps"] = words
        return described

    @classmethod
    def from_json(cls, said: Any, *, uniform: bool = False) -> Schema:
        """The inverse of `as_json`; refuses what it cannot have given."""
        if not isinstance(said, list) or not all(isinstance(entry, dict) for entry in said):
            raise ValueError("its columns are not described by a list.")
        known = {field.name for field in fields(Column)}
        columns = []
        for entry in said:
            gaps = entry.get("gaps", [])
            if entry.keys() | {"gaps"} != known or not isinstance(entry["levels"], list) or not isinstance(gaps, list):
                raise ValueError("its description of a column has other fields.")
            columns.append(Column(**(entry | {"levels": tuple(entry["levels"]), "gaps": tuple(gaps)})))
        schema = cls(tuple(columns), uniform)
        for names in ([column.name for column in columns], schema.names):
            if len(set(names)) < len(names):
                raise ValueError("its description has columns of the same name.")
        return schema

    def with_gaps(self, words: Sequence[str]) -> Schema:
        """The same with more words that stand for a missing value, in all columns."""
        if not words:
            return self
        columns = (replace(column, gaps=tuple(dict.fromkeys((*column.gaps, *words)))) for column in self.columns)
        return Schema(tuple(columns), self.uniform)

    def lines(self) -> list[str]:
        """A line for each column: its name, its kind and the reason."""
        width = min(40, max((len(column.name) for column in self.columns), default=0))
        kinds = max((len(column.kind) for column in self.columns), default=0)
        return [
            f"{some_names([column.name]):{width}}  {column.kind:{kinds}}  {column.reason}" for column in self.columns
        ]


def closest(name: str, known: Mapping[str, Any] | list[str]) -> str:
    """The known name that is most like a misspelt one, as the end of a message; empty if none is."""
    names = list(known)
    lower = {each.lower(): each for each in reversed(names)}
    found = get_close_matches(name.lower(), list(lower), 1, 0.6)
    return f" Did you mean {lower[found[0]][:40]!r}?" if found else ""


_FIRST = ("", "Unnamed: 0")  # what pandas calls its index in a .csv file, where it comes first
_ANYWHERE = "__index_level_0__"  # and in a .parquet file
_log = logging.getLogger("horoball")


class ReadOptions(NamedTuple):
    """What a reader is asked for; `horoball.tables.read` describes each.

    Example:
        >>> ReadOptions(label="kind").ids is None
        True
    """

    label: str | None = None
    label_may_miss: bool = False
    ids: str | None = None
    ids_may_miss: bool = False
    columns: Sequence[str] | None = None  # features, in their order; all that are left if None
    streamed: bool | Literal["auto"] = "auto"
    na: Sequence[str] = ()  # words for a missing value, beside those that always are
    drop: Sequence[str] = ()  # columns to leave out


class Chosen(NamedTuple):
    """What was found."""

    features: list[str]
    label: str | None
    ids: str | None
    name_column: str  # what the rows' names are called where they are written


def with_index(options: ReadOptions, names: list[str], where: str) -> ReadOptions:
    """The same, with an index that pandas has written to a file taken for the rows' names, if no others are asked for.

    Example:
        >>> with_index(ReadOptions(), ["", "a", "b"], "The file").ids
        ''
    """
    index = names[0] if names and names[0] in _FIRST else _ANYWHERE
    if options.ids is not None or index not in names or index == options.label or index in (options.columns or ()):
        return options
    _log.info("Names: the column %r of %s, an index that was written with the table.", index, where)
    return options._replace(ids=index)


def choose(names: list[str], options: ReadOptions, where: str) -> Chosen:
    """The columns that are meant; refuses names that are not there, or there twice.

    Example:
        >>> choose(["sku", "b", "kind", "a"], ReadOptions("kind", ids="sku"), "The file")
        Chosen(features=['b', 'a'], label='kind', ids='sku', name_column='sku')
        >>> choose(["sku", "b", "kind", "a"], ReadOptions(columns=["a", "b"]), "The file").features
        ['a', 'b']
    """
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{where} has columns of the same name: {some_names(twice)}. Rename them.")
    for name in options.drop:
        if name not in names:
            raise ValueError(f"{where} has no column {name[:40]!r}.{closest(name, names)}")
    label = _found(options.label, options.label_may_miss, names, where)
    ids = _found(options.ids, options.ids_may_miss, names, where)
    name_column = "row" if ids is None else "name" if ids in (*_FIRST, _ANYWHERE) else ids
    if options.columns is None:
        aside = {label, ids, *options.drop}
        return Chosen([name for name in names if name not in aside], label, ids, name_column)
    known = set(names)
    missing = [name for name in options.columns if name not in known]
    if missing:
        raise ValueError(
            f"{where} lacks {len(missing):,} of the model's {len(options.columns):,} columns: {some_names(missing)}. "
            "Give all columns of the fit; others may be there too, in any order."
        )
    return Chosen(list(options.columns), label, ids, name_column)


def _found(name: str | None, may_miss: bool, names: list[str], where: str) -> str | None:
    if name is None or name in names:
        return name
    if may_miss:
        return None
    raise ValueError(f"{where} has no column {name!r}. Its columns are: {some_names(names)}.")
