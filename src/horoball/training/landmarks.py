"""Distances in the data from every row to some landmarks: what the distance term compares a map with."""

from __future__ import annotations

import numpy as np
import torch

from horoball.data.array_table import ArrayTable
from horoball.data.count_axes import count_axes
from horoball.data.geodesics import geodesics
from horoball.data.table import Table
from horoball.distances import DistanceTerm

__all__ = ["with_landmarks"]

_ALL = 2048  # rows up to which every row is a landmark
_SOME = 512  # landmarks of more rows: 2 kB a row


def with_landmarks(
    table: Table,
    *,
    candidates: np.ndarray | None = None,
    neighbours: int = 20,
    log: bool = False,
    library: bool = False,
    seed: int = 0,
) -> tuple[ArrayTable, DistanceTerm]:
    """The table with each row's distances to the landmarks beside it, and the term that uses them.

    Distances are geodesics of the graph of nearest neighbours, in units of their median. Landmarks are all rows of a
    small table, otherwise a random sample: time and memory are then linear in the rows, save for finding neighbours.
    Rows of different categories differ by more than their distance says, so they are infinitely far apart, which the
    term takes as not known.

    Args:
        table: Rows as the model sees them; they must fit in memory.
        candidates: Rows that may be landmarks: those a model is trained on. All rows if not given.
        neighbours: Neighbours of the graph.
        log: Whether distances are of log(1 + x), as they should be of counts.
        library: Whether rows are shares of a library; distances are then measured along their main axes, see
            `count_axes`, and a sparse table stays sparse.
        seed: Seed of the sample.

    Example:
        >>> table, term = with_landmarks(ArrayTable(torch.randn(50, 3)))
        >>> table.side.shape, term.landmarks.shape
        (torch.Size([50, 50]), torch.Size([50, 3]))
    """
    if library:
        if not isinstance(table, ArrayTable):
            raise ValueError("The distance term needs cells in memory, and these are streamed. Set distance_weight=0.")
        held, points = table, count_axes(table)
    else:
        x = torch.cat(list(table.blocks()))
        features = x[:, : table.features]
        points = (features.log1p() if log else features).numpy()
        held = ArrayTable(features, table.columns, table.labels, None, table.covariates)
    index = np.arange(table.rows) if candidates is None else np.sort(candidates)
    if len(index) > _ALL:
        index = np.sort(np.random.default_rng(seed).choice(index, _SOME, replace=False))
    lengths = _lengths(points, index, neighbours, None if table.covariates is None else table.covariates.codes)
    known = lengths[np.isfinite(lengths)]
    apart = known[known > 1e-6 * known.max(initial=0.0)]  # equal rows are joined by a hair
    side = torch.from_numpy(np.ascontiguousarray(lengths)) / (float(np.median(apart)) if len(apart) else 1.0)
    return held.beside(side), DistanceTerm(held.take(index))


def _lengths(points: np.ndarray, index: np.ndarray, neighbours: int, codes: np.ndarray | None) -> np.ndarray:
    """Geodesics from every row to the landmarks of its own categories; infinite to the others."""
    if codes is None:
        return geodesics(points, neighbours, sources=index).T
    lengths = np.full((len(points), len(index)), np.inf, np.float32)
    _, group = np.unique(codes, axis=0, return_inverse=True)
    for number in range(group.max() + 1):
        rows, landmarks = np.flatnonzero(group == number), np.flatnonzero(group[index] == number)
        if len(rows) < 2 or not len(landmarks):
            continue  # there is nothing to measure
        sources = np.searchsorted(rows, index[landmarks])
        lengths[np.ix_(rows, landmarks)] = geodesics(points[rows], neighbours, sources=sources).T
    return lengths
