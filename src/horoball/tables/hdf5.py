"""HDF5 files of strangers: what they hold, looked at before HDF5 itself reads them.

Heaps of text in an HDF5 file, which HDF5 walks through without looking where it goes. A heap holds text of any length:
objects one after another, each with its size before it, the last one what is left free. HDF5 2.0 goes on by that size,
whatever it is: for ever on the spot where it is 0, and beyond the heap where it is too large.
"""

from __future__ import annotations

import math
import mmap
import re
from pathlib import Path
from struct import Struct
from typing import Any

from horoball.tables.limits import Budget, check_held

_DEEPEST = 32  # groups within groups; anndata's own files have up to five


def check_own(file: Any) -> None:
    """Refuse an HDF5 file that takes data from other files, or that nests groups deeper than any table does.

    Each group is visited once, however many links lead to it, so that the time is proportional to the file's size.
    """
    import h5py

    seen = {h5py.h5o.get_info(file.id).addr}
    waiting = [("", file, 0)]
    while waiting:
        above, group, depth = waiting.pop()
        if depth > _DEEPEST:
            raise ValueError(f"{file.filename} nests groups more than {_DEEPEST} deep: {above[:60]}. Leave those out.")
        for key in group:
            link, name = group.get(key, getlink=True), f"{above}/{key}".removeprefix("/")
            if isinstance(link, h5py.ExternalLink):
                raise ValueError(_elsewhere(file, name, link.filename))
            if not isinstance(link, h5py.HardLink):
                continue  # it leads to a path of this file, which is visited by itself
            part = group[key]
            if isinstance(part, h5py.Dataset):
                where = _sources(part)
                if where is not None:
                    raise ValueError(_elsewhere(file, name, where))
            elif isinstance(part, h5py.Group) and (address := h5py.h5o.get_info(part.id).addr) not in seen:
                seen.add(address)
                waiting.append((name, part, depth + 1))


def _sources(part: Any) -> str | None:
    """Another file that a dataset is stored in; "." is the file itself."""
    names = [source.file_name for source in part.virtual_sources()] if part.is_virtual else []
    return next((name for name in (*names, *(raw[0] for raw in part.external or ())) if name != "."), None)


def _elsewhere(file: Any, name: str, where: str) -> str:
    return f"{file.filename} has its {name[:60]} in another file, {where!r}, which is not read. Copy it in first."


def check_flat(part: Any) -> None:
    """Refuse a frame or a matrix of an HDF5 file that has more than two levels, or more numbers than the file holds.

    A frame is a group of columns, each a dataset or a group of datasets; a sparse matrix is a group of datasets.
    """
    import h5py

    wanted = 0
    waiting = [(part, 0)]
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, h5py.Dataset):
            wanted += (item.size or 0) * item.dtype.itemsize
        elif isinstance(item, h5py.Group):
            if depth == 2:
                raise ValueError(f"its {part.name.strip('/')} holds groups within groups, and is no table.")
            waiting += [(item.get(key), depth + 1) for key in item]
    check_held(wanted, part.file.id.get_filesize(), f"its {part.name.strip('/')}")


_LENGTH = 8  # bytes of a size, in all files that h5py writes
_HEAP = re.compile(rb"GCOL\x01")
_HEAP_HEADER, _HEADER = Struct("<8xQ"), Struct("<H6xQ")
_SMALLEST = 4096  # bytes of a heap
_STRING = 64  # bytes of a text in memory beside its characters
_TEXTS = 8  # bytes of text that one byte of a file may become
_LISTED = 100  # the same for texts of an attribute, each counted as the longest one


def check_heaps(file: Any) -> int:
    """Refuse an HDF5 file with a heap whose objects do not follow one another to its end.

    The whole file is looked through once, at about a gigabyte in a second.

    Returns:
        Bytes of the longest text.
    """
    length = file.id.get_create_plist().get_sizes()[1]
    if length != _LENGTH:
        raise ValueError(f"its sizes have {length} bytes, and are read with {_LENGTH} alone.")
    with Path(file.filename).open("rb") as raw, mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as data:
        longest = 0
        for found in _HEAP.finditer(data):
            if found.start() + _HEAP_HEADER.size <= len(data):
                longest = max(longest, _check_heap(data, found.start()))
        return longest


def _check_heap(data: mmap.mmap, start: int) -> int:
    (size,) = _HEAP_HEADER.unpack_from(data, start)
    end = start + size
    if size < _SMALLEST or end > len(data):
        return 0  # HDF5 refuses it, or it only looks like a heap
    place, longest = start + _HEAP_HEADER.size, 0
    while place + _HEADER.size <= end:
        number, held = _HEADER.unpack_from(data, place)
        if number:
            longest = max(longest, held)
            held = _HEADER.size + -(-held // 8) * 8
        elif held < _HEADER.size:  # what is left free counts its own header
            raise ValueError("a heap of its text is damaged.")
        place += held
    if place > end:
        raise ValueError("a heap of its text is damaged.")
    return longest


def check_attributes(file: Any, longest: int) -> None:
    """Refuse an HDF5 file with a list of texts in an attribute that may take far more memory than the file.

    An attribute can only be read whole, so that each of its texts counts as the longest one.
    """
    size = file.id.get_filesize()

    def check(_: str, item: Any) -> None:
        for name in item.attrs:
            held = item.attrs.get_id(name)
            count = math.prod(held.shape or ())
            if held.dtype.kind == "O" and count > 1:
                check_held(count * longest, size, f"its attribute {name[:40]}", _LISTED)

    check("", file)
    file.visititems(check)


def check_texts(part: Any, longest: int) -> None:
    """Refuse a frame of an HDF5 file whose texts take far more memory than the file: rows may all refer to one text.

    Texts are not compressed, so that a sound file is about as large as all of them. They are read a few at a time.
    """
    import h5py

    budget, waiting = Budget(part.file.id.get_filesize(), _TEXTS), [part]
    while waiting:
        item = waiting.pop()
        if isinstance(item, h5py.Group):
            waiting += [item.get(key) for key in item]
        elif isinstance(item, h5py.Dataset) and item.dtype.kind == "O" and item.size:
            if item.ndim > 1:
                raise ValueError(f"its {item.name.strip('/')[:60]} holds texts in {item.ndim} dimensions.")
            step = max(1, budget.left // (8 * (longest + _STRING))) if item.ndim else 1
            for start in range(0, item.size, step):
                texts = item[start : start + step] if item.ndim else [item[()]]
                budget.spend(sum(_STRING + len(text) for text in texts if isinstance(text, bytes)))
