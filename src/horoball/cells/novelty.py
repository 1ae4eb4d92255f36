"""How unlike the reference new cells are: what the model leaves unexplained of them, ranked by whole batches.

Note [Surprise]: counts x of a gene with mean μ and variance v under the model have the Pearson residual (x − μ)/√v. Of
one cell it is mostly noise. Cells of a type that the decoder cannot make share what it gets wrong, so residuals are
averaged over a cell and its nearest cells in the same data, by expression, not by the map. The surprise is the mean
over genes of their squares, times the number of cells averaged: about 1 if the model is right.

Note [Whole batches]: the cells of a batch surprise more, as a whole, if it was sequenced deeper, if it has more cells,
or if the model was not trained on it, and neighbors share most of their average. So a cell is not ranked among single
cells of the reference by its surprise. Each batch of the reference is judged by itself, as a query is, with at most as
many cells as there are new ones. In each batch the logarithm of the surprise is taken less its median, in units of the
distance from the median down to the 16 % quantile, which new types hardly move as they surprise more. Novelty is the
share of the reference's cells below, every batch with the same weight. It says which cells stick out of their batch, so
it needs at least half of a batch to be of known types. With B batches nothing can be promised of one more beyond
1/(B + 1), whatever the score: the rates that are stated were measured.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from horoball.geometry.ball import PoincareBall
from horoball.neighbors.index import Index
from horoball.tables.geodesics import count_axes
from horoball.tables.table import ArrayTable
from horoball.vae.model import VAE

_LIMIT = 10.0  # beyond which residuals are cut: a single count where none was expected is not a new type
_NEIGHBORS = 15
_GENES = 256  # averaged at once
_LEAST = 50  # cells of a batch that can be judged as a query
_LOW = 0.16  # a standard deviation below the median of a normal
_LARGE = 1.5  # times the median surprise of the reference's batches: a batch that was measured differently


@torch.no_grad()
def pearson_residuals(model: VAE, x: Tensor, z: Tensor) -> Tensor:
    """(x − μ)/√v of every gene, cut at ±10; shape (cells, genes)."""
    distribution: Any = model.decode(z, model.conditioning(x))
    residual = (x[:, : model.likelihood.features] - distribution.mean) / distribution.variance.clamp_min(1e-12).sqrt()
    return residual.clamp(-_LIMIT, _LIMIT)


class Judged(NamedTuple):
    """Cells with what the model leaves of them."""

    counts: Any  # of the genes that are there, shape (cells, genes); sparse if they were
    residuals: np.ndarray  # of the same genes
    batch: np.ndarray  # numbers

    @classmethod
    def of(cls, table: ArrayTable, residuals: Iterable[Tensor], observed: np.ndarray) -> Judged:
        """The cells of a table, with their residuals block by block, for the genes that are there."""
        rest = np.concatenate([block.cpu().numpy()[:, observed] for block in residuals])
        held = table.matrix()
        counts = held[:, observed] if hasattr(held, "tocsr") else held.numpy()[:, observed]
        return cls(
            counts, rest, np.zeros(table.rows, np.int64) if table.covariates is None else table.covariates.groups
        )

    def some(self, index: np.ndarray) -> Judged:
        """Some of the cells."""
        return Judged(*(part[index] for part in self))


def surprise(cells: Judged) -> np.ndarray:
    """What the model leaves unexplained of each cell and its neighbors; see Note [Surprise]."""
    axes = torch.from_numpy(np.ascontiguousarray(count_axes(ArrayTable(cells.counts)), np.float64))
    k, genes = min(_NEIGHBORS, len(axes)), cells.residuals.shape[1]
    _, near = Index(PoincareBall(0.0)).add(axes).search(axes, k)
    average = csr_matrix((np.full(near.numel(), 1 / k), near.numpy().ravel(), np.arange(0, near.numel() + 1, k)))
    total = np.zeros(len(axes))
    for start in range(0, genes, _GENES):
        rest = cells.residuals[:, start : start + _GENES].copy()
        for number in np.unique(cells.batch):
            # What all cells of a batch share is the batch's, however new.
            rest[cells.batch == number] -= rest[cells.batch == number].mean(0)
        total += ((average @ rest) ** 2).sum(1)
    return total * k / genes


def batches_surprise(reference: Judged, most: int, seed: int = 0) -> list[np.ndarray]:
    """The surprise of each batch of the reference, judged by itself as a query is; see Note [Whole batches].

    Args:
        reference: Cells of the fit.
        most: Cells of a batch that are judged, at most: as many as there are new ones.
        seed: Seed of their choice.
    """
    rng = np.random.default_rng(seed)
    batch = reference.batch
    large = [number for number in np.unique(batch) if (batch == number).sum() >= _LEAST]
    if len(large) < 2:
        warnings.warn(
            f"Novelty: the reference has fewer than two batches of {_LEAST} cells, so nothing is known of how batches "
            "differ, and no rate can be promised: any share of the known cells of a new batch may be above 0.95. Fit "
            "several batches.",
            stacklevel=5,
        )
    if not large:
        batch, large = np.zeros_like(batch), [0]
    found = []
    for number in large:
        mine = np.flatnonzero(batch == number)
        some = np.sort(rng.choice(mine, min(len(mine), max(most, _LEAST)), replace=False))
        found.append(surprise(reference.some(some)))
    return found


def within_batch(scores: np.ndarray) -> np.ndarray:
    """The logarithm of the surprise less its median, in units of the way down to the 16 % quantile."""
    logs = np.log(np.maximum(scores, np.finfo(np.float64).tiny))
    low, middle = np.quantile(logs, (_LOW, 0.5), method="inverted_cdf")
    return (logs - middle) / max(middle - low, 1e-12)


def novelty(scores: np.ndarray, batch: np.ndarray, known: Sequence[np.ndarray]) -> np.ndarray:
    """The share of the reference's cells that stick out of their batch less; see Note [Whole batches]."""
    usual = np.concatenate([within_batch(one) for one in known])
    weight = np.concatenate([np.full(len(one), 1 / (len(one) * len(known))) for one in known])
    order = np.argsort(usual)
    below = np.concatenate(([0.0], np.cumsum(weight[order]))) * len(usual) / (len(usual) + 1)
    found = np.empty(len(scores))
    highest = max(float(np.median(one)) for one in known)
    for number in np.unique(batch):
        mine = batch == number
        found[mine] = below[np.searchsorted(usual[order], within_batch(scores[mine]), side="left")]
        middle = float(np.median(scores[mine]))
        if middle > _LARGE * highest:
            warnings.warn(
                f"Novelty: the cells of a new batch surprise {middle / highest:.1f} times as much as those of the "
                "reference. The batch was measured differently, or most of its cells are new. Novelty compares the "
                "cells within the batch; obs['poincare_surprise'] says how much they surprise.",
                stacklevel=4,
            )
    return found
