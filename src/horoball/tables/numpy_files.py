"""Files of NumPy: arrays, sparse matrices, and vectors that stay in their file."""

from __future__ import annotations

import math
import warnings
import zipfile
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from horoball.tables.formats import table_reader
from horoball.tables.limits import check_held, check_nodes, parsing
from horoball.tables.numbers import check_numbers, refuse_beyond
from horoball.tables.row_groups import Stretch
from horoball.tables.schema import ReadOptions, some_names
from horoball.tables.streamed import StreamedTable
from horoball.tables.table import ArrayTable


def load_arrays(file: IO[bytes]) -> np.ndarray | dict[str, np.ndarray] | Any:
    """The array of a .npy file, the arrays of a .npz file, or the scipy sparse matrix that it holds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of headers, by old writers and others
        return _loaded(file)


def _loaded(file: IO[bytes]) -> np.ndarray | dict[str, np.ndarray] | Any:
    file.seek(0)
    start, size = file.read(6), file.seek(0, 2)
    file.seek(0)
    if start.startswith(b"\x93NUMPY"):
        _check_header(file, size)
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)
    if not start.startswith(b"PK"):  # numpy would take it for a pickle, and advise to trust it
        raise ValueError("it does not begin as one")
    with zipfile.ZipFile(file) as archive:
        members = {info.filename: info for info in archive.infolist()}
        held = sum(info.file_size for info in archive.infolist())
        check_held(held, size, "its list of arrays")
        for info in members.values():
            with archive.open(info) as member:
                _check_header(member, info.file_size)
        if "format.npy" not in members:
            return {name.removesuffix(".npy"): _array(archive, info) for name, info in members.items()}
    import scipy.sparse

    file.seek(0)
    matrix = sound_sparse(scipy.sparse.load_npz(file))
    check_nodes(matrix.shape[0], held)
    return matrix


def sound_sparse(matrix: Any) -> Any:
    """The same matrix, if its indices lie within it: scipy's loops do not look, and write where they point to."""
    if hasattr(matrix, "check_format"):  # of rows, columns or blocks; others are checked when they are made
        matrix.check_format(full_check=True)
    return matrix


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(info) as member:
        return np.lib.format.read_array(member, allow_pickle=False)


def _check_header(file: IO[bytes], size: int) -> None:
    """Refuse an array whose header asks for more than a file of that size holds."""
    version = np.lib.format.read_magic(file)
    # The third version differs from the second in the encoding of the names of fields, which numbers have none of.
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, _, dtype = read(file)
    except Exception as error:  # it is parsed as a literal of Python, by which anything may be raised
        raise ValueError("its header cannot be read") from error
    if dtype.hasobject:
        raise ValueError("it holds pickled objects, which are not read; save a plain array of numbers")
    wanted = math.prod(shape) * dtype.itemsize
    if any(not 0 <= length <= size for length in shape) or wanted > size or not dtype.itemsize:
        raise ValueError(f"its header tells of shape {str(shape)[:80]} of {dtype.str[:20]}, which it does not hold")


@table_reader(".npy", ".npz", labels=False, ids=False)
def read_arrays(path: str, options: ReadOptions) -> ArrayTable:
    """The table of a NumPy file, which holds one array."""
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


_GROUP = 1 << 13  # rows that stay together when others are shuffled
_BLOCK_VALUES = 1 << 24  # numbers of a block: 64 MiB


class MappedVectors(StreamedTable):
    """A .npy file on this machine with one vector per row, of which only what is in use is in memory."""

    def __init__(self, path: str) -> None:
        self._path = path
        rows, features = self._array().shape
        self.columns = [f"x{i}" for i in range(features)]
        self._units = [Stretch(0, a, min(_GROUP, rows - a), first=0, whole=True) for a in range(0, rows, _GROUP)]

    def _array(self) -> np.ndarray:
        """The file as an array; it is opened anew where it is read, so that the table can be sent to a process."""
        with parsing(self._path, ".npy file"):
            array: np.ndarray = np.load(self._path, mmap_mode="r", allow_pickle=False)
        if array.ndim != 2 or 0 in array.shape:
            raise ValueError(f"{self._path} has shape {array.shape}, expected (rows, numbers): one vector per row.")
        check_numbers(array, self._path)
        return array

    def decoded_bytes(self) -> int:
        """Memory that all rows would take."""
        return 4 * self.rows * self.features

    def _block_rows(self) -> int:
        return max(1, _BLOCK_VALUES // self.features)

    def _reader(self) -> MappedVectors:
        return self

    def read(self, stretches: Sequence[Stretch]) -> np.ndarray:
        """Vectors of stretches below each other, a C-ordered float32 array; refuses those that are not finite."""
        array = self._array()
        out = np.empty((sum(stretch.rows for stretch in stretches), self.features), np.float32)
        start = 0
        for stretch in stretches:
            first, part = stretch.group + stretch.first, out[start : start + stretch.rows]
            with np.errstate(over="ignore", invalid="ignore"):  # what is beyond float32 becomes infinite
                part[:] = array[first : first + stretch.rows]
            broken = np.flatnonzero(~np.isfinite(part).all(1))
            if len(broken):
                raise ValueError(f"{self._path} has a missing or infinite number in row {first + broken[0]}. Drop it.")
            start += stretch.rows
        return out
