"""Damage within containers, whose checksums are made right again: compressed files, NumPy, Parquet, HDF5."""

from __future__ import annotations

import gzip
import io
import struct
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from quality.fuzzing.damage import Damage, damaged

__all__ = ["hostile_array", "hostile_cells", "hostile_columns", "within_gzip", "within_zip"]

_KINDS = [
    "<f8",
    ">f8",
    "<f4",
    "<f2",
    "<i8",
    "<u8",
    "|b1",
    "|u1",
    "|O",
    "<U3",
    "|S4",
    "<c16",
    "<M8[ns]",
    "|V8",
    "<f16",
    "x",
    "",
]
_SIZES = [0, 1, 2, 3, 7, -1, 2**31, 2**40, 2**62, 2**63, 2**64]


def within_gzip(kinds: Sequence[Damage]) -> Damage:
    """Damage to what a compressed file holds."""

    def damage(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
        try:
            plain = gzip.decompress(data)
        except (OSError, EOFError, ValueError, zlib.error):  # another damage was before
            return data
        return gzip.compress(damaged(rng, plain, (), kinds), 1, mtime=0)

    return damage


def within_zip(kinds: Sequence[Damage]) -> Damage:
    """Damage to a member of an archive, or to the list of members."""

    def damage(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                members = [(name, archive.read(name)) for name in archive.namelist()]
        except Exception:  # another damage was before
            return data
        if not members:
            return data
        place, what = rng.randrange(len(members)), rng.randrange(8)
        name, content = members[place]
        if what == 0:
            members.pop(place)
        elif what == 1:
            members[place] = (
                rng.choice(("../../x.npy", "/etc/x.npy", "x", "format.npy", "data.npy", "", "é.npy")),
                content,
            )
        elif what == 2:
            members[place] = (name, rng.choice(members)[1])
        elif what == 3:
            members.append((rng.choice(("x.npy", "y", "format.npy")), content))
        else:
            members[place] = (name, damaged(rng, content, (), kinds))
        out = io.BytesIO()
        method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
        with zipfile.ZipFile(out, "w", method) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of two members of one name
            for name, content in members:
                archive.writestr(zipfile.ZipInfo(name), content, method)
        return out.getvalue()

    return damage


def hostile_array(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change what a .npy file says of its array."""
    if not data.startswith(b"\x93NUMPY\x01\x00") or len(data) < 10:
        return data
    (size,) = struct.unpack_from("<H", data, 8)
    body = data[10 + size :]
    kind = repr(rng.choice(_KINDS)) if rng.random() < 0.5 else "'<f8'"
    shape: Any = (
        tuple(rng.choice(_SIZES) for _ in range(rng.choice((0, 1, 2, 2, 2, 3, 33)))) if rng.random() < 0.7 else (4, 3)
    )
    if rng.random() < 0.1:
        kind = rng.choice(
            ("[('a', '<f8')]", "None", "('<f8', (2,))", "'<f8,<i4'", "{}", "[" * 200 + "]" * 200, "'|V0'", "'<U0'")
        )
    if rng.random() < 0.05:
        shape = rng.choice(("(1, (2,))", "(" * 90 + ")" * 90, "__import__('os')", "(1.5,)", "(True,)", "{}"))
    header = f"{{'descr': {kind}, 'fortran_order': {rng.choice(('False', 'True', '1'))}, 'shape': {shape}, }}"
    if rng.random() < 0.05:
        header = rng.choice(("{", "1", "", "{'descr': '<f8'}", "9" * 6000, "\x00", "{'descr': " + "-" * 3000 + "1}"))
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def hostile_columns(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Another Parquet file, sound in itself, of columns that a table or a graph may not expect."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n = rng.choice((0, 1, 2, 9))
    some: list[Any] = [
        *([1.5] * n, [float("nan")] * n, [None] * n, [float("inf")] * n, ["a"] * n, [True] * n, [2**62] * n, [-1] * n),
        *(
            [[1, 2]] * n,
            [{"a": 1}] * n,
            [b"\xff"] * n,
            [1, None] * n,
            [""] * n,
            [1.0, None] * n,
            list(range(n)),
            ["1.5"] * n,
        ),
    ]
    arrays = [pa.array(rng.choice(some)) for _ in range(rng.choice((0, 1, 2, 3, 3)))]
    for place, array in enumerate(arrays):
        kind = rng.choice(
            (None, None, pa.float16(), pa.uint64(), pa.decimal128(20, 3), pa.dictionary(pa.int8(), array.type))
        )
        try:
            arrays[place] = array if kind is None else array.cast(kind)
        except (pa.ArrowException, ValueError):  # numbers that the type does not hold
            continue
    rows = min((len(array) for array in arrays), default=0)
    names = [rng.choice(("a", "b", "c", "kind", "source", "target", "", "\u202e", "a\nb", "x" * 999)) for _ in arrays]
    out = io.BytesIO()
    table = pa.Table.from_arrays([array.slice(0, rows) for array in arrays], names=names)
    compression = rng.choice(("none", "snappy", "zstd", "gzip"))
    try:
        pq.write_table(table, out, row_group_size=rng.choice((1, 4, 100)), compression=compression)
    except (pa.ArrowException, ValueError):
        return data
    return out.getvalue()


def hostile_cells(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change a dataset, an attribute or a link of an HDF5 file, with HDF5 itself."""
    import h5py

    held = io.BytesIO(data)
    try:
        with h5py.File(held, "r+") as file:
            names: list[str] = []
            file.visit(names.append)
            node = file[rng.choice(names)]
            what = rng.randrange(6)
            if what == 0 or (what < 3 and not isinstance(node, h5py.Dataset)):
                del file[node.name]
            elif what == 1:
                parent, name = node.parent, node.name.rsplit("/", 1)[1]
                content = rng.choice(
                    (0, np.zeros(3), np.zeros((2, 2, 2)), "text", np.array([2**40, -1]), np.zeros((4, 3), "S3"))
                )
                del parent[name]
                parent[name] = content
            elif what == 2:
                _odd_numbers(rng, node)
            elif what == 3 and len(node.attrs):
                key = rng.choice(list(node.attrs))
                odd: tuple[Any, ...] = (
                    "",
                    "csc_matrix",
                    "csr_matrix",
                    "array",
                    "0.9.9",
                    1,
                    np.array([-1, 3]),
                    np.array([2**40, 2**40]),
                    [],
                )
                node.attrs[key] = rng.choice(
                    (*odd, np.array([4.0, 3.0]), "categorical", "dataframe", "nullable-integer")
                )
            elif what == 4 and len(node.attrs):
                del node.attrs[rng.choice(list(node.attrs))]
            else:
                parent, name = node.parent, node.name.rsplit("/", 1)[1]
                del parent[name]
                links = (
                    h5py.SoftLink("/" + rng.choice(names)),
                    h5py.SoftLink("/none"),
                    h5py.ExternalLink("none.h5", "/X"),
                )
                parent[name] = rng.choice(links)
    except Exception:  # another damage was before, or the change is none that HDF5 makes
        return held.getvalue()
    return held.getvalue()


def _odd_numbers(rng: Random, node: Any) -> None:
    """One number of a dataset becomes one that an index or a count should not be."""
    flat = np.array(node[()]).reshape(-1)
    if flat.size and flat.dtype.kind in "iuf":
        odd = (-1, 0, 2**31 - 1, 10**9, 7) if flat.dtype.kind in "iu" else (np.nan, np.inf, -1.0, 1e38, 0.5)
        flat[rng.randrange(flat.size)] = np.array(rng.choice(odd)).astype(flat.dtype)
        node[...] = flat.reshape(node.shape)
