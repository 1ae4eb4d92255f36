"""Tables of facts (head, relation, tail): their first two columns are no edges, so that they are told from edges."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

__all__ = ["refuse_relations", "refuse_triples"]

_RELATIONS = {"relation", "relationship", "predicate", "rel", "type", "edge_type", "property", "interaction", "verb"}
_LOOKED_AT = 1000  # rows
_VALUE = re.compile(r"\s*[-+.]?[\d{]")  # a weight, a date, or the attributes that networkx writes


def refuse_relations(names: Sequence[str], where: str) -> None:
    """Refuse a table whose second column is called a relation, for want of names of its ends.

    Example:
        >>> refuse_relations(["from node", "Relation", "to node"], "facts.csv")
        Traceback (most recent call last):
        ...
        ValueError: facts.csv has a column 'Relation' between its ends, as a table of (head, relation, tail) has...
    """
    if len(names) > 2 and names[1].strip().lower() in _RELATIONS:
        raise ValueError(
            f"{where} has a column {names[1][:40]!r} between its ends, as a table of (head, relation, tail) has. Call "
            "the columns with the ends of edges source and target, or head and tail; relations are not used."
        )


def refuse_triples(rows: Iterable[Sequence[Any]], where: str) -> None:
    """Refuse rows of three if the second is text wherever it stands, and the third no weight.

    Args:
        rows: Rows of three, without a header.
        where: What they are of, for the message.

    Example:
        >>> refuse_triples([("cat", "animal", 0.5), ("dog", "animal", 1.0)], "pets.txt")
        >>> refuse_triples([("cat", "is_a", "animal"), ("dog", "is_a", "animal")], "pets.txt")
        Traceback (most recent call last):
        ...
        ValueError: pets.txt has three columns of text: 'cat', 'is_a', 'animal'. If they are (head, relation, tail), ...
    """
    seen = [tuple(map(str, row)) for row in islice(rows, _LOOKED_AT)]
    if not seen or not all(map(_is_fact, seen)):
        return
    shown = ", ".join(repr(cell[:40]) for cell in seen[0])
    raise ValueError(
        f"{where} has three columns of text: {shown}. If they are (head, relation, tail), keep the first and the last; "
        "if the third is a note, drop it. Or use a .csv, .tsv or .parquet file with columns called source and target."
    )


def _is_fact(row: Sequence[str]) -> bool:
    """Whether the middle is a word, and the last another, or a number as the first is."""
    if len(row) != 3 or _number(row[1]):
        return False
    return (_number(row[0]) and _number(row[2])) or not _VALUE.match(row[2])


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
