"""Which columns of a table are features, which is the label, and which holds the rows' names."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from horoball.data.tables.column_names import some_names

__all__ = ["Chosen", "ReadOptions", "choose", "with_index"]

_FIRST = ("", "Unnamed: 0")  # what pandas calls its index in a .csv file, where it comes first
_ANYWHERE = "__index_level_0__"  # and in a .parquet file
_log = logging.getLogger("horoball")


class ReadOptions(NamedTuple):
    """What a reader is asked for; `horoball.data.read` describes each.

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


class Chosen(NamedTuple):
    """What was found.

    Example:
        >>> Chosen(["a"], None, None, "row").features
        ['a']
    """

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

    Args:
        names: Names of the columns.
        options: Which are meant.
        where: What holds them, for messages.

    Example:
        >>> choose(["sku", "b", "kind", "a"], ReadOptions("kind", ids="sku"), "The file")
        Chosen(features=['b', 'a'], label='kind', ids='sku', name_column='sku')
        >>> choose(["sku", "b", "kind", "a"], ReadOptions(columns=["a", "b"]), "The file").features
        ['a', 'b']
    """
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{where} has columns of the same name: {some_names(twice)}. Rename them.")
    label = _found(options.label, options.label_may_miss, names, where)
    ids = _found(options.ids, options.ids_may_miss, names, where)
    name_column = "row" if ids is None else "name" if ids in (*_FIRST, _ANYWHERE) else ids
    if options.columns is None:
        return Chosen([name for name in names if name not in (label, ids)], label, ids, name_column)
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
