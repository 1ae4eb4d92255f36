"""Rows of numbers: where they come from and how they are handed out."""

from horoball.data.branching import branching_diffusion
from horoball.data.geodesics import geodesics, neighbour_graph
from horoball.data.images import mnist
from horoball.data.read import read
from horoball.data.table import ArrayTable, Order, Table

__all__ = ["ArrayTable", "Order", "Table", "branching_diffusion", "geodesics", "mnist", "neighbour_graph", "read"]
