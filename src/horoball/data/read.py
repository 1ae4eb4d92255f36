"""Any source of rows as a table: files by their ending, arrays, sparse matrices, data frames, torch datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.data.array_table import ArrayTable
from horoball.data.cells import cell_table, is_cells
from horoball.data.chosen_columns import Asked, choose, with_index
from horoball.data.column_names import some_names
from horoball.data.delimited import read_delimited
from horoball.data.numpy_files import load_arrays
from horoball.data.parquet import ParquetTable
from horoball.data.parsing import parsing
from horoball.data.row_groups import ParquetFiles
from horoball.data.table import Table

__all__ = ["read"]

_ENDINGS = (".csv", ".tsv", ".parquet", ".npy", ".npz", ".h5ad")


def read(
    source: Any,
    label: str | None = None,
    *,
    label_may_miss: bool = False,
    ids: str | None = None,
    ids_may_miss: bool = False,
    columns: Sequence[str] | None = None,
) -> Table:
    """A table from a source.

    - a path or URL: `.csv`, `.tsv`, `.npy`, `.npz` (an array, or a scipy sparse matrix) are read into memory;
      `.parquet`, or a folder of such files, is streamed; `.h5ad`, on this machine, is read by `cell_table`;
    - a numpy array, a torch tensor, a scipy sparse matrix, a pandas or polars data frame;
    - a torch Dataset of rows, or of (row, label) pairs;
    - AnnData, by `cell_table`, whose options say which layer and which batches.

    Args:
        source: Where the rows come from.
        label: Name of a column to keep aside; refused by sources whose columns have no names.
        label_may_miss: Whether a source without that column is taken as it is, and not refused.
        ids: Name of a column of a .csv, .tsv or .parquet file that holds the rows' names. Without it an index of
            pandas, the first column of a .csv file if it has no name, is taken as such.
        ids_may_miss: Whether a source without that column is taken as it is, too.
        columns: Names of the columns to take, in their order, from sources that have names; all of them without it.

    Example:
        >>> read(np.eye(3)).features
        3
    """
    if isinstance(source, Table):
        return source
    if ids is not None and not ids_may_miss and not _may_have_ids(source):
        raise ValueError(f"Only .csv, .tsv and .parquet files have a column of ids such as {ids!r}.")
    asked = Asked(label, label_may_miss, ids, ids_may_miss, columns)
    if is_cells(source):
        name = str(source) if isinstance(source, str | Path) else "The AnnData"
        return _checked(cell_table(source, label=label, label_may_miss=label_may_miss), name)
    if isinstance(source, str | Path):
        # What is beyond float32 becomes infinite, and is refused as such; so is every NaN.
        with parsing(source), np.errstate(over="ignore", invalid="ignore"):
            return _checked(_read_path(str(source), asked), str(source))
    if not hasattr(source, "columns"):
        _refuse_label(f"The {type(source).__name__}", label, label_may_miss)
    if hasattr(source, "tocsr"):
        return _checked(ArrayTable(source), "The sparse matrix")
    if hasattr(source, "columns") and hasattr(source, "to_numpy"):
        return _checked(_read_frame(source, asked), "The data frame")
    if isinstance(source, np.ndarray | Tensor):
        return _checked(ArrayTable(_number_array(source)), "The array")
    if isinstance(source, list | tuple) and not _are_pairs(source):
        return _checked(ArrayTable(_number_array(np.asarray(source))), "The list")
    if hasattr(source, "__getitem__") and hasattr(source, "__len__") and not isinstance(source, Mapping):
        return _checked(_read_dataset(source), "The dataset")
    raise TypeError(
        f"Cannot read rows from {type(source).__name__}. Expected a path, an array, a sparse matrix, a data frame or a "
        "torch Dataset."
    )


def _checked(table: Table, name: str) -> Table:
    """Refuse what no model can be fitted to, before hours are spent on it."""
    if table.rows == 0:
        raise ValueError(f"{name} has no rows.")
    if table.features == 0:
        raise ValueError(f"{name} has no columns of numbers. Expected at least one, beside a label.")
    if isinstance(table, ArrayTable):
        start = 0
        for block in table.blocks():
            bad = ~torch.isfinite(block)
            if bad.any():
                row, column = bad.nonzero()[0].tolist()
                raise ValueError(
                    f"{name} holds a missing or infinite value in row {start + row + 1}, column "
                    f"{table.columns[column][:40]!r}. Fill or drop such rows first."
                )
            start += len(block)
    return table


def _number_array(x: Any) -> Any:
    if isinstance(x, np.ndarray) and x.dtype.kind not in "biuf":
        raise ValueError(f"The array holds {x.dtype}, not numbers. Leave out columns of text.")
    return x


def _may_have_ids(source: Any) -> bool:
    """Whether a source is a file with names of columns, or a folder of them."""
    if not isinstance(source, str | Path):
        return False
    return str(source).lower().endswith((".csv", ".tsv", ".parquet")) or Path(source).is_dir()


def _read_path(path: str, asked: Asked) -> Table:
    folder = Path(path)
    if "://" not in path and not folder.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if folder.is_dir():
        files = sorted(str(file) for file in folder.glob("*.parquet"))
        if not files:
            raise ValueError(f"The folder {path} holds no .parquet files.")
        return _read_parquet(files, asked)
    ending = folder.suffix.lower()
    if ending == ".parquet":
        return _read_parquet([path], asked)
    if ending in (".csv", ".tsv"):
        return read_delimited(path, "\t" if ending == ".tsv" else ",", asked)
    if ending in (".npy", ".npz"):
        _refuse_label(path, asked.label, asked.label_may_miss)
        return _read_numpy(path)
    raise ValueError(f"Cannot tell what {path} is from its ending. Known endings: {', '.join(_ENDINGS)}.")


def _refuse_label(name: str, label: str | None, may_miss: bool) -> None:
    """A label that is not found would be trained on."""
    if label is not None and not may_miss:
        raise ValueError(
            f"{name} has no column names, so it has no label {label!r}. Leave the label out (--label) and its column "
            "too, or use a .csv or .parquet file with names."
        )


def _read_parquet(files: list[str], asked: Asked) -> ParquetTable:
    names = list(ParquetFiles(files).open(0).schema_arrow.names)
    chosen = choose(names, with_index(asked, names, files[0]), files[0])
    table = ParquetTable(files, chosen.label, chosen.ids, None if asked.columns is None else chosen.features)
    table.name_column = chosen.name_column
    return table


def _read_numpy(path: str) -> Table:
    import fsspec

    with fsspec.open(path, "rb") as file:
        loaded = load_arrays(file)
    if not isinstance(loaded, dict):
        return ArrayTable(_number_array(loaded))
    if len(loaded) == 1:
        return ArrayTable(_number_array(*loaded.values()))
    raise ValueError(f"{path} holds {len(loaded)} arrays, expected one: {some_names(list(loaded))}. Save one a file.")


def _read_frame(frame: Any, asked: Asked) -> Table:
    by_name = {str(column): column for column in frame.columns}
    columns, label, ids, name_column = choose([str(column) for column in frame.columns], asked, "The data frame")
    labels = None if label is None else np.asarray(frame[by_name[label]].to_numpy())
    arrays = [np.asarray(frame[by_name[name]].to_numpy()) for name in columns]
    for name, array in zip(columns, arrays, strict=True):
        if array.dtype.kind not in "biuf":
            raise ValueError(
                f"Column {name!r} of the data frame holds {array.dtype}, not numbers. Name it as the label, or drop it."
            )
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
    x = (
        torch.stack([torch.as_tensor(item[0] if pairs else item).flatten() for item in items])
        if items
        else torch.empty(0, 0)
    )
    return ArrayTable(x, labels=np.asarray([item[1] for item in items]) if pairs and len(items[0]) > 1 else None)
