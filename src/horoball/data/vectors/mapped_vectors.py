"""Vectors of a .npy file that are read as they are used."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from horoball.data.files.parse_errors import parsing
from horoball.data.tables.number_arrays import check_numbers
from horoball.data.tables.row_groups import Stretch
from horoball.data.tables.streamed import StreamedTable

__all__ = ["MappedVectors"]

_GROUP = 1 << 13  # rows that stay together when others are shuffled
_BLOCK_VALUES = 1 << 24  # numbers of a block: 64 MiB


class MappedVectors(StreamedTable):
    """A .npy file on this machine with one vector per row, of which only what is in use is in memory.

    Args:
        path: The file: an array of two dimensions, of any type of real numbers.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "vectors.npy"
        >>> np.save(path, np.arange(6, dtype=np.float16).reshape(3, 2))
        >>> next(MappedVectors(str(path)).blocks(2))
        tensor([[0., 1.],
                [2., 3.]])
    """

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
        """Memory that all rows would take.

        Example:
            >>> import pathlib, tempfile
            >>> path = pathlib.Path(tempfile.mkdtemp()) / "vectors.npy"
            >>> np.save(path, np.zeros((3, 2)))
            >>> MappedVectors(str(path)).decoded_bytes()
            24
        """
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
