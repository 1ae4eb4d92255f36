"""Cells: a map of counts in the Poincaré ball, in AnnData's own places, so that scanpy goes on from there.

`pip install "horoball[cells]"` brings anndata.
"""

from horoball.cells.anndata import neighbors, plot, pseudotime, simulate
from horoball.cells.fitting import fit
from horoball.cells.labels import transfer_labels
from horoball.cells.model import CellModel
from horoball.cells.tree import write_tree

__all__ = ["CellModel", "fit", "neighbors", "plot", "pseudotime", "simulate", "transfer_labels", "write_tree"]
