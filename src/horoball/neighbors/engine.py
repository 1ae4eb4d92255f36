"""The search by inner products itself: FAISS over lifted points, all of them or by partitions."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from horoball.neighbors.lift import Lift
from horoball.neighbors.partitions import Partitions
from horoball.runtime.extras import require_faiss

__all__ = ["Engine"]

_BLOCK = 65_536


class Engine:
    """Lifted points in FAISS: a flat index without partitions, an inverted file with them.

    Args:
        lift: The lift of the points.
        d: Their dimension.
        partitions: Where to look for them.

    Example:
        >>> import torch
        >>> z = torch.tensor([[0.0, 1.0], [0.0, 3.0]])
        >>> engine = Engine(Lift.of(z, 1.0), 2)
        >>> engine.add(z)
        >>> engine.search(engine.lift.queries(torch.tensor([[0.0, 2.5]])).rows, 1)[1]
        array([[1]])
    """

    def __init__(self, lift: Lift, d: int, partitions: Partitions | None = None) -> None:
        faiss = require_faiss()
        self.lift, self.partitions, self.of = lift, partitions, np.empty(0, np.int32)
        self.made_for = lift.reach
        if partitions is None:
            self.faiss: Any = faiss.IndexFlatIP(d + 1)
            return
        self._quantizer = partitions.quantizer()  # kept here, for FAISS does not keep it
        self.faiss = faiss.IndexIVFFlat(self._quantizer, d + 1, len(partitions), faiss.METRIC_INNER_PRODUCT)
        # The centers are known, and points are assigned here: FAISS would do it by inner products.
        self.faiss.is_trained = True

    def __len__(self) -> int:
        return self.faiss.ntotal

    def add(self, z: Tensor, of: np.ndarray | None = None) -> None:
        """Add points in the tangent chart, to the partitions that are given or to those they belong to."""
        self.lift = self.lift.reaching(z)
        if self.partitions is not None:
            of = self.partitions.assign(z) if of is None else of
            self.of = np.concatenate((self.of, of.astype(np.int32)))
        for first in range(0, len(z), _BLOCK):
            rows = self.lift.points(z[first : first + _BLOCK])
            if self.partitions is None or of is None:
                self.faiss.add(rows)
            else:
                from faiss.contrib.ivf_tools import add_preassigned

                add_preassigned(self.faiss, rows, np.ascontiguousarray(of[first : first + _BLOCK], np.int64))

    def search(self, rows: np.ndarray, k: int, probed: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The k least scores s and their ids, least first; −1 and infinity where there are fewer.

        Args:
            rows: Lifted queries, shape (n, d + 1).
            k: How many.
            probed: The partitions to look through, shape (n, p), as `Partitions.probed` gives them.
        """
        if probed is None:
            products, ids = self.faiss.search(rows, k)
            return -products, ids
        # FAISS's Python method takes p from an attribute of the index, which threads would share.
        pointer, products, ids = (
            require_faiss().swig_ptr,
            np.empty((len(rows), k), np.float32),
            np.empty((len(rows), k), int),
        )
        rows, lists = np.ascontiguousarray(rows), np.ascontiguousarray(probed, np.int64)
        centers = np.zeros(lists.shape, np.float32)  # products with them, which this kind of index makes no use of
        arguments = (pointer(rows), k, pointer(lists), pointer(centers), pointer(products), pointer(ids))
        self.faiss.search_preassigned_c(len(rows), *arguments, False, self._params(lists))
        return -products, ids

    def within(self, row: np.ndarray, bound: float, probed: np.ndarray | None = None) -> np.ndarray:
        """The ids of all points whose score for one query is at most a bound, in the partitions to look through."""
        # FAISS keeps products above the threshold, not those equal to it.
        least = float(np.nextafter(np.float32(-bound), np.float32(-np.inf)))
        if probed is None:
            return self.faiss.range_search(row[None], least)[2]
        faiss, row, lists = require_faiss(), np.ascontiguousarray(row), np.ascontiguousarray(probed[None], np.int64)
        found, centers = faiss.RangeSearchResult(1), np.zeros(lists.shape, np.float32)
        arguments = (faiss.swig_ptr(row), least, faiss.swig_ptr(lists), faiss.swig_ptr(centers), found)
        self.faiss.range_search_preassigned_c(1, *arguments, False, self._params(lists))
        return faiss.rev_swig_ptr(found.labels, int(faiss.rev_swig_ptr(found.lims, 2)[1])).copy()

    def _params(self, lists: np.ndarray) -> Any:
        return require_faiss().SearchParametersIVF(nprobe=lists.shape[1])
