"""Numbers that float32 cannot tell apart, such as seconds since 1970: said, not passed over."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from horoball.data.tables.column_names import some_names

__all__ = ["tell_rounded"]

_NOISE = 1e-12  # of a column's size: what varies by less is a constant with float64's own rounding
_COARSE = 2.0**-16  # of a column's size: what varies by less has at most 256 values in float32
_log = logging.getLogger("horoball")


def tell_rounded(x: np.ndarray, columns: Sequence[str]) -> None:
    """Warn of columns that vary by so little of their size that float32 rounds most of it away.

    Args:
        x: Rows as they were given, before they become float32.
        columns: Their names.

    Example:
        >>> tell_rounded(1.7e9 + np.arange(300.0)[:, None], ["seconds"])  # warns
    """
    if not x.size or x.dtype.kind not in "iuf" or x.dtype.itemsize < 8:
        return
    low, high = x.min(0).astype(np.float64), x.max(0).astype(np.float64)
    spread, size = high - low, np.maximum(abs(low), abs(high))
    whole = (low == np.rint(low)) & (high == np.rint(high)) & (size < 2.0**53)  # as float64 holds them, exactly
    noise = np.where((x.dtype.kind in "iu") | whole, 0.0, _NOISE * size)
    lost = np.flatnonzero((spread > noise) & (spread < _COARSE * size))
    if len(lost):
        names = some_names([columns[int(i)] for i in lost])
        _log.warning(
            "Rounding: %s vary by little of their size, most of which float32 loses. Center them first.", names
        )
