"""Columns of a table by which a page compares rows: which of them fit, in one byte a value.

Note [Compared]: a page answers "what sets these rows apart?" by itself, so it holds values of the columns. They are
kept to about a hundredth of a column's spread, which is plenty for means, and the page marks single values as rounded.
Columns that differ most across the map, or between branches of the tree, are taken first; the page says how many were
left out.
"""

from __future__ import annotations

import datetime
import math
import zlib
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from horoball.tables.encoding import decode
from horoball.tables.table import ArrayTable, Table
from horoball.viewer.payload import Column, Payload, add_column, make_column, make_columns

if TYPE_CHECKING:
    from horoball.trees.tree import Tree

MOST_COMPARED = 60  # columns that a page holds unasked: more than anyone reads, even where there is room
_LEVELS = 128  # steps of a column; after compression seven bits take less room than eight, and means need no more
_GAP = 255  # the code of a missing value
_BLOCK = 8192  # rows read at a time
_SPECIAL = ("vectors",)  # kinds of rows whose columns mean nothing one by one


def coarse(name: str, values: np.ndarray) -> Column:
    """A column of numbers in one byte a value.

    Numbers on a grid of at most 255 steps, such as counts or one decimal place, are exact. Others have steps that are
    even near the median and grow in proportion farther out (asinh), so that one huge value does not flatten the rest.
    """
    x = np.asarray(values, np.float64)
    there = np.isfinite(x)
    known = x[there]
    if not len(known):
        return Column(name, "number", np.full(len(x), _GAP, np.uint8), steps={"low": 0.0, "high": 0.0, "last": 1})
    low, high = float(known.min()), float(known.max())
    codes = np.full(len(x), _GAP, np.uint8)
    grid = _grid(known, low, high)
    if grid is not None:
        last = max(1, round((high - low) * grid))
        codes[there] = np.rint((known - low) * grid)
        return Column(name, "number", codes, steps={"low": low, "high": low + last / grid, "last": last})
    middle = float(np.median(known))
    quarters = np.quantile(known, (0.25, 0.75))
    spread = float(quarters[1] - quarters[0]) or float(known.std()) or 1.0
    bent = np.arcsinh((known - middle) / spread)
    first, end = float(bent.min()), float(bent.max())
    codes[there] = np.rint((bent - first) * ((_LEVELS - 1) / ((end - first) or 1.0)))
    steps = {"low": first, "high": end, "last": _LEVELS - 1, "middle": middle, "spread": spread}
    return Column(name, "number", codes, steps=steps)


def _grid(known: np.ndarray, low: float, high: float) -> int | None:
    """Steps a unit of the coarsest decimal grid that all values lie on, if 255 steps hold them."""
    for grid in (1, 10, 100):
        if not (high - low) * grid < _GAP:
            return None
        at = known * grid
        if bool((np.abs(at - np.rint(at)) < 1e-5 * np.maximum(1.0, np.abs(at))).all()):
            return grid
    return None


