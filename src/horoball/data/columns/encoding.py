"""Values of columns as numbers that a model sees, and numbers that a model draws as values of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from horoball.data.columns.dates import UNITS, date_features, days_since_1970, odd_dates, parse_dates
from horoball.data.columns.number_cells import about_odd, decimal_of, is_text_type, text_numbers
from horoball.data.files.gap_words import GAP_WORDS, gap_numbers
from horoball.data.files.parquet_schemas import shown_type
from horoball.data.tables.column_types import OTHER, Column, Schema
from horoball.data.tables.number_arrays import refuse_beyond

__all__ = ["Unseen", "decode", "encode", "level_gaps", "level_text"]


def level_text(value: Any) -> str:
    """A value as the text of a level: 1 and 1.0 alike.

    Example:
        >>> level_text(1.0), level_text("a")
        ('1', 'a')
    """
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


class Unseen:
    """Values that no level stands for, counted by column: they are taken as missing, which is said once.

    Example:
        >>> unseen = Unseen()
        >>> unseen.add("country", ["XY"])
        >>> str(unseen)
        "1 value that the model has not seen is taken as missing: country 'XY'"
    """

    def __init__(self) -> None:
        self.count = 0
        self._first: dict[str, str] = {}

    def add(self, column: str, values: list[Any]) -> None:
        """Note values of a column."""
        self.count += len(values)
        if values:
            self._first.setdefault(column, str(values[0]))

    def __str__(self) -> str:
        shown = ", ".join(f"{name[:40]} {value[:40]!r}" for name, value in list(self._first.items())[:5])
        are = "value that the model has not seen is" if self.count == 1 else "values that the model has not seen are"
        return f"{self.count:,} {are} taken as missing: {shown}"


def encode(
    schema: Schema, frame: Any, unseen: Unseen | None = None, first: Callable[[], int] = lambda: 0
) -> np.ndarray:
    """Rows of numbers from an Arrow table: float32, missing values NaN, columns contiguous.

    Args:
        schema: What the columns are.
        frame: An Arrow table or record batch with all columns that are used, by name.
        unseen: Where values without a level are noted.
        first: Gives the number of the first row, for messages.

    Example:
        >>> import pyarrow as pa
        >>> schema = Schema((Column("b", "binary", "", form="text", levels=("no", "yes")),))
        >>> encode(schema, pa.table({"b": ["yes", None, "no"]})).ravel()
        array([ 1., nan,  0.], dtype=float32)
    """
    # Arrow has columns: filling them and turning them once, as the caller does, is faster than filling rows.
    out = np.empty((frame.num_rows, len(schema.features)), np.float32, order="F")
    names = {name: number for number, name in enumerate(frame.schema.names)}
    for column, place in schema.slices():
        values = frame.column(names[column.name])
        with np.errstate(over="ignore"):
            out[:, place] = _encoded(column, _typed(column, values, frame.schema, first), unseen)
    return out


def _typed(column: Column, values: Any, schema: Any, first: Callable[[], int]) -> Any:
    """Numbers, where a column of numbers is written as text."""
    import pyarrow as pa

    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if not is_text_type(kind) or column.form not in ("number", "whole", *UNITS):
        return values
    decimal = decimal_of(schema.field(schema.get_field_index(column.name)))
    x = text_numbers(values, column.name, gaps=column.gaps, decimal=decimal, first=first)
    return pa.array(x, from_pandas=True)


def _encoded(column: Column, values: Any, unseen: Unseen | None) -> np.ndarray:
    import pyarrow as pa

    if column.levels:
        return _codes(column, values, unseen)[:, None]
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if column.kind == "date":
        return date_features(days_since_1970(_as_dates(column, values), column.form), column.start)
    if not (
        pa.types.is_integer(values.type)
        or pa.types.is_floating(values.type)
        or pa.types.is_boolean(values.type)
        or pa.types.is_decimal(values.type)
        or pa.types.is_null(values.type)
    ):
        raise ValueError(
            f"Column {column.name[:40]!r} holds {shown_type(values.type)}, but the model was fitted to numbers "
            f"({column.kind}). Give it numbers."
        )
    x = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if sentinels := gap_numbers(column.gaps):
        x = np.where(np.isin(x, sentinels), np.nan, x)
    if bool(np.isinf(x).any()):
        raise ValueError(f"Column {column.name[:40]!r} holds an infinite number. Remove it, or leave its cell empty.")
    refuse_beyond(x[:, None], [column.name], "The table")
    if column.kind == "circular":
        x = x - column.start
    return x[:, None]


def _as_dates(column: Column, values: Any) -> Any:
    """Dates of a file whose dates are few, all missing, or of another unit."""
    import pyarrow as pa

    good = pa.types.is_temporal(values.type) if column.form not in UNITS else not pa.types.is_temporal(values.type)
    if pa.types.is_null(values.type):
        return values.cast(pa.float64() if column.form in UNITS else pa.timestamp("ms"))
    if is_text_type(values.type):
        return _dates_of_text(column, values)
    if not good:
        raise ValueError(
            f"Column {column.name[:40]!r} holds {shown_type(values.type)}, but the model was fitted to dates "
            f"({column.form})."
        )
    return values


def _dates_of_text(column: Column, values: Any) -> Any:
    """Dates of text that has words for missing values of the fit; others are refused, by row if they are few."""
    import pyarrow as pa
    import pyarrow.compute as pc

    words = pa.array((*GAP_WORDS, *column.gaps)).cast(values.type)
    texts = pc.if_else(pc.is_in(values, words), None, values)
    dates = parse_dates(texts, column.name) if column.form not in UNITS else None
    if dates is None and texts.null_count < len(texts):
        odd = odd_dates(texts)
        if odd:
            raise ValueError(about_odd({column.name: odd}, "", what="dates"))
        raise ValueError(
            f"Column {column.name[:40]!r} holds {shown_type(values.type)}, but the model was fitted to dates "
            f"({column.form})."
        )
    return texts.cast(pa.timestamp("ms")) if dates is None else dates


def _codes(column: Column, values: Any, unseen: Unseen | None) -> np.ndarray:
    """Numbers of the levels; a value without one is in `OTHER` if there is one, and missing if not."""
    import pyarrow as pa

    place = {level: float(number) for number, level in enumerate(column.levels)}
    gaps = _gap_words(column)
    other = place.get(OTHER) if column.kind == "category" else None
    parts = []
    for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        encoded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        found = [None if _is_gap(value, gaps) else place.get(level_text(value), other) for value in texts]
        at = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
        new = [number for number, code in enumerate(found) if code is None and not _is_gap(texts[number], gaps)]
        if new and unseen is not None:  # a dictionary may hold values that do not occur
            unseen.add(column.name, [texts[number] for number in np.intersect1d(new, at)])
        table = np.array([np.nan if code is None else code for code in (*found, None)], np.float32)
        parts.append(table[at])
    return np.concatenate(parts) if parts else np.empty(0, np.float32)


def level_gaps(column: Column, values: Any) -> np.ndarray:
    """Which cells of a column of levels are missing; a value that is none of the levels is there.

    Args:
        column: What the column is.
        values: Its cells, an Arrow array.

    Example:
        >>> import pyarrow as pa
        >>> column = Column("b", "binary", "", form="text", levels=("no", "yes"))
        >>> level_gaps(column, pa.array(["no", "maybe", "NA", None]))
        array([False, False,  True,  True])
    """
    import pyarrow as pa

    words, parts = _gap_words(column), []
    for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        encoded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        gone = np.array([*(_is_gap(value, words) for value in texts), True])
        parts.append(gone[encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)])
    return np.concatenate(parts) if parts else np.empty(0, bool)


def _gap_words(column: Column) -> set[str]:
    """Words that stand for a missing value of a column of levels, unless they are levels."""
    return {*GAP_WORDS, *column.gaps, *(level_text(word) for word in gap_numbers(column.gaps))} - set(column.levels)


def _is_gap(value: Any, gaps: set[str]) -> bool:
    return value is None or (isinstance(value, float) and value != value) or level_text(value) in gaps


def decode(schema: Schema, x: np.ndarray) -> Any:
    """An Arrow table of typed columns from rows of numbers: the inverse of `encode`, rounded to what a column holds.

    Args:
        schema: What the columns are.
        x: Rows in their own units; NaN becomes missing.

    Example:
        >>> schema = Schema((Column("b", "binary", "", form="truth"), Column("n", "count", "", form="whole")))
        >>> decode(schema, np.array([[1.0, 3.0], [0.0, np.nan]])).to_pylist()
        [{'b': True, 'n': 3}, {'b': False, 'n': None}]
    """
    import pyarrow as pa

    columns = {column.name: _decoded(column, np.asarray(x[:, place], np.float64)) for column, place in schema.slices()}
    return pa.table(columns)


def _decoded(column: Column, x: np.ndarray) -> Any:
    import pyarrow as pa

    first = x[:, 0]
    gone = np.isnan(first)
    if column.kind == "date":
        days = np.where(gone, 0.0, first) + column.start
        if column.form in UNITS:
            return pa.array(np.rint(days * UNITS[column.form]).astype(np.int64), mask=gone)
        if column.form == "date":
            return pa.array(np.rint(days).astype("int64").astype("datetime64[D]"), pa.date32(), mask=gone)
        return pa.array(np.rint(days * 86_400).astype("int64").astype("datetime64[s]"), mask=gone)
    if column.kind in ("category", "ordinal") or column.levels:
        codes = np.where(gone, 0, np.rint(first)).astype(np.int64).clip(0, len(column.levels) - 1)
        kind = {"whole": float, "number": float}.get(column.form)
        if kind is not None and OTHER not in column.levels:
            return _numbers(column, np.array([float(level) for level in column.levels])[codes], gone)
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32(), mask=gone), pa.array(column.levels)).cast(
            pa.string()
        )
    if column.form == "truth":
        return pa.array(np.where(gone, 0, first) >= 0.5, mask=gone)
    return _numbers(column, first + column.start if column.kind == "circular" else first, gone)


def _numbers(column: Column, x: np.ndarray, gone: np.ndarray) -> Any:
    import pyarrow as pa

    if column.form != "whole":
        return pa.array(np.where(gone, 0.0, x), mask=gone)
    # Half a unit is the least that a positive whole number is drawn as: rounded to 0 it would not be positive.
    least = 1.0 if column.kind == "positive" else -(2.0**62)
    return pa.array(np.where(gone, 0.0, np.rint(x).clip(least, 2.0**62)).astype(np.int64), mask=gone)
