"""Cells as a table: one row a cell, one column a gene, from AnnData in memory, backed by a file, or an .h5ad file."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from horoball.data.cells.h5ad import DiskRows, H5adTable, check_indices
from horoball.data.files.hdf5_contents import check_flat, check_own
from horoball.data.files.hdf5_heaps import check_attributes, check_heaps, check_texts
from horoball.data.files.limits import check_widths
from horoball.data.files.numpy_files import sound_sparse
from horoball.data.files.parse_errors import parsing
from horoball.data.tables.array_table import ArrayTable
from horoball.data.tables.covariates import Covariates, scaling_of
from horoball.data.tables.table import Table
from horoball.runtime.extras import require_anndata

__all__ = ["cell_table", "is_cells"]

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
        label: Column of obs to keep aside.
        label_may_miss: Whether cells without that column are taken as they are, and not refused.

    Example:
        >>> cells = require_anndata().AnnData(np.eye(3, dtype=np.float32))
        >>> cells.obs["sample"] = ["a", "b", "a"]
        >>> table = cell_table(cells, batch=["sample"])
        >>> table.columns, table.covariates.categories
        (['0', '1', '2'], {'sample': ['a', 'b']})
    """
    with ExitStack() as stack:
        if isinstance(source, str | Path):
            stack.enter_context(parsing(source))
        cells = _open(source, stack) if isinstance(source, str | Path) else _parts(source)
        table = _table(cells, _layer(cells, layer), list(batch), dict(numbers or {}), genes, label, label_may_miss)
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
    require_anndata()
    return _Cells("The AnnData", cells.obs, list(map(str, cells.var_names)), cells, dict.fromkeys(cells.layers, cells))


def _open(path: str | Path, stack: ExitStack) -> _Cells:
    """An .h5ad file with its matrices left where they are."""
    require_anndata()
    import h5py
    from anndata.io import read_elem

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
    group = getattr(found, "group", found)  # of anndata's view of a sparse matrix in a file
    plain = "array" if hasattr(group, "ndim") else ""  # what older files hold without a word
    kind = group.attrs.get("encoding-type", plain) if hasattr(group, "attrs") else ""
    if kind not in ("csc_matrix", "csr_matrix", "array", "dense"):
        raise TypeError(f"Cannot read counts from {type(found).__name__}. Load them first: adata.to_memory().")
    if hasattr(group, "file"):  # of HDF5
        check_flat(group)
    if kind == "csc_matrix":  # rows cannot be read from columns
        from anndata.io import read_elem

        check_indices(group)
        return sound_sparse(read_elem(group)).tocsr()
    return group


def _table(
    cells: _Cells,
    layer: str | None,
    batch: list[str],
    numbers: dict[str, Sequence[float] | None],
    genes: Sequence[str] | None,
    label: str | None,
    label_may_miss: bool,
) -> Table:
    if label is not None and label not in cells.obs and label_may_miss:
        label = None
    for column in (*batch, *numbers, *(() if label is None else (label,))):
        if column not in cells.obs:
            there = ", ".join(map(str, list(cells.obs)[:20])) or "none"
            raise ValueError(f"{cells.name} has no column {column!r} in obs. Its columns are: {there}.")
    columns, index = _chosen(cells, genes)
    labels = None if label is None else np.asarray(cells.obs[label])
    if labels is not None and labels.dtype == object:
        check_widths(labels, f"The labels of {cells.name}")
    scaling = {name: tuple(known or scaling_of(name, cells.obs[name])) for name, known in numbers.items()}
    scaled = {name: (np.asarray(cells.obs[name], np.float64) - mean) / std for name, (mean, std) in scaling.items()}
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
        table = ArrayTable(matrix if index is None else matrix[:, index], columns, labels, None, covariates)
    else:
        rows = DiskRows(matrix, index)
        _check(cells.name, rows, rows.dtype)
        if rows.bytes <= _HELD:
            table = ArrayTable(rows.held(), columns, labels, None, covariates)
        else:
            _log.info("Cells: %s of counts stay in the file.", f"{rows.bytes / 2**30:.1f} GiB")
            table = H5adTable(rows, columns, labels, covariates)
    table.name_column = "cell"
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


def _chosen(cells: _Cells, genes: Sequence[str] | None) -> tuple[list[str], list[int] | None]:
    """Names and numbers of the columns to take."""
    twice = [name for name, count in Counter(cells.genes).items() if count > 1]
    if twice:
        raise ValueError(
            f"{cells.name} has several genes of one name: {', '.join(twice[:5])}{' …' if len(twice) > 5 else ''}. "
            "Call adata.var_names_make_unique() first."
        )
    if genes is None or list(genes) == cells.genes:
        return cells.genes, None
    place = {name: i for i, name in enumerate(cells.genes)}
    missing = [name for name in genes if name not in place]
    if missing:
        raise ValueError(
            f"{cells.name} lacks {len(missing):,} of the model's {len(genes):,} genes: {', '.join(missing[:10])}"
            f"{' …' if len(missing) > 10 else ''}. Give all genes of the fit; others may be there too."
        )
    return list(genes), [place[name] for name in genes]
