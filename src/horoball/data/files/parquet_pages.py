"""What the pages of a small Parquet file become when they are read.

Footers say how large a file's columns are, but a reader allocates what the header of each page says, and decodes as
many values as it counts: a page of a hundred kilobytes may tell of gigabytes, and a run of one number of billions of
values. Headers are written in Thrift's compact protocol.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from horoball.data.files.limits import allowed

__all__ = ["LOOKED_THROUGH", "Chunk", "check_pages"]

LOOKED_THROUGH = 4 << 20  # bytes of a file; 1,100 times as much is beyond what most machines have
_DEEPEST = 12  # structs within structs; Parquet has five
_NUMBER = 8  # bytes of a value in a list
_SHORTEST = 8  # bytes of a page with its header
_REMEMBERED = 8  # files, as one is opened several times
_DAMAGED = (IndexError, KeyError, TypeError, AttributeError)  # what a parser stumbles over


class Chunk(NamedTuple):
    """A column of a row group.

    Example:
        >>> Chunk(values=10, largest=100).values
        10
    """

    values: int  # that its pages count
    largest: int  # bytes of its largest page, decompressed


_seen: dict[bytes, list[tuple[int, list[Chunk] | None]]] = {}


def check_pages(data: bytes, repeated: Sequence[bool], size: int | None = None) -> list[list[Chunk] | None]:
    """The columns of each row group, None of a damaged one; refuses a file whose pages become more than it can hold.

    Args:
        data: The file.
        repeated: Of each column, whether it holds lists.
        size: Bytes that the file took, if it was compressed as a whole.

    Example:
        >>> import io, pyarrow as pa, pyarrow.parquet as pq
        >>> out = io.BytesIO()
        >>> pq.write_table(pa.table({"a": [1.0, 2.0]}), out, use_dictionary=False)
        >>> check_pages(out.getvalue(), [False])
        [[Chunk(values=2, largest=22)]]
    """
    limit = allowed(len(data) if size is None else size)
    found: list[list[Chunk] | None] = []
    for rows, chunks in _remembered(data):
        found.append(None)
        if chunks is None or len(chunks) != len(repeated) or rows < 0:
            continue
        if any(chunk.values > rows for chunk, lists in zip(chunks, repeated, strict=True) if not lists):
            continue
        held = sum(_NUMBER * chunk.values for chunk, lists in zip(chunks, repeated, strict=True) if lists)
        wanted = max(sum(chunk.largest for chunk in chunks), held)
        if wanted > limit:
            raise ValueError(
                f"its pages tell of {wanted:,} bytes, which a file of {len(data):,} bytes does not hold; if it is "
                "sound, allow more: --max-memory"
            )
        found[-1] = chunks
    return found


def _remembered(data: bytes) -> list[tuple[int, list[Chunk] | None]]:
    key = hashlib.blake2b(data).digest()
    if key not in _seen:
        found = _groups(data)
        while len(_seen) >= _REMEMBERED:
            _seen.pop(next(iter(_seen)), None)
        _seen[key] = found
    return _seen[key]


def _groups(data: bytes) -> list[tuple[int, list[Chunk] | None]]:
    """Rows and columns of each row group."""
    length = int.from_bytes(data[-8:-4], "little")
    try:
        footer, _ = _struct(data, len(data) - 8 - length, 0)
        groups = [(int(group[3]), [column[3] for column in group[1]]) for group in footer[4]]
    except _DAMAGED as error:
        raise ValueError("its footer is damaged") from error
    pages = _Pages(data)
    return [(rows, pages.chunks(columns)) for rows, columns in groups]


class _Pages:
    """Walks through the pages of columns, each stretch of the file once."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._known: dict[tuple[int, int, int], Chunk] = {}
        self._left = len(data) // _SHORTEST + 1

    def chunks(self, columns: Sequence[dict[int, Any]]) -> list[Chunk] | None:
        """The columns of a row group; None if the header of a page cannot be read."""
        try:
            return [self._chunk(column) for column in columns]
        except _DAMAGED:
            return None

    def _chunk(self, column: dict[int, Any]) -> Chunk:
        start, first = int(column[9]), int(column.get(11, 0))
        if 0 < first < start:  # the page of its dictionary
            start = first
        key = (start, start + int(column[7]), int(column[5]))
        if key not in self._known:
            self._known[key] = self._walk(*key)
        return self._known[key]

    def _walk(self, at: int, end: int, values: int) -> Chunk:
        seen = largest = 0
        if at < 0 or end > len(self._data):
            raise IndexError
        while at < end and seen < values:
            self._left -= 1
            if self._left < 0:
                raise ValueError("its columns overlap")
            header, at = _struct(self._data, at, 0)
            if header[2] < 0 or header[3] < 0:
                raise IndexError
            largest = max(largest, header[2])
            counted = next((header[number][1] for number in (5, 8) if number in header), 0)
            seen += max(0, counted)
            at += header[3]
        return Chunk(seen, largest)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 70:
            raise IndexError


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """The fields of a struct by their numbers, and where it ends."""
    if depth > _DEEPEST or at < 0:
        raise IndexError
    fields: dict[int, Any] = {}
    number = 0
    while True:
        byte = data[at]
        at += 1
        if not byte:
            return fields, at
        if byte >> 4:
            number += byte >> 4
        else:
            number, at = _zigzag(data, at)
        kind = byte & 15
        if 4 <= kind <= 6:  # most fields are such numbers, and most of these one byte
            byte = data[at]
            if byte < 128:
                fields[number], at = (byte >> 1) ^ -(byte & 1), at + 1
            else:
                fields[number], at = _zigzag(data, at)
        elif kind in (1, 2):
            fields[number] = kind == 1
        else:
            fields[number], at = _value(data, at, kind, depth)


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if 4 <= kind <= 6:
        return _zigzag(data, at)
    if kind == 8:  # text, which nothing here needs
        length, at = _varint(data, at)
        if at + length > len(data):
            raise IndexError
        return None, at + length
    if kind in (9, 10):
        byte = data[at]
        at += 1
        count, each = byte >> 4, byte & 15
        if count == 15:
            count, at = _varint(data, at)
        values: list[Any] = []
        for _ in range(count):  # what is not there ends with an IndexError
            value, at = _struct(data, at, depth + 1) if each == 12 else _value(data, at, each, depth)
            values.append(value)
        return values, at
    if kind == 12:
        return _struct(data, at, depth + 1)
    if kind in (1, 2, 3):  # truths in lists, and bytes
        return data[at], at + 1
    if kind == 7:
        return None, at + 8
    raise IndexError
