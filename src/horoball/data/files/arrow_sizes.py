"""What Arrow's own files become in memory: Feather buffers that are compressed, and texts that many rows share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct, error
from typing import Any

import numpy as np

from horoball.data.files.limits import Budget, check_held, check_rows

__all__ = ["check_feather", "spend_shared"]

_MAGIC = b"ARROW1"
_U16, _U32, _I32, _I64 = Struct("<H"), Struct("<I"), Struct("<i"), Struct("<q")
_BLOCK, _PAIR = Struct("<qi4xq"), Struct("<qq")
_CONTINUED = 0xFFFFFFFF  # before the length of a message, since Arrow 0.15
_BATCH, _DICTIONARY = 3, 2  # kinds of messages
_NUMBER = 8  # bytes of a number, at most


def check_feather(data: Any) -> None:
    """Refuse a Feather file whose buffers become more than it can hold: each says itself how large it is.

    Args:
        data: The file, as bytes or mapped.

    Example:
        >>> import io, pyarrow as pa, pyarrow.feather as feather
        >>> out = io.BytesIO()
        >>> feather.write_feather(pa.table({"a": np.zeros(10**7)}), out, compression="zstd", chunksize=10**7)
        >>> check_feather(out.getvalue())
        Traceback (most recent call last):
        ...
        ValueError: its list of buffers tells of 80,000,000 bytes, which a file of ... bytes does not hold; ...
    """
    if bytes(data[:6]) != _MAGIC or bytes(data[-6:]) != _MAGIC:
        return  # an old one, which is not compressed, or none; its reader says so
    try:
        rows, wanted = 0, 0
        for length, held in _batches(data):
            rows, wanted = rows + length, wanted + held
    except (error, IndexError) as cause:
        raise ValueError("its footer or one of its messages is damaged") from cause
    check_held(wanted, len(data), "its list of buffers")
    check_rows(rows, len(data))


def _batches(data: Any) -> Iterator[tuple[int, int]]:
    """Rows and bytes of each batch of rows, and of each dictionary."""
    (length,) = _I32.unpack_from(data, len(data) - 10)
    if not 0 < length <= len(data) - 10:
        raise IndexError
    footer = _root(data, len(data) - 10 - length)
    for number, kind in ((2, _DICTIONARY), (3, _BATCH)):
        start, count = _vector(data, footer, number)
        if count * _BLOCK.size > len(data):
            raise IndexError
        for i in range(count):
            offset, metadata, _ = _BLOCK.unpack_from(data, start + i * _BLOCK.size)
            if offset < 0 or metadata < 0:
                raise IndexError
            yield _batch(data, offset, offset + metadata, kind)


def _batch(data: Any, at: int, body: int, kind: int) -> tuple[int, int]:
    message = _root(data, at + (8 if _U32.unpack_from(data, at)[0] == _CONTINUED else 4))
    batch = _table(data, message, 2)
    if kind == _DICTIONARY:
        batch = _table(data, batch, 1)
    place = _field(data, batch, 0)
    rows = _I64.unpack_from(data, place)[0] if place else 0
    start, count = _vector(data, batch, 2)
    if count * _PAIR.size > len(data):
        raise IndexError
    packed, held = bool(_field(data, batch, 3)), 0
    for i in range(count):
        offset, length = _PAIR.unpack_from(data, start + i * _PAIR.size)
        if offset < 0 or length < 0:
            raise IndexError
        if packed and length >= _I64.size:
            (larger,) = _I64.unpack_from(data, body + offset)
            length = max(length, larger)  # -1 is one that is not compressed
        held += length
    return (max(0, rows) if kind == _BATCH else 0), held


def _root(data: Any, at: int) -> int:
    return at + int(_U32.unpack_from(data, at)[0])


def _field(data: Any, table: int, number: int) -> int:
    """Where a field of a flatbuffer table lies; 0 if it has none."""
    known = table - int(_I32.unpack_from(data, table)[0])
    if known < 0 or 4 + 2 * number >= _U16.unpack_from(data, known)[0]:
        return 0
    offset = int(_U16.unpack_from(data, known + 4 + 2 * number)[0])
    return table + offset if offset else 0


def _table(data: Any, table: int, number: int) -> int:
    place = _field(data, table, number)
    if not place:
        raise IndexError
    return _root(data, place)


def _vector(data: Any, table: int, number: int) -> tuple[int, int]:
    """Where the items of a vector begin, and how many there are."""
    place = _field(data, table, number)
    if not place:
        return 0, 0
    start = _root(data, place)
    return start + 4, int(_U32.unpack_from(data, start)[0])


def spend_shared(chunks: Iterable[Any], budget: Budget) -> None:
    """Count what columns take whose rows share their values, once each row has its own.

    Args:
        chunks: Arrow arrays.
        budget: What their file may take.

    Example:
        >>> import pyarrow as pa
        >>> codes = pa.array(np.zeros(10_000, np.int8))
        >>> spend_shared([pa.DictionaryArray.from_arrays(codes, ["x" * 10**5])], Budget(1000))
        Traceback (most recent call last):
        ...
        ValueError: so far it took 1,000,000,000 bytes of memory, more than a file of 1,000 bytes may; ...
    """
    for chunk in chunks:
        budget.spend(_shared(chunk))


def _shared(chunk: Any) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = chunk.type
    if pa.types.is_dictionary(kind):
        values = kind.value_type
        if not (pa.types.is_string(values) or pa.types.is_large_string(values) or pa.types.is_binary(values)):
            return _NUMBER * len(chunk)
        return int(pc.sum(pc.cast(pc.binary_length(chunk.dictionary), pa.int64()).take(chunk.indices)).as_py() or 0)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        views = chunk.buffers()[1]
        lengths = np.frombuffer(views, np.int32)[4 * chunk.offset :: 4][: len(chunk)] if views else np.zeros(0)
        return int(np.maximum(lengths, 0).sum(dtype=np.int64))
    if pa.types.is_fixed_size_list(kind):
        return int(_NUMBER * len(chunk) * kind.list_size)
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return _NUMBER * int(pc.sum(pc.list_value_length(chunk)).as_py() or 0)
    return 0
