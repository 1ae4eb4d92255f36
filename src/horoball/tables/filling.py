"""Cells that are missing, exchanged for values of a model: other cells stay as they are, in the types they have."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from horoball.tables.encoding import level_gaps, text_of_dates
from horoball.tables.schema import Schema
from horoball.tables.table import Table


def gaps_of(schema: Schema, table: Table, typed: Any) -> dict[str, np.ndarray]:
    """Which cells of the columns that a model was fitted to are missing.

    A category that the model has not seen is missing to the model, and is there all the same.
    """
    gone = np.concatenate([np.isnan(block.numpy()) for block in table.blocks()])
    gaps = {}
    for column, place in schema.slices():
        gaps[column.name] = gone[:, place.start]
        if column.levels:
            gaps[column.name] = gaps[column.name] & level_gaps(column, typed.column(column.name))
    return gaps


def fill_table(frame: Any, gaps: dict[str, np.ndarray], guesses: Any) -> Any:
    """An Arrow table with some of its cells exchanged, in the types that its columns have."""
    for number, field in enumerate(frame.schema):
        gap = gaps.get(field.name)
        if gap is None or not gap.any():
            continue
        column = _exchanged(frame.column(number), gap, guesses.column(field.name), field.name)
        frame = frame.set_column(number, field if column.type == field.type else field.name, column)
    return frame


def fill_data_frame(frame: Any, gaps: dict[str, np.ndarray], guesses: Any) -> Any:
    """A data frame of pandas with some of its cells exchanged; see `fill_table`."""
    import pyarrow as pa

    filled = frame.copy()
    names = {str(name): name for name in frame.columns}
    for name, gap in gaps.items():
        if not gap.any():
            continue
        column = frame[names[name]]
        held = pa.Array.from_pandas(column)
        if pa.types.is_string(held.type) and pa.types.is_temporal(guesses.column(name).type):
            values = text_of_dates(guesses.column(name), held).to_pandas()
        elif pa.types.is_string(held.type) or pa.types.is_dictionary(held.type) or pa.types.is_boolean(held.type):
            values = guesses.column(name).to_pandas()
        else:
            values = _fitting(guesses.column(name), held.type, name).to_pandas()
        # Cells of an object column may be of any type, also such as no array of one type can have.
        cells = column.astype(object).to_numpy(copy=True)
        cells[gap] = values.astype(object).to_numpy()[gap]
        filled[names[name]] = type(column)(cells, index=column.index, dtype=column.dtype)
    return filled


def one_array(column: Any) -> Any:
    """An Arrow array without chunks."""
    import pyarrow as pa

    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


def _exchanged(column: Any, gap: np.ndarray, guesses: Any, name: str) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_null(kind):
        return guesses
    if pa.types.is_dictionary(kind):
        inner = _exchanged(column.cast(kind.value_type), gap, guesses, name)
        return inner.dictionary_encode().cast(kind)
    if pa.types.is_string_view(kind):
        return _exchanged(column.cast(pa.large_string()), gap, guesses, name).cast(kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values = text_of_dates(guesses, column) if pa.types.is_temporal(guesses.type) else guesses.cast(pa.string())
        values = values.cast(kind)
    else:
        values = _fitting(guesses, kind, name)
    mask = pa.array(gap)
    chosen = values.filter(mask)
    return pc.replace_with_mask(column.combine_chunks(), mask, one_array(chosen))


def _fitting(values: Any, kind: Any, name: str) -> Any:
    """Values of a model in the type of a column: numbers are rounded where it holds whole ones."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_duration(kind):  # which a model is given in seconds
        parts = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.unit]
        return pc.round(pc.multiply(values.cast(pa.float64()), parts)).cast(pa.int64()).cast(kind)
    if pa.types.is_temporal(kind) and pa.types.is_temporal(values.type):
        return values.cast(pa.timestamp("us")).cast(kind, safe=False)
    if pa.types.is_integer(kind):
        low, high = _range(kind)
        whole = pc.round(values.cast(pa.float64(), safe=False))
        beyond = int(pc.sum(pc.or_(pc.less(whole, low), pc.greater(whole, high))).as_py() or 0)
        if beyond:
            warnings.warn(
                f"Column {name[:40]!r}: {beyond:,} values of the model are beyond what {kind} holds, and are given as "
                "its largest or smallest number.",
                stacklevel=2,
            )
            values = pc.min_element_wise(pc.max_element_wise(whole, low), high)
        return (values if pa.types.is_integer(values.type) else pc.round(values)).cast(kind, safe=False)
    if pa.types.is_decimal(kind):
        return pc.round(values.cast(pa.float64()), ndigits=kind.scale).cast(kind, safe=False)
    return values.cast(kind, safe=False)


def _range(kind: Any) -> tuple[float, float]:
    """The numbers that an integer type holds; of 64 bits, those that a float does too."""
    info = np.iinfo(kind.to_pandas_dtype())
    return float(info.min), float(min(info.max, 2**63 - 1024) if info.bits == 64 else info.max)
