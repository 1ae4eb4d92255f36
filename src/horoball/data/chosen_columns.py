"""Which columns of a table are features, which is the label, and which holds the rows' names."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from horoball.data.column_names import some_names

__all__ = ["Asked", "Chosen", "choose", "with_index"]

_FIRST = ("", "Unnamed: 0")  # what pandas calls its index in a .csv file, where it comes first
_ANYWHERE = "__index_level_0__"  # and in a .parquet file
_log = logging.getLogger("horoball")


class Asked(NamedTuple):
    """What is asked of a table's columns.

    Example:
        >>> Asked(label="kind").ids is None
        True
    """

    label: str | None = None
    label_may_miss: bool = False
    ids: str | None = None
    ids_may_miss: bool = False
    columns: Sequence[str] | None = None  # features, in their order; all that are left if None


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


def with_index(asked: Asked, names: list[str], where: str) -> Asked:
    """The same, with an index that pandas has written to a file taken for the rows' names, if no others are asked for.

    Example:
        >>> with_index(Asked(), ["", "a", "b"], "The file").ids
        ''
    """
    index = names[0] if names and names[0] in _FIRST else _ANYWHERE
    if asked.ids is not None or index not in names or index == asked.label or index in (asked.columns or ()):
        return asked
    _log.info("Names: the column %r of %s, an index that was written with the table.", index, where)
    return asked._replace(ids=index)


def choose(names: list[str], asked: Asked, where: str) -> Chosen:
    """The columns that are meant; refuses names that are not there, or there twice.

    Args:
        names: Names of the columns.
        asked: Which are meant.
        where: What holds them, for messages.

    Example:
        >>> choose(["sku", "b", "kind", "a"], Asked("kind", ids="sku"), "The file")
        Chosen(features=['b', 'a'], label='kind', ids='sku', name_column='sku')
        >>> choose(["sku", "b", "kind", "a"], Asked(columns=["a", "b"]), "The file").features
        ['a', 'b']
    """
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{where} has columns of the same name: {some_names(twice)}. Rename them.")
    label = _found(asked.label, asked.label_may_miss, names, where)
    ids = _found(asked.ids, asked.ids_may_miss, names, where)
    name_column = "row" if ids is None else "name" if ids in (*_FIRST, _ANYWHERE) else ids
    if asked.columns is None:
        return Chosen([name for name in names if name not in (label, ids)], label, ids, name_column)
    missing = [name for name in asked.columns if name not in names]
    if missing:
        raise ValueError(
            f"{where} lacks {len(missing):,} of the model's {len(asked.columns):,} columns: {some_names(missing)}. "
            "Give all columns of the fit; others may be there too, in any order."
        )
    return Chosen(list(asked.columns), label, ids, name_column)


def _found(name: str | None, may_miss: bool, names: list[str], where: str) -> str | None:
    if name is None or name in names:
        return name
    if may_miss:
        return None
    raise ValueError(f"{where} has no column {name!r}. Its columns are: {some_names(names)}.")
