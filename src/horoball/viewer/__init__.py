"""A map to look at: one HTML file with the Poincaré disc, its points, and nothing to fetch."""

from horoball.viewer.disc import View, view
from horoball.viewer.run import view_run
from horoball.viewer.tree import view_tree

__all__ = ["View", "view", "view_run", "view_tree"]
