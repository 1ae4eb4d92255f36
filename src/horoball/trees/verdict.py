"""The verdict: what structure rows have, as far as the branches of their tree show it.

Note [Verdict]: three questions, one after the other.

1. *Is there structure?* Branches above chance are more than in flat data, with p ≤ 0.05, see Note [Structure]; or the
   main split of the tree leaves two clusters, see Note [Split].
2. *Is it nested?* Any six centers have a nearest pair and a dendrogram. Groups are the branches with a support of 0.9
   or more that hold no other such branch. They are nested if their centers lie as few independent centers with the
   same spectrum do (2 % for each of two statistics): levels that lie apart, by the largest ratio of two successive
   edges of single linkage that leaves two groups of several centers; or a tree without clear levels, by the conflict
   of the four-point condition. Four groups are the fewest that can be nested.
3. *Is it a continuum?* If rows at inner nodes of the tree ("gromov") predict distances in unseen columns better than
   rows that are all at its tips, by more than twice the standard error, nested groups are called branches.

What is not shown is "not detected", which is not "no".
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import cdist, pdist

from horoball.hierarchy.delta import fixed_sample, four_point

Answer = Literal["not detected", "clusters", "nested", "branching"]
ANSWERS: tuple[Answer, ...] = get_args(Answer)  # each claims more than the one before

LEVEL = 0.05  # of the p-value of structure
_LEAST_P = 0.001  # a smaller p-value is one of a tail that 19 flat tables do not know
_NESTED = 0.02  # of each of the two p-values of nesting
_FEWEST = 4  # centers that can form two pairs
_FEWEST_OF_TREE = 6  # centers whose quadruples are a sample worth comparing
_MOST_OF_TREE = 24  # centers whose quadruples are counted: enough to tell, and a millisecond or two a draw
_DRAWS_OF_LEVELS, _DRAWS_OF_TREE = 199, 99


@dataclass(frozen=True)
class Verdict:
    """What structure rows have, with the evidence; see Note [Verdict].

    Attributes:
        branches: Branches with a support of 0.5 or more above chance, of five rows in 300 to half of them.
        flat: Mean number of such branches in flat tables of the same covariance.
        p: Rank among flat tables by rows × support × length of such branches; with `two`, ten times that of the split.
        groups: Branches with a support of 0.9 or more that hold no other such branch.
        levels: Longest chain of such branches, each at most 7/10 of the one that holds it.
        nesting: Smaller one of the two p-values of nesting; NaN for fewer than four groups.
        along: Whether rows lie along the branches, not only at their tips.
        draws: Trees that were made, each with replicates and flat tables of its own.
        agreed: How many of them gave this answer.
        two: Whether it is the main split of the tree that shows structure, not the number of branches.
    """

    branches: int
    flat: float
    p: float
    groups: int
    levels: int
    nesting: float
    along: bool
    draws: int = 1
    agreed: int = 1
    two: bool = False

    @property
    def answer(self) -> Answer:
        """What was shown; the first of the three questions that is not answered with yes ends it."""
        if self.p > LEVEL:
            return "not detected"
        if not self.nesting <= _NESTED:
            return "clusters"
        return "branching" if self.along else "nested"

    @property
    def hierarchical(self) -> bool:
        """Whether the answer is "nested" or "branching"."""
        return self.answer in ("nested", "branching")

    def __str__(self) -> str:
        return self._said if self.draws == 1 else f"{self._said}; in {self.agreed} of {self.draws} draws"

    def _repr_html_(self) -> str:
        from horoball.notebook import facts_table  # which a fit does not need

        facts: dict[str, object] = {
            "branches above chance": self.branches,
            "in flat data": f"{self.flat:.1f}",
            "p": _p(self.p).removeprefix("= "),
            "shown by": "two sides of the tree" if self.two else None,
            "groups of support 0.9": self.groups,
            "levels": self.levels,
            "p of nesting": "too few groups" if math.isnan(self.nesting) else f"{self.nesting:.2g}",
            "rows along branches": "yes" if self.along else "no",
            "draws that agree": None if self.draws == 1 else f"{self.agreed} of {self.draws}",
        }
        return facts_table(self.answer if self.p <= LEVEL else "no structure detected", facts)

    @property
    def sentence(self) -> str:
        """The verdict as a sentence of its own."""
        said = str(self)
        return f"{said[0].upper()}{said[1:]}."

    @property
    def evidence(self) -> str:
        """What speaks for structure, with its p-value."""
        word = "branch" if self.branches == 1 else "branches"
        found = f"{self.branches} {word} above chance, {self.flat:.1f} in flat data"
        p = f"(p {_p(self.p)})"
        return f"two sides of the tree lie apart {p}; {found}" if self.two else f"{found} {p}"

    @property
    def _said(self) -> str:
        found = self.evidence
        if self.p > LEVEL:
            return f"no structure detected: {found}, where {LEVEL} is needed"
        if math.isnan(self.nesting):
            if self.two:
                return f"clusters: {found}; too few groups to nest"
            return f"clusters: {found}; groups of support 0.9: {self.groups}, too few to nest"
        centers = f"as {self.nesting:.2g} of independent centers do"
        if self.nesting > _NESTED:
            return f"clusters: {found}; {self.groups} groups lie {centers}, where {_NESTED} shows nesting"
        shown = "a branching tree" if self.along else f"nested groups, {self.levels} levels"
        return f"{shown}: {found}; {self.groups} groups lie {centers}"


def _p(value: float) -> str:
    """A p-value in two digits, with its sign."""
    return f"= {value:.2g}" if value >= _LEAST_P else f"< {_LEAST_P}"


def nesting(centers: np.ndarray, seed: int = 0) -> float:
    """The smaller p-value of two comparisons with as many independent normal centers of the same spectrum.

    See Note [Verdict]; NaN for fewer than four centers.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> centers = 30 * rng.normal(size=(4, 1, 5)) + rng.normal(size=(4, 3, 5))
        >>> nesting(centers.reshape(12, 5)) <= 0.02, nesting(rng.normal(size=(12, 5))) <= 0.02
        (True, False)
    """
    k = len(centers)
    if k < _FEWEST:
        return math.nan
    singular = np.linalg.svd(centers - centers.mean(0), compute_uv=False)
    spread = singular[singular > 1e-9 * max(singular[0], 1e-300)]
    rng = np.random.default_rng((seed, 1))

    def independent() -> np.ndarray:
        return rng.standard_normal((k, len(spread))) * spread

    ratio, conflict = _ratio(centers), _conflict(centers)
    found = [_rank(_ratio(independent()) >= ratio for _ in range(_DRAWS_OF_LEVELS))]
    if k >= _FEWEST_OF_TREE:
        found.append(_rank(_conflict(independent()) <= conflict for _ in range(_DRAWS_OF_TREE)))
    return min(found)


def _rank(beyond: Iterable[bool]) -> float:
    """The p-value: the share of draws, the data among them, that go as far as the data."""
    drawn = [True, *beyond]
    return sum(drawn) / len(drawn)


def _ratio(centers: np.ndarray) -> float:
    """The largest ratio of an edge of single linkage to the one before it that leaves two groups of several centers.

    One center far away is no level.
    """
    k = len(centers)
    made = linkage(pdist(centers), "single")
    several, best = 0, 1.0
    count = np.ones(2 * k - 1, int)
    for kept, (a, b, length, size) in enumerate(made[:-1]):
        single = int(count[int(a)] == 1) + int(count[int(b)] == 1)
        several += single - 1  # two single centers make a group of several, two groups become one
        count[k + kept] = size
        if several >= 2:
            best = max(best, float(made[kept + 1, 2] / max(length, 1e-300)))
    return best


def _conflict(centers: np.ndarray) -> float:
    chosen = centers[fixed_sample(len(centers), _MOST_OF_TREE)]
    counted = four_point(cdist(chosen, chosen))
    return float(counted.gap.sum() / max(counted.branch.sum(), 1e-300))
