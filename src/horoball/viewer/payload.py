"""What the page holds: numbers as one block of bytes, names as JSON.

Note [Polar points]: a point is stored as its distance from the origin, √c·d(0, z), in float32, and its angle as a
32-bit part of a turn. Ball coordinates would round far points to the rim; and an angle as a whole number is subtracted
exactly, so that a point at distance 17 is still right to a pixel when the disc is moved there.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from horoball.tables.cell_values import is_missing
from horoball.trees.tree import Tree

_SIDE = 4096  # pixels of a sheet's side: every browser decodes that
_THUMB = 64  # pixels of a thumbnail's side, at most


def make_atlas(images: Any, n: int) -> dict[str, Any]:
    """Sheets of thumbnails as data URIs, and how they are tiled.

    Args:
        images: Shape (n, h, w) or (n, h, w, 3): bytes, or floats in [0, 1]. Large ones are made smaller by whole
            factors.
        n: Number of points.
    """
    pixels = np.asarray(images.detach().cpu() if hasattr(images, "detach") else images)
    if pixels.ndim not in (3, 4) or len(pixels) != n or (pixels.ndim == 4 and pixels.shape[3] != 3):
        raise ValueError(f"images must have shape ({n}, h, w) or ({n}, h, w, 3), got {pixels.shape}.")
    pixels = _shrink(_bytes(pixels))
    height, width = pixels.shape[1:3]
    most = (_SIDE // height) * (_SIDE // width)
    across = min(_SIDE // width, math.ceil(math.sqrt(min(n, most))))
    per = across * (_SIDE // height)
    sheets = [_sheet(pixels[start : start + per], across) for start in range(0, n, per)]
    return {"width": width, "height": height, "across": across, "per": per, "sheets": sheets}


def _bytes(pixels: np.ndarray) -> np.ndarray:
    if pixels.dtype == np.uint8:
        return pixels
    if pixels.dtype.kind == "b":
        return pixels.astype(np.uint8) * 255
    low, high = float(pixels.min()), float(pixels.max())
    limit = 255 if pixels.dtype.kind in "iu" else 1
    if not (low >= 0 and high <= limit):
        raise ValueError(f"images must be bytes, or floats in [0, 1], got {pixels.dtype} from {low:g} to {high:g}.")
    return (np.rint(pixels * 255) if limit == 1 else pixels).astype(np.uint8)


def _shrink(pixels: np.ndarray) -> np.ndarray:
    """Means over squares of k × k pixels, with the least k that fits a thumbnail; over lines, of a thinner picture."""
    n, height, width = pixels.shape[:3]
    k = math.ceil(max(height, width) / _THUMB)
    if k <= 1:
        return pixels
    down, across = min(k, height), min(k, width)
    cut = pixels[:, : height // down * down, : width // across * across]
    tiles = cut.reshape(n, height // down, down, width // across, across, *pixels.shape[3:])
    return tiles.mean((2, 4)).astype(np.uint8)


def _sheet(pixels: np.ndarray, across: int) -> str:
    count, height, width = pixels.shape[:3]
    down = math.ceil(count / across)
    sheet = np.zeros((down * across, height, width, *pixels.shape[3:]), np.uint8)
    sheet[:count] = pixels
    tiled = sheet.reshape(down, across, height, width, *pixels.shape[3:]).swapaxes(1, 2)
    data = png(tiled.reshape(down * height, across * width, *pixels.shape[3:]))
    return "data:image/png;base64," + base64.b64encode(data).decode("ascii")


def png(pixels: np.ndarray) -> bytes:
    r"""A PNG file of bytes, shape (h, w) for gray or (h, w, 3) for colors."""
    height, width = pixels.shape[:2]
    color = 2 if pixels.ndim == 3 else 0
    rows = np.ascontiguousarray(pixels).reshape(height, -1)
    raw = np.hstack((np.zeros((height, 1), np.uint8), rows))  # each row begins with its filter: none
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0)),
        (b"IDAT", zlib.compress(raw.tobytes(), 9)),
        (b"IEND", b""),
    )
    parts = [struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


_MAX_INTEGER_CATEGORIES = 20  # whole numbers with no more values than this are categories, as of digits or clusters
_MOST = 200  # texts with more values than this are shown, but are no legend
MISSING, UNGROUPED = "missing", "in no group"


@dataclass(frozen=True)
class Column:
    """One value per point."""

    name: str
    kind: str  # "category": values are numbers of categories; "text": the same, too many for a legend; "number"
    values: np.ndarray
    categories: list[str] = field(default_factory=list)
    missing: int = -1  # the category of missing values
    steps: dict[str, Any] | None = None  # how codes of one byte become numbers, where they are rounded
    derived: bool = False  # made from the tree or the groups, so it says nothing new of them
    date: bool = False  # whether its numbers are days since 1970


def make_columns(columns: Any, n: int) -> list[Column]:
    """The columns of a dict or of a data frame."""
    if columns is None:
        return []
    if not isinstance(columns, Mapping) and not hasattr(columns, "columns"):
        raise TypeError(f"columns must be a dict or a data frame, got {type(columns).__name__}.")
    names = list(columns) if isinstance(columns, Mapping) else list(columns.columns)
    made = [make_column(str(name), columns[name]) for name in names]
    for column in made:
        if len(column.values) != n:
            raise ValueError(
                f"Column {column.name[:40]!r} has {len(column.values)} values for {n} points, expected one per point."
            )
    if len({column.name for column in made}) < len(made):
        raise ValueError("Two columns have the same name. Rename one.")
    return made


def make_column(name: str, values: Any) -> Column:
    """A column from values: texts, truth values and few whole numbers are categories, other numbers are numbers."""
    order = _order(values)
    array = _array(values)
    if array.ndim != 1:
        raise ValueError(f"Column {name[:40]!r} has shape {array.shape}, expected one value per point.")
    if order is None and array.dtype.kind == "f":
        return Column(name, "number", array.astype("<f8" if _needs_eight(array) else "<f4"))
    if order is None and array.dtype.kind in "iu" and len(np.unique(array)) > _MAX_INTEGER_CATEGORIES and _exact(array):
        return Column(name, "number", smallest(array))
    texts = ["" if is_missing(value) else str(value) for value in array.tolist()]
    absent = [is_missing(value) for value in array.tolist()]
    seen = {text for text, gone in zip(texts, absent, strict=True) if not gone}
    categories = [text for text in order if text in seen] if order is not None else _sorted(seen)
    code = {text: i for i, text in enumerate(categories)}
    missing = len(categories) if any(absent) else -1
    codes = np.array([missing if gone else code[text] for text, gone in zip(texts, absent, strict=True)], np.int64)
    shown = [*categories, MISSING] if missing >= 0 else categories
    kind = "category" if len(shown) <= _MOST else "text"
    return Column(name, kind, smallest(codes), shown, missing)


def _array(values: Any) -> np.ndarray:
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if array.dtype.kind == "M":
        return _dates(array)
    return array if array.dtype.kind in "biuf" else np.asarray(array, object)


def _dates(array: np.ndarray) -> np.ndarray:
    """Dates as text: without hours where all are midnight, else to the second."""
    whole = array.astype("datetime64[s]")
    days = whole.astype("datetime64[D]")
    there = ~np.isnat(array)
    texts = (days if (days[there] == whole[there]).all() else whole).astype(str).astype(object)
    texts[~there] = None
    return texts


def _exact(array: np.ndarray) -> bool:
    """Whether the page's numbers, which are float64, tell whole numbers apart; ids near 2⁶⁰ are shown as text."""
    return int(array.max()) <= 1 << 53 and int(array.min()) >= -(1 << 53)


