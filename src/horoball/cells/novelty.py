"""What the model leaves unexplained of new cells, and which of them depart from the reference, by whole batches.

Note [Surprise]: counts x of a gene with mean μ and variance v under the model have the Pearson residual (x − μ)/√v. Of
one cell it is mostly noise. Cells of a type that the decoder cannot make share what it gets wrong, so residuals are
averaged over a cell and its nearest cells in the same data, by expression, not by the map. The surprise is the mean
over genes of their squares, times the number of cells averaged: about 1 if the model is right.

Note [Departure]: what the decoder gets wrong of known cells, such as their cycle, it gets wrong of new ones too. A type
that the reference lacks adds directions of its own. So take those in which the residuals of a batch vary most beyond
the reference's, the first eigenvectors v of Σ − Σ₀ with variances s = vᵀΣv and s₀ = vᵀΣ₀v. With the projection p of a
cell less the median of its batch, where known cells are, the departure is

    Σ_v (1/s₀ − 1/s)₊ p²,

twice the logarithm of the ratio of two normal densities but for a constant, averaged over the cell and its nearest.

Note [Whole batches]: the cells of a batch depart more, as a whole, if it was sequenced deeper, if it has more cells, or
if the model was not trained on it, and neighbors share most of their average. So a cell is not ranked among single
cells of the reference by its departure. Each batch of the reference is judged against the others, as a query is, with
at most as many cells as there are new ones. In each batch the logarithm of the departure is taken less its median, in
units of the distance from the median down to the 16 % quantile, which new types hardly move as they depart more.
Novelty is the share of the reference's cells below, every batch with the same weight. It says which cells stick out of
their batch, so it needs at least half of a batch to be of known types. With B batches nothing can be promised of one
more beyond 1/(B + 1), whatever the score: the rates that are stated were measured.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

from horoball.geometry.ball import PoincareBall
from horoball.neighbors.index import Index
from horoball.tables.geodesics import count_axes
from horoball.tables.table import ArrayTable
from horoball.vae.model import VAE

_LIMIT = 10.0  # beyond which residuals are cut: a single count where none was expected is not a new type
_NEIGHBORS = 15  # whose residuals are averaged
_AROUND = 10  # whose departures are averaged
_DIRECTIONS, _NEAR = 3, 1e-3  # how near to the exact ones: a third of the work
_LEAST_VARIANCE = 0.1  # of the reference in a direction: a gene that no known cell has is not all there is
_GENES = 256  # averaged at once
LEAST = 50  # cells of a batch that can be judged, of the reference and of a query
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


class Scores(NamedTuple):
    """How unlike the reference the cells of a batch are."""

    surprise: np.ndarray
    departure: np.ndarray


def judge(cells: Judged, usual: np.ndarray) -> Scores:
    """Scores of cells by their own batches, beside residuals of the reference; Notes [Surprise] and [Departure]."""
    axes, rest = _axes(cells), centered(cells.residuals, cells.batch)
    departure = np.empty(len(axes))
    for number in np.unique(cells.batch):
        mine = np.flatnonzero(cells.batch == number)
        departure[mine] = _average(axes[mine], min(_AROUND, len(mine))) @ _departure(rest[mine], usual)
    return Scores(_surprise(rest, axes), departure)


def surprise(cells: Judged) -> np.ndarray:
    """What the model leaves unexplained of each cell and its neighbors; see Note [Surprise]."""
    return _surprise(centered(cells.residuals, cells.batch), _axes(cells))


def _surprise(rest: np.ndarray, axes: Tensor) -> np.ndarray:
    total = np.zeros(len(axes))
    average = _average(axes, k := min(_NEIGHBORS, len(axes)))
    for start in range(0, rest.shape[1], _GENES):
        total += ((average @ rest[:, start : start + _GENES]) ** 2).sum(1)
    return total * k / rest.shape[1]


def _axes(cells: Judged) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(count_axes(ArrayTable(cells.counts)), np.float64))


def centered(residuals: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """Residuals less the mean of each batch: what all of its cells share is the batch's, however new."""
    rest = residuals.copy()
    for number in np.unique(batch):
        rest[batch == number] -= rest[batch == number].mean(0)
    return rest


