"""Scores of the groups near a row alone, for placing many rows; see Note [Placing] in `horoball.trees.placement`.

Note [Near groups]: a row is compared with all rows of the group whose cell is nearest, and with those of the cells of
other groups that it is nearest to by their centers, where a cell is a group, or a part of a large one. The cells are
looked for among those that belong to the same region of the space. What is left out is judged by the outermost cells
that were compared: the groups beyond are taken for as many groups as were compared, as likely as the likeliest of the
outermost ones, and the unseen parts of a group for as heavy as its outermost parts. Where that comes to more than one
in five hundred, the row has to be compared with all rows.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from horoball.trees.microclusters import micro_clusters, nearest

NEAR = 8, 48  # cells of other groups that a row is compared with, and how many if these are not enough to tell
_OUTER = 4  # one in so many of them, the outermost, say what lies beyond
_LEFT_OUT = 0.002  # share that may be
_CELL = 32  # rows of a cell
_CENTERS = 320  # cells of a region
_PAIRS = 1 << 20  # of rows that are compared at a time
_SEED = 0


class NearGroups:
    """Cells of rows whose groups are known, and scores of the groups of those near a new row.

    Args:
        points: Rows, float32, shape (n, columns).
        code: The group of each row; −1 for none.
        center: Centers of the groups.
        scale: What squared distances are divided by.
        sharpness: τ.
        temperature: T.
    """

    def __init__(
        self,
        points: np.ndarray,
        code: np.ndarray,
        center: np.ndarray,
        scale: float,
        sharpness: float,
        temperature: float,
    ) -> None:
        self._scale, self._sharpness, self._temperature = scale, sharpness, temperature
        rng = np.random.default_rng(_SEED)
        inside = np.argsort(code, kind="stable")[(code < 0).sum() :]
        rows: list[Tensor] = []
        of: list[int] = []
        for some in np.split(inside, np.flatnonzero(np.diff(code[inside])) + 1):
            group = torch.from_numpy(np.ascontiguousarray(points[some]))
            part = np.zeros(len(some), np.int64)
            if len(some) > _CELL:
                part = micro_clusters(group - group.mean(0), 2 * len(some) // _CELL, rng)[0]
            order = torch.from_numpy(np.argsort(part, kind="stable"))
            cells = group[order].split(np.bincount(part).tolist())
            rows += cells
            of += [int(code[some[0]])] * len(cells)
        self._of = np.array(of)
        centers = torch.from_numpy(np.ascontiguousarray(center, np.float32))
        # The rows of each cell, and of each group, with the center of the group as the last one.
        self._cell = [torch.cat((cell, centers[at, None])) for cell, at in zip(rows, of, strict=True)]
        start = np.searchsorted(self._of, np.arange(len(centers) + 1)).tolist()
        self._group = [torch.cat((*rows[start[at] : start[at + 1]], centers[at, None])) for at in range(len(centers))]
        self._unseen = np.bincount(self._of)  # cells of each group
        middle = torch.stack([cell.mean(0) for cell in rows])
        regions = max(1, round(len(rows) ** 0.5))
        shift = middle.mean(0)
        region, _ = micro_clusters(middle - shift, regions, rng) if len(rows) > regions else (np.zeros(1, np.int64), 0)
        self._region = torch.stack([middle[torch.from_numpy(region == one)].mean(0) for one in range(region.max() + 1)])
        # The cells to look among in a region: those with rows in it, then those nearest to it.
        home = torch.tensor([number for number, cell in enumerate(rows) for _ in range(len(cell))])
        apart = torch.cdist(self._region, middle)
        apart[nearest(torch.cat(rows), self._region)[0], home] = 0.0
        self._listed = apart.topk(min(len(middle), _CENTERS), largest=False).indices
        self._middle = middle
        self._of_listed = torch.from_numpy(self._of)[self._listed]

    @property
    def worth_it(self) -> bool:
        """Whether there are so many cells that looking for the near ones costs less than comparing all."""
        return len(self._cell) > 2 * NEAR[-1]

    def scores(self, x: np.ndarray, near: int = NEAR[0]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Groups near each row, their scores, and whether these are enough to tell.

        Args:
            x: Rows, shape (n, columns).
            near: Cells of other groups than the nearest one that each is compared with.

        Returns:
            Groups, shape (rows, 1 + near); scores, −∞ where a group comes again; one truth value per row.
        """
        z = torch.from_numpy(np.ascontiguousarray(x, np.float32))
        own, cell = self._cells(z, near)
        pairs = self._compared(z, own, self._group), self._compared(z, cell, self._cell)
        mass, to_center = (np.concatenate(both, 1) for both in zip(*pairs, strict=True))
        code, outer = np.concatenate((own, np.where(cell < 0, own, self._of[cell])), 1), 1 + near - near // _OUTER
        total = self._together(code, mass)
        score = total + to_center
        best = score.argmax(1)[:, None]
        most = np.take_along_axis(score, best, 1)[:, 0]
        beyond = (mass + to_center)[:, outer:].max(1)
        left = near * np.exp((beyond - most) / self._temperature)
        if self._listed.shape[1] < len(self._middle):  # cells that are not listed are beyond, too
            left[cell[:, -1] < 0] = np.inf
        # Of the likeliest group, the parts that were not compared: their weight moves its score.
        here = np.take_along_axis(code, best, 1)
        unseen = np.where(here == own, 0, self._unseen[here] - (code == here).sum(1, keepdims=True))[:, 0]
        found = np.take_along_axis(total, best, 1)[:, 0]
        lost = unseen * np.exp((mass[:, outer:].max(1) - found) / self._sharpness)
        return code, score, (left <= _LEFT_OUT) & (lost <= _LEFT_OUT)

    def _cells(self, z: Tensor, most: int) -> tuple[np.ndarray, np.ndarray]:
        """The group of the nearest cell of each row, and the nearest cells of other groups, −1 if there are no more.

        Shapes (rows, 1) and (rows, most); the nearest comes first.
        """
        own, near = (torch.empty((len(z), width), dtype=torch.int64) for width in (1, most))
        region = nearest(z, self._region)[0]
        order = region.argsort()
        count = torch.bincount(region, minlength=len(self._region)).tolist()
        for listed, of, at in zip(self._listed, self._of_listed, order.split(count), strict=True):
            centers = self._middle[listed]
            half = centers.square().sum(1) / 2
            for some in at.split(1 << 13):
                d = torch.addmm(half, z[some], centers.T, alpha=-1)
                own[some] = first = of[d.argmin(1)][:, None]
                found = d.masked_fill_(of == first, torch.inf).topk(most, largest=False)
                near[some] = listed[found.indices].masked_fill_(found.values == torch.inf, -1)
        return own.numpy(), near.numpy()

    def _compared(self, z: Tensor, wanted: np.ndarray, others: list[Tensor]) -> tuple[np.ndarray, np.ndarray]:
        """τ log Σ exp(s/τ) over other rows, and s of the center of their group, by the numbers of these; −∞ at −1."""
        order = torch.from_numpy(np.argsort(wanted.ravel(), kind="stable"))
        count = np.bincount(wanted.ravel() + 1, minlength=len(others) + 1).tolist()
        mass, to_center = torch.full((wanted.size,), -torch.inf), torch.zeros(wanted.size)
        square, factor, row = z.square().sum(1)[:, None], -1 / (self._scale * self._sharpness), order // wanted.shape[1]
        end = np.cumsum(count).tolist()
        for number, other in enumerate(others):
            length, most = other.square().sum(1), max(1, _PAIRS // len(other))
            for first in range(end[number], end[number + 1], most):
                some = slice(first, min(first + most, end[number + 1]))
                at, of = order[some], row[some]
                d = torch.addmm(length + square[of], z[of], other.T, alpha=-2).clamp_min_(0)
                to_center[at] = d[:, -1]
                mass[at] = d[:, :-1].mul_(factor).logsumexp(1)
        mass, to_center = mass * self._sharpness, to_center / -self._scale
        return mass.view(wanted.shape).double().numpy(), to_center.view(wanted.shape).double().numpy()

    def _together(self, code: np.ndarray, mass: np.ndarray) -> np.ndarray:
        """The cells of the same group together, in the place of the nearest; −∞ in the others' places."""
        order = np.argsort(code, axis=1, kind="stable")
        ordered = np.take_along_axis(code, order, 1)
        first = np.ones(code.shape, bool)
        first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        if first.all():
            return mass
        start = np.flatnonzero(first)
        order = (order + np.arange(len(code))[:, None] * code.shape[1]).ravel()
        found = mass.ravel()[order]
        top = np.maximum.reduceat(found, start)
        above = found - np.repeat(np.where(np.isfinite(top), top, 0.0), np.diff(start, append=found.size))
        with np.errstate(divide="ignore"):
            total = top + self._sharpness * np.log(np.add.reduceat(np.exp(above / self._sharpness), start))
        out = np.full(mass.shape, -np.inf)
        out.ravel()[order[start]] = total
        return out
