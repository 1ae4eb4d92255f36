"""Tables as people have them: columns of several kinds, with gaps. What each column is taken for is told with a reason.

Columns are judged by their values, wherever these come from. A table of complete numbers of one kind is the table that
`read_numbers` gives, and gives the same model.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from horoball.tables.delimited import line_of, refuse_numbers
from horoball.tables.encoding import Unseen, encode
from horoball.tables.formats import is_file
from horoball.tables.frames import ending_of, frame_of, gives_arrow, labels_of, numbers_of
from horoball.tables.guess import SAYS_NOTHING, guess_schema
from horoball.tables.limits import parsing
from horoball.tables.numbers import tell_names
from horoball.tables.parquet import MixedParquetTable, is_parquet, profile_parquet
from horoball.tables.parquet_files import check_single
from horoball.tables.profile import MOSTLY_COUNTED, Profile, profile_batches
from horoball.tables.schema import Chosen, Column, ReadOptions, Schema, choose, closest, some_names, with_index
from horoball.tables.table import ArrayTable, Table
from horoball.tables.uniform import read_numbers

_HEADED = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".zip", ".xlsx")  # whose first line has the names
_WIDE = 4096  # columns of a source beyond which all are taken for numbers, as those of pictures and genes are
_FIRST_ROWS = 4096  # of an array, that are looked through first
_SPAN = 4.0  # times the largest number of most columns that one of the same unit has


class UnseenValueWarning(UserWarning):
    """Rows hold categories that the model has not seen; they are taken as missing."""


def read_columns(
    source: Any, options: ReadOptions, kinds: Mapping[str, str], drop: Sequence[str] = (), *, apart: bool = False
) -> Table:
    """A table to fit a model to, with the kind of each column guessed or given; see `horoball.tables.read`.

    Args:
        source: Any source of rows but AnnData.
        options: Which columns are meant, and which words stand for a missing value.
        kinds: Kinds of some columns by name.
        drop: Names of columns to leave out.
        apart: Whether each column has a likelihood of its own, even where all are complete numbers of one kind.

    Returns:
        A table whose `schema` says what the columns are and why; None if they are complete numbers of one kind.
    """
    if not _has_names(source):
        return _read_array(source, options, kinds, drop, apart=apart)
    path = str(source) if isinstance(source, str | Path) else None
    where = path or f"The {type(source).__name__}"
    if path is not None and is_parquet(path):
        return _read_parquet(path, options, kinds, drop, apart=apart)
    with nullcontext() if path is None else parsing(path):
        frame = frame_of(source, [name for name in (options.label, options.ids) if name is not None], options.na)
    names = list(frame.column_names)
    if len(names) > _WIDE and not kinds and not apart:
        return read_numbers(source, options._replace(drop=drop))
    chosen = choose_columns(names, options, kinds, drop, where)
    frame = frame.select(list(dict.fromkeys([*chosen.features, *_aside(chosen)])))
    if frame.num_rows == 0:
        raise ValueError(f"{where} has no rows.")
    features = frame.select(chosen.features)
    profiles = profile_batches(features.schema, features.to_batches(), where, options.na)
    # Where columns are named there is a header.
    if path is not None and not (kinds or drop or _aside(chosen) or options.columns):
        _check_header(profiles, path)
    schema = guess_schema(profiles, kinds, where, gaps=options.na, place=_places(path))
    uniform = schema_if_uniform(schema, profiles, given=bool(kinds) or apart)
    _tell_rounded(profiles, schema, told=uniform is not None)
    if uniform is None:
        return _table(frame, _usable(schema, where), chosen)
    whole = not drop and not uniform.skipped and options.columns is None
    options = options._replace(columns=None if whole else uniform.names)
    table = numbers_of(frame, options, where) if path is None else read_numbers(source, options)
    table.schema = None if whole else uniform
    return table


def _read_array(
    source: Any, options: ReadOptions, kinds: Mapping[str, str], drop: Sequence[str], *, apart: bool
) -> Table:
    """A source whose columns have no names: an array, in memory or in a file, a dataset, a sparse matrix."""
    if drop or (kinds and not isinstance(source, np.ndarray)):
        raise ValueError("Kinds of columns and columns to drop are for tables whose columns have names.")
    held = read_numbers(source, options, gaps=True)
    x = source if isinstance(source, np.ndarray) else _dense(held)
    gaps = x is not None and x.dtype.kind == "f" and bool(np.isnan(x).any())
    if x is None or (held.features > _WIDE and not gaps) or not (kinds or apart or gaps or _some_whole(x)):
        return held
    where = str(source) if isinstance(source, str | Path) else f"The {type(source).__name__}"
    frame = frame_of(x, (), options.na)
    profiles = profile_batches(frame.schema, frame.to_batches(), where, options.na)
    schema = guess_schema(profiles, kinds, where, gaps=options.na)
    uniform = schema_if_uniform(schema, profiles, given=bool(kinds) or apart)
    if (uniform is not None and not uniform.skipped) or held.rows == 0 or _same_rows(profiles):
        return held
    if uniform is not None:
        table: Table = numbers_of(frame, ReadOptions(columns=uniform.names), where)
        table.schema = uniform
    else:
        _tell_rounded(profiles, schema, told=False)
        table = _table(frame, _usable(schema, where), Chosen(list(frame.column_names), None, None, "row"))
    table.labels = held.labels
    return table


def _same_rows(profiles: Sequence[Profile]) -> bool:
    """Whether all rows are the same, which a fit refuses in its own words."""
    return all(profile.distinct == 1 and not profile.missing for profile in profiles)


def _dense(table: Table) -> np.ndarray | None:
    """The numbers of a table in memory; None if they are sparse, or not all there."""
    if not isinstance(table, ArrayTable) or table.is_sparse or table.covariates is not None:
        return None
    return np.asarray(table.matrix())


def _some_whole(x: np.ndarray) -> bool:
    """Whether a column holds whole numbers alone, so that it may be of a kind of its own."""
    if x.dtype.kind != "f":
        return True
    among = np.flatnonzero((x[:_FIRST_ROWS] == np.rint(x[:_FIRST_ROWS])).all(0))
    return any(bool((x[:, column] == np.rint(x[:, column])).all()) for column in among)


def read_fitted(source: Any, schema: Schema, options: ReadOptions) -> Table:
    """A table for a model that was fitted to columns of several kinds; they are found by name, in any order.

    Args:
        source: As `read_columns` takes it; an array has the columns of the fit, in their order.
        schema: What the columns are, from the fit.
        options: Which columns are aside, and words that stand for a missing value, beside those of the fit.
    """
    if isinstance(source, Table):
        return source
    names, schema = [column.name for column in schema.used], schema.with_gaps(options.na)
    options = options._replace(columns=names)
    path = str(source) if isinstance(source, str | Path) else None
    where = path or f"The {type(source).__name__}"
    named = _has_names(source)
    if path is not None and is_parquet(path):
        parquet = MixedParquetTable(path, schema, options)
        table = parquet.held()
        _tell(parquet.unseen)
        return table
    held = None if named else read_numbers(source, ReadOptions(na=options.na), gaps=True)
    x = source if isinstance(source, np.ndarray) or held is None else _dense(held)
    if x is None:
        raise ValueError(f"{where} has no named columns, but the model was fitted to columns of several kinds.")
    with nullcontext() if path is None else parsing(path):
        frame = frame_of(x, [name for name in (options.label, options.ids) if name is not None], options.na)
    if not named:
        frame = _named(frame, schema, where)
    found = list(frame.column_names)
    chosen = choose(found, with_index(options, found, where), where)
    if frame.num_rows == 0:
        raise ValueError(f"{where} has no rows.")
    return _table(frame, schema, chosen)


def choose_columns(
    names: list[str], options: ReadOptions, kinds: Mapping[str, str], drop: Sequence[str], where: str
) -> Chosen:
    """The columns that are meant, without those to drop; a misspelt name is refused with the closest one."""
    for name in kinds:
        if name not in names:
            raise ValueError(f"{where} has no column {name[:40]!r}.{closest(name, names)}")
    return choose(names, with_index(options._replace(drop=drop), names, where), where)


def schema_if_uniform(schema: Schema, profiles: Sequence[Profile], *, given: bool) -> Schema | None:
    """The same, marked as uniform, if all columns that are used are complete numbers of one kind; None if not."""
    profile_of = {profile.name: profile for profile in profiles}
    used = {column.name: column.kind for column in schema.used}
    mine = [profile_of[name] for name in used]
    if given or not mine or not all(profile.is_number and not profile.missing for profile in mine):
        return None
    kinds = set(used.values())
    counts = all(profile.whole and profile.low >= 0 for profile in mine)
    numbers = kinds <= {"real", "positive"} or (counts and kinds <= {"real", "positive", "count"})
    truths = kinds == {"binary"} and all(column.levels == ("0", "1") for column in schema.used)
    if not (numbers or truths or (counts and _one_unit(mine, used))):
        return None
    # A column that is the same in every row, or as another, is one of many that are alike: it keeps its place.
    columns = [
        Column(column.name, "real", "numbers as in the other columns") if _is_alike(column, profile_of) else column
        for column in schema.columns
    ]
    return Schema(tuple(columns), uniform=True)


def _one_unit(profiles: Sequence[Profile], kinds: Mapping[str, str]) -> bool:
    """Whether columns of whole numbers, such as pixels and genes, are alike, though a few have few values.

    That is so if most of them are plain numbers or counts, and the largest number of all is near that of most columns.
    """
    plain = [profile.high for profile in profiles if kinds[profile.name] in ("real", "positive", "count")]
    if len(plain) < MOSTLY_COUNTED * len(profiles):
        return False
    return max(profile.high for profile in profiles) <= _SPAN * float(np.median(plain))


def _is_alike(column: Column, profiles: Mapping[str, Profile]) -> bool:
    """Whether a column was left out only because it tells nothing of its own."""
    profile = profiles[column.name]
    return (
        column.kind == "skip" and profile.is_number and not profile.missing and column.reason.startswith(SAYS_NOTHING)
    )


def _has_names(source: Any) -> bool:
    """Whether a source has columns with names, of any type; others hold numbers alone."""
    if isinstance(source, str | Path):
        path = str(source)
        if is_file(path):
            return ending_of(path) is not None
        from horoball.tables.listing import is_folder, is_there

        if not is_there(path):
            raise FileNotFoundError(f"There is no file {path}.")
        return ending_of(path) is not None or is_folder(path)
    return gives_arrow(source) or type(source).__module__.startswith("pandas.")


def _read_parquet(
    path: str, options: ReadOptions, kinds: Mapping[str, str], drop: Sequence[str], *, apart: bool
) -> Table:
    """A table in Parquet files; one pass over them tells what the columns are, without holding them."""
    with parsing(path):
        names, profiles = profile_parquet(
            path, lambda names: choose_columns(names, options, kinds, drop, path).features, options.na
        )
    schema = guess_schema(profiles, kinds, path, gaps=options.na)
    uniform = schema_if_uniform(schema, profiles, given=bool(kinds) or apart)
    if uniform is None:
        _tell_rounded(profiles, schema, told=False)
        return MixedParquetTable(path, _usable(schema, path), options).held()
    whole = len(uniform.names) == len(names) - len([name for name in (options.label, options.ids) if name in names])
    table = read_numbers(path, options._replace(columns=None if whole else uniform.names))
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


def _named(frame: Any, schema: Schema, where: str) -> Any:
    """An array's columns under the names of the fit: of all columns, or of those that were used."""
    for columns in (schema.columns, tuple(schema.used)):
        if frame.num_columns == len(columns):
            return frame.rename_columns([column.name for column in columns])
    raise ValueError(f"{where} has {frame.num_columns} columns; the model was fitted to {len(schema.columns)}.")
