"""Words that stand for a missing value: one list for all formats, to which users add their own."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["GAP_WORDS", "gap_numbers", "gap_words"]

GAP_WORDS = (
    *("", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "-NaN", "NULL", "null", "None", "none", "<NA>", "?"),
    *("#N/A", "#NA", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!"),  # of spreadsheets: no result
)


def gap_words(na: str | Iterable[str] | None) -> tuple[str, ...]:
    """Words that a user gives, as a command takes them, separated by commas, or as Python does, a list.

    Example:
        >>> gap_words("unknown, ERR"), gap_words(["-999"]), gap_words(None)
        (('unknown', 'ERR'), ('-999',), ())
    """
    if na is None:
        return ()
    words = na.split(",") if isinstance(na, str) else list(na)
    if not all(isinstance(word, str) for word in words):
        raise TypeError(f'Words for missing values are texts, such as ["unknown", "-999"], got {words!r:.60}.')
    return tuple(dict.fromkeys(word.strip() for word in words if word.strip()))


def gap_numbers(words: Iterable[str]) -> list[float]:
    """Those of the words that are numbers, which also stand for a missing value in columns of numbers.

    Example:
        >>> gap_numbers(["unknown", "-999"])
        [-999.0]
    """
    found = []
    for word in words:
        try:
            found.append(float(word))
        except ValueError:
            continue
    return found
