"""Containers that are sound and grow when they are read: compression, dictionaries, views, members that share bytes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import zipfile
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

import numpy as np

from quality.fuzzing.damage import Damage

__all__ = ["grown_archive", "grown_arrow", "grown_parquet", "stated_array", "streams"]

_ROWS = (3, 1000, 20_000)
_LENGTHS = (1, 1000, 50_000)
_NUMBERS = (10, 1 << 16, 1 << 22)  # of equal numbers in a column; the last take 32 MiB in each


def streams(plain: Damage, method: str) -> Damage:
    """Compressed text: streams joined, a stream within a stream, or text that is all alike."""
    compress: Callable[[bytes], bytes] = {
        "gz": lambda data: gzip.compress(data, 6, mtime=0),
        "bz2": bz2.compress,
        "xz": lambda data: lzma.compress(data, preset=0),
        "zip": lambda data: _zipped([("x.csv", data)]),
    }[method]

    def damage(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
        what = rng.randrange(4)
        if what == 0:
            return compress(plain(rng, b"", others)) * rng.choice((1, 2, 30))
        if what == 1:
            return compress(compress(plain(rng, b"", others)))
        if what == 2:
            return _alike(method, rng.choice((1, 64, 4096)), compress) * rng.choice((1, 1, 20))
        return compress(plain(rng, b"", others))

    return damage


_HELD: dict[tuple[str, int], bytes] = {}


def _alike(method: str, kilobytes: int, compress: Callable[[bytes], bytes]) -> bytes:
    if (method, kilobytes) not in _HELD:
        _HELD[method, kilobytes] = compress(b"kind,x\n" + b"1,2\n" * (256 * kilobytes))
    return _HELD[method, kilobytes]


def _zipped(members: Sequence[tuple[str, bytes]]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _shared(name: str, content: bytes, times: int) -> bytes:
    """An archive whose members are all the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
        first = archive.infolist()[0]
        stem, _, ending = name.rpartition(".")
        for number in range(times):
            again = zipfile.ZipInfo(f"{stem}{number}.{ending}")
            for field in ("CRC", "compress_size", "file_size", "header_offset", "compress_type"):
                setattr(again, field, getattr(first, field))
            archive.filelist.append(again)
            archive.NameToInfo[again.filename] = again
    return out.getvalue()


def _stated(data: bytes, size: int) -> bytes:
    """An archive whose list of members states another size of the first."""
    out, place = bytearray(data), data.find(b"PK\x01\x02")
    if place >= 0:
        struct.pack_into("<I", out, place + 24, size % 2**32)
    return bytes(out)


