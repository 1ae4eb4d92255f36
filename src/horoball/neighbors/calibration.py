"""Which cells to make and how many to look through, measured on the points themselves.

Some points are taken as queries, and their neighbours are found by looking at everything. A query meets the cells in an
order, and the place of a neighbour's cell in it says how many have to be looked through to find the neighbour. So the
number of cells for a recall follows, and the points in as many cells are the price. Of several ways to make cells the
cheapest is taken. Queries that lie elsewhere than the points may need more cells.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.manifolds import PoincareBall
from horoball.neighbors.cells import Cells, train
from horoball.neighbors.engine import Engine
from horoball.neighbors.lift import Lift
from horoball.neighbors.search import Search, others

__all__ = ["Probes", "calibrate"]

_QUERIES = 512
_FEW, _MANY = 10, 100  # neighbours that the number of cells is measured for
_WIDTHS = (1.0, 4.0)
_STRETCHES = (1.0, 1.1, 1.2)
_SIZES = 50_000  # points from which the sizes of cells are estimated
_CELLS = 4.0  # cells for each square root of the number of points


@dataclass(frozen=True)
class Probes:
    """How many cells to look through for k neighbours.

    Example:
        >>> [Probes(4, 16).of(k) for k in (1, 10, 40, 100, 1000)]
        [4, 4, 10, 16, 64]
    """

    few: int  # for ten
    many: int  # for a hundred

    def of(self, k: int) -> int:
        """A power law through the two that were measured."""
        power = math.log10(self.many / self.few)
        return max(self.few, math.ceil(self.few * (k / _FEW) ** power - 1e-9))


def calibrate(z: Tensor, ball: PoincareBall, lift: Lift, *, recall: float, seed: int) -> tuple[Cells, Probes]:
    """The cells with the cheapest search for a recall.

    Args:
        z: Points in the tangent chart, more than a hundred, shape (n, d).
        ball: Their ball.
        lift: Their lift.
        recall: The share of true neighbours to be found, below 1.
        seed: Of all that is drawn.

    Example:
        >>> z = torch.randn(2000, 2, generator=torch.Generator().manual_seed(0))
        >>> cells, probes = calibrate(z, PoincareBall(), Lift.of(z, 1.0), recall=0.99, seed=0)
        >>> len(cells.centres), probes.few < 20
        (179, True)
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randperm(len(z), generator=generator)[: 2 * _QUERIES]
    first, second = (_Queries.of(own, z, ball, lift) for own in (drawn[::2], drawn[1::2]))
    sample = z[torch.randperm(len(z), generator=generator)[:_SIZES]]
    measured: list[tuple[float, Cells]] = []
    for cells in _ways(z, lift, seed):
        size = np.bincount(cells.assign(sample, lift), minlength=len(cells.centres)) / len(sample)
        for stretch in _STRETCHES if lift.c > 0 else (1.0,):  # for c = 0 the origin, and so a stretch, means nothing
            stretched = replace(cells, stretch=stretch)
            order, probes = _needed(first, stretched, z, lift, recall)
            measured.append((float(size[order[:, : probes.few]].sum(1).mean()), stretched))
    _, cells = min(measured, key=operator.itemgetter(0))
    # The cheapest was so by luck in part: how many cells it needs is measured on queries that had no say in the choice.
    return cells, _needed(second, cells, z, lift, recall)[1]


class _Queries(NamedTuple):
    rows: np.ndarray  # lifted
    neighbours: np.ndarray  # ids of the hundred nearest points

    @classmethod
    def of(cls, own: Tensor, z: Tensor, ball: PoincareBall, lift: Lift) -> _Queries:
        return cls(lift.queries(z[own]).rows, _neighbours(z, ball, lift, own))


def _needed(queries: _Queries, cells: Cells, z: Tensor, lift: Lift, recall: float) -> tuple[np.ndarray, Probes]:
    """The order in which queries meet the cells, and how many they have to look through."""
    order = np.argsort(-(queries.rows @ cells.lifted(lift).T), axis=1, kind="stable")
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(order.shape[1])[None], axis=1)
    of = cells.assign(z[queries.neighbours.flatten()], lift).reshape(queries.neighbours.shape)
    places = np.take_along_axis(place, of, axis=1)
    few, many = (_enough(places[:, :k], recall) for k in (_FEW, _MANY))
    return order, Probes(few, max(few, many))


def _neighbours(z: Tensor, ball: PoincareBall, lift: Lift, own: Tensor) -> np.ndarray:
    """Ids of the hundred nearest points of some, themselves left out."""
    engine = Engine(lift, z.shape[-1])
    engine.add(z)
    ids = Search(engine, ball, z).nearest(z[own], _MANY + 1).ids
    return ids[others(ids, own, _MANY)].reshape(len(own), _MANY).numpy()


def _ways(z: Tensor, lift: Lift, seed: int) -> Iterator[Cells]:
    count = round(_CELLS * math.sqrt(len(z)))
    for width in _WIDTHS if lift.c > 0 else _WIDTHS[:1]:
        cells = train(z, lift, count, width=width, seed=seed)
        yield cells
        if lift.c > 0:
            yield replace(cells, curved=True)


def _enough(places: np.ndarray, recall: float) -> int:
    """Cells to look through: the fewest whose mean recall, less two standard errors over queries, is enough."""
    for probes in np.unique(places[places >= np.quantile(places, recall, method="lower")]) + 1:
        found = (places < probes).mean(1)
        if found.mean() - 2 * found.std() / math.sqrt(len(found)) >= recall:
            break
    return int(probes)
