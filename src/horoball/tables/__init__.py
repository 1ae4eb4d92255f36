"""Rows of numbers: where they come from, what their columns are, and how they are handed out."""

from horoball.tables.geodesics import geodesics, neighbor_graph
from horoball.tables.read import read
from horoball.tables.table import ArrayTable, Order, Table

__all__ = ["ArrayTable", "Order", "Table", "geodesics", "neighbor_graph", "read"]
