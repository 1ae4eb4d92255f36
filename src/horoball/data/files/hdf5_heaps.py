"""Heaps of text in an HDF5 file, which HDF5 walks through without looking where it goes.

A heap holds text of any length: objects one after another, each with its size before it, the last one what is left
free. HDF5 2.0 goes on by that size, whatever it is: for ever on the spot where it is 0, and beyond the heap where it is
too large.
"""

from __future__ import annotations

import mmap
import re
from pathlib import Path
from struct import Struct
from typing import Any

__all__ = ["check_heaps"]

_LENGTH = 8  # bytes of a size, in all files that h5py writes
_HEAP = re.compile(rb"GCOL\x01")
_HEAP_HEADER, _HEADER = Struct("<8xQ"), Struct("<H6xQ")
_SMALLEST = 4096  # bytes of a heap


def check_heaps(file: Any) -> None:
    """Refuse an HDF5 file with a heap whose objects do not follow one another to its end.

    The whole file is looked through once, at about a gigabyte in a second.

    Args:
        file: The file, opened with h5py.

    Example:
        >>> import h5py, tempfile
        >>> path = Path(tempfile.mkdtemp()) / "cells.h5ad"
        >>> with h5py.File(path, "w") as file:
        ...     file.attrs["encoding-type"] = "anndata"
        >>> data = path.read_bytes()
        >>> with h5py.File(path) as file:
        ...     check_heaps(file)
        >>> start = data.index(b"GCOL")
        >>> _ = path.write_bytes(data[: start + 16] + bytes(4080) + data[start + 4096 :])
        >>> with h5py.File(path) as file:
        ...     check_heaps(file)
        Traceback (most recent call last):
        ...
        ValueError: a heap of its text is damaged.
    """
    length = file.id.get_create_plist().get_sizes()[1]
    if length != _LENGTH:
        raise ValueError(f"its sizes have {length} bytes, and are read with {_LENGTH} alone.")
    with Path(file.filename).open("rb") as raw, mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for found in _HEAP.finditer(data):
            if found.start() + _HEAP_HEADER.size <= len(data):
                _check_heap(data, found.start())


def _check_heap(data: mmap.mmap, start: int) -> None:
    (size,) = _HEAP_HEADER.unpack_from(data, start)
    end = start + size
    if size < _SMALLEST or end > len(data):
        return  # HDF5 refuses it, or it only looks like a heap
    place = start + _HEAP_HEADER.size
    while place + _HEADER.size <= end:
        number, held = _HEADER.unpack_from(data, place)
        if number:
            held = _HEADER.size + -(-held // 8) * 8
        elif held < _HEADER.size:  # what is left free counts its own header
            raise ValueError("a heap of its text is damaged.")
        place += held
    if place > end:
        raise ValueError("a heap of its text is damaged.")
