"""Nested groups of rows with names, and where new rows belong in them."""

from horoball.hierarchy.taxonomies.placement import Placed, Placer, calibration_error
from horoball.hierarchy.taxonomies.taxonomy import Group, Taxonomy, taxonomy

__all__ = ["Group", "Placed", "Placer", "Taxonomy", "calibration_error", "taxonomy"]
