"""Thumbnails of all points, tiled on PNG sheets."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from typing import Any

import numpy as np

__all__ = ["make_atlas", "png"]

_SIDE = 4096  # pixels of a sheet's side: every browser decodes that
_THUMB = 64  # pixels of a thumbnail's side, at most


def make_atlas(images: Any, n: int) -> dict[str, Any]:
    """Sheets of thumbnails as data URIs, and how they are tiled.

    Args:
        images: Shape (n, h, w) or (n, h, w, 3): bytes, or floats in [0, 1]. Large ones are made smaller by whole
            factors.
        n: Number of points.

    Example:
        >>> atlas = make_atlas(np.zeros((10, 28, 28), np.uint8), 10)
        >>> atlas["width"], atlas["across"], len(atlas["sheets"])
        (28, 4, 1)
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
    r"""A PNG file of bytes, shape (h, w) for gray or (h, w, 3) for colors.

    Example:
        >>> png(np.zeros((2, 2), np.uint8))[:4]
        b'\x89PNG'
    """
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
