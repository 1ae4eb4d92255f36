"""Cells in .h5ad files."""

from __future__ import annotations

from horoball.data.cells.cell_table import cell_table
from horoball.data.readers.registry import table_reader
from horoball.data.tables.column_roles import ReadOptions
from horoball.data.tables.table import Table

__all__ = ["read_cells"]


@table_reader(".h5ad", ids=False)
def read_cells(path: str, options: ReadOptions) -> Table:
    """The table of an .h5ad file, with the choices of `cell_table` where it has some.

    Example:
        >>> read_cells("missing.h5ad", ReadOptions())
        Traceback (most recent call last):
        ...
        FileNotFoundError: There is no file missing.h5ad.
    """
    return cell_table(path, genes=options.columns, label=options.label, label_may_miss=options.label_may_miss)
