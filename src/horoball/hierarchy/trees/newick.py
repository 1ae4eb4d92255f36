"""Newick: the text that programs of phylogenetics exchange trees in."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from itertools import count

import numpy as np

__all__ = ["newick", "quoted"]

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

    Example:
        >>> none = np.array([], int)
        >>> newick(["Homo sapiens", "it's"], [none, none, np.array([0, 1])], np.array([1.0, 2.0, 0.0]))
        "('Homo sapiens':1,'it''s':2);"
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
    """A name as Newick has it: in quotes where it holds characters with a meaning.

    Example:
        >>> quoted("cat"), quoted("B cells")
        ('cat', "'B cells'")
    """
    if name and not _SPECIAL & set(name):
        return name
    return "'" + _on_one_line(name).replace("'", "''") + "'"
