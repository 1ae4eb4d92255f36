"""How much a file may ask for, given its size: a header of a few bytes must not cost gigabytes.

Compression by deflate, as in .gz, .npz and HDF5 files, makes at most 1032 bytes of one. What claims to hold more was
most likely made to do harm. Other compression, one text that many cells share, and long runs of one number may make
more of a sound file too; who has such a file says how much memory it may take (`max_memory`), and that alone counts.
"""

from __future__ import annotations

from collections.abc import Iterable

from horoball.runtime.allowance import given_memory, machine_memory

__all__ = ["Budget", "allowed", "check_held", "check_nodes", "check_rows", "check_widths"]

_FREE = 1 << 26  # bytes that any file may ask for
_RATIO = 1100  # bytes that one byte of a file may become
_SHARE = 0.75  # of the machine's memory, for the contents of one file
_FEW_ROWS = 1 << 20  # rows that any file may claim
_CHARACTER = 4  # bytes of a character in an array
_WIDER = 100  # times that an array of texts may be larger than the texts
_ROWS_PER_BYTE = 4  # rows without a single number that a byte of a file may stand for


def allowed(size: int, ratio: int = _RATIO) -> int:
    """Bytes that the contents of a file may take in memory.

    Args:
        size: Bytes of the file.
        ratio: What one of them may become; 1100 if it may be compressed.

    Example:
        >>> allowed(1000) >> 20
        65
    """
    given = given_memory()
    return min(_FREE + ratio * size, int(_SHARE * machine_memory())) if given is None else given


def check_held(wanted: int, size: int, what: str, ratio: int = _RATIO) -> None:
    """Refuse contents that a file of that size cannot hold, or that are larger than what the user allows.

    Args:
        wanted: Bytes that the contents take in memory, as the file says.
        size: Bytes of the file.
        what: What asks for it, for the message.
        ratio: What one byte of the file may become.

    Raises:
        ValueError: The contents are larger than compression explains, or than is allowed.

    Example:
        >>> check_held(10**12, 78, "the header")
        Traceback (most recent call last):
        ...
        ValueError: the header tells of 1,000,000,000,000 bytes, which a file of 78 bytes does not hold; ...
    """
    if wanted > allowed(size, ratio):
        raise ValueError(
            f"{what} tells of {wanted:,} bytes, {_too_much(size, ratio)}; if it is sound, allow more: --max-memory"
        )


def _too_much(size: int, ratio: int) -> str:
    if given_memory() is not None or allowed(size, ratio) < _FREE + ratio * size:
        return f"more than the {allowed(size, ratio):,} that are allowed"
    return f"which a file of {size:,} bytes does not hold"


class Budget:
    """What is read of one file, counted as it is read.

    Args:
        size: Bytes of the file.
        ratio: What one of them may become.

    Example:
        >>> budget = Budget(1000)
        >>> budget.spend(1 << 20)
        >>> budget.spend(1 << 30)
        Traceback (most recent call last):
        ...
        ValueError: so far it took 1,074,790,400 bytes of memory, more than a file of 1,000 bytes may; if it is ...
    """

    def __init__(self, size: int, ratio: int = _RATIO) -> None:
        self.size, self.spent = size, 0
        self.limit = allowed(size, ratio)

    @property
    def left(self) -> int:
        """Bytes that may still be taken."""
        return max(0, self.limit - self.spent)

    def spend(self, wanted: int) -> None:
        """Count what is about to be taken, or was taken in a small part.

        Args:
            wanted: Bytes.
        """
        self.spent += wanted
        if self.spent > self.limit:
            raise ValueError(
                f"so far it took {self.spent:,} bytes of memory, more than a file of {self.size:,} bytes may; if it is "
                "sound, allow more: --max-memory"
            )


def check_rows(rows: int, size: int) -> None:
    """Refuse a table with more rows than a file of that size can hold, even if nearly all of them are alike.

    Args:
        rows: Rows, as the file says.
        size: Bytes of the file.

    Raises:
        ValueError: There are too many.

    Example:
        >>> check_rows(10**12, 500)
        Traceback (most recent call last):
        ...
        ValueError: it tells of 1,000,000,000,000 rows, which a file of 500 bytes does not hold
    """
    if rows > max(_FEW_ROWS, _RATIO * size):
        raise ValueError(f"it tells of {rows:,} rows, which a file of {size:,} bytes does not hold")


def check_nodes(rows: int, size: int) -> None:
    """Refuse a sparse matrix with far more rows than its file has bytes: nearly all of them would be empty.

    Args:
        rows: Rows of the matrix.
        size: Bytes of its numbers.

    Raises:
        ValueError: The matrix is almost empty.

    Example:
        >>> check_nodes(10**9, 78)
        Traceback (most recent call last):
        ...
        ValueError: it tells of 1,000,000,000 rows, nearly all of them empty; leave those out, or save a list of edges
    """
    if rows > max(_FEW_ROWS, _ROWS_PER_BYTE * size):
        raise ValueError(
            f"it tells of {rows:,} rows, nearly all of them empty; leave those out, or save a list of edges"
        )


def check_widths(texts: Iterable[object], what: str) -> None:
    """Refuse texts of which one is so long that an array of them, where each has the same room, would be huge.

    Args:
        texts: The texts; values of other kinds count nothing.
        what: What they are, for the message.

    Raises:
        ValueError: The array would take over 100 times as much as the texts, or more than the user allows.

    Example:
        >>> check_widths(["x" * 10**5, *"ab" * 10**3], "The labels")
        Traceback (most recent call last):
        ...
        ValueError: The labels have a text of 100,000 characters among short ones: 'xxxxxxxxxxxxxxxxxxxx…'. Shorten it.
    """
    longest, total, count = "", 0, 0
    for text in texts:
        count += 1
        if isinstance(text, str):
            total += len(text)
            longest = text if len(text) > len(longest) else longest
    given = given_memory()
    if _CHARACTER * len(longest) * count > (_FREE + _WIDER * total if given is None else given):
        shown = f"{longest[:20]}…"
        raise ValueError(f"{what} have a text of {len(longest):,} characters among short ones: {shown!r}. Shorten it.")
