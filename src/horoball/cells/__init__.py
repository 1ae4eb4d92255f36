"""Cells: a map of counts in the Poincaré ball, in AnnData's own places, so that scanpy goes on from there.

`pip install "horoball[cells]"` brings anndata.
"""

from horoball.cells.graph import neighbours
from horoball.cells.model import CellModel, fit
from horoball.cells.picture import plot
from horoball.cells.pseudotime import pseudotime
from horoball.cells.simulate import simulate

__all__ = ["CellModel", "fit", "neighbours", "plot", "pseudotime", "simulate"]
