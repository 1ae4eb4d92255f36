"""A map to look at: one HTML file with the Poincaré disc, its points, and nothing to fetch."""

from horoball.viewer.disc import View, view, view_tree
from horoball.viewer.run import view_run

__all__ = ["View", "view", "view_run", "view_tree"]
