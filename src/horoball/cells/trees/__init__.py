"""Trees of cell types: which groups come from a common progenitor, with support and marker genes."""

from horoball.cells.trees.cell_tree import cell_tree
from horoball.cells.trees.dendrogram_keys import branch_name, write_tree
from horoball.cells.trees.markers import branch_markers

__all__ = ["branch_markers", "branch_name", "cell_tree", "write_tree"]
