"""Where new rows belong in a tree of groups: the likeliest path, and how far down it the truth is held.

Note [Placing]: a group is near if many of its rows are near, or if its center is. The score of a group is

    τ log Σ_j exp(s_j/τ) + s_center,    s = −|x − y|²/median |x − y|²,

over its rows j, and probabilities are the softmax of the scores at a temperature T. Groups here are the ends of paths;
the probability of a branch is the sum over the paths through it, so a path's steps never become likelier as it goes
down. Both are fitted to rows that are placed as if they were new, each left out of its own group. What is said of a
step is then calibrated on the same rows: σ(a logit p + b), a logistic regression on whether the step was right (Platt,
1999). Last steps have a and b of their own: a row that was the only one of its group cannot find it again, as a new row
may belong to a group that has none yet, and only the last step is wrong then.

Note [Coverage]: how far down a path to go is decided by rows that were held out of all of the above (split conformal
prediction; Vovk et al., 2005). The nodes of a path, from the root down, are nested sets; the strength of a step is its
probability, 0 from the step on where a row is farther from a group than 9 in 10 of the group's own rows. Let e_i be
the strength of the first wrong step of held-out row i, 0 if no step of its path is wrong. A step of strength q has the
confidence #{i: e_i < q}/(n + 1), and the place of a row at coverage c is the deepest step whose confidence is at least
c. It misses the truth only if e of the new row exceeds ⌈c(n + 1)⌉ of the n others, which has a probability of at most
1 − c if the rows are exchangeable, whatever the scores are worth. The bound is on average over rows, and over which
were held out; it says nothing about rows of one group alone, or of a group that was not there. The distance rule costs
no coverage, since a node further up holds whatever a node below it holds; it is there for rows of unknown groups.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from scipy.special import expit, logit

from horoball.plugins import required
from horoball.trees.drift import Drift, unfit
from horoball.trees.near import NEAR, NearGroups

_SHARPNESS = (0.05, 0.1, 0.2)  # τ, in units of the median squared distance
_TEMPERATURES = tuple(np.geomspace(0.01, 0.5, 30).tolist())
_HELD = 2_000  # rows that are placed as if they were new
_NOWHERE = -1e9  # the score of a group that is not there
_AS_SAID = (1.0, 0.0, 1.0, 0.0)  # calibration that changes nothing
_SURE = 1e-6  # no step is surer
_BLOCK = 512  # rows at a time that are compared with all
_AT_ONCE = 1 << 16  # and with the groups near them
_LARGEST = 1e18  # length of a point: the square of twice as much is below the largest float32, 3.4e38
_SAMPLE = 500  # rows whose distances give the median
_ASIDE = 5  # one row in so many is held out, to know how far down paths hold the truth
_ASIDE_MOST = 2_000  # held-out rows: coverage is then known to 0.007
_ASIDE_LEAST = 9  # fewer cannot promise a coverage of 0.9
_FAR = 0.1  # share of a group's own rows that are too far from it


@dataclass(frozen=True, repr=False)
class Placed:
    """Where rows belong: the likeliest path of each, how sure every step is, and how far down it holds the truth."""

    path: np.ndarray  # (rows, levels): numbers of groups, −1 where a path has ended
    probability: np.ndarray  # (rows, levels), never larger further down; 0 where a path has ended
    group_names: tuple[tuple[str, ...], ...] = ()  # names of the groups of every level, where they have some
    confidence: np.ndarray | None = None  # (rows, levels): the largest coverage at which the step is taken
    coverage: float = 0.9  # probability with which places hold the truth; see Note [Coverage]
    index: Any = None  # labels of the rows, such as the index of their data frame; None for their numbers
    typical: np.ndarray | None = None  # (rows,): rank among the held-out rows, 1/(n + 1) below all; see Note [Drift]
    held: int = 0  # n

    @property
    def drift(self) -> Drift:
        """Whether the rows still come from where those of the groups came from.

        Example:
            >>> Placed(np.zeros((2, 1), int), np.ones((2, 1)), typical=np.array([0.02, 0.6]), held=99).drift.unfit
            1
        """
        if self.typical is None:
            raise ValueError("What is typical of these groups is not known. Make them anew, from 20 rows or more.")
        return Drift(len(self.path), int(unfit(self.typical, self.held).sum()), self.held)

    def depth(self, threshold: float | None = None) -> np.ndarray:
        """How many steps down each path its place is: the deepest branch that holds the truth; 0 is the root.

        Args:
            threshold: Deprecated: stop where the probability of a step is below it, in place of the coverage.
        """
        if threshold is not None:
            warnings.warn(
                "threshold is deprecated and will be removed: it promises nothing about places. Use coverage instead.",
                FutureWarning,
                stacklevel=2,
            )
            return ((self.probability >= threshold) & (self.path >= 0)).sum(1)
        if self.confidence is None:
            raise ValueError("How far down these paths hold is not known. Place the rows by Placer.place.")
        return ((self.confidence >= self.coverage) & (self.path >= 0)).sum(1)

    @property
    def names(self) -> list[list[str]]:
        """The names along each row's path; numbers where groups have no names."""
        return [
            [self.group_names[level][at] if self.group_names else str(at) for level, at in enumerate(path) if at >= 0]
            for path in self.path.tolist()
        ]

    def deepest(self, threshold: float | None = None) -> list[str | None]:
        """The name of each row's place, the deepest branch that holds the truth; None for the root.

        Args:
            threshold: Deprecated, as in `depth`.

        Example:
            >>> sure = np.array([[0.97, 0.6]])
            >>> Placed(np.array([[0, 1]]), np.array([[0.9, 0.4]]), (("fruit",), ("apple", "pear")), sure).deepest()
            ['fruit']
        """
        steps = self.depth(threshold).tolist()
        return [names[step - 1] if step else None for names, step in zip(self.names, steps, strict=True)]

    def to_frame(self) -> Any:
        """A pandas data frame with one row per row placed, with the rows' labels as the index.

        Columns: for every level k from 1, `level_k`, the name of the group on the row's path, and `probability_k`; and
        `place`, as `deepest` has it. They are None and NaN where a path has ended, and `place` is None at the root.

        Example:
            >>> names, sure = (("fruit",), ("apple", "pear")), np.array([[0.97, 0.6]])
            >>> Placed(np.array([[0, 1]]), np.array([[0.9, 0.4]]), names, sure, index=["x7"]).to_frame()
               level_1  probability_1 level_2  probability_2  place
            x7   fruit            0.9    pear            0.4  fruit
        """
        pandas = required("pandas")
        values: dict[str, Any] = {}
        paths = self.names
        for level in range(self.path.shape[1]):
            at = [names[level] if level < len(names) else None for names in paths]
            values[f"level_{level + 1}"] = pandas.array(at, "object")
            values[f"probability_{level + 1}"] = np.where(self.path[:, level] < 0, np.nan, self.probability[:, level])
        if self.typical is not None:
            values["typical"] = self.typical
        if self.confidence is not None:
            values["place"] = pandas.array(self.deepest(), "object")
        index = pandas.RangeIndex(len(self.path)) if self.index is None else pandas.Index(self.index)
        return pandas.DataFrame(values, index=index)

    def __repr__(self) -> str:
        return f"Placed({self._counts})"

    def _repr_html_(self) -> str:
        from horoball.notebook import LINES, html_table  # which a fit does not need

        sure = None if self.confidence is None else self.confidence[:LINES]
        top = Placed(self.path[:LINES], self.probability[:LINES], self.group_names, sure, self.coverage)
        places = [None] * len(top.path) if sure is None else top.deepest()
        labels = range(len(top.path)) if self.index is None else list(self.index[:LINES])
        lines = [
            (row, " › ".join(names), " › ".join(f"{one:.2f}" for one in chances[: len(names)]), place or "")
            for row, names, chances, place in zip(labels, top.names, top.probability.tolist(), places, strict=True)
        ]
        header = ("row", "path", "probability", "place")
        return html_table(f"Placed: {self._counts}", lines, header, rest="more rows", of=len(self.path))

    @property
    def _counts(self) -> str:
        rows = f"{len(self.path):,} rows"
        if self.confidence is None:
            return rows
        return f"{rows}, {int((self.depth() > 0).sum()):,} of them in a group at a coverage of {self.coverage:g}"


