"""One schema for the Parquet files of a folder: what a column is in all of them, or which of them disagree."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

__all__ = ["check_single", "common_schema", "is_number_type", "shown_type"]

_LONGEST = 60  # characters of the name of a type


def common_schema(schemas: Sequence[Any], paths: Sequence[str], chosen: Collection[str] | None = None) -> Any:
    """The Arrow schema that all files can be read by.

    Whole numbers, other numbers and decimals are numbers, text is text whether it is kept as a dictionary or not, dates
    and times are times, and a column without values in one file is what it is in the others. Other columns must be
    alike: a column of truth values in one file and of counts in another would lose its counts.

    Args:
        schemas: Arrow schemas of the files.
        paths: Their names, for messages.
        chosen: Columns that are asked for; others may differ. All if not given.

    Example:
        >>> import pyarrow as pa
        >>> files = [pa.schema({"a": kind}) for kind in (pa.null(), pa.int64(), pa.float32())]
        >>> common_schema(files, ["0", "1", "2"]).field("a").type
        DataType(double)
    """
    import pyarrow as pa

    fields, source = list(schemas[0]), [0] * len(schemas[0])  # `source`: the file that a column's type comes from
    for number, schema in enumerate(schemas[1:], 1):
        if schema.names != schemas[0].names:
            raise ValueError(_about_names(schemas[0].names, schema.names, paths[0], paths[number]))
        for place, other in enumerate(schema):
            mine = fields[place]
            if mine.type == other.type or (chosen is not None and mine.name not in chosen):
                continue
            kind = _common(mine.type, other.type)
            if kind is None:
                raise ValueError(
                    f"Column {mine.name[:40]!r} holds {shown_type(mine.type)} in {paths[source[place]]} and "
                    f"{shown_type(other.type)} in {paths[number]}. Write it with one type in all files."
                )
            if kind != mine.type:
                fields[place], source[place] = mine.with_type(kind), number
    return pa.schema(fields)


def is_number_type(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers.

    Example:
        >>> import pyarrow as pa
        >>> is_number_type(pa.decimal128(9, 2)), is_number_type(pa.bool_())
        (True, False)
    """
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def check_single(fields: Iterable[Any], where: str) -> None:
    """Refuse columns of lists and records, which are no labels and no names of rows.

    Example:
        >>> import pyarrow as pa
        >>> check_single([pa.field("a", pa.list_(pa.int8()))], "The table")
        Traceback (most recent call last):
        ...
        ValueError: The table: column 'a' holds list<item: int8>, no single values. Leave it out.
    """
    import pyarrow as pa

    for field in fields:
        if pa.types.is_nested(field.type):
            kind = shown_type(field.type)
            raise ValueError(f"{where}: column {field.name[:40]!r} holds {kind}, no single values. Leave it out.")


def shown_type(kind: Any) -> str:
    """An Arrow type in a message: records are named by all they hold, which may be thousands of lines.

    Example:
        >>> import pyarrow as pa
        >>> shown_type(pa.struct({f"a{i}": pa.int8() for i in range(100)}))
        'struct<a0: int8, a1: int8, a2: int8, a3: int8, a4: int8, a5:…'
    """
    text = str(kind)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _common(one: Any, other: Any) -> Any:
    """A type that holds the values of both; None if there is none."""
    import pyarrow as pa

    if pa.types.is_null(one) or pa.types.is_null(other):
        return other if pa.types.is_null(one) else one
    one, other = (kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (one, other))
    if one == other:  # one of them a dictionary, or two with codes of other widths
        return one
    if is_number_type(one) and is_number_type(other):
        whole = [pa.types.is_signed_integer(kind) or kind.bit_width < 64 for kind in (one, other)]
        both = pa.types.is_integer(one) and pa.types.is_integer(other) and all(whole)
        return pa.int64() if both else pa.float64()
    if _is_text(one) and _is_text(other):
        return pa.large_string()
    if _is_day(one) and _is_day(other) and getattr(one, "tz", None) == getattr(other, "tz", None):
        return pa.timestamp("us", getattr(one, "tz", None))
    return None


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_day(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _about_names(mine: Sequence[str], other: Sequence[str], path: str, others: str) -> str:
    """How the columns of two files differ."""
    missing = [name for name in mine if name not in set(other)]
    new = [name for name in other if name not in set(mine)]
    how = "has the same columns in another order"
    if missing or new:
        how = f"has no column {missing[0][:40]!r}" if missing else f"has a column {new[0][:40]!r} more"
    return f"{others} has other columns than {path}: it {how}. All files need the same columns."
