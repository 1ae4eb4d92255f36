"""Whether distances keep their proportions and their order."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from horoball.hierarchy.delta import fixed_sample
from horoball.hierarchy.space import Space

__all__ = ["Distortion", "distortion"]


@dataclass(frozen=True)
class Distortion:
    """How an embedding stretches distances.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(50, 2))
        >>> same = distortion(Space.of_points(x), Space.of_points(3 * x))
        >>> round(same.worst, 6), round(same.scale, 6)
        (1.0, 0.333333)
    """

    scale: float  # s, by which the embedding's distances are multiplied
    mean: float  # of |s·d'/d − 1|
    worst: float  # the largest d'/d over the smallest, whatever s
    rank_correlation: float  # Spearman's, of d' with d; NaN if all distances are equal on one side


def distortion(data: Space, embedding: Space, *, sources: int = 500, seed: int = 0) -> Distortion:
    """Distortion after the best scaling, and the rank correlation of distances.

    d are the distances in the data, d' in the embedding, from some points to all. s minimizes the mean of
    (s·d'/d − 1)². Pairs at distance 0 or infinity in the data are left out.

    Args:
        data: Distances in the data; geodesics as a rule.
        embedding: Distances in the embedding, of the same points in the same order.
        sources: Points from which distances are taken; a fixed sample if there are more.
        seed: Seed of the sample.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(200, 3))
        >>> found = distortion(Space.of_points(x), Space.of_points(x[:, :2]))
        >>> print(f"{found.mean:.2f} {found.rank_correlation:.2f}")
        0.20 0.79
    """
    if embedding.n != data.n:
        raise ValueError(f"distortion needs the same points twice, got {data.n} and {embedding.n}.")
    everything = np.arange(data.n)
    before, after = [], []
    for rows in data.row_blocks(fixed_sample(data.n, sources, seed)):
        d = data.between(rows, everything)
        used = (d > 0) & np.isfinite(d) & (rows[:, None] != everything)
        before.append(d[used])
        after.append(embedding.between(rows, everything)[used])
    d, image = np.concatenate(before), np.concatenate(after)
    ratio = image / d
    if not ratio.any():
        return Distortion(math.nan, math.nan, math.inf, math.nan)  # all points embedded at one place
    scale = float(ratio.sum() / (ratio**2).sum())
    smallest = float(ratio.min())
    flat = d.min() == d.max() or image.min() == image.max()  # equal distances have no order to keep
    return Distortion(
        scale=scale,
        mean=float(np.abs(scale * ratio - 1).mean()),
        worst=float(ratio.max()) / smallest if smallest > 0 else math.inf,
        rank_correlation=math.nan if flat else float(np.corrcoef(rankdata(d), rankdata(image))[0, 1]),
    )
