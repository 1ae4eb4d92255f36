"""Cells: which points are looked through together.

A search looks through the cells whose centres have the best inner products with the query, so a cell ought to hold
points that are neighbours of the same queries. Seen from afar, the score of a point changes by a factor exp(δ) when its
√cR changes by δ, and by a factor of about 1 + δ when its direction turns by δ. So cells are found by k-means on

    (w tanh(√cR/w) z/R, √cR − w tanh(√cR/w)),

where a turn and a step outwards weigh the same for w = 1. Near the origin, and for c = 0, this is z itself. Points in
tight clusters far out have their neighbours in nearly their own direction: they want a larger w, and to be given to the
centre that is nearest in the ball. Points that fill the ball do not: the innermost centres would get nearly all.
`calibration` measures which it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from horoball.neighbors.library import library
from horoball.neighbors.lift import Lift
from horoball.numerics import tanhc

__all__ = ["Cells", "features", "train"]

_SAMPLE = 40  # points a cell that k-means looks at
_STEPS = 8
_BLOCK = 65_536


@dataclass(frozen=True)
class Cells:
    """Centres, and how points and queries are given to them.

    Example:
        >>> z = torch.randn(1000, 2, generator=torch.Generator().manual_seed(0))
        >>> cells = train(z, Lift.of(z, 1.0), 20, width=1.0, seed=0)
        >>> cells.assign(z, Lift.of(z, 1.0)).max()
        np.int64(19)
    """

    centres: Tensor  # in the features above, float32, shape (m, d + 1)
    width: float  # w
    curved: bool  # points go to the centre that is nearest in the ball, not in the features
    stretch: float  # factor of the centre's h: more than 1 favours cells in the query's direction

    def assign(self, z: Tensor, lift: Lift) -> np.ndarray:
        """The cell of each point, int64."""
        faiss, d = library(), self.centres.shape[-1]
        if self.curved:
            index = faiss.IndexFlatIP(d)
            index.add(self.lifted(lift, 1.0))
        else:
            index = faiss.IndexFlatL2(d)
            index.add(self.centres.numpy())
        found = []
        for block in z.split(_BLOCK):
            rows = lift.queries(block).rows if self.curved else features(block, lift, self.width)
            found.append(index.search(rows, 1)[1][:, 0])
        return np.concatenate(found)

    def lifted(self, lift: Lift, stretch: float | None = None) -> np.ndarray:
        """The centres as queries meet them, float32, shape (m, d + 1)."""
        centre = self.centres.double()
        turned, rest = centre[:, :-1], centre[:, -1:]
        length = torch.linalg.vector_norm(turned, dim=-1, keepdim=True)
        # Of a mean of features: its direction, at the radius that its two parts make together.
        z = turned * (1 + rest / length.clamp_min(1e-30))
        rows = lift.points(torch.where(length > 0, z, 0.0) * lift.unit)
        rows[:, 1:] *= self.stretch if stretch is None else stretch
        return rows


def features(z: Tensor, lift: Lift, width: float) -> np.ndarray:
    """What k-means sees of points, float32, shape (n, d + 1).

    Example:
        >>> z = torch.tensor([[0.0, 20.0]])
        >>> features(z, Lift.of(z, 1.0), 1.0)  # direction and radius
        array([[ 0.,  1., 19.]], dtype=float32)
    """
    z, u = lift.scaled(z)
    turned = tanhc(u / (width * width))
    radius = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    return torch.cat((z * turned, radius * (1 - turned)), -1).float().numpy()


def train(z: Tensor, lift: Lift, count: int, *, width: float, seed: int) -> Cells:
    """Find cells by k-means on a sample.

    Args:
        z: Points in the tangent chart, shape (n, d).
        lift: Their lift.
        count: Number of cells.
        width: w.
        seed: Of the sample and of k-means.

    Example:
        >>> z = torch.randn(1000, 2)
        >>> train(z, Lift.of(z, 1.0), 20, width=1.0, seed=0).centres.shape
        torch.Size([20, 3])
    """
    if len(z) > count * _SAMPLE:
        z = z[torch.randperm(len(z), generator=torch.Generator().manual_seed(seed))[: count * _SAMPLE]]
    rows = features(z, lift, width)
    options = {"niter": _STEPS, "seed": seed + 1, "max_points_per_centroid": _SAMPLE, "min_points_per_centroid": 1}
    kmeans = library().Kmeans(rows.shape[1], count, **options)
    kmeans.train(rows)
    return Cells(torch.from_numpy(kmeans.centroids), width, False, 1.0)
