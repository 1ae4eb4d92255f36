"""How a text file writes a table: what separates the columns, and whether numbers have a decimal comma."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Dialect", "find_dialect"]

_DELIMITERS = (",", ";", "\t", "|")
_COMMA = re.compile(rb'^"?-?\d+,\d+"?$')
_POINT = re.compile(rb'^"?-?\d+\.\d+"?$')
_LINES = 200  # that are looked at


class Dialect(NamedTuple):
    """How a file writes a table.

    Example:
        >>> find_dialect(b"a;b", b"1,5;2", ".csv")
        Dialect(delimiter=';', decimal=',')
    """

    delimiter: str
    decimal: str


def find_dialect(header: bytes, sample: bytes, path: str) -> Dialect:
    """The dialect of a file, from its first line and some of those that follow.

    The delimiter is the one that occurs most often in the header outside of quotes; commas in .csv and tabs in .tsv
    files where none occurs more often than these. Commas are decimal where more cells are numbers with a comma than
    with a point, and columns are not separated by commas.

    Args:
        header: The line of names.
        sample: What follows.
        path: Name of the file.

    Example:
        >>> find_dialect(b"a,b", b"1,5", "rows.csv")
        Dialect(delimiter=',', decimal='.')
    """
    bare = re.sub(rb'"[^"]*"', b"", header)
    usual = "\t" if re.search(r"\.tsv\b|\.tab\b", path.lower()) else ","
    delimiter = max(_DELIMITERS, key=lambda each: (bare.count(each.encode()), each == usual))
    if delimiter == ",":
        return Dialect(delimiter, ".")
    cells = [cell.strip() for line in sample.splitlines()[:_LINES] for cell in line.split(delimiter.encode())]
    commas, points = (sum(bool(mark.match(cell)) for cell in cells) for mark in (_COMMA, _POINT))
    return Dialect(delimiter, "," if commas > points else ".")
