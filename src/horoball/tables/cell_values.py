"""What the text of a cell stands for: a number, as people write it, or a missing value.

Which cells of a column of text are numbers, and which are not: a few bad cells must not make text of a number. If nine
cells in ten are numbers, the column is one. Its other cells are named by their row. They are missing values only if the
user says so, and are refused otherwise. Numbers with separators of thousands, a sign of percent or of a currency, or
the other decimal mark are numbers in another dress: their value is not guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

_KINDS = ("NAType", "NaTType")  # of pandas, which need not be installed


def is_missing(value: Any) -> bool:
    """Whether a value is missing."""
    return value is None or type(value).__name__ in _KINDS or bool(value != value)


def category_names(labels: Any) -> np.ndarray:
    """Categories as text; None, NaN and empty ones are "(missing)"."""
    values = np.asarray(labels, dtype=object)
    known = [not is_missing(value) and str(value).strip() != "" for value in values]
    return np.array([str(value) if there else "(missing)" for value, there in zip(values, known, strict=True)])


GAP_WORDS = (
    *("", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "-NaN", "NULL", "null", "None", "none", "<NA>", "?"),
    *("#N/A", "#NA", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!"),  # of spreadsheets: no result
)


def gap_words(na: str | Iterable[str] | None) -> tuple[str, ...]:
    """Words that a user gives, as a command takes them, separated by commas, or as Python does, a list."""
    if na is None:
        return ()
    words = na.split(",") if isinstance(na, str) else list(na)
    if not all(isinstance(word, str) for word in words):
        raise TypeError(f'Words for missing values are texts, such as ["unknown", "-999"], got {words!r:.60}.')
    return tuple(dict.fromkeys(word.strip() for word in words if word.strip()))


def gap_numbers(words: Iterable[str]) -> list[float]:
    """Those of the words that are numbers, which also stand for a missing value in columns of numbers."""
    found = []
    for word in words:
        try:
            found.append(float(word))
        except ValueError:
            continue
    return found


SHARE = 0.9  # of the cells: from here on a column is one of numbers
MOST_ODD = 100  # different texts of a column that are kept to be named
_SHOWN = 40  # characters of a text that a message has
_NAMED = 3  # of them that a message names
_PLAIN = {
    ".": r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\s*$",
    ",": r"^\s*[+-]?(\d+,?\d*|,\d+)([eE][+-]?\d{1,3})?\s*$",
}
_UNIT = r"(%|‰|\p{Sc}|USD|EUR|GBP|CHF|JPY|CNY|INR)?"
_DRESSED = (
    rf"^[\s(]*[+\-−]?\s*{_UNIT}\s*[+\-−]?\s*(\d{{1,3}}([,.'’_ \x{{a0}}\x{{202f}}\x{{2009}}]\d{{3}})+|\d+|[.,]\d)"
    rf"([.,]\d*)?([eE][+-]?\d{{1,3}})?[\s\x{{a0}}\x{{202f}}]*{_UNIT}[\s)]*$"
)
_DECIMAL = b"horoball.decimal"  # key of the metadata of a field
_ZERO_LED = r"^\s*[+-]?0\d"
_WRITTEN_WHOLE = r"^\s*[+-]?\d+\s*$"


class NumberCellWarning(UserWarning):
    """Cells of a column that the user calls a number are none; they are taken as missing."""


class OddCell(NamedTuple):
    """A text in a column of numbers."""

    text: str
    row: int  # the first that has it
    times: int
    dressed: bool  # whether it is a number with separators or signs


class NumberCells:
    """What is known of the cells of a column of text, a batch at a time.

    Args:
        decimal: The decimal mark of a text file; None where the source has types, so that text was meant to be text.
    """

    def __init__(self, decimal: str | None = None) -> None:
        self.decimal = decimal
        self.plain = self.dressed = self.others = 0
        self.zero_led = False
        self.whole = True  # whether all numbers are written as whole ones
        self.odd: dict[str, OddCell] = {}

    def add(self, texts: Any, codes: np.ndarray, first: int) -> np.ndarray | None:
        """Take in cells; returns their numbers, NaN where they are none, or None if there is no number.

        Args:
            texts: An Arrow array of different texts.
            codes: For each cell the place of its text, beyond the last where it is missing.
            first: The row of the first cell.
        """
        import pyarrow.compute as pc

        plain = _matches(texts, _PLAIN[self.decimal or "."])
        dressed = _matches(texts, _DRESSED) & ~plain
        times = np.bincount(codes, minlength=len(texts) + 1)[: len(texts)]
        self.plain += int(times[plain].sum())
        self.dressed += int(times[dressed].sum())
        self.others += int(times[~plain & ~dressed].sum())
        self._keep_odd(texts, codes, np.flatnonzero(~plain & (times > 0)), times, dressed, first)
        if not (plain & (times > 0)).any():
            return None
        there = texts.filter(plain)
        self.zero_led |= bool(pc.any(pc.match_substring_regex(there, _ZERO_LED)).as_py())
        self.whole &= bool(pc.all(pc.match_substring_regex(there, _WRITTEN_WHOLE)).as_py())
        return np.append(_parsed(texts, plain, self.decimal), np.nan)[codes]

    def _keep_odd(
        self, texts: Any, codes: np.ndarray, odd: np.ndarray, times: np.ndarray, dressed: np.ndarray, first: int
    ) -> None:
        if len(self.odd) > MOST_ODD or not len(odd):
            return
        rows = np.full(len(texts) + 1, len(codes))
        np.minimum.at(rows, codes, np.arange(len(codes)))
        for place in odd[np.argsort(rows[odd], kind="stable")][: MOST_ODD + 1].tolist():
            text, count = texts[place].as_py(), int(times[place])
            before = self.odd.get(text)
            row = first + int(rows[place]) if before is None else before.row
            count += 0 if before is None else before.times
            self.odd[text] = OddCell(text, row, count, bool(dressed[place]))

    @property
    def are_numbers(self) -> bool:
        """Whether nine cells in ten are numbers; codes such as 007, in text that was meant to be text, are none."""
        like = self.plain + self.dressed
        codes = self.decimal is None and self.zero_led
        return like > 0 and like >= SHARE * (like + self.others) and not codes


def _matches(texts: Any, pattern: str) -> np.ndarray:
    import pyarrow.compute as pc

    found = pc.fill_null(pc.match_substring_regex(texts, pattern), False)
    return np.asarray(found.to_numpy(zero_copy_only=False), bool)


def _parsed(texts: Any, plain: np.ndarray, decimal: str | None) -> np.ndarray:
    values = np.full(len(texts), np.nan)
    for place in np.flatnonzero(plain).tolist():
        text = texts[place].as_py()
        values[place] = float(text.replace(",", ".") if decimal == "," else text)
    return values


def is_text_type(kind: Any) -> bool:
    """Whether an Arrow type is text."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def decimal_of(field: Any) -> str | None:
    """The decimal mark that the text of an Arrow field was written with, if it comes from a text file."""
    said = (field.metadata or {}).get(_DECIMAL)
    return None if said is None else "," if said == b"," else "."


