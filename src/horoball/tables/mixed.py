"""Tables as people have them: columns of several kinds, with gaps. What each column is taken for is told with a reason.

A table of complete numbers of one kind is the table that `read` gives, and gives the same model.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from horoball.tables.anndata import is_cells
from horoball.tables.cell_values import gap_words
from horoball.tables.delimited import line_of, refuse_numbers
from horoball.tables.encoding import Unseen, encode
from horoball.tables.frames import ending_of, frame_of, gives_arrow, labels_of, numbers_of
from horoball.tables.guess import guess_schema
from horoball.tables.limits import parsing
from horoball.tables.numbers import tell_names
from horoball.tables.parquet import MixedParquetTable, is_parquet, profile_parquet
from horoball.tables.parquet_files import check_single
from horoball.tables.profile import MOSTLY_COUNTED, Profile, looks_counted, profile_batches
from horoball.tables.read import read
from horoball.tables.schema import Chosen, ReadOptions, Schema, choose, closest, some_names, with_index
from horoball.tables.table import ArrayTable, Table

__all__ = ["UnseenValueWarning", "read_columns", "read_fitted"]

_HEADED = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".zip", ".xlsx")  # whose first line has the names
_WIDE = 4096  # columns of a source beyond which all are taken for numbers, as those of pictures and genes are
_log = logging.getLogger("horoball")


class UnseenValueWarning(UserWarning):
    """Rows hold categories that the model has not seen; they are taken as missing.

    Example:
        >>> issubclass(UnseenValueWarning, UserWarning)
        True
    """


def read_columns(
    source: Any,
    label: str | None = None,
    *,
    ids: str | None = None,
    columns: Mapping[str, str] | None = None,
    drop: Sequence[str] = (),
    na: Sequence[str] = (),
) -> Table:
    """A table to fit a model to, with the kind of each column guessed or given.

    Args:
        source: A path or URL of a .csv, .tsv, .csv.gz, .zip, .xlsx, .parquet, .feather or .jsonl file; a pandas or
            polars data frame, an Arrow table, a DuckDB relation, an array. Other sources as `read` takes them.
        label: Name of a column to keep aside.
        ids: Name of a column that holds the rows' names.
        columns: Kinds of some columns by name, see `horoball.tables.schema.KINDS`; the others are guessed.
        drop: Names of columns to leave out.
        na: Texts and numbers that stand for a missing value, such as ["unknown", "-999"], beside
            `horoball.tables.cell_values.GAP_WORDS`. The model knows them for rows that come later.

    Returns:
        A table whose `schema` says what the columns are and why; None if they are complete numbers of one kind.

    Example:
        >>> import pyarrow as pa
        >>> table = read_columns(pa.table({"a": [0.5, None, 2.5, 1.0], "b": ["x", "y", "x", "z"]}))
        >>> print(*table.schema.lines(), sep=chr(10))
        a  real      numbers from 0.5 to 2.5; 1 missing
        b  category  text with 3 different values: x, y, z
        >>> next(table.blocks())[1]
        tensor([nan, 1.])
    """
    kinds, na = dict(columns or {}), gap_words(na)
    if not _has_columns(source):
        if kinds or drop:
            raise ValueError("Kinds of columns and columns to drop are for tables whose columns have names.")
        return read(source, label, ids=ids, na=na)
    options = ReadOptions(label, ids=ids, na=na)
    path = str(source) if isinstance(source, str | Path) else None
    where = path or f"The {type(source).__name__}"
    if path is not None and is_parquet(path):
        return _read_parquet(path, options, kinds, drop)
    with parsing(path or where):
        frame = frame_of(source, [name for name in (label, ids) if name is not None], na)
    names = list(frame.column_names)
    if len(names) > _WIDE and not kinds:
        wide = _without(names, drop, label, ids, where) if drop else None
        return read(source, label, ids=ids, columns=wide, na=na)
    chosen = choose_columns(names, options, kinds, drop, where)
    frame = frame.select(list(dict.fromkeys([*chosen.features, *_aside(chosen)])))
    if frame.num_rows == 0:
        raise ValueError(f"{where} has no rows.")
    features = frame.select(chosen.features)
    profiles = profile_batches(features.schema, features.to_batches(), where, na)
    if path is not None and not (kinds or drop or _aside(chosen)):  # whose names are there, so that a header is
        _check_header(profiles, path)
    if isinstance(source, np.ndarray):
        kinds = _alike(profiles) | kinds
    schema = guess_schema(profiles, kinds, where, gaps=na, place=_places(path))
    uniform = schema_if_uniform(schema, profiles, given=bool(kinds))
    _tell_rounded(profiles, schema, told=uniform is not None)
    if uniform is not None:
        whole = not drop and not uniform.skipped
        wanted = None if whole else uniform.names
        if path is None:
            table: Table = numbers_of(frame, options._replace(columns=wanted), where)
        else:
            table = read(source, label, ids=ids, columns=wanted, na=na)
        table.schema = None if whole else uniform
        return table
    return _table(frame, _usable(schema, where), chosen)


def read_fitted(
    source: Any,
    schema: Schema,
    label: str | None = None,
    *,
    ids: str | None = None,
    ids_may_miss: bool = True,
    na: Sequence[str] = (),
) -> Table:
    """A table for a model that was fitted to columns of several kinds; they are found by name, in any order.

    Args:
        source: As `read_columns` takes it; an array has the columns of the fit, in their order.
        schema: What the columns are, from the fit.
        label: Name of a column to keep aside, if it is there.
        ids: Name of a column that holds the rows' names.
        ids_may_miss: Whether a source without that column is taken as it is.
        na: Words that stand for a missing value, beside those of the fit.

    Example:
        >>> import pyarrow as pa
        >>> fitted = read_columns(pa.table({"a": [0.5, None, 2.5], "b": ["x", "y", "x"]})).schema
        >>> next(read_fitted(pa.table({"c": [0], "b": ["y"], "a": [None]}), fitted).blocks())
        tensor([[nan, 1.]])
    """
    if isinstance(source, Table):
        return source
    na = gap_words(na)
    names, schema = [column.name for column in schema.used], schema.with_gaps(na)
    options = ReadOptions(label, label_may_miss=True, ids=ids, ids_may_miss=ids_may_miss, columns=names, na=na)
    path = str(source) if isinstance(source, str | Path) else None
    if path is not None and "://" not in path and not Path(path).exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if path is not None and is_parquet(path):
        parquet = MixedParquetTable(path, schema, options)
        table = parquet.held()
        _tell(parquet.unseen)
        return table
    where = path or f"The {type(source).__name__}"
    if not isinstance(source, np.ndarray) and not _has_columns(source):
        raise ValueError(f"{where} has no named columns, but the model was fitted to columns of several kinds.")
    with parsing(path or where):
        frame = frame_of(source, [name for name in (label, ids) if name is not None], na)
    if isinstance(source, np.ndarray):
        frame = _named(frame, schema, where)
    found = list(frame.column_names)
    chosen = choose(found, with_index(options, found, where), where)
    if frame.num_rows == 0:
        raise ValueError(f"{where} has no rows.")
    return _table(frame, schema, chosen)


def choose_columns(
    names: list[str], options: ReadOptions, kinds: Mapping[str, str], drop: Sequence[str], where: str
) -> Chosen:
    """The columns that are meant, without those to drop; a misspelt name is refused with the closest one.

    Example:
        >>> choose_columns(["a", "b"], ReadOptions(), {}, ["b"], "The file").features
        ['a']
    """
    for name in (*drop, *kinds):
        if name not in names:
            raise ValueError(f"{where} has no column {name[:40]!r}.{closest(name, names)}")
    chosen = choose(names, with_index(options, names, where), where)
    return chosen._replace(features=[name for name in chosen.features if name not in drop])


def schema_if_uniform(schema: Schema, profiles: Sequence[Profile], *, given: bool) -> Schema | None:
    """The same, marked as uniform, if all columns that are used are complete numbers of one kind; None if not.

    Example:
        >>> import pyarrow as pa
        >>> from horoball.tables.profile import profile_batches
        >>> table = pa.table({"a": [0.5, 1.5, 2.5]})
        >>> profiles = profile_batches(table.schema, table.to_batches())
        >>> schema_if_uniform(guess_schema(profiles, {}, ""), profiles, given=False).uniform
        True
    """
    used = {column.name: column for column in schema.used}
    mine = [profile for profile in profiles if profile.name in used]
    if given or not mine or not all(profile.is_number and not profile.missing for profile in mine):
        return None
    kinds = {column.kind for column in used.values()}
    counts = all(profile.whole and profile.low >= 0 for profile in mine)
    numbers = kinds <= {"real", "positive"} or (counts and kinds <= {"real", "positive", "count"})
    truths = kinds == {"binary"} and all(column.levels == ("0", "1") for column in used.values())
    return Schema(schema.columns, uniform=True) if numbers or truths else None


def _has_columns(source: Any) -> bool:
    """Whether a source has columns of any type; others hold numbers alone."""
    if isinstance(source, Table) or is_cells(source):
        return False
    if isinstance(source, str | Path):
        path = str(source)
        if "://" not in path and not Path(path).exists():
            raise FileNotFoundError(f"There is no file {path}.")
        return ending_of(path) is not None or ("://" not in path and Path(path).is_dir())
    if isinstance(source, np.ndarray):
        return source.ndim == 2 and source.dtype.kind == "f" and bool(np.isnan(source).any())
    return gives_arrow(source) or type(source).__module__.startswith("pandas.")


def _read_parquet(path: str, options: ReadOptions, kinds: Mapping[str, str], drop: Sequence[str]) -> Table:
    """A table in Parquet files; one pass over them tells what the columns are, without holding them."""
    with parsing(path):
        names, profiles = profile_parquet(
            path, lambda names: choose_columns(names, options, kinds, drop, path).features, options.na
        )
    schema = guess_schema(profiles, kinds, path, gaps=options.na)
    uniform = schema_if_uniform(schema, profiles, given=bool(kinds))
    if uniform is None:
        _tell_rounded(profiles, schema, told=False)
        return MixedParquetTable(path, _usable(schema, path), options).held()
    whole = len(uniform.names) == len(names) - len([name for name in (options.label, options.ids) if name in names])
    table = read(path, options.label, ids=options.ids, columns=None if whole else uniform.names, na=options.na)
    _tell_rounded(profiles, schema, told=isinstance(table, ArrayTable))
    table.schema = None if whole else uniform
    return table


def _tell_rounded(profiles: Sequence[Profile], schema: Schema, *, told: bool) -> None:
    """Warn of columns of numbers that lose digits; of skipped ones alone if the reader has told of the others."""
    kinds = {column.name: column.kind for column in schema.columns if not column.levels}
    reasons = {column.name: column.reason for column in schema.skipped}
    names = []
    for profile in profiles:
        kind = kinds.get(profile.name, "date")
        merged = profile.merged and "2^53" in reasons.get(profile.name, "")
        if merged or (kind not in ("skip", "date") and not told and profile.loses_digits):
            names.append(profile.name)
    tell_names(names)


def _places(path: str | None) -> Callable[[int], str]:
    """How messages call a row: of a text file, by its line too."""
    if path is None or not path.lower().endswith((".csv", ".tsv")):
        return "row {}".format
    return lambda row: f"row {row} (line {line_of(path, row)})"


def _check_header(profiles: Sequence[Profile], path: str) -> None:
    """Refuse a text file or sheet without a header, which would lose its first row.

    That is one where each column of text has one of its own values as its name, and each column of numbers a number;
    of numbers alone, as `refuse_numbers` tells.
    """
    if ending_of(path) not in _HEADED:
        return
    numbers = [profile.numbers or profile for profile in profiles if profile.is_number or profile.numbers is not None]
    texts = [profile for profile in profiles if profile.is_text and profile.numbers is None]
    if any(profile.name not in (profile.counts or ()) for profile in texts):
        return
    try:
        names = np.array([float(profile.name) for profile in numbers])
    except ValueError:
        return
    if texts:
        raise ValueError(
            f"{path} has no header: its first line, {some_names([profile.name for profile in profiles])}, holds values "
            "of its columns. Put a line with the names of the columns first."
        )
    if len(names) and len(numbers) == len(profiles):
        lows, highs = (np.array([getattr(profile, end) for profile in numbers]) for end in ("low", "high"))
        refuse_numbers(
            [profile.name for profile in profiles], names, bool(((names < lows) | (names > highs)).any()), path
        )


def _alike(profiles: Sequence[Profile]) -> dict[str, str]:
    """Kinds of the columns of an array, which are all alike: counts or real numbers. Empty ones are skipped.

    As of an array without gaps, they are counts if they are whole and most columns look counted.
    """
    there = [profile for profile in profiles if profile.observed]
    whole = all(profile.whole and profile.low >= 0 for profile in there)
    counted = [bool(looks_counted(torch.as_tensor(profile.sample).unsqueeze(1)).all()) for profile in there if whole]
    counts = whole and sum(counted) >= MOSTLY_COUNTED * len(there)
    return {profile.name: ("count" if counts else "real") if profile.observed else "skip" for profile in profiles}


def _table(frame: Any, schema: Schema, chosen: Chosen) -> ArrayTable:
    check_single((frame.schema.field(name) for name in _aside(chosen)), "The table")
    unseen = Unseen()
    x = np.ascontiguousarray(encode(schema, frame, unseen))
    _tell(unseen)
    labels = None if chosen.label is None else labels_of(frame.column(chosen.label))
    table = ArrayTable(x, schema.names, labels)
    table.schema = schema
    if chosen.ids is not None:
        table.names, table.name_column = frame.column(chosen.ids), chosen.name_column
    return table


def _usable(schema: Schema, where: str) -> Schema:
    if not schema.used:
        told = "; ".join(" ".join(line.split()) for line in schema.lines()[:5])
        raise ValueError(f"{where} has no column to fit a model to: {told}. Name the kinds of some (--columns).")
    return schema


def _tell(unseen: Unseen) -> None:
    if unseen.count:
        warnings.warn(f"{unseen}.", UnseenValueWarning, stacklevel=4)


def _aside(chosen: Chosen) -> list[str]:
    return [name for name in (chosen.label, chosen.ids) if name is not None]


def _without(names: list[str], drop: Sequence[str], label: str | None, ids: str | None, where: str) -> list[str]:
    return choose_columns(names, ReadOptions(label, ids=ids), {}, drop, where).features


def _named(frame: Any, schema: Schema, where: str) -> Any:
    """An array's columns under the names of the fit: of all columns, or of those that were used."""
    for columns in (schema.columns, tuple(schema.used)):
        if frame.num_columns == len(columns):
            return frame.rename_columns([column.name for column in columns])
    raise ValueError(f"{where} has {frame.num_columns} columns; the model was fitted to {len(schema.columns)}.")
