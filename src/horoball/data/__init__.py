"""Rows of numbers and graphs: where they come from and how they are handed out."""

from horoball.data.array_table import ArrayTable
from horoball.data.branching import branching_diffusion
from horoball.data.geodesics import geodesics, neighbour_graph
from horoball.data.graphs import Graph
from horoball.data.images import mnist
from horoball.data.link_split import LeakWarning, LinkSplit, Pairs, split_links
from horoball.data.neighbour_pairs import NeighbourSource
from horoball.data.paper_graphs import paper_graph
from horoball.data.path_axes import path_axes
from horoball.data.random_graphs import preferential_attachment, random_tree
from horoball.data.read import read
from horoball.data.read_graph import read_graph
from horoball.data.table import Order, Table

__all__ = [
    "ArrayTable",
    "Graph",
    "LeakWarning",
    "LinkSplit",
    "NeighbourSource",
    "Order",
    "Pairs",
    "Table",
    "branching_diffusion",
    "geodesics",
    "mnist",
    "neighbour_graph",
    "paper_graph",
    "path_axes",
    "preferential_attachment",
    "random_tree",
    "read",
    "read_graph",
    "split_links",
]
