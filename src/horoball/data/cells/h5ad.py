"""Rows of a matrix in an HDF5 file, as anndata writes them: read where they are needed, sparse as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, vstack

from horoball.data.files.numpy_files import sound_sparse
from horoball.data.tables.covariates import Covariates
from horoball.data.tables.row_groups import Stretch
from horoball.data.tables.streamed import StreamedTable

__all__ = ["DiskRows", "H5adTable", "check_indices"]

_STRETCH = 16  # rows read at once: cells of a kind lie together in files, so longer ones would make poor batches
_BLOCK_VALUES = 1 << 24  # numbers of a block: 64 MiB
_AT_ONCE = 1 << 22  # numbers of a sparse matrix that are read at once


def check_indices(group: Any) -> None:
    """Refuse a compressed matrix of an HDF5 file whose indices are no vectors of whole numbers.

    Example:
        >>> import h5py
        >>> file = h5py.File("rows", "w", driver="core", backing_store=False)
        >>> check_indices({name: file.create_dataset(name, data=[0.5]) for name in ("indptr", "indices")})
        Traceback (most recent call last):
        ...
        ValueError: the indptr of its matrix holds no whole numbers.
    """
    for name in ("indptr", "indices"):
        if group[name].dtype.kind not in "iu" or group[name].ndim != 1:
            raise ValueError(f"the {name} of its matrix holds no whole numbers.")


class DiskRows:
    """A dense or row-compressed matrix of an HDF5 file, some or all of its columns.

    Args:
        matrix: The file's dataset, or the group that holds a row-compressed matrix.
        columns: Numbers of the columns to read, in their order; all if not given.

    Example:
        >>> import h5py
        >>> file = h5py.File("rows", "w", driver="core", backing_store=False)
        >>> DiskRows(file.create_dataset("X", data=np.eye(3)), columns=[2, 0]).read([Stretch(0, 1, 2, 0, whole=True)])
        array([[0., 0.],
               [1., 0.]], dtype=float32)
    """

    def __init__(self, matrix: Any, columns: Sequence[int] | None = None) -> None:
        self._matrix, self.sparse = matrix, not hasattr(matrix, "ndim")
        rows, width = map(int, matrix.attrs["shape"] if self.sparse else matrix.shape)
        self.shape = rows, width
        self._columns = None if columns is None else np.asarray(columns, np.int64)
        self.features = self.shape[1] if self._columns is None else len(self._columns)
        if self.sparse:
            self._data, self._indices = matrix["data"], matrix["indices"]
            check_indices(matrix)
            self._start = matrix["indptr"][:].astype(np.int64)
            if len(self._start) != rows + 1 or self._start[0] != 0 or (np.diff(self._start) < 0).any():
                raise ValueError(f"the row pointers of its matrix are not those of {rows:,} rows.")
            if self._data.shape != self._indices.shape or self._data.shape != (self._start[-1],):
                raise ValueError("its matrix has other numbers than its row pointers say.")

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the numbers."""
        return self._data.dtype if self.sparse else self._matrix.dtype

    @property
    def bytes(self) -> int:
        """What all rows take in memory."""
        if self.sparse:
            return int(self._start[-1]) * (4 + self._indices.dtype.itemsize)
        return 4 * self.shape[0] * self.shape[1]

    def rows(self, start: int, stop: int) -> Any:
        """Some rows in float32, sparse if the matrix is."""
        if self.sparse:
            part = slice(self._start[start], self._start[stop])
            pointers = self._start[start : stop + 1] - self._start[start]
            data = self._data[part].astype(np.float32)
            rows = sound_sparse(csr_matrix((data, self._indices[part], pointers), shape=(stop - start, self.shape[1])))
        else:
            rows = self._matrix[start:stop].astype(np.float32)
        return rows if self._columns is None else rows[:, self._columns]

    def held(self) -> Any:
        """All rows, read some at a time."""
        if not self.sparse:
            size = max(1, _AT_ONCE // max(1, self.shape[1]))
            starts = range(0, self.shape[0], size)
            return np.concatenate([self.rows(a, min(a + size, self.shape[0])) for a in starts])
        ends = np.searchsorted(self._start, np.arange(0, self._start[-1], _AT_ONCE)[1:])
        cuts = np.unique([0, *ends, self.shape[0]])
        return vstack([self.rows(a, b) for a, b in pairwise(cuts)], format="csr")

    def read(self, stretches: Sequence[Stretch]) -> np.ndarray:
        """The rows of stretches below each other, a C-ordered float32 array; a stretch's group is its first row."""
        out = np.empty((sum(stretch.rows for stretch in stretches), self.features), np.float32)
        self.fill(out, stretches)
        return out

    def fill(self, out: np.ndarray, stretches: Sequence[Stretch]) -> None:
        """The same into the first columns of an array."""
        start = 0
        for stretch in stretches:
            first = stretch.group + stretch.first
            rows = self.rows(first, first + stretch.rows)
            out[start : start + stretch.rows, : self.features] = rows.toarray() if self.sparse else rows
            start += stretch.rows


class H5adTable(StreamedTable):
    """A table whose rows stay in an .h5ad file, in stretches of a few.

    Args:
        matrix: The matrix.
        columns: Names of its columns.
        labels: One label per row.
        covariates: Categories of the rows, for a model that is given them.

    Example:
        >>> import h5py
        >>> file = h5py.File("rows", "w", driver="core", backing_store=False)
        >>> table = H5adTable(DiskRows(file.create_dataset("X", data=np.eye(3))), ["a", "b", "c"])
        >>> next(table.blocks(2))
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
    """

    def __init__(
        self,
        matrix: DiskRows,
        columns: Sequence[str],
        labels: np.ndarray | None = None,
        covariates: Covariates | None = None,
    ) -> None:
        self._matrix, self._labels = matrix, labels
        self.columns, self.covariates = list(columns), covariates
        starts = range(0, matrix.shape[0], _STRETCH)
        self._units = [Stretch(0, a, min(_STRETCH, matrix.shape[0] - a), first=0, whole=True) for a in starts]

    def read_labels(self) -> np.ndarray | None:
        """The labels of the rows, which are held in memory."""
        return None if self._labels is None else self._labels[np.concatenate(list(self._row_numbers(self._units)))]

    def _block_rows(self) -> int:
        return max(1, _BLOCK_VALUES // self.width)

    def _reader(self) -> H5adTable:
        return self

    def read(self, stretches: Sequence[Stretch]) -> np.ndarray:
        """Rows of stretches with the codes of their covariates."""
        if self.covariates is None:
            return self._matrix.read(stretches)
        codes = self.covariates.codes[np.concatenate(list(self._row_numbers(stretches)))]
        out = np.empty((len(codes), self.width), np.float32)
        self._matrix.fill(out, stretches)
        out[:, self.features :] = codes
        return out

    @staticmethod
    def _row_numbers(stretches: Sequence[Stretch]) -> Iterator[np.ndarray]:
        for stretch in stretches:
            start = stretch.group + stretch.first
            yield np.arange(start, start + stretch.rows)