def grown_archive(member: str, inner: Damage) -> Damage:
    """A .zip or .npz file: members that share bytes, many of them, archives in archives, sizes that are not theirs."""

    def damage(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
        content, what = inner(rng, b"", others), rng.randrange(6)
        if what == 0:
            return _shared(member, content, rng.choice((1, 30, 3000)))
        if what == 1:
            return _zipped([(f"{i}{member}", content[:10_000]) for i in range(rng.choice((2, 300)))])
        if what == 2:
            packed = _zipped([(member, content)])
            for _ in range(rng.choice((1, 5))):
                packed = _zipped([("x.zip", packed)])
            return packed
        if what == 3:
            return _stated(_zipped([(member, content)]), rng.choice((0, 1, 10**6, 2**31, 2**32 - 1)))
        return _zipped([(member, content)])

    return damage


def stated_array(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A .npy file that states another shape than it holds, or holds numbers that are all alike.

    Example:
        >>> stated_array(Random(0), b"", ())[1:6]
        b'NUMPY'
    """
    del data, others
    rows, columns = rng.choice((1, 4, 1000, 10**4)), rng.choice((2, 2, 3, 20))
    held = rows * columns
    if rng.random() < 0.4:
        rows, columns = rng.choice(
            ((10**9, 2), (10**6, 1000), (0, 2**40), (2**40, 0), (held, 1), (2**62, 4), (1, held))
        )
    kind, width = rng.choice((("<f8", 8), ("<i8", 8), ("<f4", 4), ("|b1", 1), ("<U4", 16), ("<f2", 2)))
    header = f"{{'descr': '{kind}', 'fortran_order': {rng.random() < 0.5}, 'shape': ({rows}, {columns}), }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(held * width)


@cache
def _columns(what: int, rows: int, length: int) -> Any:
    """A table in which much is the same; arrays share what they hold, so that it is cheap to make."""
    import pyarrow as pa

    text = pa.array(["y" * length])
    repeated = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), text)
    x = pa.array(np.arange(float(rows)))
    if what == 0:  # a long text of a dictionary, in every row
        return pa.table({"kind": repeated, "x": x})
    if what == 1:
        return pa.table({"kind": repeated, "other": repeated})
    if what == 2:  # the dictionary is of many texts, and one is long
        some = pa.array([*(f"u{i}" for i in range(rows - 1)), "y" * length])
        return pa.table(
            {"kind": pa.DictionaryArray.from_arrays(pa.array(np.arange(rows, dtype=np.int32)), some), "x": x}
        )
    if what == 3:  # lists, one of them long
        ends = pa.array(np.minimum(np.arange(rows + 1), rows - 1) + np.where(np.arange(rows + 1) == rows, length, 0))
        values = pa.array(np.zeros(rows - 1 + length))
        return pa.table({"kind": pa.LargeListArray.from_arrays(ends, values), "x": x})
    if what == 4:  # lists within lists
        nested: Any = x
        for _ in range(min(length, 40)):
            nested = pa.LargeListArray.from_arrays(pa.array(np.arange(rows + 1)), nested)
        return pa.table({"kind": nested, "x": x})
    if what == 5:  # views of one text
        text = pa.array(["y" * min(length, 1000)] * rows)
        return pa.table({"kind": text.cast(pa.string_view()), "x": x})
    if what == 6:
        return pa.table({"kind": pa.nulls(rows), "x": pa.nulls(rows, pa.float64())})
    if what == 7:  # records within records
        nested = x
        for _ in range(min(length, 40)):
            nested = pa.StructArray.from_arrays(
                [nested, nested] if rows < 10 else [nested], ["a", "b"][: 1 + (rows < 10)]
            )
            if nested.type.num_fields == 2 and nested.nbytes > 1 << 16:
                break
        return pa.table({"kind": nested, "x": x})
    if what == 8:  # numbers that are all alike, one array in several columns
        same = pa.array(np.zeros(min(_NUMBERS[_ROWS.index(rows)], 1 << 22)))
        names = ["kind", "x", *(f"c{i}" for i in range(_LENGTHS.index(length) * 3))]
        return pa.table(dict.fromkeys(names, same))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int32()), text)
    return pa.table({"kind": runs, "x": x})


def _chosen(rng: Random) -> tuple[int, int, int]:
    return rng.randrange(10), rng.choice(_ROWS), rng.choice(_LENGTHS)


@cache
def _as_parquet(what: int, rows: int, length: int, packing: str, typed: bool, groups: int) -> bytes | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    try:
        table = _columns(what, rows, length)
        pq.write_table(
            table,
            out,
            compression=packing,
            store_schema=typed,
            row_group_size=max(table.num_rows // groups, 1),
            write_statistics=typed,
        )
    except (pa.ArrowException, ValueError, NotImplementedError):  # what Parquet does not hold
        return None
    return out.getvalue()


def grown_parquet(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A Parquet file with dictionaries, nesting or numbers all alike; its footer may state other numbers of rows."""
    del others
    made = _as_parquet(*_chosen(rng), rng.choice(("zstd", "none")), rng.random() < 0.5, rng.choice((1, 1, 30)))
    made = data if made is None else made
    if rng.random() < 0.25 and made[-4:] == b"PAR1":
        length = int.from_bytes(made[-8:-4], "little")
        rows = rng.choice(_ROWS)
        footer = made[-8 - length : -8].replace(_varint(2 * rows), _varint(2 * rng.choice((1, 10**6, 10**12, 2**62))))
        made = made[: -8 - length] + footer + struct.pack("<I", len(footer)) + b"PAR1"
    return made


def _varint(number: int) -> bytes:
    return bytes([number % 128 + 128]) + _varint(number // 128) if number > 127 else bytes([number])


@cache
def _as_arrow(what: int, rows: int, length: int, packing: str, batch: int) -> bytes | None:
    import pyarrow as pa

    out = io.BytesIO()
    try:
        table = _columns(what, rows, length)
        options = pa.ipc.IpcWriteOptions(compression=None if packing == "none" else packing)
        with pa.ipc.new_file(out, table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=max(table.num_rows // batch, 1))
    except (pa.ArrowException, ValueError, NotImplementedError):
        return None
    return out.getvalue()


def grown_arrow(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A Feather file with dictionaries, views, nesting or numbers all alike; it may state other lengths than it has."""
    del others
    what, rows, length = _chosen(rng)
    made = _as_arrow(what, rows, length, rng.choice(("zstd", "lz4", "zstd")), rng.choice((1, 1, 30)))
    made = data if made is None else made
    if rng.random() < 0.25:
        made = made.replace(struct.pack("<q", rows), struct.pack("<q", rng.choice((1, 10**6, 10**12, 2**62, -1))))
    return made