def _needs_eight(array: np.ndarray) -> bool:
    """Whether there are whole numbers, such as ids beside missing ones, that float32 would change."""
    large = array[np.isfinite(array) & (np.abs(array) > 1 << 24)]
    with np.errstate(over="ignore"):
        return bool(((large == np.rint(large)) & (large != large.astype(np.float32))).any())


def _order(values: Any) -> list[str] | None:
    """The order of a pandas categorical: its makers had a reason for it."""
    kind: Any = getattr(values, "dtype", None)
    return [str(value) for value in kind.categories] if type(kind).__name__ == "CategoricalDtype" else None


def _sorted(texts: Iterable[str]) -> list[str]:
    """In the order of numbers where all are numbers, else of the alphabet."""
    try:
        return sorted(texts, key=float)
    except ValueError:
        return sorted(texts)


def smallest(values: np.ndarray) -> np.ndarray:
    """Whole numbers in as few bytes as hold them; what 32 bits do not hold becomes float64."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    for kind in ("<u1", "<i2", "<u2", "<i4"):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return values.astype(kind)
    return values.astype("<f8")


_KINDS = {"<f4": "Float32", "<f8": "Float64", "<i2": "Int16", "<i4": "Int32", "<u2": "Uint16", "<u4": "Uint32"}


class Payload:
    """Arrays one after the other, little-endian and byte plane by byte plane; `meta` says where each is."""

    def __init__(self) -> None:
        self.meta: dict[str, Any] = {}
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, values: np.ndarray) -> dict[str, Any]:
        """Append an array; returns where it is."""
        data = _planes(values).tobytes()
        place = {"type": _KINDS.get(values.dtype.str, "Uint8"), "offset": self._size, "length": values.size}
        self._parts.append(data)
        self._size += len(data)
        return place

    @property
    def data(self) -> bytes:
        """All arrays."""
        return b"".join(self._parts)


def _planes(values: np.ndarray) -> np.ndarray:
    """The first bytes of all numbers, then the second ones and so on: what is alike comes together, and packs well."""
    flat = np.ascontiguousarray(values).reshape(-1)
    return flat.view(np.uint8).reshape(-1, flat.itemsize).T


def add_points(payload: Payload, points: np.ndarray, c: float) -> None:
    """Points in the tangent chart, shape (n, 2); see Note [Polar points]."""
    if c == 0:  # a plane has no origin to keep: polar coordinates are about the middle of what is shown
        middle = (points.min(0) + points.max(0)) / 2
        payload.meta["center"] = middle.tolist()
        points = points - middle
    radius = (np.sqrt(c) if c > 0 else 1.0) * np.hypot(points[:, 0], points[:, 1])
    turns = np.arctan2(points[:, 1], points[:, 0]) / (2 * np.pi)
    angle = np.rint(turns * 2.0**32).astype(np.int64) & 0xFFFFFFFF
    payload.meta |= {
        "n": len(points),
        "c": c,
        "radius": payload.add(radius.astype("<f4")),
        "angle": payload.add(angle.astype("<u4")),
    }


def add_scale(payload: Payload, scale: Any, n: int) -> None:
    """Posterior scales in metric units, as 16-bit steps of their logarithm: exact to a few parts in 10⁴ at worst."""
    sigma = np.asarray(scale.detach().cpu() if hasattr(scale, "detach") else scale, np.float64)
    sigma = sigma[:, 0] if sigma.ndim == 2 and sigma.shape[1] == 1 else sigma
    if sigma.shape != (n,) or not (np.isfinite(sigma) & (sigma > 0)).all():
        raise ValueError(f"scale must hold {n} numbers above 0, one per point, got shape {sigma.shape}.")
    low, high = float(sigma.min()), float(sigma.max())
    spread = max(np.log(high / low), 1e-12)
    steps = np.rint(np.log(sigma / low) / spread * 65535)
    payload.meta["scale"] = payload.add(np.clip(steps, 0, 65535).astype("<u2")) | {"low": low, "high": high}


def add_edges(payload: Payload, edges: Any, n: int) -> None:
    """Pairs of row numbers."""
    pairs = np.asarray(edges.detach().cpu() if hasattr(edges, "detach") else edges)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(f"edges must be whole numbers of shape (m, 2), got {pairs.dtype} of shape {pairs.shape}.")
    if len(pairs) and not (pairs.min() >= 0 and pairs.max() < n):
        raise ValueError(f"edges must name rows 0 to {n - 1}, got {pairs.min()} to {pairs.max()}.")
    payload.meta["edges"] = payload.add(pairs.astype("<u4"))


def add_column(payload: Payload, column: Column) -> None:
    r"""A column of values."""
    about: dict[str, Any] = {"name": column.name, "kind": column.kind, "values": payload.add(column.values)}
    if column.kind != "number":
        about |= {"categories": column.categories, "missing": column.missing}
    if column.steps is not None:
        about["steps"] = column.steps
    if column.derived:
        about["derived"] = True
        if column.missing >= 0:
            about["categories"] = [*column.categories[: column.missing], UNGROUPED]  # it is the last one
    if column.date:
        about["date"] = True
    payload.meta.setdefault("columns", []).append(about)


def add_levels(payload: Payload, levels: Sequence[Any], n: int) -> None:
    """Names of groups, a column for each level from coarse to fine; `meta` says which columns they are."""
    if not len(levels):
        return
    taken = {column["name"] for column in payload.meta.get("columns", [])}
    first = len(payload.meta.setdefault("columns", []))
    for number, level in enumerate(levels):
        names = [None if is_missing(name) else str(name) for name in level]
        if len(names) != n:
            raise ValueError(f"Level {number} has {len(names)} names for {n} points, expected one per point.")
        called = f"level {number + 1}"
        called = called if called not in taken else f"{called} of names"
        add_column(payload, replace(make_column(called, np.array(names, object)), derived=True))
    payload.meta["levels"] = list(range(first, first + len(levels)))


def add_tree(payload: Payload, tree: Tree, n: int) -> bool:
    """A tree of the rows, or of groups of them: of each node its parent, depth, first leaf and support.

    Returns whether the leaves are groups, which have names of their own.
    """
    if not isinstance(tree, Tree):
        raise TypeError(f"tree must be a horoball.trees.Tree, got {type(tree).__name__}.")
    held = tree.leaves if tree.leaf is None else len(tree.leaf)
    if held != n:
        raise ValueError(f"The tree is of {held} rows, but there are {n}. Show the rows that the tree was made of.")
    numbers = {
        "parent": tree.parent.astype("<i4"),
        "depth": tree.depth.astype("<f4"),
        "first": smallest(tree.spans[1]),
        "size": smallest(tree.size),
    }
    given = {"support": tree.support, "chance": tree.chance}
    numbers |= {name: values.astype("<f4") for name, values in given.items() if values is not None}
    grouped = tree.leaf is not None and not np.array_equal(tree.leaf, np.arange(tree.leaves))
    if grouped:
        numbers["leaf"] = smallest(np.asarray(tree.leaf))
    payload.meta["tree"] = {"leaves": tree.leaves} | {name: payload.add(values) for name, values in numbers.items()}
    if grouped:
        payload.meta["tree"]["names"] = [str(name) for name in tree.names]
    return grouped
