"""Tables of numbers of one kind: files by their ending, arrays, sparse matrices, data frames, torch datasets.

Text and gaps are refused by their place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.plugins import one_of
from horoball.tables.anndata import is_cells, read_cells
from horoball.tables.cell_values import gap_numbers
from horoball.tables.formats import find_reader, is_file, known_endings
from horoball.tables.frames import frame_of, gives_arrow, numbers_of
from horoball.tables.limits import parsing
from horoball.tables.numbers import advice_for, check_finite, check_numbers
from horoball.tables.schema import ReadOptions, choose
from horoball.tables.table import ArrayTable, Table


def read_numbers(source: Any, options: ReadOptions = ReadOptions(), *, gaps: bool = False) -> Table:  # noqa: B008
    """A table of numbers; see `horoball.tables.read`, which describes the sources and the options.

    Args:
        source: Any source of rows.
        options: Which columns are meant.
        gaps: Whether missing values (NaN) of sources without named columns are kept, and not refused.
    """
    if isinstance(source, Table):
        return source
    table = _read(source, options, gaps=gaps)
    _refuse_gaps(table, gap_numbers(options.na), str(source) if isinstance(source, str | Path) else "The table")
    return table


def _read(source: Any, options: ReadOptions, *, gaps: bool = False) -> Table:
    streamed = options.streamed
    if isinstance(source, str | Path):
        # What is beyond float32 becomes infinite, and is refused as such; so is every NaN.
        with parsing(source), np.errstate(over="ignore", invalid="ignore"):
            return _checked(_read_path(str(source), options), str(source), gaps=gaps)
    if not gives_arrow(source):
        _refuse_ids(options)
    if streamed is True:
        raise ValueError(f"Only files are streamed, not {type(source).__name__}. Write a .parquet file first.")
    if is_cells(source):
        return _checked(read_cells(source, options), "The AnnData")
    if not hasattr(source, "columns") and not gives_arrow(source):
        _refuse_label(f"The {type(source).__name__}", options)
    if hasattr(source, "tocsr"):
        return _checked(ArrayTable(_number_array(source, "The sparse matrix")), "The sparse matrix", gaps=gaps)
    if hasattr(source, "columns") and hasattr(source, "to_numpy"):
        return _checked(_read_frame(source, options), "The data frame")
    if gives_arrow(source):
        return _checked(numbers_of(frame_of(source), options, "The table"), "The table")
    if isinstance(source, np.ndarray | Tensor):
        return _checked(ArrayTable(_number_array(source, "The array")), "The array", gaps=gaps)
    if isinstance(source, list | tuple) and not _are_pairs(source):
        return _checked(ArrayTable(_number_array(np.asarray(source), "The list")), "The list", gaps=gaps)
    if hasattr(source, "__getitem__") and hasattr(source, "__len__") and not isinstance(source, Mapping):
        return _checked(_read_dataset(source), "The dataset", gaps=gaps)
    raise TypeError(
        f"Cannot read rows from {type(source).__name__}. Expected a path, an array, a sparse matrix, a data frame or a "
        "torch Dataset."
    )


def _refuse_gaps(table: Table, sentinels: Sequence[float], name: str) -> None:
    """Refuse numbers that stand for a missing value, such as -999."""
    first = 0
    for block in table.blocks() if sentinels else ():
        found = torch.isin(block[:, : table.features], torch.tensor(sentinels)).nonzero()
        if len(found):
            row, column = found[0].tolist()
            raise ValueError(
                f"{name} holds {block[row, column]:g}, which stands for a missing value, in row {first + row}, column "
                f"{table.columns[column][:40]!r}. Fill or drop such rows."
            )
        first += len(block)


def _checked(table: Table, name: str, *, gaps: bool = False) -> Table:
    """Refuse what no model can be fitted to, before hours are spent on it."""
    if table.rows == 0:
        raise ValueError(f"{name} has no rows.")
    if table.features == 0:
        raise ValueError(f"{name} has no columns of numbers. Expected at least one, beside a label.")
    if isinstance(table, ArrayTable):
        start = 0
        for block in table.blocks():
            check_finite(torch.where(block.isnan(), 0.0, block) if gaps else block, start, table.columns, name)
            start += len(block)
    return table


def _read_path(path: str, options: ReadOptions) -> Table:
    folder = False
    if not is_file(path):
        from horoball.tables.listing import is_folder, is_there

        folder = is_folder(path)
        if not is_there(path):
            raise FileNotFoundError(f"There is no file {path}.")
    reader = find_reader(".parquet" if folder else path)
    if not reader.labels:
        _refuse_label(path, options)
    if not reader.ids:
        _refuse_ids(options)
    if options.streamed is True and not folder and not path.lower().endswith(".parquet"):
        raise ValueError(f"Only .parquet files can be streamed with streamed=True, not {path}. Write it as one.")
    return reader.read(path, options)


def _number_array(x: Any, name: str) -> Any:
    check_numbers(x, name)
    return x


def _refuse_ids(options: ReadOptions) -> None:
    if options.ids is not None and not options.ids_may_miss:
        raise ValueError(
            f"Only {one_of(known_endings(ids=True))} files have a column of ids such as {options.ids!r}. Leave it out."
        )


def _refuse_label(name: str, options: ReadOptions) -> None:
    """A label that is not found would be trained on."""
    if options.label is not None and not options.label_may_miss:
        raise ValueError(
            f"{name} has no column names, so it has no label {options.label!r}. Leave the label out (--label) and its "
            "column too, or use a .csv or .parquet file with names."
        )


def _read_frame(frame: Any, options: ReadOptions) -> Table:
    by_name = {str(column): column for column in frame.columns}
    columns, label, ids, name_column = choose([str(column) for column in frame.columns], options, "The data frame")
    labels = None if label is None else np.asarray(frame[by_name[label]].to_numpy())
    arrays = [np.asarray(frame[by_name[name]].to_numpy()) for name in columns]
    for name, array in zip(columns, arrays, strict=True):
        if array.dtype.kind not in "biuf":
            advice = advice_for(array, "Name it as the label, or drop it.")
            raise ValueError(f"Column {name[:40]!r} of the data frame holds {array.dtype}, not numbers. {advice}")
    table = ArrayTable(np.stack(arrays, 1) if arrays else np.empty((len(frame), 0)), columns, labels)
    if ids is not None:
        table.names, table.name_column = list(frame[by_name[ids]].to_numpy()), name_column
    return table


def _are_pairs(items: Any) -> bool:
    """Whether items are (row, label): tuples or lists that begin with a vector."""
    first = items[0] if len(items) else None
    return isinstance(first, tuple | list) and len(first) > 0 and getattr(first[0], "ndim", 0) >= 1


def _read_dataset(dataset: Any) -> Table:
    items = [dataset[i] for i in range(len(dataset))]
    pairs = _are_pairs(items)
    x = torch.stack([_row(item[0] if pairs else item) for item in items]) if items else torch.empty(0, 0)
    return ArrayTable(x, labels=np.asarray([item[1] for item in items]) if pairs and len(items[0]) > 1 else None)


def _row(item: Any) -> Tensor:
    check_numbers(item, "The dataset")
    return torch.as_tensor(item).flatten()
