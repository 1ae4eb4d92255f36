"""What the page holds: numbers as one block of bytes, names as JSON.

Note [Polar points]: a point is stored as its distance from the origin, √c·d(0, z), in float32, and its angle as a
32-bit part of a turn. Ball coordinates would round far points to the rim; and an angle as a whole number is subtracted
exactly, so that a point at distance 17 is still right to a pixel when the disc is moved there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from horoball.viewer.columns import Column

__all__ = ["Payload", "add_column", "add_edges", "add_points", "add_scale"]

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
