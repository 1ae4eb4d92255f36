"""Cells: a map of counts in the Poincaré ball, in AnnData's own places, so that scanpy goes on from there.

`pip install "horoball[cells]"` brings anndata.
"""

from horoball.cells.fitting import fit
from horoball.cells.graph import neighbors
from horoball.cells.label_transfer import transfer_labels
from horoball.cells.model import CellModel
from horoball.cells.picture import plot
from horoball.cells.pseudotime import pseudotime
from horoball.cells.simulate import simulate
from horoball.cells.trees import write_tree

__all__ = ["CellModel", "fit", "neighbors", "plot", "pseudotime", "simulate", "transfer_labels", "write_tree"]
