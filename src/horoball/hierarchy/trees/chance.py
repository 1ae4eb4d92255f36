"""What support branches come to by chance: that of branches of flat tables, by their size.

Note [Chance]: the chance level of a branch is the 95 % point of the support of branches of about its size (within a
factor of 1.6) in trees of flat tables, made by the very same steps; the larger of both kinds of flat tables. Branches
up to half of the leaves are compared with such branches only: what is left when outliers part comes back in flat tables
too. Where columns are copies of each other, branches of flat tables may come back always; a branch that does so too is
then told from them by its length ℓ, its share of the height that it leads to: what is compared is support + ℓ/20, where
a twentieth is less than one replicate of a flat table. A branch is *supported* if its support is above chance.

Flat tables have at most 300 rows. For larger trees, the level of a branch of few rows is that of the same number of
rows, and that of a large branch that of the same share of the rows: both fall as a table grows, so that a small flat
table errs on the side of caution.

Note [Structure]: is there any? Branches of five rows in 300 to half of them all that are above chance with a support of
0.5 or more count, each by its rows times its support times its length: two clusters have few branches, but long ones.
The p-value is the rank of that sum among those of the flat tables, each judged by the chance level of the others of its
kind; the larger one of both kinds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

__all__ = ["FLAT_ROWS", "SURE", "Chance", "Judged"]

FLAT_ROWS = 300
SURE = 0.9  # support of a branch that is nearly always real

_ALIKE = 1.6  # a branch of about the same size has so many times its leaves, or that part of them
_LEVEL = 0.95
_LONG = 0.05  # how much of support the longest branch makes up for
_FEWEST = 20  # branches that make a level; where fewer are of about the same size, the nearest of other sizes
_LIKELY = 0.5  # support of a branch that counts as structure
_LEAST = 5  # leaves of 300, or fewer, of a branch that counts as structure


class Judged(NamedTuple):
    """The branches of a tree but its root: leaves, support, and length as a share of the height that it leads to.

    Example:
        >>> Judged(np.array([2]), np.array([0.9]), np.array([0.5])).support
        array([0.9])
    """

    size: np.ndarray
    support: np.ndarray
    length: np.ndarray


@dataclass(frozen=True)
class Chance:
    """Branches of flat trees; see Note [Chance].

    Attributes:
        leaves: Number of leaves of the flat trees.
        tables: For each kind of flat table, the branches of each.
        least: Leaves of a branch that counts as structure, at least.

    Example:
        >>> flat = [Judged(np.array([2, 8]), np.array([0.4, 0.1]), np.zeros(2))] * 20
        >>> chance = Chance(16, {"ellipsoid": flat, "columns": flat})
        >>> found = Judged(np.array([2, 7]), np.array([0.3, 1.0]), np.array([0.0, 0.5]))
        >>> chance.level(found, 16).round(2).tolist()
        [0.4, 0.08]
        >>> chance.structure(found, 16)
        (1, 0.0, 0.047619047619047616)
    """

    leaves: int
    tables: Mapping[str, Sequence[Judged]]
    least: int = _LEAST

    def level(self, found: Judged, leaves: int) -> np.ndarray:
        """What support of these branches, in a tree of so many leaves, has to exceed."""
        size = self._size(found.size, leaves)
        return np.max([_levels(kind, found._replace(size=size), self.leaves) for kind in self.tables.values()], axis=0)

    def structure(self, found: Judged, leaves: int) -> tuple[int, float, float]:
        """How many branches count, how many do in flat tables, and the p-value; see Note [Structure]."""
        number, held = self._counted(found._replace(size=self._share(found, leaves)), self.level(found, leaves))
        p, mean = 0.0, 0.0
        for kind in self.tables.values():
            others = ([*kind[:place], *kind[place + 1 :]] for place in range(len(kind)))
            flat = [self._counted(one, _levels(of, one, self.leaves)) for one, of in zip(kind, others, strict=True)]
            p = max(p, (1 + sum(rows >= held for _, rows in flat)) / (1 + len(flat)))
            mean = max(mean, sum(count for count, _ in flat) / len(flat))
        return number, mean, p

    def large(self, found: Judged, leaves: int) -> np.ndarray:
        """Which branches, in a tree of so many leaves, have the size of those that count as structure."""
        share = self._share(found, leaves)
        return np.asarray((share >= self.least) & (share <= self.leaves / 2))

    def _counted(self, found: Judged, level: np.ndarray) -> tuple[int, float]:
        """How many branches count as structure, and their sum; see Note [Structure]."""
        chosen = self.large(found, self.leaves) & (found.support >= _LIKELY) & (found.support > level)
        return int(chosen.sum()), float((found.size * found.support * found.length)[chosen].sum())

    def _share(self, found: Judged, leaves: int) -> np.ndarray:
        return np.asarray(found.size * min(1.0, self.leaves / leaves))

    def _size(self, size: np.ndarray, leaves: int) -> np.ndarray:
        """Sizes in a flat tree that are comparable with these; see Note [Chance]."""
        if leaves <= self.leaves:
            return size
        share = size * (self.leaves / leaves)
        return np.maximum(share, np.minimum(size, self.leaves / 4))


def _levels(tables: Sequence[Judged], found: Judged, leaves: int) -> np.ndarray:
    """What support of these branches has to exceed, by flat tables of one kind with so many leaves."""
    size, support, length = (np.concatenate(each) for each in zip(*tables, strict=True))
    size, measure = np.log(size), support + _LONG * length
    asked, where = np.unique(found.size, return_inverse=True)
    levels = np.empty(len(asked))
    small = size <= np.log(leaves / 2)
    for place, one in enumerate(asked):
        same = small if one <= leaves / 2 else ~small
        same = same if same.any() else ~same
        apart = np.abs(size[same] - np.log(one))
        enough = np.sort(apart)[min(_FEWEST, len(apart)) - 1]
        levels[place] = np.quantile(measure[same][apart <= max(np.log(_ALIKE), enough) + 1e-9], _LEVEL)
    return np.clip(levels[where] - _LONG * found.length, 0.0, 1.0)
