"""Cells as a table: one row a cell, one column a gene, from AnnData in memory, backed by a file, or an .h5ad file.

Rows of a matrix in a file are read where they are needed, sparse as they are.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, vstack

from horoball.plugins import required
from horoball.tables.covariates import Covariates, finite_numbers, scaling_of
from horoball.tables.formats import table_reader
from horoball.tables.limits import check_widths, parsing
from horoball.tables.row_groups import Stretch
from horoball.tables.schema import ReadOptions, closest
from horoball.tables.streamed import StreamedTable
from horoball.tables.table import ArrayTable, Table

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
        columns: Numbers of the columns to read, in their order, −1 for one of zeros; all if not given.

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
        from horoball.tables.numpy_files import sound_sparse

        if self.sparse:
            part = slice(self._start[start], self._start[stop])
            pointers = self._start[start : stop + 1] - self._start[start]
            data = self._data[part].astype(np.float32)
            rows = sound_sparse(csr_matrix((data, self._indices[part], pointers), shape=(stop - start, self.shape[1])))
        else:
            rows = self._matrix[start:stop].astype(np.float32)
        return rows if self._columns is None else _taken(rows, self._columns)

    def held(self) -> Any:
        """All rows, read some at a time."""
        if not self.sparse:
            size = max(1, _AT_ONCE // max(1, self.shape[1]))
            starts = range(0, self.shape[0], size)
            return np.concatenate([self.rows(a, min(a + size, self.shape[0])) for a in starts])
        ends = np.searchsorted(self._start, np.arange(0, self._start[-1], _AT_ONCE)[1:])
        cuts = np.unique([0, *ends, self.shape[0]])
        return vstack([self.rows(a, b) for a, b in pairwise(cuts)], format="csr")

    def some(self, index: np.ndarray) -> Any:
        """Rows by their numbers, which rise, in float32 and sparse if the matrix is."""
        runs = np.split(index, np.flatnonzero(np.diff(index) != 1) + 1)
        parts = [self.rows(int(run[0]), int(run[-1]) + 1) for run in runs]
        return vstack(parts, format="csr") if self.sparse else np.concatenate(parts)

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

    def part(self, index: np.ndarray) -> ArrayTable:
        """Some of the rows of the file, in their own order and in memory."""
        index = np.sort(index)
        covariates = None if self.covariates is None else self.covariates.take(index)
        part = ArrayTable(self._matrix.some(index), self.columns, None, None, covariates)
        part.kind, part.reading = self.kind, self.reading
        return part

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


_HELD = 2 << 30  # bytes of a file's matrix up to which it is held in memory, sparse as it is
_log = logging.getLogger("horoball")


def is_cells(source: Any) -> bool:
    """Whether a source is AnnData or the path of an .h5ad file.

    Example:
        >>> is_cells("pbmc.h5ad"), is_cells("rows.csv")
        (True, False)
    """
    if isinstance(source, str | Path):
        return str(source).lower().endswith(".h5ad")
    return all(hasattr(source, name) for name in ("obs", "var", "obsm", "layers"))


def cell_table(
    source: Any,
    *,
    layer: str | None = "auto",
    batch: Sequence[str] = (),
    numbers: Mapping[str, Sequence[float] | None] | None = None,
    genes: Sequence[str] | None = None,
    genes_may_miss: bool = False,
    without: Sequence[str] = (),
    label: str | None = None,
    label_may_miss: bool = False,
) -> Table:
    """The table of some cells.

    What is in memory stays there, sparse if it is. A matrix that is in a file is read into memory as it is, block by
    block, or streamed if that took more than 2 GiB; one that is compressed by columns is read whole.

    Args:
        source: AnnData, or the path of an .h5ad file.
        layer: Name of the layer with the counts, None for X; "auto" is the layer "counts" if there is one, otherwise X.
        batch: Columns of obs that a model is given as categories.
        numbers: Columns of obs that it is given as numbers, with the mean and standard deviation to scale each by; None
            for its own.
        genes: Names of the columns to take, in their order; all if not given.
        genes_may_miss: Whether genes that are not there are columns of zeros, and not refused.
        without: Names of columns to leave out.
        label: Column of obs to keep aside.
        label_may_miss: Whether cells without that column are taken as they are, and not refused.

    Example:
        >>> cells = required("anndata").AnnData(np.eye(3, dtype=np.float32))
        >>> cells.obs["sample"] = ["a", "b", "a"]
        >>> table = cell_table(cells, batch=["sample"])
        >>> table.columns, table.covariates.categories
        (['0', '1', '2'], {'sample': ['a', 'b']})
    """
    with ExitStack() as stack:
        if isinstance(source, str | Path):
            stack.enter_context(parsing(source))
        cells = _open(source, stack) if isinstance(source, str | Path) else _parts(source)
        columns = _chosen(cells, genes, genes_may_miss, without)
        table = _table(cells, _layer(cells, layer), list(batch), dict(numbers or {}), columns, label, label_may_miss)
        if isinstance(table, H5adTable):
            stack.pop_all()  # the file stays open as long as the table is used
    return table


class _Cells(NamedTuple):
    """What a table is made of, wherever it is."""

    name: str
    obs: Any
    genes: list[str]
    x: Any
    layers: dict[str, Any]


def _parts(cells: Any) -> _Cells:
    required("anndata")
    obs = cells.obs.to_memory() if hasattr(cells.obs, "to_memory") else cells.obs  # of `read_lazy`
    return _Cells("The AnnData", obs, list(map(str, cells.var_names)), cells, dict.fromkeys(cells.layers, cells))


def _open(path: str | Path, stack: ExitStack) -> _Cells:
    """An .h5ad file with its matrices left where they are."""
    required("anndata")
    import h5py
    from anndata.io import read_elem

    from horoball.tables.hdf5 import check_attributes, check_flat, check_heaps, check_own, check_texts

    if "://" in str(path):
        raise ValueError(f"{path}: .h5ad files are read from this machine's disks. Copy it first.")
    if not Path(path).exists():
        raise FileNotFoundError(f"There is no file {path}.")
    file = stack.enter_context(h5py.File(path, "r"))
    longest = check_heaps(file)
    check_own(file)
    check_attributes(file, longest)
    for name in ("obs", "var"):
        check_flat(file[name])
        check_texts(file[name], longest)
    obs, var = read_elem(file["obs"]), read_elem(file["var"])
    layers = dict(file["layers"]) if "layers" in file else {}
    return _Cells(str(path), obs, list(map(str, var.index)), file.get("X"), layers)


def _layer(cells: _Cells, layer: str | None) -> str | None:
    """The layer that is meant; None is X."""
    if layer is None or (layer == "X" and "X" not in cells.layers):
        return None
    if layer == "auto":
        found = "counts" if "counts" in cells.layers else None
        _log.info("Counts: %s.", "the layer 'counts'" if found else "X, as there is no layer 'counts'")
        return found
    if layer not in cells.layers:
        there = f"Its layers are: {', '.join(sorted(cells.layers))}" if cells.layers else "It has none"
        raise ValueError(
            f"{cells.name} has no layer {layer!r}. {there}. If X holds the counts, take layer=None (X); if adata.raw "
            'does, make a layer of it: adata.layers["counts"] = adata.raw[:, adata.var_names].X.'
        )
    return layer


def _matrix(cells: _Cells, layer: str | None) -> Any:
    """Numbers in memory, or `DiskRows` of those that are not."""
    found = cells.x if layer is None else cells.layers[layer]
    if hasattr(found, "obs"):
        found = found.X if layer is None else found.layers[layer]
    if found is None:
        raise ValueError(f"{cells.name} has no X. Name the layer with the counts.")
    if isinstance(found, np.ndarray) or (hasattr(found, "tocsr") and not hasattr(found, "group")):
        return found
    if hasattr(found, "dask") and hasattr(found, "chunks"):
        return _computed(found)
    group = getattr(found, "group", found)  # of anndata's view of a sparse matrix in a file
    plain = "array" if hasattr(group, "ndim") else ""  # what older files hold without a word
    kind = group.attrs.get("encoding-type", plain) if hasattr(group, "attrs") else ""
    if kind not in ("csc_matrix", "csr_matrix", "array", "dense"):
        raise TypeError(f"Cannot read counts from {type(found).__name__}. Load them first: adata.to_memory().")
    if hasattr(group, "file"):  # of HDF5
        from horoball.tables.hdf5 import check_flat

        check_flat(group)
    if kind == "csc_matrix":  # rows cannot be read from columns
        from anndata.io import read_elem

        check_indices(group)
        from horoball.tables.numpy_files import sound_sparse

        return sound_sparse(read_elem(group)).tocsr()
    return group


def _computed(array: Any) -> Any:
    """A Dask array in memory, row blocks one after the other: sparse, as most of it is zeros while it is computed."""
    ends = np.cumsum([0, *array.chunks[0]])
    if np.isnan(ends).any():
        raise ValueError("The counts are a Dask array of unknown length. Call compute_chunk_sizes() on it first.")
    return vstack([csr_matrix(array[a:b].compute()) for a, b in pairwise(map(int, ends))], format="csr")


def _table(
    cells: _Cells,
    layer: str | None,
    batch: list[str],
    numbers: dict[str, Sequence[float] | None],
    chosen: tuple[list[str], list[int] | None],
    label: str | None,
    label_may_miss: bool,
) -> Table:
    if label is not None and label not in cells.obs and label_may_miss:
        label = None
    for column in (*batch, *numbers, *(() if label is None else (label,))):
        if column not in cells.obs:
            there = ", ".join(map(str, list(cells.obs)[:20])) or "none"
            raise ValueError(f"{cells.name} has no column {column!r} in obs. Its columns are: {there}.")
    columns, index = chosen
    labels = None if label is None else np.asarray(cells.obs[label])
    if labels is not None and labels.dtype == object:
        check_widths(labels, f"The labels of {cells.name}")
    scaling = {name: tuple(known or scaling_of(name, cells.obs[name])) for name, known in numbers.items()}
    scaled = {name: (finite_numbers(name, cells.obs[name]) - mean) / std for name, (mean, std) in scaling.items()}
    if both := [name for name in batch if name in numbers]:
        raise ValueError(f"The column {both[0]!r} is given as a batch and as a number. Give it as one of the two.")
    covariates = Covariates.of({name: cells.obs[name] for name in batch}, scaled) if batch or scaled else None
    matrix = _matrix(cells, layer)
    if tuple(matrix.attrs["shape"] if not hasattr(matrix, "shape") else matrix.shape) != (
        len(cells.obs),
        len(cells.genes),
    ):
        raise ValueError(
            f"{cells.name} names {len(cells.obs):,} cells and {len(cells.genes):,} genes, its counts are of others."
        )
    table: Table
    if isinstance(matrix, np.ndarray) or hasattr(matrix, "tocsr"):
        _check(cells.name, matrix, matrix.dtype)
        table = ArrayTable(
            matrix if index is None else _taken(matrix, np.asarray(index)), columns, labels, None, covariates
        )
    else:
        rows = DiskRows(matrix, index)
        _check(cells.name, rows, rows.dtype)
        if rows.bytes <= _HELD:
            table = ArrayTable(rows.held(), columns, labels, None, covariates)
        else:
            _log.info("Cells: %s of counts stay in the file.", f"{rows.bytes / 2**30:.1f} GiB")
            table = H5adTable(rows, columns, labels, covariates)
    table.name_column = "cell"
    table.kind = "cells"
    table.names, table.reading = list(map(str, cells.obs.index)), {"layer": layer, "batch": batch}
    if scaling:
        table.reading = {**table.reading, "numbers": {name: list(pair) for name, pair in scaling.items()}}
    return table


def _check(name: str, matrix: Any, dtype: Any) -> None:
    for count, what in zip(matrix.shape, ("cells", "genes"), strict=True):
        if count == 0:
            raise ValueError(f"{name} has no {what}.")
    if np.dtype(dtype).kind not in "biuf":
        raise ValueError(f"{name} holds {dtype}, not numbers. Choose the layer with the counts.")


def _chosen(
    cells: _Cells, genes: Sequence[str] | None, may_miss: bool, without: Sequence[str]
) -> tuple[list[str], list[int] | None]:
    """Names and numbers of the columns to take, −1 for one that is not there."""
    twice = [name for name, count in Counter(cells.genes).items() if count > 1]
    if twice:
        raise ValueError(
            f"{cells.name} has several genes of one name: {', '.join(twice[:5])}{' …' if len(twice) > 5 else ''}. "
            "Call adata.var_names_make_unique() first."
        )
    if odd := [name for name in without if name not in cells.genes]:
        raise ValueError(f"{cells.name} has no gene {odd[0]!r} to drop.{closest(odd[0], cells.genes)}")
    if without:
        genes = [name for name in (cells.genes if genes is None else genes) if name not in set(without)]
    if genes is not None and not len(genes):
        raise ValueError(f"No gene of {cells.name} is left.")
    if genes is None or list(genes) == cells.genes:
        return cells.genes, None
    place = {name: i for i, name in enumerate(cells.genes)}
    missing = [name for name in genes if name not in place]
    if missing and not may_miss:
        raise ValueError(
            f"{cells.name} lacks {len(missing):,} of the {len(genes):,} genes that are asked for: "
            f"{', '.join(missing[:10])}{' …' if len(missing) > 10 else ''}. A model needs all genes of its fit; others "
            "may be there too."
        )
    return list(genes), [place.get(name, -1) for name in genes]


def _taken(matrix: Any, columns: np.ndarray) -> Any:
    """Some columns of a matrix, in their order, and zeros for those numbered −1."""
    there = np.flatnonzero(columns >= 0)
    found = matrix[:, columns[there]]
    if len(there) == len(columns):
        return found
    if hasattr(found, "tocsr"):
        found = found.tocsr()
        return csr_matrix((found.data, there[found.indices], found.indptr), shape=(found.shape[0], len(columns)))
    wide = np.zeros((len(found), len(columns)), found.dtype)
    wide[:, there] = found
    return wide


@table_reader(".h5ad", ids=False)
def read_cells(source: Any, options: ReadOptions) -> Table:
    """The table of AnnData or an .h5ad file, with the choices of `cell_table` where it has some."""
    chosen: dict[str, Any] = {"genes": options.columns, "without": options.drop}
    return cell_table(source, **chosen, label=options.label, label_may_miss=options.label_may_miss)
