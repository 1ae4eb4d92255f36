"""The nearest points, exactly: candidates from the engine, compared in float64.

The engine orders points by a score that float32 has rounded. Somewhat more points than are wanted are asked for, and
ordered by their distance in the tangent chart. If even the last of them scores worse than the k-th nearest by more than
rounding can move a score, then no point that was not asked for can be nearer, and the answer stands. Otherwise all
points with a score below that bound are taken and compared: some hundreds for a query in a cluster far out, hardly ever
any near the origin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.manifolds import PoincareBall
from horoball.neighbors.engine import Engine
from horoball.neighbors.lift import Queries
from horoball.neighbors.partitions import Probe

__all__ = ["Found", "Search", "others"]

_SPARE = 6  # candidates beyond k, or half of k if that is more
_NUMBERS = 2**21  # coordinates that are held at a time, 16 MB
_GROUP = 16  # queries that are settled together
_TOO_FAR = "A query is too far away for an index in float32. Leave such queries out."
_NEAR = 8.0  # √cR up to which distances from directions are right to 1e-12


class Found(NamedTuple):
    """Neighbors, nearest first, equal ones by id; shape (m, k).

    Example:
        >>> Found(torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.int64), 0).unsettled
        0
    """

    distances: Tensor  # float64
    ids: Tensor  # int64
    unsettled: int  # queries whose order float32 left open


def others(ids: Tensor, own: Tensor, k: int) -> Tensor:
    """Which of k + 1 neighbors of points of the index are k others; a point with many doubles may not be among them.

    Args:
        ids: Neighbors, shape (m, k + 1).
        own: Ids of the points themselves, shape (m,).
        k: How many.

    Example:
        >>> others(torch.tensor([[7, 3, 4], [1, 2, 3]]), torch.tensor([7, 9]), 2)
        tensor([[False,  True,  True],
                [ True,  True, False]])
    """
    are = ids != own.unsqueeze(-1)
    return are & (are.cumsum(-1) <= k)


class Search(NamedTuple):
    """Points and the engine that holds them.

    Example:
        >>> from horoball.neighbors.lift import Lift
        >>> z = torch.tensor([[0.0, 1.0], [0.0, 3.0]])
        >>> engine = Engine(Lift.of(z, 1.0), 2)
        >>> engine.add(z)
        >>> Search(engine, PoincareBall(), z).nearest(torch.tensor([[0.0, 2.5]]), 1)
        Found(distances=tensor([[0.5000]], dtype=torch.float64), ids=tensor([[1]]), unsettled=0)
    """

    engine: Engine
    ball: PoincareBall
    z: Tensor  # in the tangent chart, shape (n, d)

    @torch.no_grad()
    def nearest(self, q: Tensor, k: int, probe: Probe = Probe(1, 1)) -> Found:  # noqa: B008  it cannot be changed
        """The k points nearest to each query, among those in the partitions that are looked through.

        Args:
            q: Queries in the tangent chart, shape (m, d).
            k: How many, at most n.
            probe: Partitions that are looked through, if there are any; more if they hold fewer than k points.
        """
        q, (n, d), partitions = q.double(), self.z.shape, self.engine.partitions
        width, unsettled = min(n, k + max(_SPARE, k // 2)), 0
        distances, ids = torch.empty(len(q), k, dtype=torch.float64), torch.empty(len(q), k, dtype=torch.int64)
        for left in torch.arange(len(q)).split(max(1, _NUMBERS // (width * d))):
            looked = probe
            while len(left):
                queries = self.engine.lift.queries(q[left])
                if not bool(torch.isfinite(torch.as_tensor(queries.rows)).all()):
                    raise ValueError(_TOO_FAR)
                probed = None if partitions is None else partitions.probed(q[left], looked)
                far, which, bound, still = self._candidates(q[left], queries, k, width, probed)
                for group in still.split(_GROUP) if len(still) else ():
                    near = [
                        self.engine.within(queries.rows[i], float(bound[i]), None if probed is None else probed[i])
                        for i in group.tolist()
                    ]
                    far[group], which[group] = self._first(q[left][group], near, k)
                distances[left], ids[left] = far, which
                unsettled += len(still)
                left, looked = left[far[:, -1].isinf()], looked.doubled()
                if len(left) and (partitions is None or probed is None or probed.shape[1] == len(partitions)):
                    raise ValueError(_TOO_FAR)  # all was looked at, and FAISS leaves out what is infinitely far
        return Found(distances, ids, unsettled)

    def _candidates(
        self, q: Tensor, queries: Queries, k: int, width: int, probed: np.ndarray | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Distances and ids of the k best candidates; bounds of the score of nearer points, and who may have such."""
        lift = self.engine.lift
        scores, found = self.engine.search(queries.rows, width, probed)
        ids = torch.from_numpy(found)
        missing = ids < 0
        points = self.z[ids.clamp_min(0)].double()
        if lift.reach * lift.c**0.5 <= _NEAR:
            far = self.ball.cdist(q.unsqueeze(-2), points).squeeze(-2)  # a fourth of the time
        else:
            far = self.ball.dist(q.unsqueeze(-2), points)
        far.masked_fill_(missing, torch.inf)
        order = torch.from_numpy(np.lexsort((found, far.numpy()), axis=-1)[:, :k])
        far, ids = far.gather(-1, order), ids.gather(-1, order)
        last, d = far[:, -1], self.z.shape[-1]
        bound = lift.score(queries, last) + lift.error(queries, last, d)
        # With some missing, all that was looked through is here; with all points asked for there are no others.
        settled = missing[:, -1] | (torch.from_numpy(scores[:, -1]) > bound) | (width == len(self.z))
        return far, ids, bound, (~settled).nonzero().flatten()

    def _first(self, q: Tensor, near: list[np.ndarray], k: int) -> tuple[Tensor, Tensor]:
        """Distances and ids of the k nearest of some points for each query."""
        counts = torch.tensor([len(found) for found in near])
        ids, rows = torch.from_numpy(np.concatenate(near)), torch.arange(len(q)).repeat_interleave(counts)
        size = max(1, _NUMBERS // self.z.shape[-1])
        pairs = zip(rows.split(size), ids.split(size), strict=True)
        far = torch.cat([self.ball.dist(q[some], self.z[other].double()) for some, other in pairs])
        order = torch.from_numpy(np.lexsort((ids.numpy(), far.numpy(), rows.numpy())))
        first = order[(counts.cumsum(0) - counts).unsqueeze(-1) + torch.arange(k)]
        return far[first], ids[first]
