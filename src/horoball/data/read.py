"""Any source of rows as a table: files by their ending, arrays, sparse matrices, data frames, torch datasets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.data.array_table import ArrayTable
from horoball.data.cells import cell_table, is_cells
from horoball.data.column_names import some_names
from horoball.data.numpy_files import load_arrays
from horoball.data.parquet import ParquetTable
from horoball.data.parsing import parsing
from horoball.data.rounding import tell_rounded
from horoball.data.row_groups import ParquetFiles
from horoball.data.table import Table

__all__ = ["read"]

_ENDINGS = (".csv", ".tsv", ".parquet", ".npy", ".npz", ".h5ad")


def read(source: Any, label: str | None = None, *, label_may_miss: bool = False, ids: str | None = None) -> Table:
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
        ids: Name of a column of a .csv, .tsv or .parquet file that holds the rows' names.

    Example:
        >>> read(np.eye(3)).features
        3
    """
    if isinstance(source, Table):
        return source
    if ids is not None and not str(source).lower().endswith((".csv", ".tsv", ".parquet")) and not _is_folder(source):
        raise ValueError(f"Only .csv, .tsv and .parquet files have a column of ids such as {ids!r}.")
    if is_cells(source):
        name = str(source) if isinstance(source, str | Path) else "The AnnData"
        return _checked(cell_table(source, label=label, label_may_miss=label_may_miss), name)
    if isinstance(source, str | Path):
        # What is beyond float32 becomes infinite, and is refused as such; so is every NaN.
        with parsing(source), np.errstate(over="ignore", invalid="ignore"):
            return _checked(_read_path(str(source), label, label_may_miss, ids), str(source))
    if not hasattr(source, "columns"):
        _refuse_label(f"The {type(source).__name__}", label, label_may_miss)
    if hasattr(source, "tocsr"):
        return _checked(ArrayTable(source), "The sparse matrix")
    if hasattr(source, "columns") and hasattr(source, "to_numpy"):
        return _checked(_read_frame(source, label, label_may_miss), "The data frame")
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


def _is_folder(source: Any) -> bool:
    return isinstance(source, str | Path) and Path(source).is_dir()


def _read_path(path: str, label: str | None, may_miss: bool, ids: str | None) -> Table:
    folder = Path(path)
    if "://" not in path and not folder.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if folder.is_dir():
        files = sorted(str(file) for file in folder.glob("*.parquet"))
        if not files:
            raise ValueError(f"The folder {path} holds no .parquet files.")
        return _read_parquet(files, label, may_miss, ids)
    ending = folder.suffix.lower()
    if ending == ".parquet":
        return _read_parquet([path], label, may_miss, ids)
    if ending in (".csv", ".tsv"):
        return _read_csv(path, "\t" if ending == ".tsv" else ",", label, may_miss, ids)
    if ending in (".npy", ".npz"):
        _refuse_label(path, label, may_miss)
        return _read_numpy(path)
    raise ValueError(f"Cannot tell what {path} is from its ending. Known endings: {', '.join(_ENDINGS)}.")


def _refuse_label(name: str, label: str | None, may_miss: bool) -> None:
    """A label that is not found would be trained on."""
    if label is not None and not may_miss:
        raise ValueError(
            f"{name} has no column names, so it has no label {label!r}. Leave the label out (--label) and its column "
            "too, or use a .csv or .parquet file with names."
        )


def _read_parquet(files: list[str], label: str | None, may_miss: bool, ids: str | None) -> ParquetTable:
    if label is not None and may_miss and label not in ParquetFiles(files).open(0).schema_arrow.names:
        label = None
    return ParquetTable(files, label, ids)


def _read_numpy(path: str) -> Table:
    import fsspec

    with fsspec.open(path, "rb") as file:
        loaded = load_arrays(file)
    if not isinstance(loaded, dict):
        return ArrayTable(_number_array(loaded))
    if len(loaded) == 1:
        return ArrayTable(_number_array(*loaded.values()))
    raise ValueError(f"{path} holds {len(loaded)} arrays, expected one: {some_names(list(loaded))}. Save one a file.")


def _read_csv(path: str, delimiter: str, label: str | None, may_miss: bool, ids: str | None) -> Table:
    import fsspec
    import pyarrow as pa
    import pyarrow.csv

    try:
        with fsspec.open(path, "rb") as file:
            frame = pa.csv.read_csv(
                file,
                parse_options=pa.csv.ParseOptions(delimiter=delimiter),
                read_options=pa.csv.ReadOptions(block_size=1 << 24),
            )
    except pa.ArrowInvalid as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"{path} is not a table: {first} Expected one header line and one row a line.") from None
    names = frame.column_names
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{path} has columns of the same name: {some_names(twice)}. Rename them.")
    if label is not None and label not in names:
        if not may_miss:
            raise ValueError(f"{path} has no column {label!r}. Its columns are: {some_names(names)}.")
        label = None
    if ids is not None and ids not in names:
        raise ValueError(f"{path} has no column {ids!r}. Its columns are: {some_names(names)}.")
    if frame.num_rows == 0:
        raise ValueError(f"{path} has no rows.")
    columns = [name for name in names if name not in (label, ids)]
    x = np.empty((frame.num_rows, len(columns)), np.float32)
    for position, name in enumerate(columns):
        column = frame.column(name)
        if column.null_count:
            row = column.is_null().to_pylist().index(True) + 2
            raise ValueError(f"{path} has a missing value in column {name[:40]!r}, line {row}. Fill or drop such rows.")
        if not any(test(column.type) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)):
            raise ValueError(_about_text(path, name[:40], column))
        values = column.to_numpy()
        tell_rounded(values[:, None], [name])
        x[:, position] = values
    labels = None if label is None else np.asarray(frame.column(label).to_pylist())
    table = ArrayTable(x, columns, labels)
    if ids is not None:
        table.names, table.name_column = frame.column(ids).to_pylist(), ids
    return table


def _about_text(path: str, name: str, column: Any) -> str:
    for line, value in enumerate(column.to_pylist(), start=2):
        try:
            float(value)
        except (TypeError, ValueError):
            shown = repr(str(value)[:40])
            return (
                f"{path} has the text {shown} in column {name!r}, line {line}, where numbers are expected. "
                f"Pass it as the label (--label), or drop the column."
            )
    return f"Column {name!r} of {path} holds {column.type}, not numbers. Pass it as the label (--label), or drop it."


def _read_frame(frame: Any, label: str | None, may_miss: bool) -> Table:
    names = [str(name) for name in frame.columns]
    if label is not None and label not in names:
        if not may_miss:
            raise ValueError(f"The data frame has no column {label!r}. Its columns are: {some_names(names)}.")
        label = None
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"The data frame has columns of the same name: {some_names(twice)}. Rename them.")
    labels = None if label is None else np.asarray(frame[list(frame.columns)[names.index(label)]].to_numpy())
    columns = [name for name in names if name != label]
    kept = [column for column, name in zip(frame.columns, names, strict=True) if name != label]
    arrays = [np.asarray(frame[column].to_numpy()) for column in kept]
    for name, array in zip(columns, arrays, strict=True):
        if array.dtype.kind not in "biuf":
            raise ValueError(
                f"Column {name!r} of the data frame holds {array.dtype}, not numbers. Name it as the label, or drop it."
            )
    return ArrayTable(np.stack(arrays, 1) if arrays else np.empty((len(frame), 0)), columns, labels)


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
