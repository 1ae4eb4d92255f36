"""Newick: the text that programs of phylogenetics exchange trees in."""

from __future__ import annotations

from collections.abc import Sequence

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
        names: Names of the leaves.
        children: The children of every node, which come before it; the root is the last.
        length: Length of the branch above every node; the root's is not written.
        support: Of every node, between 0 and 1; leaves and the root have none in the text.
        digits: Significant digits of numbers.

    Example:
        >>> none = np.array([], int)
        >>> newick(["Homo sapiens", "it's"], [none, none, np.array([0, 1])], np.array([1.0, 2.0, 0.0]))
        "('Homo sapiens':1,'it''s':2);"
    """
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
        if support is not None and node >= len(names):
            inside += f"{100 * support[node]:.{digits}g}"
        text.append(f"{inside}:{length[node]:.{digits}g}")
    return inside + ";"


def quoted(name: str) -> str:
    """A name as Newick has it: in quotes where it holds characters with a meaning.

    Example:
        >>> quoted("cat"), quoted("B cells")
        ('cat', "'B cells'")
    """
    if name and not _SPECIAL & set(name):
        return name
    return "'" + "".join(" " if letter in "\r\n\t" else letter for letter in name).replace("'", "''") + "'"
