"""Tables in NumPy files: an array in .npy or .npz, or a scipy sparse matrix in .npz."""

from __future__ import annotations

import numpy as np

from horoball.data.files.numpy_files import load_arrays
from horoball.data.readers.registry import table_reader
from horoball.data.tables.array_table import ArrayTable
from horoball.data.tables.column_names import some_names
from horoball.data.tables.column_roles import ReadOptions
from horoball.data.tables.number_arrays import check_numbers, refuse_beyond

__all__ = ["read_arrays"]


@table_reader(".npy", ".npz", labels=False, ids=False)
def read_arrays(path: str, options: ReadOptions) -> ArrayTable:
    """The table of a NumPy file, which holds one array.

    Args:
        path: Path or URL.
        options: Not used: the columns have no names.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.npy"
        >>> np.save(path, np.eye(3))
        >>> read_arrays(str(path), ReadOptions()).rows
        3
    """
    import fsspec

    with fsspec.open(path, "rb") as file:
        loaded = load_arrays(file)
    if isinstance(loaded, dict):
        if len(loaded) != 1:
            raise ValueError(
                f"{path} holds {len(loaded)} arrays, expected one: {some_names(list(loaded))}. Save one a file."
            )
        loaded = next(iter(loaded.values()))
    check_numbers(loaded, path)
    if isinstance(loaded, np.ndarray) and loaded.ndim == 2 and loaded.dtype.kind == "f":
        refuse_beyond(loaded, [f"x{i}" for i in range(loaded.shape[1])], path)
    return ArrayTable(loaded)
