"""Where new rows belong in a tree of groups, with a probability for every step.

Note [Placing]: a group is near if many of its rows are near, or if its center is. The score of a group is

    τ log Σ_j exp(s_j/τ) + s_center,    s = −|x − y|²/median |x − y|²,

over its rows j, and probabilities are the softmax of the scores at a temperature T. Groups here are the ends of paths;
the probability of a branch is the sum over the paths through it, so a path's steps never become likelier as it goes
down. Both are fitted to rows that are placed as if they were new, each left out of its own group. What is said of a
step is then calibrated on the same rows: σ(a logit p + b), a logistic regression on whether the step was right (Platt,
1999). Last steps have a and b of their own: a row that was the only one of its group cannot find it again, as a new row
may belong to a group that has none yet, and only the last step is wrong then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from scipy.special import expit, logit

__all__ = ["Placed", "Placer", "calibration_error"]

_SHARPNESS = (0.05, 0.1, 0.2)  # τ, in units of the median squared distance
_TEMPERATURES = tuple(np.geomspace(0.01, 0.5, 30).tolist())
_HELD = 2_000  # rows that are placed as if they were new
_NOWHERE = -1e9  # the score of a group that is not there
_AS_SAID = (1.0, 0.0, 1.0, 0.0)  # calibration that changes nothing
_SURE = 1e-6  # no step is surer
_BLOCK = 512  # rows at a time
_LARGEST = 1e18  # length of a point: the square of twice as much is below the largest float32, 3.4e38
_SAMPLE = 500  # rows whose distances give the median


@dataclass(frozen=True)
class Placed:
    """Where rows belong: the likeliest path of each, and how sure every step is.

    Example:
        >>> Placed(np.array([[0, 3]]), np.array([[0.9, 0.4]])).depth(0.5)
        array([1])
    """

    path: np.ndarray  # (rows, levels): numbers of groups, −1 where a path has ended
    probability: np.ndarray  # (rows, levels), never larger further down; 0 where a path has ended
    group_names: tuple[tuple[str, ...], ...] = ()  # names of the groups of every level, where they have some

    def depth(self, threshold: float = 0.5) -> np.ndarray:
        """How many steps of each path are at least that likely: the deepest branch to believe."""
        return ((self.probability >= threshold) & (self.path >= 0)).sum(1)

    @property
    def names(self) -> list[list[str]]:
        """The names along each row's path; numbers where groups have no names."""
        return [
            [self.group_names[level][at] if self.group_names else str(at) for level, at in enumerate(path) if at >= 0]
            for path in self.path.tolist()
        ]

    def deepest(self, threshold: float = 0.5) -> list[str | None]:
        """The name of the deepest branch of each path that is at least that likely; None if not even the first is.

        Example:
            >>> Placed(np.array([[0, 1]]), np.array([[0.9, 0.4]]), (("fruit",), ("apple", "pear"))).deepest()
            ['fruit']
        """
        steps = self.depth(threshold).tolist()
        return [names[step - 1] if step else None for names, step in zip(self.names, steps, strict=True)]


