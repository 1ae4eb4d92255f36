"""What is known of the nodes of a graph, a row a node."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.data.tables.number_arrays import check_numbers, refuse_beyond
from horoball.data.tables.table import Table

__all__ = ["node_features"]


def node_features(features: Any, nodes: int, names: np.ndarray | None) -> Tensor:
    """Features as float32, shape (nodes, k), rows in the order of the nodes.

    Args:
        features: An array, a tensor, a scipy sparse matrix, a data frame, or a table. A pandas frame is put in order
            by its index, and a table by the names of its rows if it has them: these are the names of the nodes.
        nodes: Number of nodes.
        names: Their names; None where they are numbers.

    Example:
        >>> node_features(np.eye(2), 2, None)
        tensor([[1., 0.],
                [0., 1.]])
    """
    if isinstance(features, Table):
        features = _table(features, nodes, names)
    elif hasattr(features, "columns"):
        features = _frame(features, nodes, names)
    check_numbers(features, "The array of features")
    if hasattr(features, "toarray"):
        features = features.toarray()
    array = features.detach().cpu().numpy() if isinstance(features, Tensor) else np.asarray(features)
    if array.ndim != 2 or len(array) != nodes:
        raise ValueError(
            f"Expected one row of features for each of the {nodes} nodes, got features of shape {array.shape}."
        )
    if array.dtype.kind == "f":  # whole numbers have no room beyond
        refuse_beyond(array, [str(column) for column in range(array.shape[1])], "The array of features")
    with np.errstate(over="ignore"):  # infinite ones, of a wider type
        array = np.array(array, np.float32)
    bad = ~np.isfinite(array)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(f"The features hold a missing or infinite value in row {row}, column {column}. Fill it first.")
    return torch.from_numpy(array)


def _table(table: Table, nodes: int, names: np.ndarray | None) -> np.ndarray:
    rows = np.concatenate([block.numpy() for block in table.blocks()])
    labels = table.read_names()
    return rows if labels is None else rows[_places(np.asarray(labels).astype(str), nodes, names, "table")]


def _frame(frame: Any, nodes: int, names: np.ndarray | None) -> np.ndarray:
    if hasattr(frame, "index"):  # polars has none: its rows are in the order of the nodes
        frame = frame.iloc[_places(np.asarray(frame.index.to_numpy()).astype(str), nodes, names, "frame")]
    return np.asarray(frame.to_numpy())


def _places(labels: np.ndarray, nodes: int, names: np.ndarray | None, kind: str) -> np.ndarray:
    """The row of each node."""
    if len(labels) != nodes:
        raise ValueError(f"Expected one row of features for each of the {nodes} nodes, got a {kind} of {len(labels)}.")
    wanted = np.arange(nodes).astype(str) if names is None else names.astype(str)
    order = np.argsort(labels)
    place = order[np.searchsorted(labels, wanted, sorter=order).clip(max=nodes - 1)]
    lost = np.flatnonzero(labels[place] != wanted)
    if len(lost):
        advice = "the nodes as its index" if kind == "frame" else "a column with the names of the nodes, see --id"
        raise ValueError(
            f"The features have no row for the node {str(wanted[lost[0]])!r}. Give the {kind} {advice}, or pass an "
            "array with its rows in the order of the nodes."
        )
    return place
