"""Distances in the data from every row to some landmarks: what the distance term compares a map with."""

from __future__ import annotations

import numpy as np
import torch

from horoball.data.geodesics import geodesics
from horoball.data.table import ArrayTable, Table
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
    seed: int = 0,
) -> tuple[ArrayTable, DistanceTerm]:
    """The table with each row's distances to the landmarks beside it, and the term that uses them.

    Distances are geodesics of the graph of nearest neighbours, in units of their median. Landmarks are all rows of a
    small table, otherwise a random sample: time and memory are then linear in the rows, save for finding neighbours.

    Args:
        table: Rows as the model sees them; they must fit in memory.
        candidates: Rows that may be landmarks: those a model is trained on. All rows if not given.
        neighbours: Neighbours of the graph.
        log: Whether distances are of log(1 + x), as they should be of counts.
        seed: Seed of the sample.

    Example:
        >>> table, term = with_landmarks(ArrayTable(torch.randn(50, 3)))
        >>> table.side.shape, term.landmarks.shape
        (torch.Size([50, 50]), torch.Size([50, 3]))
    """
    x = torch.cat(list(table.blocks()))
    index = np.arange(len(x)) if candidates is None else np.sort(candidates)
    if len(index) > _ALL:
        index = np.sort(np.random.default_rng(seed).choice(index, _SOME, replace=False))
    lengths = geodesics((x.log1p() if log else x).numpy(), neighbours, sources=index).T
    apart = lengths[lengths > 1e-6 * lengths.max()]  # equal rows are joined by a hair
    side = torch.from_numpy(np.ascontiguousarray(lengths)) / (float(np.median(apart)) if len(apart) else 1.0)
    return ArrayTable(x, table.columns, table.labels, side), DistanceTerm(x[torch.from_numpy(index)])
