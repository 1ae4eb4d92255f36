"""The terms of a map for tables that are streamed, or too large for a search among all pairs: by a sample in memory.

Neighbors and distances are those of a sample of the rows. A row outside of it has its nearest rows there for neighbors,
and its geodesics begin with a step to one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.data.tables.geodesics import neighbor_graph, shortest_paths
from horoball.data.tables.table import Batch, Order, Table
from horoball.objectives.distances import DistanceTerm

__all__ = ["SampledTable", "with_sample"]

_SAMPLE = 8192  # rows: a search in them takes about as long as a step
_LANDMARKS = 512
_NEAREST = 15  # rows of the sample that may be a row's partner
_PARTNERS = 0x5A3B1E  # makes the draws of partners others than those of batches

Points = Callable[[Tensor], Tensor]


def with_sample(
    rows: Table, held: Table | None, points: Points, *, neighbors: int = 20, seed: int = 0, partners: bool = False
) -> tuple[SampledTable, SampledTable | None, DistanceTerm]:
    """The tables with distances to landmarks and neighbors beside their rows, and the term that uses them.

    Args:
        rows: Rows to train on, as the model sees them; the sample is drawn from these.
        held: Rows held out, if there are any.
        points: Makes points of rows, between which distances are measured.
        neighbors: Neighbors of the graph.
        seed: Seed of the sample.
        partners: Whether batches bring a neighbor of each row, which the neighbor term needs.

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
    lengths = shortest_paths(graph, landmarks).T
    apart = lengths[lengths > 1e-6 * lengths.max()]  # equal rows are joined by a hair
    unit = float(np.median(apart)) if len(apart) else 1.0
    surroundings = _Sample(sample, at / unit, torch.from_numpy(np.ascontiguousarray(lengths)) / unit)
    wrap = lambda table: SampledTable(table, surroundings, lambda x: points(x) / unit, partners=partners)  # noqa: E731
    return wrap(rows), None if held is None else wrap(held), DistanceTerm(sample[torch.from_numpy(landmarks)], 64)


def _drawn(table: Table, rng: np.random.Generator) -> Tensor:
    """A random sample of the rows, in one pass over them."""
    chosen = np.sort(rng.choice(table.rows, min(table.rows, _SAMPLE), replace=False))
    parts, first = [], 0
    for block in table.blocks():
        inside = chosen[(chosen >= first) & (chosen < first + len(block))] - first
        parts.append(block[torch.from_numpy(inside)])
        first += len(block)
    return torch.cat(parts)


class _Sample:
    """Rows of the sample, their points, and their geodesics to the landmarks, in units of the median."""

    def __init__(self, rows: Tensor, points: Tensor, lengths: Tensor) -> None:
        self.rows, self.points, self.lengths = rows, points, lengths

    def beside(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Of some points, the geodesics to the landmarks and the numbers of the nearest rows."""
        nearest = torch.cdist(points, self.points).topk(min(_NEAREST, len(self.points)), largest=False).indices
        # The search expands squares, which loses the digits of close pairs.
        gap = torch.linalg.vector_norm(points.unsqueeze(1) - self.points[nearest], dim=-1)
        return (gap.unsqueeze(-1) + self.lengths[nearest]).amin(1), nearest


class SampledTable(Table):
    """A table whose batches bring distances to landmarks, and a neighbor of each row, found in a sample.

    Args:
        table: Rows as the model sees them.
        sample: What `with_sample` made.
        points: Makes points of rows, in the units of the sample.
        partners: Whether batches bring neighbors.

    Example:
        >>> from horoball.data import ArrayTable
        >>> table, _, _ = with_sample(ArrayTable(torch.randn(50, 3)), None, lambda x: x, partners=True)
        >>> next(table.batches(Order(8))).partners.shape
        torch.Size([8, 3])
    """

    def __init__(self, table: Table, sample: _Sample, points: Points, *, partners: bool) -> None:
        self.table, self.sample, self.points, self.partners = table, sample, points, partners
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
        return [self._with(shard) for shard in self.table.shards(rows)]

    def split(self, part: float, seed: int = 0) -> tuple[Table, Table | None]:
        """The table's split, with the same sample."""
        train, held = self.table.split(part, seed)
        return self._with(train), None if held is None else self._with(held)

    def _with(self, table: Table) -> SampledTable:
        return SampledTable(table, self.sample, self.points, partners=self.partners)

    def steps(self, order: Order) -> int:
        """Number of steps of an epoch."""
        return self.table.steps(order)

    def blocks(self, rows: int = 65536) -> Iterator[Tensor]:
        """The table's rows."""
        return self.table.blocks(rows)

    def batches(self, order: Order) -> Iterator[Batch]:
        """The table's batches with what the terms of a map need."""
        for step, batch in enumerate(self.table.batches(order), order.start):
            side, nearest = self.sample.beside(self.points(batch.x))
            partners = None
            if self.partners:
                rng = np.random.default_rng((order.seed or 0, order.epoch, step, order.rank, _PARTNERS))
                pick = torch.from_numpy(rng.integers(nearest.shape[1], size=(len(nearest), 1)))
                partners = self.sample.rows[nearest.gather(1, pick).squeeze(1)]
            yield batch._replace(side=side, partners=partners)
