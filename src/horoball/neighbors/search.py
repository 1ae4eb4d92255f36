"""The nearest points, exactly: candidates from the engine, compared in float64.

The engine orders points by a score that float32 has rounded. Somewhat more points than are wanted are asked for, and
ordered by their distance in the tangent chart. If even the last of them scores worse than the k-th nearest by more than
rounding can move a score, then no point that was not asked for can be nearer, and the answer stands. Otherwise all
points with a score below that bound are taken and compared: some hundreds for a query in a cluster far out, hardly ever
any near the origin.

The engine is FAISS over lifted points, all of them or by partitions.

A hierarchy that hangs from the origin puts points over others. A point x is above y if, seen from x, the way to y leads
away from the origin: the angle at x between the ray that comes from the origin and the geodesic to y is at most φ. With
φ = 90° the points below x are those beyond the hyperplane through x that stands upright on the ray. The origin is above
everything, and no point is above itself. A point above is nearer to the origin, and x is above y exactly if y is below
x. Any point may stand for the origin, as the root of the hierarchy.

In the tangent chart the angle is that of log_x(y) with x: the frame at x is carried there along the ray itself.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.geometry.ball import PoincareBall
from horoball.neighbors.lift import Lift, Queries
from horoball.neighbors.partitions import Partitions, Probe
from horoball.plugins import required

_BLOCK = 65_536


class Engine:
    """Lifted points in FAISS: a flat index without partitions, an inverted file with them.

    Example:
        >>> import torch
        >>> z = torch.tensor([[0.0, 1.0], [0.0, 3.0]])
        >>> engine = Engine(Lift.of(z, 1.0), 2)
        >>> engine.add(z)
        >>> engine.search(engine.lift.queries(torch.tensor([[0.0, 2.5]])).rows, 1)[1]
        array([[1]])
    """

    def __init__(self, lift: Lift, d: int, partitions: Partitions | None = None) -> None:
        faiss = required("faiss")
        self.lift, self.partitions, self.of = lift, partitions, np.empty(0, np.int32)
        self.made_for = lift.reach
        if partitions is None:
            self.faiss: Any = faiss.IndexFlatIP(d + 1)
            return
        self._quantizer = partitions.quantizer()  # kept here, for FAISS does not keep it
        self.faiss = faiss.IndexIVFFlat(self._quantizer, d + 1, len(partitions), faiss.METRIC_INNER_PRODUCT)
        # The centers are known, and points are assigned here: FAISS would do it by inner products.
        self.faiss.is_trained = True

    def __len__(self) -> int:
        return self.faiss.ntotal

    def add(self, z: Tensor, of: np.ndarray | None = None) -> None:
        """Add points in the tangent chart, to the partitions that are given or to those they belong to."""
        self.lift = self.lift.reaching(z)
        if self.partitions is not None:
            of = self.partitions.assign(z) if of is None else of
            self.of = np.concatenate((self.of, of.astype(np.int32)))
        for first in range(0, len(z), _BLOCK):
            rows = self.lift.points(z[first : first + _BLOCK])
            if self.partitions is None or of is None:
                self.faiss.add(rows)
            else:
                from faiss.contrib.ivf_tools import add_preassigned

                add_preassigned(self.faiss, rows, np.ascontiguousarray(of[first : first + _BLOCK], np.int64))

    def search(self, rows: np.ndarray, k: int, probed: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The k least scores s and their ids, least first; −1 and infinity where there are fewer.

        Args:
            rows: Lifted queries, shape (n, d + 1).
            k: How many.
            probed: The partitions to look through, shape (n, p), as `Partitions.probed` gives them.
        """
        if probed is None:
            products, ids = self.faiss.search(rows, k)
            return -products, ids
        # FAISS's Python method takes p from an attribute of the index, which threads would share.
        pointer, products, ids = (
            required("faiss").swig_ptr,
            np.empty((len(rows), k), np.float32),
            np.empty((len(rows), k), int),
        )
        rows, lists = np.ascontiguousarray(rows), np.ascontiguousarray(probed, np.int64)
        centers = np.zeros(lists.shape, np.float32)  # products with them, which this kind of index makes no use of
        arguments = (pointer(rows), k, pointer(lists), pointer(centers), pointer(products), pointer(ids))
        self.faiss.search_preassigned_c(len(rows), *arguments, False, self._params(lists))
        return -products, ids

    def within(self, row: np.ndarray, bound: float, probed: np.ndarray | None = None) -> np.ndarray:
        """The ids of all points whose score for one query is at most a bound, in the partitions to look through."""
        # FAISS keeps products above the threshold, not those equal to it.
        least = float(np.nextafter(np.float32(-bound), np.float32(-np.inf)))
        if probed is None:
            return self.faiss.range_search(row[None], least)[2]
        faiss, row, lists = required("faiss"), np.ascontiguousarray(row), np.ascontiguousarray(probed[None], np.int64)
        found, centers = faiss.RangeSearchResult(1), np.zeros(lists.shape, np.float32)
        arguments = (faiss.swig_ptr(row), least, faiss.swig_ptr(lists), faiss.swig_ptr(centers), found)
        self.faiss.range_search_preassigned_c(1, *arguments, False, self._params(lists))
        return faiss.rev_swig_ptr(found.labels, int(faiss.rev_swig_ptr(found.lims, 2)[1])).copy()

    def _params(self, lists: np.ndarray) -> Any:
        return required("faiss").SearchParametersIVF(nprobe=lists.shape[1])


