"""What the page holds: numbers as one block of bytes, names as JSON.

Note [Polar points]: a point is stored as its distance from the origin, √c·d(0, z), in float32, and its angle as a
32-bit part of a turn. Ball coordinates would round far points to the rim; and an angle as a whole number is subtracted
exactly, so that a point at distance 17 is still right to a pixel when the disc is moved there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from horoball.data.missing import is_missing
from horoball.hierarchy.trees import Tree
from horoball.viewer.columns import Column, make_column, smallest

__all__ = ["Payload", "add_column", "add_edges", "add_levels", "add_points", "add_scale", "add_tree"]

_KINDS = {"<f4": "Float32", "<f8": "Float64", "<i2": "Int16", "<i4": "Int32", "<u2": "Uint16", "<u4": "Uint32"}


class Payload:
    """Arrays one after the other, little-endian, each at a multiple of eight bytes; `meta` says where each is.

    Example:
        >>> payload = Payload()
        >>> payload.add(np.arange(3, dtype="<f4"))
        {'type': 'Float32', 'offset': 0, 'length': 3}
        >>> len(payload.data)
        12
    """

    def __init__(self) -> None:
        self.meta: dict[str, Any] = {}
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, values: np.ndarray) -> dict[str, Any]:
        """Append an array; returns where it is."""
        padding = -self._size % 8
        data = np.ascontiguousarray(values).tobytes()
        place = {"type": _KINDS.get(values.dtype.str, "Uint8"), "offset": self._size + padding, "length": values.size}
        self._parts += [bytes(padding), data]
        self._size += padding + len(data)
        return place

    @property
    def data(self) -> bytes:
        """All arrays."""
        return b"".join(self._parts)


def add_points(payload: Payload, points: np.ndarray, c: float) -> None:
    """Points in the tangent chart, shape (n, 2); see Note [Polar points].

    Example:
        >>> payload = Payload()
        >>> add_points(payload, np.array([[0.0, 1.0]]), 1.0)
        >>> np.frombuffer(payload.data, "<u4")[-1] == 2**30  # a quarter of a turn
        np.True_
    """
    radius = np.sqrt(c) * np.hypot(points[:, 0], points[:, 1])
    turns = np.arctan2(points[:, 1], points[:, 0]) / (2 * np.pi)
    angle = np.rint(turns * 2.0**32).astype(np.int64) & 0xFFFFFFFF
    payload.meta |= {
        "n": len(points),
        "c": c,
        "radius": payload.add(radius.astype("<f4")),
        "angle": payload.add(angle.astype("<u4")),
    }


def add_scale(payload: Payload, scale: Any, n: int) -> None:
    """Posterior scales in metric units, as 16-bit steps of their logarithm: exact to a few parts in 10⁴ at worst.

    Example:
        >>> payload = Payload()
        >>> add_scale(payload, [0.1, 0.2], 2)
        >>> len(payload.data), payload.meta["scale"]["high"]
        (4, 0.2)
    """
    sigma = np.asarray(scale.detach().cpu() if hasattr(scale, "detach") else scale, np.float64)
    sigma = sigma[:, 0] if sigma.ndim == 2 and sigma.shape[1] == 1 else sigma
    if sigma.shape != (n,) or not (np.isfinite(sigma) & (sigma > 0)).all():
        raise ValueError(f"scale must hold {n} numbers above 0, one per point, got shape {sigma.shape}.")
    low, high = float(sigma.min()), float(sigma.max())
    spread = max(np.log(high / low), 1e-12)
    steps = np.rint(np.log(sigma / low) / spread * 65535)
    payload.meta["scale"] = payload.add(np.clip(steps, 0, 65535).astype("<u2")) | {"low": low, "high": high}


def add_edges(payload: Payload, edges: Any, n: int) -> None:
    """Pairs of row numbers.

    Example:
        >>> payload = Payload()
        >>> add_edges(payload, [[0, 1], [1, 2]], 3)
        >>> payload.meta["edges"]["length"]
        4
    """
    pairs = np.asarray(edges.detach().cpu() if hasattr(edges, "detach") else edges)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(f"edges must be whole numbers of shape (m, 2), got {pairs.dtype} of shape {pairs.shape}.")
    if len(pairs) and not (pairs.min() >= 0 and pairs.max() < n):
        raise ValueError(f"edges must name rows 0 to {n - 1}, got {pairs.min()} to {pairs.max()}.")
    payload.meta["edges"] = payload.add(pairs.astype("<u4"))


def add_column(payload: Payload, column: Column) -> None:
    r"""A column of values.

    Example:
        >>> from horoball.viewer.columns import make_column
        >>> payload = Payload()
        >>> add_column(payload, make_column("type", ["a", "b", "a"]))
        >>> payload.meta["columns"][0]["categories"], payload.data
        (['a', 'b'], b'\x00\x01\x00')
    """
    about: dict[str, Any] = {"name": column.name, "kind": column.kind, "values": payload.add(column.values)}
    if column.kind != "number":
        about |= {"categories": column.categories, "missing": column.missing}
    payload.meta.setdefault("columns", []).append(about)


def add_levels(payload: Payload, levels: Sequence[Any], n: int) -> None:
    """Names of groups, a column for each level from coarse to fine; `meta` says which columns they are.

    Example:
        >>> payload = Payload()
        >>> add_levels(payload, [["plants", "plants", None], ["oak", "elm", None]], 3)
        >>> payload.meta["levels"], payload.meta["columns"][1]["categories"]
        ([0, 1], ['elm', 'oak', 'missing'])
    """
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
        add_column(payload, make_column(called, np.array(names, object)))
    payload.meta["levels"] = list(range(first, first + len(levels)))


def add_tree(payload: Payload, tree: Tree, n: int) -> bool:
    """A tree of the rows, or of groups of them: of each node its parent, depth, first leaf and support.

    Returns whether the leaves are groups, which have names of their own.

    Example:
        >>> payload = Payload()
        >>> add_tree(payload, Tree.from_merges([[0, 1], [2, 3]], [1.0, 3.0]), 3)
        False
        >>> payload.meta["tree"]["leaves"], payload.meta["tree"]["parent"]["length"]
        (3, 5)
    """
    if not isinstance(tree, Tree):
        raise TypeError(f"tree must be a horoball.hierarchy.Tree, got {type(tree).__name__}.")
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
