"""Readers of table formats by the ending of a file's name, and labels as text files have them.

Readers of table files, chosen by the ending of the file name; a plugin may register others. A reader is a function of a
path and `ReadOptions` that returns a `Table`:

    @table_reader(".tab")
    def read_tab(path, options):
        names, rows = ...
        chosen = choose(names, options, path)  # finds the label, the ids and the features
        return ArrayTable(..., chosen.features)
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np

from horoball.plugins import TABLE_FORMATS, load_plugins, one_of
from horoball.tables.cell_values import GAP_WORDS
from horoball.tables.limits import check_widths
from horoball.tables.schema import ReadOptions
from horoball.tables.table import Table

ReadTable = Callable[[str, ReadOptions], Table]


class TableReader(NamedTuple):
    """A registered reader."""

    read: ReadTable
    labels: bool  # whether its files may have a column of labels
    ids: bool  # and one of the rows' ids


_readers: dict[str, TableReader] = {}


def table_reader(*endings: str, labels: bool = True, ids: bool = True) -> Callable[[ReadTable], ReadTable]:
    """Register a function as the reader of files with these endings.

    Args:
        endings: Endings in lower case with their dot, such as ".csv". The longest that fits a file name is used, so
            ".counts.csv" may have a reader of its own.
        labels: Whether such files may have a column of labels. If not, `label=` is refused before the file is read.
        ids: The same for a column of ids.

    Example:
        >>> import numpy as np
        >>> from horoball.tables import ArrayTable, read
        >>> @table_reader(".zeros", labels=False, ids=False)
        ... def read_zeros(path, options):
        ...     return ArrayTable(np.zeros((3, 2)))
        >>> find_reader("some.zeros").read("some.zeros", ReadOptions()).rows
        3
    """
    if not endings:
        raise ValueError('A reader needs at least one ending, such as ".csv".')

    def register(read: ReadTable) -> ReadTable:
        for ending in endings:
            if not ending.startswith(".") or ending != ending.lower():
                raise ValueError(f'An ending is a dot and lower-case letters, such as ".csv", got {ending!r}.')
            home = TABLE_FORMATS.get(ending, read.__module__)
            before = _readers[ending].read.__module__ if ending in _readers else home
            if before != read.__module__:
                raise ValueError(f"Files that end in {ending} are read by {before} already. Choose another ending.")
            _readers[ending] = TableReader(read, labels, ids)
        return read

    return register


def known_endings(*, ids: bool = False) -> list[str]:
    """All registered endings, the built-in ones first.

    Args:
        ids: Only those of files that may have a column of ids.

    Example:
        >>> known_endings(ids=True)[:3]
        ['.csv', '.tsv', '.parquet']
    """
    for module in TABLE_FORMATS.values():
        import_module(module)
    endings = [*TABLE_FORMATS, *(ending for ending in _readers if ending not in TABLE_FORMATS)]
    return [ending for ending in endings if _readers[ending].ids or not ids]


def find_reader(path: str) -> TableReader:
    """The reader for a file, by its name. Plugins are imported only if no reader is known without them.

    Example:
        >>> find_reader("rows.cvs")
        Traceback (most recent call last):
        ...
        ValueError: No reader for rows.cvs: its name has to end in .csv, .tsv, .parquet, ... Did you mean .csv?...
    """
    name = PurePath(path).name.lower()
    for load in (lambda: None, load_plugins):
        load()
        ending = max((e for e in (*TABLE_FORMATS, *_readers) if name.endswith(e)), key=len, default=None)
        if ending is not None:
            if ending not in _readers:
                import_module(TABLE_FORMATS[ending])
            return _readers[ending]
    endings = known_endings()
    close = get_close_matches(PurePath(name).suffix, endings, 1, 0.5)
    raise ValueError(
        f"No reader for {path}: its name has to end in {one_of(endings)}."
        f"{f' Did you mean {close[0]}?' if close else ''} Rename the file, or read it yourself and pass an array or a "
        "data frame."
    )


def is_file(path: str) -> bool:
    """Whether a path is a file of this machine, as most are."""
    return "://" not in path and Path(path).is_file()


_WHOLE = r"^-?(0|[1-9][0-9]{0,17})$"  # exact in 64 bits
_NUMBER = r"^-?((0|[1-9][0-9]{0,17})(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2})?$"


def written_labels(column: Any) -> np.ndarray:
    """Labels from the cells of a column of text.

    They are numbers if every cell is one, or is empty or a marker such as NA, and if no two different cells become
    the same number. Codes such as 007, digits that no float holds, and text stay as they are written; NA among text is
    a label like any other.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    there = pc.if_else(pc.is_in(column, pa.array(GAP_WORDS)), None, column)
    for pattern, kind in ((_WHOLE, pa.int64()), (_NUMBER, pa.float64())):
        # `all` of no value is null: a column without a single number stays text.
        if pc.all(pc.match_substring_regex(there, pattern), min_count=1).as_py():
            numbers = there.cast(kind)
            if pc.count_distinct(numbers).as_py() == pc.count_distinct(there).as_py():
                return np.asarray(numbers.to_pylist())
    texts = column.to_pylist()
    check_widths(texts, "The labels")
    return np.asarray(texts)
