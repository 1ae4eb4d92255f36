"""What a map is compared with: distances in the data from every row to some landmarks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import block_diag, csr_matrix

from horoball.data.cells.count_axes import AXES, count_axes
from horoball.data.tables.array_table import ArrayTable
from horoball.data.tables.geodesics import neighbor_graph, shortest_paths
from horoball.data.tables.table import Table
from horoball.objectives.distances import DistanceTerm

__all__ = ["Surveyed", "in_medians", "searches_all_pairs", "surveyed", "with_landmarks"]

_MAX_MULTIPLICATIONS = 1e12  # of a search for nearest neighbors, some ten seconds
_ALL = 2048  # rows up to which every row is a landmark
_AT_ONCE = 128  # landmarks that a step compares
_SOME = 512  # landmarks of more rows: 2 kB a row


def searches_all_pairs(table: Table, *, library: bool = False) -> bool:
    """Whether neighbors are found among all rows: of a table in memory, if it takes some ten seconds at most.

    Example:
        >>> searches_all_pairs(ArrayTable(torch.zeros(100, 40)))
        True
    """
    width = min(AXES, table.features) if library else table.features
    return isinstance(table, ArrayTable) and table.rows**2 * width <= _MAX_MULTIPLICATIONS


class Surveyed(NamedTuple):
    """Rows in memory, the graph of their neighbors, and their geodesics to some landmarks.

    Example:
        >>> surveyed(ArrayTable(torch.randn(50, 3))).lengths.shape
        torch.Size([50, 50])
    """

    table: ArrayTable
    graph: csr_matrix
    landmarks: np.ndarray  # numbers of rows
    lengths: torch.Tensor  # in units of their median, shape (rows, landmarks); infinite if they are not known


def surveyed(
    table: Table,
    *,
    candidates: np.ndarray | None = None,
    neighbors: int = 20,
    log: bool = False,
    library: bool = False,
    view: Callable[[torch.Tensor], torch.Tensor] | None = None,
    seed: int = 0,
) -> Surveyed:
    """Distances in the data, which a map is compared with.

    They are geodesics of the graph of nearest neighbors. Landmarks are all rows of a small table, otherwise a random
    sample: time and memory are then linear in the rows, save for finding neighbors. Rows of different categories differ
    by more than their distance says, so they are infinitely far apart, which stands for not known.

    Args:
        table: Rows as the model sees them; they must fit in memory.
        candidates: Rows that may be landmarks: those a model is trained on. All rows if not given.
        neighbors: Neighbors of the graph.
        log: Whether distances are of log(1 + x), as they should be of counts.
        library: Whether rows are shares of a library; distances are then measured along their main axes, see
            `count_axes`, and a sparse table stays sparse.
        view: Makes points of the rows of a mixed table, between which distances are measured.
        seed: Seed of the sample.

    Example:
        >>> surveyed(ArrayTable(torch.randn(50, 3)), candidates=np.arange(10)).landmarks
        array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    if library:
        if not isinstance(table, ArrayTable):
            raise ValueError("The distance term needs cells in memory, and these are streamed. Set distance_weight=0.")
        held, points = table, count_axes(table)
    else:
        x = torch.cat(list(table.blocks()))
        features = x[:, : table.features]
        points = (view(features) if view is not None else features.log1p() if log else features).numpy()
        held = ArrayTable(features, table.columns, table.labels, None, table.covariates)
        held.schema = table.schema
    index = np.arange(table.rows) if candidates is None else np.sort(candidates)
    if len(index) > _ALL:
        index = np.sort(np.random.default_rng(seed).choice(index, _SOME, replace=False))
    graph = _graph(points, neighbors, None if table.covariates is None else table.covariates.groups)
    lengths = shortest_paths(graph, index).T
    lengths[np.diff(graph.indptr) == 0] = np.inf  # of a row alone in its category nothing is known
    return Surveyed(held, graph, index, in_medians(lengths)[0])


def in_medians(lengths: np.ndarray) -> tuple[torch.Tensor, float]:
    """Lengths in units of their median, and that median.

    Example:
        >>> in_medians(np.array([[0.0, 2.0, 4.0, 6.0]], np.float32))
        (tensor([[0.0000, 0.5000, 1.0000, 1.5000]]), 4.0)
    """
    known = lengths[np.isfinite(lengths)]
    apart = known[known > 1e-6 * known.max(initial=0.0)]  # equal rows are joined by a hair
    unit = float(np.median(apart)) if len(apart) else 1.0
    return torch.from_numpy(np.ascontiguousarray(lengths)) / unit, unit


def with_landmarks(table: Table, **options: Any) -> tuple[ArrayTable, DistanceTerm]:
    """The table with each row's distances to the landmarks beside it, and the term that uses them.

    Args:
        table: Rows as the model sees them; they must fit in memory.
        options: See `surveyed`.

    Example:
        >>> table, term = with_landmarks(ArrayTable(torch.randn(50, 3)))
        >>> table.side.shape, term.landmarks.shape
        (torch.Size([50, 50]), torch.Size([50, 3]))
    """
    found = surveyed(table, **options)
    return found.table.beside(found.lengths), DistanceTerm(found.table.take(found.landmarks), _AT_ONCE)


def _graph(points: np.ndarray, neighbors: int, group: np.ndarray | None) -> csr_matrix:
    """The graph of nearest neighbors; rows of different categories are in parts that no path joins."""
    if group is None:
        return neighbor_graph(points, neighbors)
    parts, order = [], []
    for number in range(group.max() + 1):
        rows = np.flatnonzero(group == number)
        parts.append(neighbor_graph(points[rows], neighbors) if len(rows) > 1 else csr_matrix((1, 1)))
        order.append(rows)
    back = np.argsort(np.concatenate(order))
    return block_diag(parts, format="csr")[back][:, back]
