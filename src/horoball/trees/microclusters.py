"""Micro-clusters: rows near each other, that are one leaf of a tree of many rows.

Note [Micro-clusters]: a linkage takes time and memory with the square of its leaves, so a tree of many rows is one of
some thousand micro-clusters, each counted by its rows. They are k-means clusters. Their first centers come from
dividing the rows again and again: a part is cut into up to 16 by k-means, and the centers still to be given are shared
among these in proportion to √(sum of squares), where k-means alone gives each group its share of the rows. A small
group that lies apart is then cut off at some level, and has more leaves than its rows would give it. With hardly more
rows than leaves, nearly all leaves are single rows: nothing jumps at the number of rows from which on they are formed.

The squared distance between a row of one micro-cluster and one of another is on average

    |m_i − m_j|² + v_i + v_j,

where m are means and v sums of variances within. Its root is the distance between leaves. A replicate draws columns of
m and v alike. In a curved space there are no such means: there a leaf is the row nearest to its center.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from horoball.trees.source import Draw, Source

_PARTS = 16  # that rows are cut into at a time
_ROUNDS = 6  # of k-means
_KNOWN = 64  # rows for each micro-cluster that centers are found from
_DISTANCES = 8_000_000  # at a time
_BLOCK = 1 << 16  # rows whose moments are taken at a time


@dataclass(frozen=True)
class MicroClusters:
    """The micro-cluster of every row, and the leaves as a source of a tree."""

    leaf: np.ndarray  # of every row
    size: np.ndarray  # rows of each
    middle: np.ndarray  # the row nearest to the center of each, by which it is called
    source: Source  # of the leaves

    @classmethod
    def of(cls, source: Source, count: int, rng: np.random.Generator) -> MicroClusters:
        """At most so many micro-clusters of a source's rows; there are more rows than that."""
        points = source.points
        center = np.nan_to_num(np.nanmean(points, 0))
        scale = np.ones(points.shape[1]) if source.weight is None else source.weight
        z = torch.empty(points.shape, dtype=torch.float32)
        for first in range(0, len(points), _BLOCK):  # a gap is at its column's mean
            block = np.nan_to_num((points[first : first + _BLOCK] - center) * scale)
            z[first : first + _BLOCK] = torch.from_numpy(block)
        leaf, middle = micro_clusters(z, count, rng)
        size = np.bincount(leaf)
        if source.c is not None:
            made = replace(source, points=points[middle])
            return cls(leaf, size, middle, replace(made, noise=_noise(source, middle, np.ones(len(size)))))
        mean, spread = _moments(points, center, leaf, len(size))
        made = replace(source, points=mean, spread=spread)
        # Rows move independently, so the mean of many moves less than one of them.
        return cls(leaf, size, middle, replace(made, noise=_noise(source, middle, np.sqrt(size))))


