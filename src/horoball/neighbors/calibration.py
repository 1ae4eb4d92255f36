"""Which partitions to make and how many to look through, measured on the points themselves.

Some points are taken as queries, and their neighbors are found by looking at everything. A query meets the partitions
in two orders: its own first, and those with the best products first. The ranks of a neighbor's partition say how many
have to be looked through to find the neighbor. So the numbers of partitions for a recall follow, and the points in as
many partitions are the price. Of several ways to make partitions and to look through them the cheapest is taken.

Queries are of three kinds, and each has to reach the recall by itself, for one and for ten neighbors: points of the
index, which have to find themselves; fresh queries, which are points of the index that are left out of the answer; and
near-duplicates, which are points of the index that were moved in a random direction, by half of the distance to their
nearest neighbor. Queries that lie elsewhere than the points may need more partitions.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.geometry.ball import PoincareBall
from horoball.neighbors.lift import FARTHEST, Lift
from horoball.neighbors.partitions import Partitions, Probe, train
from horoball.neighbors.search import Engine, Search, others

_QUERIES = 512, 4096  # of each kind: the fewest and the most
_ONE, _FEW, _MANY = 1, 10, 100  # neighbors that the numbers of partitions are measured for
_WIDTHS = (1.0, 4.0)
_STRETCHES = (1.0, 1.1, 1.2)
_OWN = (1, 2, 4, 8, 16, 32, 64)  # how many of a query's own partitions are tried
_SIZES = 50_000  # points from which the sizes of partitions are estimated
_PARTITIONS = 4.0  # for each square root of the number of points
_HALFWAY = 0.5


@dataclass(frozen=True)
class Probes:
    """How many partitions to look through for k neighbors."""

    own: int  # of the query's own
    few: int  # with the best products, for ten neighbors
    many: int  # for a hundred
    share: float  # of the points that are in the partitions for ten

    def of(self, k: int) -> Probe:
        """A power distribution through the two that were measured."""
        power = math.log10(self.many / self.few)
        return Probe(self.own, max(self.few, math.ceil(self.few * (k / _FEW) ** power - 1e-9)))


def calibrate(z: Tensor, ball: PoincareBall, lift: Lift, *, recall: float, seed: int) -> tuple[Partitions, Probes]:
    """The partitions with the cheapest search for a recall.

    Args:
        z: Points in the tangent chart, more than two hundred, shape (n, d).
        ball: Their ball.
        lift: Their lift.
        recall: The share of true neighbors to be found, below 1.
        seed: Of all that is drawn.

    Example:
        >>> z = torch.randn(2000, 2, generator=torch.Generator().manual_seed(0))
        >>> partitions, probes = calibrate(z, PoincareBall(), Lift.of(z, 1.0), recall=0.99, seed=0)
        >>> len(partitions), probes.few < 20
        (179, True)
    """
    generator = torch.Generator().manual_seed(seed)
    # so many that two of them may miss their only neighbor, and not more than half of the points
    queries = min(max(_QUERIES[0], min(_QUERIES[1], math.ceil(6 / (1 - recall)))), len(z) // 4)
    drawn, rest = torch.randperm(len(z), generator=generator).split([2 * queries, len(z) - 2 * queries])
    engine = Engine(lift, z.shape[-1])
    engine.add(z)
    everything = Search(engine, ball, z)
    first, second = (_Queries.of(own, everything, generator) for own in drawn.split(queries))
    sample = z[rest[:_SIZES]]
    measured: list[tuple[float, Partitions]] = []
    for partitions in _ways(z[rest], round(_PARTITIONS * math.sqrt(len(z))), lift, seed):
        found = _Found.of_queries(partitions, sample, z, first)
        for stretch in _STRETCHES if lift.c > 0 else (1.0,):  # for c = 0 the origin, and so a stretch, means nothing
            stretched = replace(partitions, stretch=stretch)
            measured.append((_needed(first, stretched, found, recall).share, stretched))
    _, partitions = min(measured, key=operator.itemgetter(0))
    # The cheapest was so by luck in part: what it needs is measured on queries that had no say in the choice.
    return partitions, _needed(second, partitions, _Found.of_queries(partitions, sample, z, second), recall)


class _Queries(NamedTuple):
    """Points of the index, and near-duplicates of them."""

    z: Tensor  # first the points, then as many near-duplicates
    neighbors: np.ndarray  # ids of the nearest points, a hundred and one; of the points, first themselves

    @classmethod
    def of(cls, own: Tensor, everything: Search, generator: torch.Generator) -> _Queries:
        z, ball = everything.z[own].double(), everything.ball
        distances, ids = everything.nearest(z, _MANY + 1)[:2]
        themselves = torch.cat((own[:, None], ids[others(ids, own, _MANY)].reshape(len(own), _MANY)), 1)
        apart = distances.masked_fill(distances == 0, torch.inf).amin(1, keepdim=True)  # doubles are not moved
        step = _HALFWAY * torch.where(apart.isinf(), 0.0, apart)
        v = torch.randn(z.shape, generator=generator, dtype=torch.float64)
        near = ball.exp(z, step * torch.nn.functional.normalize(v, dim=-1))
        too_far = torch.linalg.vector_norm(near, dim=-1, keepdim=True) * ball.c_value**0.5 > FARTHEST
        near = torch.where(too_far, z, near)
        both = torch.cat((z, near))
        neighbors = torch.cat((themselves, everything.nearest(near, _MANY + 1).ids))
        return cls(both, neighbors.numpy())

    def kinds(self, ranks: np.ndarray, k: int) -> Iterator[np.ndarray]:
        """The ranks of the k nearest points of queries from the index, of fresh ones and of near-duplicates."""
        half = len(self.z) // 2
        yield from (ranks[:half, :k], ranks[:half, 1 : k + 1], ranks[half:, :k])


class _Found(NamedTuple):
    """Where partitions hold the points."""

    size: np.ndarray  # share of the points in each
    of: np.ndarray  # the partition of each neighbor, in the shape of the neighbors
    own: np.ndarray  # the queries' own partitions

    @classmethod
    def of_queries(cls, partitions: Partitions, sample: Tensor, z: Tensor, queries: _Queries) -> _Found:
        size = np.bincount(partitions.assign(sample), minlength=len(partitions)) / len(sample)
        ids, back = np.unique(queries.neighbors, return_inverse=True)
        of = partitions.assign(z[ids])[back].reshape(queries.neighbors.shape)
        return cls(size, of, partitions.own(queries.z, min(_OWN[-1], len(partitions))))


def _needed(queries: _Queries, partitions: Partitions, found: _Found, recall: float) -> Probes:
    """How many partitions the queries have to look through, with as few points in them as possible."""
    m, half, (size, of, own) = len(partitions), len(queries.z) // 2, found
    best = partitions.best(queries.z, m)
    by_best = _ranks(best, m)
    best_rank, own_rank = (np.take_along_axis(ranks, of, 1) for ranks in (by_best, _ranks(own, m)))
    # The price of fresh queries is the number of points in the partitions with the best products and in their own.
    price = size[best[:half]].cumsum(1)
    own_size = np.where(own[:half] < 0, 0.0, size[own[:half]])
    twice = np.take_along_axis(by_best[:half], own[:half], 1)
    ways: list[tuple[float, int, int]] = []
    for count in (number for number in _OWN if number <= m):
        ranks = np.where(own_rank < count, -1, best_rank)
        few = max(_enough(some, recall, m) for k in (_ONE, _FEW) for some in queries.kinds(ranks, k))
        further = np.where(twice[:, :count] >= few, own_size[:, :count], 0.0).sum(1)
        ways.append((float((price[:, few - 1] + further).mean()), count, few))
    share, count, few = min(ways)
    ranks = np.where(own_rank < count, -1, best_rank)
    many = max(_enough(some, recall, m) for some in queries.kinds(ranks, _MANY))
    return Probes(count, few, max(few, many), share)


def _ranks(order: np.ndarray, m: int) -> np.ndarray:
    """The rank of each partition in the orders that queries meet them in; m where it is not among them."""
    ranks = np.full((len(order), m + 1), m)
    np.put_along_axis(ranks, order, np.arange(order.shape[1])[None], axis=1)
    return ranks[:, :m]  # the last is that of −1, which is none


def _ways(z: Tensor, count: int, lift: Lift, seed: int) -> Iterator[Partitions]:
    for width in _WIDTHS if lift.c > 0 else _WIDTHS[:1]:
        partitions = train(z, lift, count, width=width, seed=seed)
        yield partitions
        if lift.c > 0:
            yield replace(partitions, curved=True)


def _enough(ranks: np.ndarray, recall: float, most: int) -> int:
    """Partitions to look through: the fewest whose recall is enough at its lower confidence bound; `most` if none is.

    The bound is the mean over queries less two standard errors, with one query more, which finds nothing: where no
    query of the sample misses anything, some of the others may.
    """

    def confirmed(probes: int) -> bool:
        found = np.append((ranks < probes).mean(1), 0.0)
        return bool(found.mean() - 2 * found.std() / math.sqrt(len(found)) >= recall)

    return min(most, 1 + bisect_left(range(1, most + 1), True, key=confirmed))
