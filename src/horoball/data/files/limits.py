"""How much a file may ask for, given its size: a header of a few bytes must not cost gigabytes.

Compression by deflate, as in .gz, .npz and HDF5 files, makes at most 1032 bytes of one. What claims to hold more was
never written by a program that stored it.
"""

from __future__ import annotations

__all__ = ["check_held", "check_nodes", "check_rows"]

_FREE = 1 << 26  # bytes that any file may ask for
_RATIO = 1100  # bytes that one byte of a file may become
_FEW_ROWS = 1 << 20  # rows that any file may claim
_ROWS_PER_BYTE = 4  # rows without a single number that a byte of a file may stand for


def check_held(wanted: int, size: int, what: str) -> None:
    """Refuse contents that a file of that size cannot hold.

    Args:
        wanted: Bytes that the contents take in memory, as the file says.
        size: Bytes of the file.
        what: What asks for it, for the message.

    Raises:
        ValueError: The contents are larger than compression explains.

    Example:
        >>> check_held(10**12, 78, "the header")
        Traceback (most recent call last):
        ...
        ValueError: the header tells of 1,000,000,000,000 bytes, which a file of 78 bytes does not hold
    """
    if wanted > _FREE + _RATIO * size:
        raise ValueError(f"{what} tells of {wanted:,} bytes, which a file of {size:,} bytes does not hold")


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
