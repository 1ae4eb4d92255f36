"""The search by inner products itself: FAISS over lifted points, all of them or by cells."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from horoball.neighbors.cells import Cells
from horoball.neighbors.library import library
from horoball.neighbors.lift import Lift

__all__ = ["Engine"]

_BLOCK = 65_536


class Engine:
    """Lifted points in FAISS: a flat index without cells, an inverted file with them.

    Args:
        lift: The lift of the points.
        d: Their dimension.
        cells: Where to look for them.

    Example:
        >>> import torch
        >>> z = torch.tensor([[0.0, 1.0], [0.0, 3.0]])
        >>> engine = Engine(Lift.of(z, 1.0), 2)
        >>> engine.add(z)
        >>> engine.search(engine.lift.queries(torch.tensor([[0.0, 2.5]])).rows, 1)[1]
        array([[1]])
    """

    def __init__(self, lift: Lift, d: int, cells: Cells | None = None) -> None:
        faiss = library()
        self.lift, self.cells, self.of = lift, cells, np.empty(0, np.int32)
        self.made_for = lift.reach
        if cells is None:
            self.faiss: Any = faiss.IndexFlatIP(d + 1)
            return
        quantizer = faiss.IndexFlatIP(d + 1)
        quantizer.add(cells.lifted(lift))
        self.faiss = faiss.IndexIVFFlat(quantizer, d + 1, quantizer.ntotal, faiss.METRIC_INNER_PRODUCT)
        self.faiss.is_trained = (
            True  # the centres are known, and points are assigned here: FAISS would do it by product
        )

    def __len__(self) -> int:
        return self.faiss.ntotal

    def add(self, z: Tensor, of: np.ndarray | None = None) -> None:
        """Add points in the tangent chart, to the cells that are given or to those they belong to."""
        self.lift = self.lift.reaching(z)
        if self.cells is not None:
            of = self.cells.assign(z, self.lift) if of is None else of
            self.of = np.concatenate((self.of, of.astype(np.int32)))
        for first in range(0, len(z), _BLOCK):
            rows = self.lift.points(z[first : first + _BLOCK])
            if self.cells is None or of is None:
                self.faiss.add(rows)
            else:
                from faiss.contrib.ivf_tools import add_preassigned

                add_preassigned(self.faiss, rows, np.ascontiguousarray(of[first : first + _BLOCK], np.int64))

    def search(self, rows: np.ndarray, k: int, probes: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """The k least scores s and their ids, least first; −1 and infinity where there are fewer."""
        products, ids = self.faiss.search(rows, k, params=self._params(probes))
        return -products, ids

    def within(self, row: np.ndarray, bound: float, probes: int = 1) -> np.ndarray:
        """The ids of all points whose score for one query is at most a bound."""
        # FAISS keeps products above the threshold, not those equal to it.
        least = np.nextafter(np.float32(-bound), np.float32(-np.inf))
        return self.faiss.range_search(row[None], float(least), params=self._params(probes))[2]

    def _params(self, probes: int) -> Any:
        return None if self.cells is None else library().SearchParametersIVF(nprobe=min(probes, self.faiss.nlist))
