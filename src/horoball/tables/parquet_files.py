"""Parquet files before they are read: the types that they share, and how large their pages are.

What the pages of a small Parquet file become when they are read. Footers say how large a file's columns are, but a
reader allocates what the header of each page says, and decodes as many values as it counts: a page of a hundred
kilobytes may tell of gigabytes, and a run of one number of billions of values. Headers are written in Thrift's compact
protocol.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from horoball.tables.limits import allowed

_LONGEST = 60  # characters of the name of a type


def common_schema(schemas: Sequence[Any], paths: Sequence[str], chosen: Collection[str] | None = None) -> Any:
    """The Arrow schema that all files can be read by.

    Whole numbers, other numbers and decimals are numbers, text is text whether it is kept as a dictionary or not, dates
    and times are times, and a column without values in one file is what it is in the others. Other columns must be
    alike: a column of truth values in one file and of counts in another would lose its counts.

    Args:
        schemas: Arrow schemas of the files.
        paths: Their names, for messages.
        chosen: Columns that are asked for; others may differ. All if not given.
    """
    import pyarrow as pa

    fields, source = list(schemas[0]), [0] * len(schemas[0])  # `source`: the file that a column's type comes from
    for number, schema in enumerate(schemas[1:], 1):
        if schema.names != schemas[0].names:
            raise ValueError(_about_names(schemas[0].names, schema.names, paths[0], paths[number]))
        for place, other in enumerate(schema):
            mine = fields[place]
            if mine.type == other.type or (chosen is not None and mine.name not in chosen):
                continue
            kind = _common(mine.type, other.type)
            if kind is None:
                raise ValueError(
                    f"Column {mine.name[:40]!r} holds {shown_type(mine.type)} in {paths[source[place]]} and "
                    f"{shown_type(other.type)} in {paths[number]}. Write it with one type in all files."
                )
            if kind != mine.type:
                fields[place], source[place] = mine.with_type(kind), number
    return pa.schema(fields)


def is_number_type(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers."""
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def check_single(fields: Iterable[Any], where: str) -> None:
    """Refuse columns of lists and records, which are no labels and no names of rows."""
    import pyarrow as pa

    for field in fields:
        if pa.types.is_nested(field.type):
            kind = shown_type(field.type)
            raise ValueError(f"{where}: column {field.name[:40]!r} holds {kind}, no single values. Leave it out.")


def shown_type(kind: Any) -> str:
    """An Arrow type in a message: records are named by all they hold, which may be thousands of lines."""
    text = str(kind)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _common(one: Any, other: Any) -> Any:
    """A type that holds the values of both; None if there is none."""
    import pyarrow as pa

    if pa.types.is_null(one) or pa.types.is_null(other):
        return other if pa.types.is_null(one) else one
    one, other = (kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (one, other))
    if one == other:  # one of them a dictionary, or two with codes of other widths
        return one
    if is_number_type(one) and is_number_type(other):
        whole = [pa.types.is_signed_integer(kind) or kind.bit_width < 64 for kind in (one, other)]
        both = pa.types.is_integer(one) and pa.types.is_integer(other) and all(whole)
        return pa.int64() if both else pa.float64()
    if _is_text(one) and _is_text(other):
        return pa.large_string()
    if _is_day(one) and _is_day(other) and getattr(one, "tz", None) == getattr(other, "tz", None):
        return pa.timestamp("us", getattr(one, "tz", None))
    return None


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_day(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _about_names(mine: Sequence[str], other: Sequence[str], path: str, others: str) -> str:
    """How the columns of two files differ."""
    missing = [name for name in mine if name not in set(other)]
    new = [name for name in other if name not in set(mine)]
    how = "has the same columns in another order"
    if missing or new:
        how = f"has no column {missing[0][:40]!r}" if missing else f"has a column {new[0][:40]!r} more"
    return f"{others} has other columns than {path}: it {how}. All files need the same columns."


LOOKED_THROUGH = 4 << 20  # bytes of a file; 1,100 times as much is beyond what most machines have
_DEEPEST = 12  # structs within structs; Parquet has five
_NUMBER = 8  # bytes of a value in a list
_SHORTEST = 8  # bytes of a page with its header
_REMEMBERED = 8  # files, as one is opened several times
_DAMAGED = (IndexError, KeyError, TypeError, AttributeError)  # what a parser stumbles over


class Chunk(NamedTuple):
    """A column of a row group."""

    values: int  # that its pages count
    largest: int  # bytes of its largest page, decompressed


_seen: dict[bytes, list[tuple[int, list[Chunk] | None]]] = {}


def check_pages(data: bytes, repeated: Sequence[bool], size: int | None = None) -> list[list[Chunk] | None]:
    """The columns of each row group, None of a damaged one; refuses a file whose pages become more than it can hold.

    Args:
        data: The file.
        repeated: Of each column, whether it holds lists.
        size: Bytes that the file took, if it was compressed as a whole.
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