def cells_of(n: int, points: np.ndarray | None, tree: Tree | None) -> np.ndarray:
    """A part of the map, or of the tree, for each row: between these, columns that matter differ."""
    most = min(64, n // 10)  # ten rows a cell, or columns of noise would seem to differ
    if most < 2:
        return np.zeros(n, np.int64)
    if tree is not None:
        group = tree.cut(min(most, tree.leaves)) + 1  # those in no group are a part of their own
        return group if tree.leaf is None else group[tree.leaf]
    if points is None:
        return np.zeros(n, np.int64)
    # Halves by angle and by distance in turn, at the middle row: cells of equal size wherever the rows lie.
    radius, angle = np.hypot(points[:, 0], points[:, 1]), np.arctan2(points[:, 1], points[:, 0])
    cells = np.zeros(n, np.int64)
    for step in range(int(math.log2(most))):
        along = radius if step % 3 == 2 else angle
        order = np.lexsort((along, cells))
        sizes = np.bincount(cells)
        starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
        cells[order] = 2 * cells[order] + (np.arange(n) - starts >= np.repeat((sizes + 1) // 2, sizes))
    return cells


def _differ(cells: np.ndarray, columns: int, blocks: Iterable[np.ndarray]) -> np.ndarray:
    """The share of each column's variance that lies between cells; gaps are left out."""
    k = int(cells.max()) + 1
    count, total = np.zeros((k, columns)), np.zeros((k, columns))
    square, shift, start = np.zeros(columns), np.zeros(columns), 0
    for block in blocks:
        x = block.astype(np.float64)
        there = np.isfinite(x)
        if start == 0:  # about the first value, or the squares of large numbers would cancel
            shift = np.where(there.any(0), x[there.argmax(0), np.arange(columns)], 0.0)
        x = np.where(there, x - shift, 0.0)
        members = np.zeros((k, len(x)))
        members[cells[start : start + len(x)], np.arange(len(x))] = 1.0
        count += members @ there
        total += members @ x
        square += np.square(x).sum(0)
        start += len(x)
    rows = np.maximum(count.sum(0), 1)
    mean = total.sum(0) / rows
    between = (np.square(total) / np.maximum(count, 1)).sum(0) - rows * np.square(mean)
    whole = square - rows * np.square(mean)
    return np.where(whole > 1e-12 * np.maximum(square, 1e-300), between / np.maximum(whole, 1e-300), 0.0)


def compared_columns(
    rows: Any, cells: np.ndarray, skip: Collection[str] = (), most: int = MOST_COMPARED
) -> tuple[list[Column], int]:
    """Columns by which a page may compare rows, those that differ most between cells first; and of how many."""
    if not isinstance(rows, Table):
        if hasattr(rows, "columns"):
            named = zip(make_columns(rows, len(rows)), rows.columns, strict=True)  # names need not be texts
            made = [_with_dates(column, rows[name]) for column, name in named]
            return _of_frame(made, cells, skip, most)
        rows = ArrayTable(np.asarray(rows))
    if rows.kind in _SPECIAL:
        return [], 0
    if rows.schema is not None and not rows.schema.uniform:
        import pyarrow as pa

        parts = [decode(rows.schema, block[:, : rows.features].numpy()) for block in rows.blocks(_BLOCK)]
        frame = pa.concat_tables(parts)
        kept = {name: frame[name].to_pandas() for name in frame.column_names if name not in skip}
        made = [_with_dates(make_column(name, each), each) for name, each in kept.items()]
        return _of_frame(made, cells, skip, most)
    names = rows.columns
    shares = _differ(cells, len(names), (block[:, : len(names)].numpy() for block in rows.blocks(_BLOCK)))
    wanted = [k for k in np.argsort(-shares, kind="stable").tolist() if names[k] not in skip]
    chosen = wanted[:most]
    if not chosen:
        return [], 0
    found = np.concatenate([block[:, chosen].numpy() for block in rows.blocks(_BLOCK)])
    return [coarse(names[k], found[:, place]) for place, k in enumerate(chosen)], len(wanted)


def _with_dates(column: Column, values: Any) -> Column:
    """A column of dates as days since 1970, which have means; others as they are."""
    array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if array.dtype.kind == "O" and all(value is None or type(value) is datetime.date for value in array):
        array = array.astype("datetime64[D]")
    if array.dtype.kind != "M":
        return column
    days = (array.astype("datetime64[s]") - np.datetime64(0, "s")) / np.timedelta64(1, "D")  # NaN where there is none
    return Column(column.name, "number", days, date=True)


def _of_frame(made: list[Column], cells: np.ndarray, skip: Collection[str], most: int) -> tuple[list[Column], int]:
    usable = [column for column in made if column.kind != "text" and column.name not in skip]
    shares = []
    for column in usable:
        x = column.values[:, None]
        if column.kind == "category":  # one number for each category: the share of all their variance
            x = column.values[:, None] == np.arange(len(column.categories))
        found = _differ(cells, x.shape[1], [x])
        shares.append(float(np.max(found, initial=0.0)))
    order = np.argsort(-np.array(shares), kind="stable").tolist()
    taken = [usable[k] for k in order[:most]]
    made = [replace(coarse(c.name, c.values), date=c.date) if c.kind == "number" else c for c in taken]
    return made, len(usable)


def add_compared(payload: Payload, found: list[Column], of: int, room: float) -> None:
    """Add as many of the columns as take no more bytes of the page than there is room for."""
    payload.meta.setdefault("columns", [])
    held = 0
    for column in found:
        # Base64 has four letters for three bytes; the description of a column takes some 120 more.
        takes = 4 / 3 * len(zlib.compress(column.values.tobytes())) + 120 + sum(map(len, column.categories))
        if takes > room:
            break
        room -= takes
        held += 1
        add_column(payload, column)
    if of:
        payload.meta["compared"] = {"held": held, "of": of}