_SPARE = 6  # candidates beyond k, or half of k if that is more
_NUMBERS = 2**21  # coordinates that are held at a time, 16 MB
_GROUP = 16  # queries that are settled together
_TOO_FAR = "A query is too far away for an index in float32. Leave such queries out."
_NEAR = 8.0  # √cR up to which distances from directions are right to 1e-12


class Found(NamedTuple):
    """Neighbors, nearest first, equal ones by id; shape (m, k)."""

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
    """Points and the engine that holds them."""

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


def above(
    z: Tensor, i: int, ball: PoincareBall, *, k: int | None = None, angle: float = 90.0, root: int | None = None
) -> tuple[Tensor, Tensor]:
    """The points above point i, nearest first.

    Args:
        z: Points in the tangent chart, shape (n, d).
        i: Which.
        ball: Their ball.
        k: How many at most.
        angle: φ in degrees, in (0, 90].
        root: The point that stands for the origin.

    Returns:
        Distances from i, float64, and ids, int64.

    Example:
        >>> z = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 0.1]])
        >>> above(z, 3, PoincareBall())[1]
        tensor([1, 0])
    """
    return _related(z, i, ball, k, angle, root, upwards=True)


def below(
    z: Tensor, i: int, ball: PoincareBall, *, k: int | None = None, angle: float = 90.0, root: int | None = None
) -> tuple[Tensor, Tensor]:
    """The points below point i, nearest first; see `above`.

    Example:
        >>> z = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 0.1]])
        >>> below(z, 1, PoincareBall())[1]
        tensor([3])
    """
    return _related(z, i, ball, k, angle, root, upwards=False)


@torch.no_grad()
def _related(
    z: Tensor, i: int, ball: PoincareBall, k: int | None, angle: float, root: int | None, *, upwards: bool
) -> tuple[Tensor, Tensor]:
    if not 0 < angle <= 90:
        raise ValueError(f"Expected an angle above 0 and up to 90 degrees, got {angle:g}.")
    if k is not None and k < 1:
        raise ValueError(f"Expected k of at least 1, or None for all, got {k}.")
    if root is not None:  # a translation of the ball, which carries the root to the origin
        z = torch.cat([ball.log(z[root].double(), block.double()) for block in z.split(_BLOCK)])
    radius = torch.linalg.vector_norm(z, dim=-1, dtype=torch.float64)
    ids = (radius < radius[i] if upwards else radius > radius[i]).nonzero().flatten()
    one, found = z[i].double(), []
    for block in ids.split(_BLOCK):
        other = z[block].double()
        x, y = (other, one) if upwards else (one, other)
        v = ball.log(x, y)
        length = torch.linalg.vector_norm(v, dim=-1)
        # of angles up to 90° the sine of half the angle says as much, and keeps small angles
        apart = v / length.unsqueeze(-1) - torch.nn.functional.normalize(x, dim=-1, eps=1e-300)
        half = torch.linalg.vector_norm(apart, dim=-1) / 2
        at_origin = torch.linalg.vector_norm(x, dim=-1) == 0
        kept = (half <= math.sin(math.radians(angle) / 2)) | at_origin
        found.append(torch.stack((length[kept], block[kept].double())))
    distances, kept_ids = torch.cat(found, -1) if found else torch.empty(2, 0, dtype=torch.float64)
    order = torch.argsort(distances, stable=True)[:k]
    return distances[order], kept_ids[order].long()
