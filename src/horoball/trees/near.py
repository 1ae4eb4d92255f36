"""Scores of the groups near a row alone, for placing many rows; see Note [Placing] in `horoball.trees.placement`.

Note [Near groups]: a row is compared with the rows of the cells that it is nearest to by their centers, where a cell is
a group, or a part of a large one. The cells are looked for among those that belong to the same region of the space.
What is left out is judged by the outermost cells that were compared: the groups beyond are taken for as many groups as
were compared, as likely as the likeliest of the outermost ones, and the unseen parts of a group for as heavy as its
outermost parts. Where that comes to more than one in five hundred, the row has to be compared with all rows.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from horoball.trees.microclusters import micro_clusters, nearest

NEAR = 8, 48  # cells that a row is compared with, and with how many if these are not enough to tell
_OUTER = 4  # one in so many of them, the outermost, say what lies beyond
_LEFT_OUT = 0.002  # share that may be
_CELL = 32  # rows of a cell
_CENTERS = 320  # cells of a region
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
        self._rows, self._of = rows, np.array(of)
        self._square = [cell.square().sum(1) for cell in rows]
        self._center = torch.from_numpy(np.ascontiguousarray(center, np.float32))
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

    @property
    def worth_it(self) -> bool:
        """Whether there are so many cells that looking for the near ones costs less than comparing all."""
        return len(self._rows) > 2 * NEAR[-1]

    def scores(self, x: np.ndarray, near: int = NEAR[0]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Groups near each row, their scores, and whether these are enough to tell.

        Args:
            x: Rows, shape (n, columns).
            near: Cells that each is compared with.

        Returns:
            Groups, shape (rows, near); scores, −∞ where a group comes again; one truth value per row.
        """
        z = torch.from_numpy(np.ascontiguousarray(x, np.float32))
        cell = self._cells(z, near)
        mass, to_center = self._compared(z, cell)
        code, outer = self._of[cell], near - near // _OUTER
        total = self._together(code, mass)
        score = total + to_center
        best = score.argmax(1)[:, None]
        most = np.take_along_axis(score, best, 1)[:, 0]
        beyond = (mass + to_center)[:, outer:].max(1)
        left = near * np.exp((beyond - most) / self._temperature)
        # Of the likeliest group, the parts that were not compared: their weight moves its score.
        here = np.take_along_axis(code, best, 1)
        unseen = self._unseen[here[:, 0]] - (code == here).sum(1)
        own = np.take_along_axis(total, best, 1)[:, 0]
        lost = unseen * np.exp((mass[:, outer:].max(1) - own) / self._sharpness)
        return code, score, (left <= _LEFT_OUT) & (lost <= _LEFT_OUT)

    def _cells(self, z: Tensor, most: int) -> np.ndarray:
        """The cells that each row is nearest to, the nearest first, shape (rows, near)."""
        near = torch.empty((len(z), most), dtype=torch.int64)
        region = nearest(z, self._region)[0]
        order = region.argsort()
        count = torch.bincount(region, minlength=len(self._region)).tolist()
        for listed, at in zip(self._listed, order.split(count), strict=True):
            centers = self._middle[listed]
            half = centers.square().sum(1) / 2
            for some in at.split(1 << 13):
                d = torch.addmm(half, z[some], centers.T, alpha=-1)
                near[some] = listed[d.topk(most, largest=False).indices]
        return near.numpy()

    def _compared(self, z: Tensor, cell: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """τ log Σ exp(s/τ) over the rows of each cell, and s of the center of its group."""
        mass, to_center = torch.empty(cell.size), torch.empty(cell.size)
        order = torch.from_numpy(np.argsort(cell.ravel(), kind="stable"))
        count = np.bincount(cell.ravel(), minlength=len(self._rows)).tolist()
        square = z.square().sum(1)
        for number, at in enumerate(order.split(count)):
            if len(at):
                row = at // cell.shape[1]
                x, length = z[row], square[row][:, None]
                d = torch.addmm(self._square[number] + length, x, self._rows[number].T, alpha=-2).clamp_min_(0)
                mass[at] = d.mul_(-1 / (self._scale * self._sharpness)).logsumexp(1)
                to_center[at] = (x - self._center[self._of[number]]).square_().sum(1)
        shape = cell.shape
        return (mass * self._sharpness).view(shape).double().numpy(), -(to_center / self._scale).view(shape).numpy()

    def _together(self, code: np.ndarray, mass: np.ndarray) -> np.ndarray:
        """The cells of the same group together, in the place of the nearest; −∞ in the others' places."""
        if self._unseen.max() == 1:
            return mass
        out = np.full(mass.shape, -np.inf)
        waiting = np.ones(mass.shape, bool)
        for place in range(code.shape[1]):
            same = (code == code[:, place, None]) & waiting
            one = np.where(same, mass, -np.inf)
            top = one.max(1)
            with np.errstate(invalid="ignore", divide="ignore"):
                total = top + self._sharpness * np.log(np.exp((one - top[:, None]) / self._sharpness).sum(1))
            out[:, place] = np.where(same.any(1), total, -np.inf)
            waiting &= ~same
        return out
