"""Rows of numbers and graphs: where they come from and how they are handed out."""

from horoball.data.datasets.branching import branching_diffusion
from horoball.data.datasets.images import mnist
from horoball.data.datasets.paper_graphs import paper_graph
from horoball.data.datasets.random_graphs import preferential_attachment, random_tree
from horoball.data.graphs.graph import Graph
from horoball.data.graphs.link_split import LeakWarning, LinkSplit, Pairs, split_links
from horoball.data.graphs.path_axes import path_axes
from horoball.data.readers.graphs import read_graph
from horoball.data.readers.tables import read
from horoball.data.tables.array_table import ArrayTable
from horoball.data.tables.geodesics import geodesics, neighbor_graph
from horoball.data.tables.table import Order, Table

__all__ = [
    "ArrayTable",
    "Graph",
    "LeakWarning",
    "LinkSplit",
    "Order",
    "Pairs",
    "Table",
    "branching_diffusion",
    "geodesics",
    "mnist",
    "neighbor_graph",
    "paper_graph",
    "path_axes",
    "preferential_attachment",
    "random_tree",
    "read",
    "read_graph",
    "split_links",
]
