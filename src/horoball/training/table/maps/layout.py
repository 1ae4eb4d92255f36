"""A layout of rows: where a map should have them, found by descent on their coordinates alone.

The terms of a map are easy to satisfy for free points and hard for a network, whose every step moves all rows. So a
layout is found first, which takes seconds, and the encoder then learns it; see `PlaceTerm`.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from horoball.data.tables.neighborhood import Neighborhood
from horoball.manifolds import PoincareBall
from horoball.objectives.chords import ChordPoints
from horoball.objectives.mean_terms import mean_distance_term, mean_neighbor_term
from horoball.training.progress import counted
from horoball.training.table.maps.rate import rise_and_fall

__all__ = ["layout"]

_STEPS = 400
_RATE = 0.1  # of coordinates, at first
_SCALE_RATE = 0.02  # of the scales of the terms
_DISTANCES_FIRST = 0.2  # part of the steps with the distance term alone
_CROWD, _ROWS_PER_CROWD = 10.0, 100.0  # weight of the crowd: groups of more rows are finer, as a share of all
_AXES = 256  # landmarks that main axes are taken from, at most
_AT_ONCE = 64  # landmarks, and rows in the crowd, of a step


def layout(
    ball: PoincareBall,
    d: int,
    graph: csr_matrix,
    lengths: Tensor,
    landmarks: np.ndarray,
    *,
    locality: float,
    start: Tensor | None = None,
    seed: int = 0,
) -> Tensor:
    """Points in tangent coordinates at the origin, float32, shape (rows, d), that make the terms of a map small.

    The sum is (1 − λ) distance term + λ neighbor term, where λ is `locality`. Distances come first, so that neighbors
    are sorted out within a layout that is right at large.

    Args:
        ball: Where the points are.
        d: Dimension.
        graph: Neighbors of rows, with lengths.
        lengths: Geodesics from rows to landmarks in units of their median, shape (rows, landmarks).
        landmarks: Numbers of the landmarks.
        locality: Share of the neighbor term.
        start: Where points start; at the main axes of the geodesics if not given.
        seed: Seed of the draws.

    Example:
        >>> from horoball.data.tables.geodesics import neighbor_graph, shortest_paths
        >>> x, index = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60)
        >>> graph = neighbor_graph(x, 5)
        >>> g = torch.from_numpy(shortest_paths(graph, index).T)
        >>> layout(PoincareBall(0.0), 2, graph, g / g.median(), index, locality=0.5).shape
        torch.Size([60, 2])
    """
    rng = np.random.default_rng(seed)
    neighbors, rows, marks = Neighborhood.of_graph(graph), len(lengths), torch.from_numpy(landmarks)
    by_landmark = lengths.mT.contiguous()  # a step takes whole rows of it
    z = torch.nn.Parameter(_main_axes(lengths, d) if start is None else start.float().clone())
    scales = [torch.nn.Parameter(torch.zeros(())) for _ in range(2)]  # logarithms: of distances, of the kernel
    groups = [{"params": [z], "lr": _RATE}, {"params": scales, "lr": _SCALE_RATE}]
    crowd = max(_CROWD, rows / _ROWS_PER_CROWD)
    optimizer = torch.optim.Adam(groups, fused=True)
    for step in counted("Layout", _STEPS):
        part = step / _STEPS
        optimizer.param_groups[0]["lr"] = rise_and_fall(_RATE, part)
        weight = locality if part >= _DISTANCES_FIRST else 0.0
        with torch.enable_grad():
            points = ChordPoints(ball, z)
            index = torch.from_numpy(rng.choice(len(marks), min(len(marks), _AT_ONCE), replace=False))
            square = points.take(marks[index]).between(points)
            loss = (1 - weight) * mean_distance_term(square, by_landmark[index], scales[0], ball.c_value)
            if weight > 0:
                # Others than the landmarks, too: rows that are in no crowd would not move apart.
                others = torch.from_numpy(rng.choice(rows, min(rows, _AT_ONCE), replace=False))
                near = points.paired(points.take(torch.from_numpy(neighbors.drawn(rng))))
                far = points.take(others).between(points)
                loss = loss + weight * mean_neighbor_term(near, far, scales[1], crowd)
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
    return z.detach()


def _main_axes(lengths: Tensor, d: int) -> Tensor:
    """The rows' main axes by their geodesics to some landmarks, of spread 1; 0 for those there are not."""
    some = lengths[:, :: -(-lengths.shape[1] // _AXES)].double()
    centered = some - some.mean(0)
    _, axes = torch.linalg.eigh(centered.mT @ centered)
    points = centered @ axes.flip(1)[:, :d]
    points = points / points.std().clamp_min(1e-12)
    return torch.nn.functional.pad(points, (0, d - points.shape[1])).float()
