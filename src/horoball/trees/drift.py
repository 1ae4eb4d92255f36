"""Whether new rows still come from where those of the groups came from, and when to make the groups anew.

Note [Drift]: a row is typical by how much nearer it is to the group that it is placed in than the group's farthest
tenth of own rows. Of n rows that were held out of the groups and of all that was fitted, let h be the k-th least
typical, k = ⌊(n + 1)/20⌋. A new row does not fit if it is less typical than h; if rows are exchangeable, k in n + 1 do
not. Of m new rows, r or more do not fit exactly if, of the k + r − 1 least typical of all n + m, r or more are new. So
the probability of that is the tail of a hypergeometric distribution, p = P(H ≥ r), H ~ Hyper(n + m, m, k + r − 1),
whatever the distances are worth. It is on average over which rows were held out: nights that are compared with the same
ones are not independent. A change that leaves rows as near to their groups as before is not seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

_LEAST = 20  # one held-out row in so many is what does not fit
_ALARM = 0.01  # p from which the groups are to be made anew


@dataclass(frozen=True)
class Drift:
    """How many of some new rows do not fit the groups they were placed in; see Note [Drift].

    Example:
        >>> drift = Drift(rows=1000, unfit=90, held=2000)
        >>> round(drift.expected, 1), f"{drift.p:.1g}", drift.anew
        (50.0, '2e-05', True)
    """

    rows: int  # that are new
    unfit: int  # of them, less typical than all but a twentieth of the held-out rows
    held: int  # rows that were held out

    @property
    def expected(self) -> float:
        """How many would not fit if nothing had changed."""
        return self.rows * _least(self.held) / (self.held + 1)

    @cached_property
    def p(self) -> float:
        """Probability that so many or more do not fit if nothing has changed."""
        from scipy.stats import hypergeom  # which takes most of a second to import, and only this needs it

        drawn = _least(self.held) + self.unfit - 1
        return float(hypergeom.sf(self.unfit - 1, self.held + self.rows, self.rows, drawn)) if self.unfit else 1.0

    @property
    def anew(self) -> bool:
        """Whether the groups are to be made anew, from rows that have the new ones among them: p is below 0.01."""
        return self.p < _ALARM

    @property
    def sentence(self) -> str:
        """The same in words."""
        end = "Make the groups anew." if self.anew else "That is no sign of a change."
        return (
            f"{self.unfit:,} of {self.rows:,} rows do not fit their groups, {self.expected:,.0f} would if nothing had "
            f"changed (p = {self.p:.2g}). {end}"
        )


def unfit(typical: np.ndarray, held: int) -> np.ndarray:
    """Which rows do not fit, by the shares of held-out rows that `Placed.typical` tells."""
    return np.asarray(typical) < (_least(held) + 0.5) / (held + 1)


def _least(held: int) -> int:
    """k of Note [Drift]."""
    return max(1, (held + 1) // _LEAST)
