"""What is known of the nodes of a graph, a row a node."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.data.tables.number_arrays import check_numbers

__all__ = ["node_features"]


def node_features(features: Any, nodes: int, names: np.ndarray | None) -> Tensor:
    """Features as float32, shape (nodes, k), rows in the order of the nodes.

    Args:
        features: An array, a tensor, a scipy sparse matrix, or a data frame. A pandas frame is put in order by its
            index, which holds the names of the nodes.
        nodes: Number of nodes.
        names: Their names; None where they are numbers.

    Example:
        >>> node_features(np.eye(2), 2, None)
        tensor([[1., 0.],
                [0., 1.]])
    """
    if hasattr(features, "columns"):
        features = _frame(features, nodes, names)
    check_numbers(features, "The array of features")
    if hasattr(features, "toarray"):
        features = features.toarray()
    array = features.detach().cpu().numpy() if isinstance(features, Tensor) else np.asarray(features)
    if array.ndim != 2 or len(array) != nodes:
        raise ValueError(
            f"Expected one row of features for each of the {nodes} nodes, got features of shape {array.shape}."
        )
    with np.errstate(over="ignore"):  # what is beyond float32 becomes infinite, and is refused as such
        array = np.array(array, np.float32)
    bad = ~np.isfinite(array)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(f"The features hold a missing or infinite value in row {row}, column {column}. Fill it first.")
    return torch.from_numpy(array)


def _frame(frame: Any, nodes: int, names: np.ndarray | None) -> np.ndarray:
    if len(frame) != nodes:
        raise ValueError(f"Expected one row of features for each of the {nodes} nodes, got a frame of {len(frame)}.")
    if hasattr(frame, "index"):  # polars has none: its rows are in the order of the nodes
        wanted = np.arange(nodes).astype(str) if names is None else names
        labels = np.asarray(frame.index.to_numpy()).astype(str)
        order = np.argsort(labels)
        place = order[np.searchsorted(labels, wanted, sorter=order).clip(max=nodes - 1)]
        lost = np.flatnonzero(labels[place] != wanted)
        if len(lost):
            raise ValueError(
                f"The features have no row for the node {str(wanted[lost[0]])!r}. Give the frame the nodes as its "
                "index, or pass an array with its rows in the order of the nodes."
            )
        frame = frame.iloc[place]
    return np.asarray(frame.to_numpy())