class Placer:
    """Places rows in groups of other rows; see Note [Placing].

    Args:
        points: Rows whose groups are known, shape (n, columns), between which distances mean something.
        levels: Their groups, one column per level, coarse to fine; −1 where a row's path ends above that level.
        fitted: τ, T, a and b of steps, a and b of last steps.
        names: Names of the groups of every level, by their numbers.

    Example:
        >>> x = np.concatenate([np.eye(4)[[0] * 20], np.eye(4)[[1] * 20]]) + 0.1 * np.arange(40)[:, None] % 0.3
        >>> placer = Placer.fit(x, np.repeat([0, 1], 20)[:, None])
        >>> placer.place(np.eye(4)[:2]).path.ravel().tolist()
        [0, 1]
    """

    def __init__(
        self,
        points: ArrayLike,
        levels: ArrayLike,
        fitted: Sequence[float],
        names: Sequence[Sequence[str]] = (),
    ) -> None:
        self.points, self.levels = np.asarray(points, np.float32), np.asarray(levels, np.int64)
        self.fitted, self.names = tuple(fitted), tuple(tuple(level) for level in names)
        if self.points.ndim != 2 or self.levels.ndim != 2 or len(self.points) != len(self.levels):
            raise ValueError(
                f"Expected points of shape (n, columns) and groups of shape (n, levels), got {self.points.shape} and "
                f"{self.levels.shape}."
            )
        if len(self.points) < 2 or not len(self.paths):
            raise ValueError("Expected two rows or more, and a group that some of them are in.")
        _check_size(self.points)
        # Rows of length 1 are compared by their cosine, and so are their centers.
        self._unit = bool(np.allclose(np.square(self.points[:_SAMPLE]).sum(1), 1, atol=1e-3))
        some = self.points[:: max(1, len(self.points) // _SAMPLE)]
        squares = _squares(some, some)
        self._scale = float(np.median(squares[squares > 0])) if (squares > 0).any() else 1.0

    @classmethod
    def fit(cls, points: ArrayLike, levels: ArrayLike, *, names: Sequence[Sequence[str]] = (), seed: int = 0) -> Placer:
        """A placer that is fitted to how well these rows are placed, each without itself.

        Args:
            points: See the class.
            levels: See the class.
            names: See the class.
            seed: Seed of the rows that are placed, where there are many.
        """
        placer = cls(points, levels, (_SHARPNESS[0], 1.0, *_AS_SAID), names)
        inside = np.flatnonzero(placer._code >= 0)
        if not (placer._sizes > 1).any():
            raise ValueError("Every group has a single row: nothing tells how sure a place is. Ask for fewer groups.")
        held = np.sort(np.random.default_rng(seed).permutation(inside)[:_HELD])
        scores = {sharp: placer._scores(placer.points[held], sharp, held) for sharp in _SHARPNESS}
        found = np.flatnonzero(placer._sizes[placer._code[held]] > 1)  # which can be placed without themselves
        own = (found, placer._code[held][found])
        likely = {(s, t): _log_softmax(scores[s] / t)[own].mean() for s in _SHARPNESS for t in _TEMPERATURES}
        sharp, temperature = max(likely, key=lambda pair: float(likely[pair]))
        placer.fitted = (sharp, temperature, *_AS_SAID)
        placed = placer._placed(scores[sharp])
        right = np.cumprod(placed.path == placer.levels[held], axis=1)
        last = _last_steps(placed.path)
        kinds = ((placed.path >= 0) & ~last, last)
        maps = [number for kind in kinds for number in _calibrated(placed.probability[kind], right[kind])]
        placer.fitted = (sharp, temperature, *maps)
        return placer

    @cached_property
    def paths(self) -> np.ndarray:
        """The paths that rows have, shape (paths, levels)."""
        used = self.levels[(self.levels >= 0).any(1)]
        return np.unique(used, axis=0)

    @cached_property
    def _code(self) -> np.ndarray:
        """The path of every row; −1 without one."""
        number = {tuple(path): i for i, path in enumerate(self.paths.tolist())}
        return np.array([number.get(tuple(path), -1) for path in self.levels.tolist()])

    @cached_property
    def _sizes(self) -> np.ndarray:
        return np.bincount(self._code[self._code >= 0], minlength=len(self.paths))

    @cached_property
    def _members(self) -> csr_matrix:
        rows = np.flatnonzero(self._code >= 0)
        shape = (len(self.points), len(self.paths))
        return csr_matrix((np.ones(len(rows), np.float32), (rows, self._code[rows])), shape=shape)

    @cached_property
    def _steps(self) -> list[tuple[np.ndarray, csr_matrix]]:
        """For every level, the branch that each path goes through, and which paths go through each: (paths, branches).

        Which paths share a branch, (paths, paths), would take gigabytes where thousands of paths leave one branch.
        """
        steps = []
        for level in range(self.paths.shape[1]):
            on = self.paths[:, level] >= 0
            _, branch = np.unique(self.paths[:, : level + 1], axis=0, return_inverse=True)
            branch = branch.ravel()
            steps.append((branch, csr_matrix((on.astype(np.float64), (np.arange(len(on)), branch)))))
        return steps

    def place(self, new: ArrayLike) -> Placed:
        """The likeliest path of new rows.

        Args:
            new: Rows, shape (n, columns), as `points` are.
        """
        new = np.asarray(new, np.float32)
        if new.ndim != 2 or new.shape[1] != self.points.shape[1]:
            raise ValueError(f"Expected rows of {self.points.shape[1]} columns, got shape {new.shape}.")
        _check_size(new)
        sharpness = self.fitted[0]
        parts = [self._placed(self._scores(new[i : i + _BLOCK], sharpness)) for i in range(0, len(new), _BLOCK)]
        none = np.empty((0, self.paths.shape[1]))
        path = np.concatenate([none.astype(np.int64), *(part.path for part in parts)])
        return Placed(path, np.concatenate([none, *(part.probability for part in parts)]), self.names)

    def _placed(self, scores: np.ndarray) -> Placed:
        _, temperature, slope, offset, last_slope, last_offset = self.fitted
        p = np.exp(_log_softmax(scores / temperature))
        best = p.argmax(1)
        rows = np.arange(len(p))
        steps = [np.asarray(p @ through)[rows, branch[best]] for branch, through in self._steps]
        path, said = self.paths[best], _logit(np.stack(steps, 1))
        told = np.where(_last_steps(path), last_slope * said + last_offset, slope * said + offset)
        return Placed(path, np.minimum.accumulate(np.where(path >= 0, expit(told), 0.0), axis=1), self.names)

    def _scores(self, x: np.ndarray, sharpness: float, own: np.ndarray | None = None) -> np.ndarray:
        """Scores of all paths, shape (rows, paths); `own` are the rows' own places among the points, left out."""
        out = np.empty((len(x), len(self.paths)))
        center = np.asarray(self._members.T @ self.points)
        for first in range(0, len(x), _BLOCK):
            rows = x[first : first + _BLOCK]
            near = -_squares(rows, self.points) / self._scale
            code = None
            if own is not None:
                mine = own[first : first + _BLOCK]
                near[np.arange(len(rows)), mine] = -np.inf
                code = self._code[mine]
            top = near.max(1, keepdims=True)
            with np.errstate(divide="ignore"):  # a group that is far from the nearest row has no weight left
                mass = np.log(np.exp((near - top) / sharpness) @ self._members)
            sums = sharpness * np.maximum(mass, -700.0) + top
            out[first : first + _BLOCK] = sums + self._to_centers(rows, center, code)
            if code is not None:  # a group of one row is not there without it
                alone = np.flatnonzero((code >= 0) & (self._sizes[code] == 1))
                out[first + alone, code[alone]] = _NOWHERE
        return out

    def _to_centers(self, rows: np.ndarray, center: np.ndarray, code: np.ndarray | None) -> np.ndarray:
        """s of the groups' centers, of a row's own group without the row."""
        near = -_squares(rows, self._mean(center, self._sizes[:, None])) / self._scale
        if code is not None:
            for i in np.flatnonzero(code >= 0):
                without = self._mean(center[code[i]] - rows[i], self._sizes[code[i]] - 1)
                near[i, code[i]] = -float(np.square(rows[i] - without).sum()) / self._scale
        return near

    def _mean(self, total: np.ndarray, count: np.ndarray) -> np.ndarray:
        if not self._unit:
            return total / np.maximum(count, 1)
        length = np.linalg.norm(total, axis=-1, keepdims=True)
        return total / np.where(length > 0, length, 1.0)


def _check_size(points: np.ndarray) -> None:
    """Refuse points whose squared distances are not finite in float32: probabilities would be NaN."""
    large = np.flatnonzero(~(np.abs(points).max(1, initial=0.0) <= _LARGEST / max(1, points.shape[1]) ** 0.5))
    if len(large):
        raise ValueError(
            f"Expected points of finite numbers up to {_LARGEST:.0e}, whose distances can be squared; row {large[0]} "
            "is larger, or not finite. Scale the columns."
        )


def calibration_error(probability: ArrayLike, right: ArrayLike, bins: int = 15) -> float:
    """Expected calibration error: how far shares of right answers lie from what was said, by bins of what was said.

    Example:
        >>> round(calibration_error([0.9, 0.9, 0.1], [True, True, False]), 3)
        0.1
    """
    p, hit = np.asarray(probability, np.float64), np.asarray(right, bool)
    place = np.minimum((p * bins).astype(int), bins - 1)
    count = np.bincount(place, minlength=bins)
    gap = np.abs(np.bincount(place, p, bins) - np.bincount(place, hit, bins))
    return float(gap.sum() / max(1, count.sum()))


def _last_steps(path: np.ndarray) -> np.ndarray:
    """Where paths end."""
    last = np.zeros(path.shape, bool)
    last[np.arange(len(path)), np.maximum((path >= 0).sum(1) - 1, 0)] = True
    return last & (path >= 0)


def _logit(p: np.ndarray) -> np.ndarray:
    return logit(np.clip(p, _SURE, 1 - _SURE))


def _calibrated(p: np.ndarray, right: np.ndarray) -> tuple[float, float]:
    """Slope and offset of the logistic regression of right steps on the logit of what was said of them."""
    if not len(p):
        return 1.0, 0.0
    x, y = _logit(p), (right * (len(right) - 1) + 0.5) / len(right)  # a little unsure, so that the slope is finite

    def loss(at: np.ndarray) -> float:
        h = at[0] * x + at[1]
        return float(np.mean(np.logaddexp(0.0, h) - y * h))

    found = minimize(loss, np.array([1.0, 0.0]), method="Nelder-Mead")
    return max(0.0, float(found.x[0])), float(found.x[1])  # what was said to be likelier stays so


def _squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    square = np.square(a).sum(1)[:, None] - 2 * (a @ b.T) + np.square(b).sum(1)
    return np.maximum(square, 0.0)


def _log_softmax(scores: np.ndarray) -> np.ndarray:
    shifted = scores - scores.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