class Placer:
    """Places rows in groups of other rows; see Note [Placing] and Note [Coverage].

    Args:
        points: Rows whose groups are known, shape (n, columns), between which distances mean something.
        levels: Their groups, one column per level, coarse to fine; −1 where a row's path ends above that level.
        fitted: τ, T, a and b of steps, a and b of last steps.
        names: Names of the groups of every level, by their numbers.
        held: e of the rows that were held out, of any number; without them no place is deeper than the root.
        limits: Smallest score with which a row goes on to each step of each path, shape (paths, levels).
        typical: How typical the rows were that were held out, of any number; without them drift is not known.

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
        *,
        held: ArrayLike = (),
        limits: ArrayLike | None = None,
        typical: ArrayLike = (),
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
        self.held, self.typical = (np.sort(np.asarray(each, np.float64)) for each in (held, typical))
        self.limits = np.full(self.paths.shape, -np.inf) if limits is None else np.asarray(limits, np.float64)
        if self.held.ndim != 1 or self.typical.ndim != 1 or self.limits.shape != self.paths.shape:
            raise ValueError(
                f"Expected held-out rows of shape (n,) and limits of shape {self.paths.shape}, got {self.held.shape} "
                f"and {self.limits.shape}."
            )
        # Rows of length 1 are compared by their cosine, and so are their centers.
        self._unit = bool(np.allclose(np.square(self.points[:_SAMPLE]).sum(1), 1, atol=1e-3))
        some = self.points[:: max(1, len(self.points) // _SAMPLE)]
        squares = _squares(some, some)
        self._scale = float(np.median(squares[squares > 0])) if (squares > 0).any() else 1.0

    @classmethod
    def fit(cls, points: ArrayLike, levels: ArrayLike, *, names: Sequence[Sequence[str]] = (), seed: int = 0) -> Placer:
        """A placer that is fitted to how well these rows are placed, each without itself; a fifth of them is held out.

        Args:
            points: See the class.
            levels: See the class. They must not depend on which rows this method holds out.
            names: See the class.
            seed: Seed of the rows that are held out, and of those that are placed, where there are many.
        """
        everything = cls(points, levels, (_SHARPNESS[0], 1.0, *_AS_SAID), names)
        if not (everything._sizes > 1).any():
            raise ValueError("Every group has a single row: nothing tells how sure a place is. Ask for fewer groups.")
        rng = np.random.default_rng(seed)
        # All rows have the same chance, those in no group and in groups of one row too: new rows may be like them.
        order = rng.permutation(len(everything.points))
        most = min(max(len(order) // _ASIDE, _ASIDE_LEAST), len(order) // 2, _ASIDE_MOST)
        aside, kept = order[:most], np.sort(order[most:])
        if not _repeats(everything._code[kept]):  # too few rows to hold any out
            aside, kept = order[:0], np.arange(len(order))
        placer = cls(everything.points[kept], everything.levels[kept], everything.fitted, names)
        placer._learn(rng)
        if len(aside):
            x, truth = everything.points[aside], everything.levels[aside]
            path, _, strength, typical = placer._placed(x)
            placer.held, placer.typical = np.sort(_first_wrong(path, strength, truth)), np.sort(typical)
        return placer

    def _learn(self, rng: np.random.Generator) -> None:
        """Fit τ, T, the calibration of steps and the limits, to rows that are placed without themselves."""
        inside = np.flatnonzero(self._code >= 0)
        held = np.sort(rng.permutation(inside)[:_HELD])
        scores = {sharp: self._scores(self.points[held], sharp, held) for sharp in _SHARPNESS}
        found = np.flatnonzero(self._sizes[self._code[held]] > 1)  # which can be placed without themselves
        own = (found, self._code[held][found])
        likely = {(s, t): _log_softmax(scores[s] / t)[own].mean() for s in _SHARPNESS for t in _TEMPERATURES}
        sharp, temperature = max(likely, key=lambda pair: float(likely[pair]))
        self.fitted = (sharp, temperature, *_AS_SAID)
        path, probability, *_ = self._walk(scores[sharp])
        right = np.cumprod(path == self.levels[held], axis=1)
        last = _last_steps(path)
        kinds = ((path >= 0) & ~last, last)
        maps = [number for kind in kinds for number in _calibrated(probability[kind], right[kind])]
        self.fitted = (sharp, temperature, *maps)
        for level, (first, branch) in enumerate(self._branches):
            near, at = np.maximum.reduceat(scores[sharp], first, axis=1), branch[self._code[held]]
            of_own = near[np.arange(len(held)), at]
            for number in range(len(first)):
                known = np.sort(of_own[(at == number) & (of_own > _NOWHERE)])
                turned = int(_FAR * (len(known) + 1))
                if turned:  # a group of fewer than 9 rows does not know how far its rows go
                    self.limits[branch == number, level] = known[turned - 1]

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
    def _sums(self) -> np.ndarray:
        """Of the points of each path."""
        return np.asarray(self._members.T @ self.points)

    @cached_property
    def _members(self) -> csr_matrix:
        rows = np.flatnonzero(self._code >= 0)
        shape = (len(self.points), len(self.paths))
        return csr_matrix((np.ones(len(rows), np.float32), (rows, self._code[rows])), shape=shape)

    @cached_property
    def _branches(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For every level, the first path of each branch and the branch of each path; paths are in order."""
        made = []
        for level in range(self.paths.shape[1]):
            _, first, branch = np.unique(self.paths[:, : level + 1], axis=0, return_index=True, return_inverse=True)
            made.append((first, branch.ravel()))
        return made

    def place(self, new: ArrayLike, coverage: float = 0.9) -> Placed:
        """The likeliest path of new rows, and how far down it their place is.

        Args:
            new: Rows, shape (n, columns), as `points` are.
            coverage: Probability, between 0 and 1, with which a place holds the truth, on average over rows that come
                from where those of the fit came from. Larger is less deep. See Note [Coverage].
        """
        new = np.asarray(new, np.float32)
        if new.ndim != 2 or new.shape[1] != self.points.shape[1]:
            raise ValueError(f"Expected rows of {self.points.shape[1]} columns, got shape {new.shape}.")
        _check_size(new)
        if not 0 < coverage < 1:
            raise ValueError(f"coverage is a probability between 0 and 1, such as 0.9, got {coverage}.")
        most = len(self.held) / (len(self.held) + 1)
        if coverage > most:
            warnings.warn(
                f"All rows are placed at the root: {len(self.held)} rows were held out, which can promise a coverage "
                f"of at most {most:.3g}, not {coverage:g}. Make the groups from more rows, or ask for less.",
                stacklevel=2,
            )
        parts = [self._placed(new[i : i + _AT_ONCE]) for i in range(0, len(new), _AT_ONCE)]
        none = np.empty((0, self.paths.shape[1]))
        path = np.concatenate([none.astype(np.int64), *(part[0] for part in parts)])
        probability, strength = (np.concatenate([none, *(part[i] for part in parts)]) for i in (1, 2))
        confidence = np.searchsorted(self.held, strength) / (len(self.held) + 1)
        typical, held = None, len(self.typical)
        if held:
            margin = np.concatenate([none[:, 0], *(part[3] for part in parts)])
            typical = (np.searchsorted(self.typical, margin, "right") + 1) / (held + 1)
        return Placed(path, probability, self.names, confidence, coverage, typical=typical, held=held)

    def _placed(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        """What `_walk` says of rows: by the groups near them where these are enough to tell, otherwise by all."""
        if not self._near.worth_it:
            return self._walk_all(x)
        path = np.empty((len(x), self.paths.shape[1]), np.int64)
        found = path, np.empty(path.shape), np.empty(path.shape), np.empty(len(x))
        left = np.arange(len(x))
        for near in NEAR:
            code, scores, enough = self._near.scores(x[left], near)
            for whole, part in zip(found, self._walk_near(code, scores), strict=True):
                whole[left] = part
            left = left[~enough]
            if not len(left):
                return found
        for whole, part in zip(found, self._walk_all(x[left]), strict=True):
            whole[left] = part
        return found

    def _walk_near(self, code: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, ...]:
        """The same as `_walk`, of the scores of some groups of each row."""
        p = np.exp(_log_softmax(scores / self.fitted[1]))
        best = np.take_along_axis(code, p.argmax(1)[:, None], 1)
        step, near = np.empty((2, len(p), self.paths.shape[1]))
        for level, (_, branch) in enumerate(self._branches):
            there = branch[code] == branch[best]
            step[:, level] = np.where(there, p, 0.0).sum(1)
            near[:, level] = np.where(there, scores, -np.inf).max(1)
        return self._told(best[:, 0], step, near)

    def _walk_all(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        """What `_walk` says of rows that are compared with all others."""
        parts = [self._walk(self._scores(x[i : i + _BLOCK], self.fitted[0])) for i in range(0, len(x), _BLOCK)]
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))

    @cached_property
    def _near(self) -> NearGroups:
        center = self._mean(self._sums, self._sizes[:, None])
        return NearGroups(self.points, self._code, center, self._scale, *self.fitted[:2])

    def _edges(self) -> np.ndarray:
        """Of each path, the limit of its last step that has one; of a path without, the median of others."""
        there = np.isfinite(self.limits)
        last = self.limits.shape[1] - 1 - there[:, ::-1].argmax(1)
        found = self.limits[np.arange(len(last)), last]
        known = found[np.isfinite(found)]
        return np.where(np.isfinite(found), found, np.median(known) if len(known) else 0.0)

    def _walk(self, scores: np.ndarray) -> tuple[np.ndarray, ...]:
        """The likeliest path of each row, the probability and the strength of its steps, and how typical it is."""
        p = np.exp(_log_softmax(scores / self.fitted[1]))
        best, rows = p.argmax(1), np.arange(len(p))
        step, near = np.empty((2, len(p), self.paths.shape[1]))
        for level, (first, branch) in enumerate(self._branches):
            at = branch[best]
            step[:, level] = np.add.reduceat(p, first, axis=1)[rows, at]
            near[:, level] = np.maximum.reduceat(scores, first, axis=1)[rows, at]
        return self._told(best, step, near)

    def _told(self, best: np.ndarray, step: np.ndarray, near: np.ndarray) -> tuple[np.ndarray, ...]:
        """The paths, the probability and the strength of their steps, and how typical the rows are.

        Args:
            best: Number of the likeliest path of each row.
            step: Sum over the paths through each of its steps, shape (rows, levels).
            near: The largest score of these paths.
        """
        slope, offset, last_slope, last_offset = self.fitted[2:]
        path = self.paths[best]
        said = _logit(step)
        told = np.where(_last_steps(path), last_slope * said + last_offset, slope * said + offset)
        probability = np.minimum.accumulate(np.where(path >= 0, expit(told), 0.0), axis=1)
        typical = np.logical_and.accumulate(near >= self.limits[best], axis=1)
        return path, probability, np.where(typical, probability, 0.0), near[:, 0] - self._edges()[best]

    def _scores(self, x: np.ndarray, sharpness: float, own: np.ndarray | None = None) -> np.ndarray:
        """Scores of all paths, shape (rows, paths); `own` are the rows' own places among the points, left out."""
        out = np.empty((len(x), len(self.paths)))
        center = self._sums
        for first in range(0, len(x), _BLOCK):
            rows = x[first : first + _BLOCK]
            near = _squares(rows, self.points)
            near /= -self._scale
            code = None
            if own is not None:
                mine = own[first : first + _BLOCK]
                near[np.arange(len(rows)), mine] = -np.inf
                code = self._code[mine]
            top = near.max(1, keepdims=True)
            near -= top
            near /= sharpness
            with np.errstate(divide="ignore"):  # a group that is far from the nearest row has no weight left
                mass = np.log(np.exp(near, out=near) @ self._members)
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


def _repeats(code: np.ndarray) -> bool:
    """Whether two rows are in the same group."""
    inside = code[code >= 0]
    return len(np.unique(inside)) < len(inside)


def _first_wrong(path: np.ndarray, strength: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The strength of each path's first wrong step, 0 where no step is wrong."""
    wrong = (path != truth) & (path >= 0)
    return np.where(wrong.any(1), strength[np.arange(len(path)), wrong.argmax(1)], 0.0)


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
    square = a @ b.T  # in place: many rows are compared with all others, and new memory takes most of the time
    square *= -2
    square += np.square(a).sum(1)[:, None]
    square += np.square(b).sum(1)
    return np.maximum(square, 0.0, out=square)


def _log_softmax(scores: np.ndarray) -> np.ndarray:
    shifted = scores - scores.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
