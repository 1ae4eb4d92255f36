"""The term of a map for tables that are streamed, or too large for a search among all pairs: by a sample in memory.

Neighbors and distances are those of a sample of the rows. A row outside of it belongs where its nearest row of the
sample is, and its geodesics begin with a step to one of the nearest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from horoball.data.tables.geodesics import neighbor_graph, shortest_paths
from horoball.data.tables.table import Batch, Order, Table
from horoball.objectives.distances import DistanceTerm
from horoball.objectives.places import PlaceTerm
from horoball.training.table.maps.landmarks import in_medians

__all__ = ["SampledTable", "with_sample"]

_SAMPLE = 8192  # rows: a search in them takes about as long as a step
_LANDMARKS = 512
_NEAREST = 15  # rows of the sample that a geodesic may begin with

Points = Callable[[Tensor], Tensor]
Places = Callable[[Tensor, csr_matrix, Tensor, np.ndarray], Tensor]


def with_sample(
    rows: Table,
    held: Table | None,
    points: Points,
    *,
    neighbors: int = 20,
    seed: int = 0,
    places: Places | None = None,
) -> tuple[SampledTable, SampledTable | None, DistanceTerm | PlaceTerm]:
    """The tables with numbers beside their rows that a term of a map compares them with, and the term.

    Args:
        rows: Rows to train on, as the model sees them; the sample is drawn from these.
        held: Rows held out, if there are any.
        points: Makes points of rows, between which distances are measured.
        neighbors: Neighbors of the graph.
        seed: Seed of the sample.
        places: Makes a layout of the sample's rows, from the rows, the graph of their neighbors, their geodesics to
            landmarks, and the landmarks. Without it, rows are compared by these geodesics.

    Example:
        >>> from horoball.data import ArrayTable
        >>> table, _, term = with_sample(ArrayTable(torch.randn(50, 3)), None, lambda x: x)
        >>> next(table.batches(Order(8))).side.shape, term.landmarks.shape
        (torch.Size([8, 50]), torch.Size([50, 3]))
    """
    rng = np.random.default_rng(seed)
    sample = _drawn(rows, rng)
    at = points(sample)
    graph = neighbor_graph(at.numpy(), neighbors)
    landmarks = np.sort(rng.choice(len(sample), min(len(sample), _LANDMARKS), replace=False))
    lengths, unit = in_medians(shortest_paths(graph, landmarks).T)
    at = at / unit
    term: DistanceTerm | PlaceTerm
    if places is None:
        term = DistanceTerm(sample[torch.from_numpy(landmarks)], 64)
    else:
        term, place = PlaceTerm(), places(sample, graph, lengths, landmarks)

    def beside(x: Tensor) -> Tensor:
        found = points(x) / unit
        nearest = torch.cdist(found, at).topk(1 if places else min(_NEAREST, len(at)), largest=False).indices
        if places is not None:
            return place[nearest[:, 0]]
        # The search expands squares, which loses the digits of close pairs.
        gap = torch.linalg.vector_norm(found.unsqueeze(1) - at[nearest], dim=-1)
        return (gap.unsqueeze(-1) + lengths[nearest]).amin(1)

    return SampledTable(rows, beside), None if held is None else SampledTable(held, beside), term


def _drawn(table: Table, rng: np.random.Generator) -> Tensor:
    """A random sample of the rows, in one pass over them."""
    chosen = np.sort(rng.choice(table.rows, min(table.rows, _SAMPLE), replace=False))
    parts, first = [], 0
    for block in table.blocks():
        inside = chosen[(chosen >= first) & (chosen < first + len(block))] - first
        parts.append(block[torch.from_numpy(inside)])
        first += len(block)
    return torch.cat(parts)


class SampledTable(Table):
    """A table whose batches bring what a term of a map compares rows with, found by a sample.

    Args:
        table: Rows as the model sees them.
        beside: Makes the numbers that go with rows; see `with_sample`.

    Example:
        >>> from horoball.data import ArrayTable
        >>> table = SampledTable(ArrayTable(torch.ones(50, 3)), lambda x: 2 * x[:, :1])
        >>> next(table.batches(Order(8))).side.shape
        torch.Size([8, 1])
    """

    def __init__(self, table: Table, beside: Points) -> None:
        self.table, self.beside = table, beside
        self.columns, self.covariates, self.schema = table.columns, table.covariates, table.schema

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.table.rows

    def fingerprint(self) -> str:
        """The table's: the sample follows from it."""
        return self.table.fingerprint()

    def shards(self, rows: int) -> list[Any]:
        """The table's shards, with the same sample."""
        return [SampledTable(shard, self.beside) for shard in self.table.shards(rows)]

    def split(self, part: float, seed: int = 0) -> tuple[Table, Table | None]:
        """The table's split, with the same sample."""
        train, held = self.table.split(part, seed)
        return SampledTable(train, self.beside), None if held is None else SampledTable(held, self.beside)

    def steps(self, order: Order) -> int:
        """Number of steps of an epoch."""
        return self.table.steps(order)

    def blocks(self, rows: int = 65536) -> Iterator[Tensor]:
        """The table's rows."""
        return self.table.blocks(rows)

    def batches(self, order: Order) -> Iterator[Batch]:
        """The table's batches with what the term of a map needs."""
        for batch in self.table.batches(order):
            yield batch._replace(side=self.beside(batch.x))
