"""Are groups nested in larger groups? The centers of groups, beside as many independent centers.

Note [Nesting]: any six centers have a nearest pair and a dendrogram. Groups are nested only if the dendrogram has
levels that as many independent centers with the same spectrum rarely have. Two statistics are compared with such
centers: the largest ratio of two successive edges of single linkage that leaves at least two groups of several centers
(levels that lie apart), and the conflict of the four-point condition (a tree without clear levels).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.spatial.distance import cdist

from horoball.hierarchy.delta import fixed_sample
from horoball.hierarchy.four_point import four_point
from horoball.hierarchy.verdicts.gaps import scales, spanning_tree

__all__ = ["Nesting", "nesting"]

_FEWEST = 4  # centers that can form two pairs
_FEWEST_OF_TREE = 6  # centers whose quadruples are a sample worth comparing
_MOST_OF_TREE = 24  # centers whose quadruples are counted: enough to tell, and a millisecond or two a draw
_ERROR = 0.02  # of each of the two comparisons
_DRAWS_OF_LEVELS, _DRAWS_OF_TREE = 199, 99


@dataclass(frozen=True)
class Nesting:
    """One level: what the centers of groups say about larger groups.

    Example:
        >>> nesting(np.random.default_rng(0).normal(size=(6, 3))).nested
        False
    """

    centers: int
    ratio: float  # of two successive edges of single linkage, the largest
    needed: float  # ratio that 98 % of independent centers stay below
    p_ratio: float  # share of independent centers with such a ratio
    p_conflict: float  # share of independent centers with so little conflict; NaN for fewer than six
    labels: np.ndarray | None = field(repr=False)  # the larger group of each center; None without separate levels

    @property
    def nested(self) -> bool:
        """Whether one of the two comparisons is significant."""
        return self.labels is not None or self.p_conflict <= _ERROR


def nesting(centers: np.ndarray, seed: int = 0) -> Nesting:
    """Compare centers with as many independent normal ones of the same spectrum.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> centers = 30 * rng.normal(size=(4, 1, 5)) + rng.normal(size=(4, 3, 5))
        >>> nesting(centers.reshape(12, 5)).labels
        array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
    """
    k = len(centers)
    if k < _FEWEST:
        return Nesting(k, 1.0, math.inf, 1.0, math.nan, None)
    spread, rng = scales(centers), np.random.default_rng((seed, 1))

    def independent() -> np.ndarray:
        return rng.standard_normal((k, len(spread))) * spread

    levels = _levels(centers)
    ratio = max(levels.values(), default=1.0)
    drawn = np.sort([max(_levels(independent()).values(), default=1.0) for _ in range(_DRAWS_OF_LEVELS)])
    p_ratio = float((1 + (drawn >= ratio).sum()) / (1 + len(drawn)))
    needed = float(drawn[math.ceil((1 - _ERROR) * (1 + len(drawn))) - 1])
    # The finest level that is supported: coarser ones are found from its groups.
    supported = [groups for groups, value in levels.items() if value > needed]
    labels = _cut(centers, max(supported)) if supported and p_ratio <= _ERROR else None
    p_conflict = math.nan
    if k >= _FEWEST_OF_TREE:
        conflict = _conflict(centers)
        below = sum(_conflict(independent()) <= conflict for _ in range(_DRAWS_OF_TREE))
        p_conflict = (1 + below) / (1 + _DRAWS_OF_TREE)
    return Nesting(k, ratio, needed, p_ratio, p_conflict, labels)


def _levels(centers: np.ndarray) -> dict[int, float]:
    """By the number of groups that a cut leaves: the shortest edge cut over the longest kept.

    Only cuts that leave at least two groups of several centers: one center far away is no level.
    """
    k = len(centers)
    edges = spanning_tree(cdist(centers, centers))
    part, sizes = np.arange(k), np.ones(k, int)
    found = {}
    for kept in range(1, k - 1):
        i, j, length = edges[kept - 1]
        a, b = part[int(i)], part[int(j)]
        part[part == b] = a
        sizes[a], sizes[b] = sizes[a] + sizes[b], 0
        if (sizes >= 2).sum() >= 2:
            found[k - kept] = float(edges[kept, 2] / max(length, 1e-300))
    return found


def _cut(centers: np.ndarray, groups: int) -> np.ndarray:
    part = np.arange(len(centers))
    for i, j, _ in spanning_tree(cdist(centers, centers))[: len(centers) - groups]:
        part[part == part[int(j)]] = part[int(i)]
    return np.unique(part, return_inverse=True)[1]


def _conflict(centers: np.ndarray) -> float:
    chosen = centers[fixed_sample(len(centers), _MOST_OF_TREE)]
    counted = four_point(cdist(chosen, chosen))
    return float(counted.gap.sum() / max(counted.branch.sum(), 1e-300))
