"""Which distances, and how to join them: chosen by what they predict of columns they have not seen.

Note [Evidence]: a candidate is a weighting of the columns and a way of joining. Its tree is built from a random half
of the columns, and judged by the correlation of its path lengths with the rows' distances in the other half, which it
has not seen. Structure that is in the data is in both halves; what a tree makes of noise is not. A tree whose rows may
lie at inner nodes ("gromov") and one whose rows are all at the tips ("average") are judged alike, since each has a
path length between any two rows. A candidate is chosen only if it is better than the simpler ones, over the same
halves, by more than the standard error of the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import pdist, squareform

from horoball.hierarchy.trees.linkage import METHODS, Method, join, path_lengths
from horoball.hierarchy.trees.source import distance_matrix

__all__ = ["Candidate", "candidates", "rows_lie_along"]

_ROWS = 800  # drawn for the comparison: its standard error is that of the splits, not of the rows
_SPLITS = 6
_SIMPLEST: Method = "average"


@dataclass(frozen=True)
class Candidate:
    """A way to make the tree, and how well it predicted distances in columns it was not built from.

    Example:
        >>> print(Candidate("columns", "gromov", 0.71, 0.02))
        columns, gromov: 0.710 ± 0.020
    """

    source: str
    method: Method
    correlation: float  # mean over random halves of the columns
    error: float  # standard error of the mean

    def __str__(self) -> str:
        return f"{self.source}, {self.method}: {self.correlation:.3f} ± {self.error:.3f}"


def candidates(x: np.ndarray, weights: dict[str, np.ndarray], *, seed: int = 0) -> tuple[Candidate, ...]:
    """All weightings with all ways of joining: first the one to choose, then the best; see Note [Evidence].

    Args:
        x: Rows, shape (n, columns), with at least four columns.
        weights: Weights of the columns, by the name of the source, the simplest first.
        seed: Seed of the rows and of the halves.

    Example:
        >>> from horoball.data import branching_diffusion
        >>> x = branching_diffusion(depth=4).x.double().numpy()
        >>> candidates(x, {"columns": np.ones(x.shape[1])})[0].method
        'gromov'
    """
    rng = np.random.default_rng(seed)
    x = x[np.sort(rng.permutation(len(x))[:_ROWS])]
    scores: dict[tuple[str, Method], list[float]] = {(name, method): [] for name in weights for method in METHODS}
    for _ in range(_SPLITS):
        shuffled = rng.permutation(x.shape[1])
        half, other = shuffled[::2], shuffled[1::2]
        unseen = _distances(x[:, other])
        for name, weight in weights.items():
            d = squareform(_distances(x[:, half] * weight[half]))
            for method in METHODS:
                seen = path_lengths(join(d, method), len(x))
                scores[name, method].append(_correlation(seen, unseen))
    made = {key: Candidate(*key, float(np.mean(of)), _error(np.array(of))) for key, of in scores.items()}
    order = sorted(made, key=lambda key: -made[key].correlation)
    chosen = order[0]
    # First the way of joining with the same columns, then the columns: either has to be worth it by itself.
    for simpler in ((chosen[0], _SIMPLEST), (next(iter(weights)), _SIMPLEST)):
        gain = np.array(scores[chosen]) - np.array(scores[simpler])
        chosen = chosen if gain.mean() > _error(gain) else simpler
    return (made[chosen], *(made[key] for key in order if key != chosen))


def rows_lie_along(evidence: Sequence[Candidate]) -> bool:
    """Whether rows at inner nodes predict unseen columns better than rows at the tips, by twice the standard error.

    Example:
        >>> rows_lie_along([Candidate("columns", "gromov", 0.7, 0.01), Candidate("columns", "average", 0.6, 0.01)])
        True
    """
    best = {one.method: one for one in sorted(evidence, key=lambda one: one.correlation)}
    if set(best) != set(METHODS):
        return False
    tips, along = best["average"], best["gromov"]
    return along.correlation - tips.correlation > 2 * float(np.hypot(tips.error, along.error))


def _error(values: np.ndarray) -> float:
    """Standard error of a mean."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def _distances(x: np.ndarray) -> np.ndarray:
    """Distances between rows, over the columns that both have, in scipy's condensed order."""
    return squareform(distance_matrix(x), checks=False) if np.isnan(x).any() else pdist(x)


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else 0.0
