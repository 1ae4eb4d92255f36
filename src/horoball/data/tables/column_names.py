"""Names of columns as messages show them: they may be anything, and of any length."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["some_names"]

_LONGEST = 40  # characters of a name
_MOST = 8  # names


def some_names(names: Sequence[str]) -> str:
    """Some names on one line.

    Example:
        >>> some_names(["a", "b" * 10**6, "c"])
        'a, bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb, c'
    """
    shown = ("".join(filter(str.isprintable, name[:_LONGEST])) for name in names[:_MOST])
    return ", ".join(shown) + (" …" if len(names) > _MOST else "")