def _average(axes: Tensor, k: int) -> csr_matrix:
    """The mean over the k nearest cells, of which each is its own first."""
    _, near = Index(PoincareBall(0.0)).add(axes).search(axes, k)
    return csr_matrix((np.full(near.numel(), 1 / k), near.numpy().ravel(), np.arange(0, near.numel() + 1, k)))


def _departure(rest: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """The weighted squares of what the residuals of cells have beyond the usual ones; see Note [Departure]."""
    p, p0 = (part @ _directions(rest, usual) for part in (rest, usual))
    s0 = np.maximum(p0.var(0), _LEAST_VARIANCE)
    weight = 1 / s0 - 1 / np.maximum(p.var(0), s0)
    found: np.ndarray = ((p - np.median(p, 0)) ** 2) @ weight
    return found


def _directions(rest: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """Genes' weights in the directions in which some rows vary most beyond others, shape (genes, directions)."""
    genes = rest.shape[1]
    if genes <= _DIRECTIONS:
        return np.eye(genes)

    def beyond(v: np.ndarray) -> np.ndarray:
        w = v.astype(rest.dtype)
        more: np.ndarray = rest.T @ (rest @ w) / len(rest) - usual.T @ (usual @ w) / len(usual)
        return more.astype(np.float64)

    start = np.ones(genes)
    if not beyond(start).any():  # the same rows, as of a reference that is mapped onto itself: no direction is beyond
        return np.eye(genes)[:, :_DIRECTIONS]
    found: np.ndarray = eigsh(LinearOperator((genes, genes), beyond), _DIRECTIONS, which="LA", v0=start, tol=_NEAR)[1]
    return found


def judge_reference(reference: Judged, most: int, seed: int = 0) -> list[Scores]:
    """The scores of each batch of the reference, judged against the others; see Note [Whole batches].

    Args:
        reference: Cells of the fit.
        most: Cells of a batch that are judged, at most: as many as there are new ones.
        seed: Seed of their choice.
    """
    rng = np.random.default_rng(seed)
    batch = reference.batch
    large = [number for number in np.unique(batch) if (batch == number).sum() >= LEAST]
    if len(large) < 2:
        warnings.warn(
            f"Novelty: the reference has fewer than two batches of {LEAST} cells, so nothing is known of how batches "
            "differ, and no rate can be promised: any share of the known cells of a new batch may be above 0.95. Fit "
            "several batches.",
            stacklevel=5,
        )
        batch, large = rng.permutation(len(batch)) % 2, [0, 1]  # halves, which differ less than batches do
    rest = centered(reference.residuals, batch)
    found = []
    for number in large:
        mine = np.flatnonzero(batch == number)
        some = np.sort(rng.choice(mine, min(len(mine), max(most, LEAST)), replace=False))
        found.append(judge(reference.some(some)._replace(batch=batch[some]), rest[batch != number]))
    return found


def within_batch(scores: np.ndarray) -> np.ndarray:
    """The logarithm of the scores less its median, in units of the way down to the 16 % quantile."""
    logs = np.log(np.maximum(scores, np.finfo(np.float64).tiny))
    low, middle = np.quantile(logs, (_LOW, 0.5), method="inverted_cdf")
    return (logs - middle) / max(middle - low, 1e-12)


def novelty(new: Scores, known: Sequence[Scores]) -> np.ndarray:
    """The share of the reference's cells that stick out of their batch less than those of a new batch do of theirs.

    See Note [Whole batches].
    """
    usual = np.concatenate([within_batch(one.departure) for one in known])
    weight = np.concatenate([np.full(len(one.departure), 1 / (len(one.departure) * len(known))) for one in known])
    order = np.argsort(usual)
    below = np.concatenate(([0.0], np.cumsum(weight[order]))) * len(usual) / (len(usual) + 1)
    highest, middle = max(float(np.median(one.surprise)) for one in known), float(np.median(new.surprise))
    if middle > _LARGE * highest:
        warnings.warn(
            f"Novelty: the cells of a new batch surprise {middle / highest:.1f} times as much as those of the "
            "reference. The batch was measured differently, or most of its cells are new. Novelty compares the "
            "cells within the batch; obs['poincare_surprise'] says how much they surprise.",
            stacklevel=4,
        )
    found: np.ndarray = below[np.searchsorted(usual[order], within_batch(new.departure), side="left")]
    return found
