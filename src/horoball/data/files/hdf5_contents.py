"""What an HDF5 file may hold before anything is read from it: only its own data, not nested without end."""

from __future__ import annotations

from typing import Any

from horoball.data.files.limits import check_held

__all__ = ["check_flat", "check_own"]

_DEEPEST = 32  # groups within groups; anndata's own files have up to five


def check_own(file: Any) -> None:
    """Refuse an HDF5 file that takes data from other files, or that nests groups deeper than any table does.

    Each group is visited once, however many links lead to it, so that the time is proportional to the file's size.

    Example:
        >>> import h5py
        >>> file = h5py.File("cells.h5ad", "w", driver="core", backing_store=False)
        >>> file["X"] = h5py.ExternalLink("secrets.h5", "/X")
        >>> check_own(file)
        Traceback (most recent call last):
        ...
        ValueError: cells.h5ad has its X in another file, 'secrets.h5', which is not read. Copy it in first.
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

    Args:
        part: The file's group or dataset.

    Example:
        >>> import h5py
        >>> file = h5py.File("flat", "w", driver="core", backing_store=False)
        >>> check_flat(file.create_dataset("X", (10**6, 10**6), "f4", chunks=(100, 100)))
        Traceback (most recent call last):
        ...
        ValueError: its X tells of 4,000,000,000,000 bytes, which a file of ... bytes does not hold; ...
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