def micro_clusters(z: Tensor, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The micro-cluster of every row, and the row nearest to the center of each; see Note [Micro-clusters].

    Args:
        z: Rows, float32, shape (n, columns), with a mean near 0.
        count: Micro-clusters, at most: there are fewer if rows are equal.
        rng: Draws the rows that centers are found from, and the first centers.
    """
    known = min(len(z), _KNOWN * count)
    some = z if known == len(z) else z[torch.from_numpy(np.sort(rng.choice(len(z), known, replace=False)))]
    centers = _divided(some, count, rng)
    centers = _means(some, nearest(some, centers)[0], centers)
    leaf, apart = nearest(z, centers)
    apart += z.square().sum(1) / 2
    kept, places = torch.unique(leaf, return_inverse=True)
    middle = torch.empty(len(kept), dtype=torch.int64)
    order = apart.argsort(descending=True, stable=True)
    middle[places[order]] = order  # the last that is written is the nearest
    return places.numpy(), middle.numpy()


def _divided(x: Tensor, count: int, rng: np.random.Generator) -> Tensor:
    """So many centers, by dividing rows again and again."""
    found = []
    waiting = [(x, count)]
    while waiting:
        rows, most = waiting.pop()
        if len(rows) <= most:
            found.append(rows)
        elif most == 1:
            found.append(rows.mean(0, keepdim=True))
        else:
            parts = list(_parts(rows, min(most, _PARTS), rng))
            if len(parts) == 1:  # all rows are equal
                found.append(rows[:1])
            elif most <= _PARTS:
                found += [part.mean(0, keepdim=True) for part in parts]
            else:
                waiting += zip(parts, _shares(parts, most), strict=True)
    return torch.cat(found)


def _shares(parts: list[Tensor], count: int) -> list[int]:
    """How many of so many centers each part gets: by the root of its sum of squares, and no more than it has rows."""
    room = np.array([len(part) for part in parts], np.float64)
    wanted = np.sqrt([float((part - part.mean(0)).square().sum()) for part in parts]) + 1e-12
    share = np.ones(len(parts))
    for _ in range(len(parts)):  # what a part has no room for goes to the others
        open_ = share < room
        left = count - share.sum()
        if left < 1 or not open_.any():
            break
        share = np.minimum(share + np.where(open_, left * wanted / wanted[open_].sum(), 0.0), room)
    whole = np.floor(share).astype(np.int64)
    for at in np.argsort(whole - share, kind="stable")[: int(count - whole.sum())]:
        whole[at] += whole[at] < room[at]
    return whole.tolist()


def _parts(x: Tensor, count: int, rng: np.random.Generator) -> Iterator[Tensor]:
    """Clusters of k-means, whose first centers are rows far from those before (k-means++)."""
    centers = x[int(rng.integers(len(x)))][None]
    apart = (x - centers).square().sum(1)
    for _ in range(count - 1):
        total = apart.double().cumsum(0)
        if not total[-1] > 0:
            break
        at = min(int(torch.searchsorted(total, float(rng.random()) * total[-1])), len(x) - 1)
        centers = torch.cat([centers, x[at][None]])
        apart = torch.minimum(apart, (x - x[at]).square().sum(1))
    label = nearest(x, centers)[0]
    for _ in range(_ROUNDS):
        centers = _means(x, label, centers)
        before, label = label, nearest(x, centers)[0]
        if torch.equal(before, label):
            break
    order = label.argsort()
    return (x[at] for at in order.split(torch.bincount(label).tolist()) if len(at))


def nearest(x: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest center of each row, and half the squared distance to it less half that of the row to 0."""
    half, block = centers.square().sum(1) / 2, max(1, _DISTANCES // len(centers))
    found = [torch.addmm(half, rows, centers.T, alpha=-1).min(1) for rows in x.split(block)]
    return torch.cat([one.indices for one in found]), torch.cat([one.values for one in found])


def _means(x: Tensor, label: Tensor, centers: Tensor) -> Tensor:
    """Means of the rows of each center; a center without rows stays."""
    count = torch.bincount(label, minlength=len(centers))[:, None]
    total = torch.zeros_like(centers).index_add_(0, label, x)
    return torch.where(count > 0, total / count.clamp_min(1), centers)


def _noise(source: Source, middle: np.ndarray, less: np.ndarray) -> Draw | None:
    """What a replicate adds to leaves: what it adds to their middle rows, divided."""
    noise = source.noise
    return None if noise is None else lambda rng, at: noise(rng, middle[at]) / less[at, None]


def _moments(points: np.ndarray, center: np.ndarray, leaf: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of each column within each leaf, over the values that are there."""
    known, total, square = (np.zeros((count, points.shape[1])) for _ in range(3))
    for first in range(0, len(points), _BLOCK):
        block, at = points[first : first + _BLOCK] - center, leaf[first : first + _BLOCK]
        member = csr_matrix((np.ones(len(at)), (at, np.arange(len(at)))), shape=(count, len(at)))
        there = ~np.isnan(block)
        block = np.where(there, block, 0.0)
        known += member @ there
        total += member @ block
        square += member @ np.square(block)
    there = np.maximum(known, 1)
    mean = np.where(known > 0, total / there, np.nan)
    return mean + center, np.maximum(np.nan_to_num(square / there - np.square(mean)), 0.0)
