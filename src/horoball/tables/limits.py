"""What is refused before it is read: file names, damaged files, contents that grow too large.

How much a file may ask for, given its size: a header of a few bytes must not cost gigabytes. Compression by deflate, as
in .gz, .npz and HDF5 files, makes at most 1032 bytes of one. What claims to hold more was most likely made to do harm.
Other compression, one text that many cells share, and long runs of one number may make more of a sound file too; who
has such a file says how much memory it may take (`max_memory`), and that alone counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct, error
from typing import Any

import numpy as np

from horoball.process import given_memory, machine_memory


def title_of(path: str | Path) -> str:
    r"""The name of a file without its ending, with � in the place of bytes that are not UTF-8.

    Python keeps such bytes as lone surrogates, which no page and no JSON file can hold.
    """
    return os.fsencode(Path(path).stem).decode("utf-8", "replace")


def check_text(path: Path) -> None:
    r"""Refuse the name of a file or folder to write that is not UTF-8, before the work is done and cannot be kept.

    Checkpoints and Parquet files cannot be opened under such a name.
    """
    name = os.fsencode(path).decode("utf-8", "replace")
    if name != str(path):
        raise ValueError(
            f"The name {name!r} is not UTF-8. Files of a run and of results need a name that is; choose another one."
        )


_LONGEST = 200  # characters of a parser's own words
# What these say is true of the file system or of what is installed, and not of what the file holds.
_PASSED = (FileNotFoundError, PermissionError, IsADirectoryError, ConnectionError, TimeoutError, ImportError)


@contextmanager
def parsing(path: str | Path, kind: str | None = None) -> Iterator[None]:
    """Turn what parsers raise into a `ValueError` of one sentence; errors that name the file pass as they are.

    Parsers of damaged files raise whatever they stumble over: `KeyError`, `OSError`, `struct.error`, errors of their
    own. The first of them stays the cause of the one that is raised.
    """
    try:
        yield
    except _PASSED:
        raise
    except MemoryError as error:
        raise ValueError(
            f"{path} asks for more memory than there is: {_words(error)}. It may be damaged; if it is not, take a part "
            "of it, or a .parquet file, which is read bit by bit."
        ) from error
    except Exception as error:
        if type(error) in (ValueError, TypeError) and str(path) in str(error):
            raise
        kind = kind or f"{Path(path).suffix} file".strip()
        raise ValueError(
            f"{path} is not a readable {kind}: {_words(error)}. It may be damaged or of another kind; use another "
            "copy, or save it again."
        ) from error


def _words(error: BaseException) -> str:
    """The first line of what an error says, cut."""
    if isinstance(error, UnicodeDecodeError):
        return "it holds text that is not UTF-8"
    if type(error) is KeyError:
        return f"it lacks {str(error)[:_LONGEST]}"
    line = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    return line[:_LONGEST].rstrip(" .:")


_FREE = 1 << 26  # bytes that any file may ask for
_RATIO = 1100  # bytes that one byte of a file may become
_SHARE = 0.75  # of the machine's memory, for the contents of one file
_FEW_ROWS = 1 << 20  # rows that any file may claim
_CHARACTER = 4  # bytes of a character in an array
_WIDER = 100  # times that an array of texts may be larger than the texts
_ROWS_PER_BYTE = 4  # rows without a single number that a byte of a file may stand for


def allowed(size: int, ratio: int = _RATIO) -> int:
    """Bytes that the contents of a file may take in memory."""
    given = given_memory()
    return min(_FREE + ratio * size, int(_SHARE * machine_memory())) if given is None else given


def check_held(wanted: int, size: int, what: str, ratio: int = _RATIO) -> None:
    """Refuse contents that a file of that size cannot hold, or that are larger than what the user allows."""
    if wanted > allowed(size, ratio):
        raise ValueError(
            f"{what} tells of {wanted:,} bytes, {_too_much(size, ratio)}; if it is sound, allow more: --max-memory"
        )


def _too_much(size: int, ratio: int) -> str:
    if given_memory() is not None or allowed(size, ratio) < _FREE + ratio * size:
        return f"more than the {allowed(size, ratio):,} that are allowed"
    return f"which a file of {size:,} bytes does not hold"


class Budget:
    """What is read of one file, counted as it is read."""

    def __init__(self, size: int, ratio: int = _RATIO) -> None:
        self.size, self.spent = size, 0
        self.limit = allowed(size, ratio)

    @property
    def left(self) -> int:
        """Bytes that may still be taken."""
        return max(0, self.limit - self.spent)

    def spend(self, wanted: int) -> None:
        """Count what is about to be taken, or was taken in a small part."""
        self.spent += wanted
        if self.spent > self.limit:
            raise ValueError(
                f"so far it took {self.spent:,} bytes of memory, more than a file of {self.size:,} bytes may; if it is "
                "sound, allow more: --max-memory"
            )


def check_rows(rows: int, size: int) -> None:
    """Refuse a table with more rows than a file of that size can hold, even if nearly all of them are alike."""
    if rows > max(_FEW_ROWS, _RATIO * size):
        raise ValueError(f"it tells of {rows:,} rows, which a file of {size:,} bytes does not hold")


def check_nodes(rows: int, size: int) -> None:
    """Refuse a sparse matrix with far more rows than its file has bytes: nearly all of them would be empty."""
    if rows > max(_FEW_ROWS, _ROWS_PER_BYTE * size):
        raise ValueError(
            f"it tells of {rows:,} rows, nearly all of them empty; leave those out, or save a list of edges"
        )


def check_widths(texts: Iterable[object], what: str) -> None:
    """Refuse texts of which one is so long that an array of them, where each has the same room, would be huge."""
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


_MAGIC = b"ARROW1"
_U16, _U32, _I32, _I64 = Struct("<H"), Struct("<I"), Struct("<i"), Struct("<q")
_BLOCK, _PAIR = Struct("<qi4xq"), Struct("<qq")
_CONTINUED = 0xFFFFFFFF  # before the length of a message, since Arrow 0.15
_BATCH, _DICTIONARY = 3, 2  # kinds of messages
_NUMBER = 8  # bytes of a number, at most


def check_feather(data: Any) -> None:
    """Refuse a Feather file whose buffers become more than it can hold: each says itself how large it is."""
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
    """Count what columns take whose rows share their values, once each row has its own."""
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