def with_decimal(field: Any, decimal: str) -> Any:
    """A field that says with which decimal mark its text was written."""
    return field.with_metadata({_DECIMAL: decimal.encode()})


def text_numbers(
    values: Any,
    name: str,
    *,
    gaps: Iterable[str] = (),
    decimal: str | None = None,
    first: Callable[[], int] = lambda: 0,
) -> np.ndarray:
    """Numbers of a column of text, NaN where they are missing; a cell that is no number is refused by its row.

    Args:
        values: An Arrow array of text, or of codes of text.
        name: Name of the column, for the message.
        gaps: Words that stand for a missing value, beside `GAP_WORDS`.
        decimal: The decimal mark of a text file.
        first: Gives the row of the first cell; asked only for a message.
    """
    import pyarrow as pa

    words = {*GAP_WORDS, *gaps}
    cells, parts, row = NumberCells(decimal), [], 0
    for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        encoded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        texts = encoded.dictionary
        codes = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False).astype(np.int64)
        missing = np.array([text is None or text in words for text in texts.to_pylist()] + [True])
        numbers = cells.add(texts, np.where(missing[codes], len(texts), codes), row)
        parts.append(np.full(len(chunk), np.nan) if numbers is None else numbers)
        row += len(chunk)
    if cells.odd:
        raise ValueError(about_odd({name: [cell._replace(row=cell.row + first()) for cell in cells.odd.values()]}, ""))
    x = np.concatenate(parts) if parts else np.empty(0)
    sentinels = gap_numbers(gaps)
    return np.where(np.isin(x, sentinels), np.nan, x) if sentinels else x


def shown_odd(odd: Sequence[OddCell], place: Callable[[int], str] = "row {}".format) -> str:
    """Some cells, by text and row."""
    named = [
        f"{cell.text[:40]!r} in {place(cell.row)}" + (f" and {cell.times - 1:,} more" if cell.times > 1 else "")
        for cell in odd[:_NAMED]
    ]
    return ", ".join(named) + (" …" if len(odd) > _NAMED else "")


def about_odd(
    columns: dict[str, list[OddCell]],
    where: str,
    place: Callable[[int], str] = "row {}".format,
    *,
    more: str = "",
    what: str = "numbers",
) -> str:
    """What is said of columns of numbers with cells that are none, and what to do."""
    told = "; ".join(
        f"column {name[:40]!r} holds {what}, except {shown_odd(odd, place)}" for name, odd in list(columns.items())[:5]
    )
    told += f"; and {len(columns) - 5} columns more" if len(columns) > 5 else ""
    cells = [cell for odd in columns.values() for cell in odd]
    words = list(dict.fromkeys(cell.text for cell in cells if not cell.dressed and len(cell.text) <= _SHOWN))[:_NAMED]
    one = sum(cell.times for cell in cells) == 1
    that, they = ("that cell", "it stands for a missing value") if one else ("such cells", "they are missing values")
    advice = [f"Correct {that}"]
    if any(cell.dressed for cell in cells):
        advice = [f"Write plain numbers in {that}, such as 1000, 0.05 or 3.5, without separators, % or a currency"]
    if words:
        listed = ",".join(words)
        option = f"--na {listed}" if all(word.isalnum() for word in words) else f'--na "{listed}"'
        advice.append(f"if {they}, say so: {option}, or na={words!r} in Python")
    text = f"{told}. {'; '.join([*advice, more] if more else advice)}."
    return f"{where}: {text}" if where else text[:1].upper() + text[1:]
