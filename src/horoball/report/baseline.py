"""Does curvature help? The hyperbolic model and its Euclidean baseline (c = 0), compared on held-out rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student
from torch import Tensor

from horoball.data.tables.array_table import ArrayTable
from horoball.hierarchy.metrics import Metrics, metrics
from horoball.manifolds import PoincareBall
from horoball.numerics.random import generator_for
from horoball.objectives import log_likelihood
from horoball.training.config import TrainConfig
from horoball.training.table.run import Run
from horoball.training.table.train import train

__all__ = ["Candidate", "Candidates", "Difference", "compare_geometries", "difference"]

_HELD_OUT = 0.2  # of the rows, for the log-likelihood


@dataclass(frozen=True)
class Candidate:
    """One trained model, judged.

    Example:
        >>> sorted(Candidate.__dataclass_fields__)
        ['c', 'embedding', 'epochs', 'log_likelihood', 'metrics', 'seed']
    """

    c: float
    seed: int
    log_likelihood: float  # mean over the held-out rows, in the units the model sees
    metrics: Metrics
    epochs: int
    embedding: Tensor = field(repr=False)  # of all rows, in the tangent chart


@dataclass(frozen=True)
class Difference:
    """Hyperbolic less Euclidean, paired by seed: the mean and its 95 % interval.

    The seeds' rows overlap, so their differences are not independent: the interval is Student's, widened by Nadeau and
    Bengio's factor for random splits.

    Example:
        >>> difference([1.0, 2.0, 3.0], [0.0, 1.0, 2.0])
        Difference(mean=1.0, low=1.0, high=1.0)
    """

    mean: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 or −1 where the interval is on one side of 0, otherwise 0."""
        return 1 if self.low > 0 else -1 if self.high < 0 else 0


@dataclass(frozen=True)
class Candidates:
    """Pairs of models, hyperbolic and Euclidean, one pair per seed.

    Example:
        >>> Candidates([], [], torch.zeros(0, 2)).hyperbolic
        []
    """

    hyperbolic: list[Candidate]
    euclidean: list[Candidate]
    seen: Tensor = field(repr=False)  # all rows, as the first model sees them
    first: Run | None = field(default=None, repr=False)  # the first hyperbolic model

    def values(self, name: str) -> tuple[list[float], list[float]] | None:
        """A figure of all hyperbolic and all Euclidean models; None where it was not measured."""
        found = [[_figure(candidate, name) for candidate in side] for side in (self.hyperbolic, self.euclidean)]
        if any(value is None for side in found for value in side):
            return None
        return ([float(v) for v in found[0] if v is not None], [float(v) for v in found[1] if v is not None])


def _figure(candidate: Candidate, name: str) -> float | None:
    return candidate.log_likelihood if name == "log_likelihood" else getattr(candidate.metrics, name, None)


def difference(hyperbolic: list[float], euclidean: list[float]) -> Difference:
    """The paired difference with its interval, infinite for a single pair.

    Example:
        >>> difference([1.0, 3.0], [0.0, 1.0]).mean
        1.5
    """
    gap = np.subtract(hyperbolic, euclidean)
    mean, n = float(gap.mean()), len(gap)
    if n < 2:
        return Difference(mean, -np.inf, np.inf)
    reach = float(student.ppf(0.975, n - 1) * gap.std(ddof=1) * np.sqrt(1 / n + _HELD_OUT / (1 - _HELD_OUT)))
    return Difference(mean, mean - reach, mean + reach)


def compare_geometries(
    table: ArrayTable,
    model: dict[str, Any],
    config: TrainConfig,
    *,
    c: float = 1.0,
    seeds: int = 3,
    samples: int = 500,
    told: Callable[[int, int], None] | None = None,
) -> Candidates:
    """Train both models with each seed, on the same rows, with the same budget, and judge them.

    A fifth of the rows is held out for the log-likelihood, a new fifth for each seed. Metrics are those of all rows.

    Args:
        table: Rows.
        model: Fields of `ModelConfig` other than features and c.
        config: Settings of the training.
        c: Minus the curvature of the hyperbolic model.
        seeds: Number of pairs.
        samples: Importance samples of the log-likelihood.
        told: Called with the number of models that are done, and of all.

    Example:
        >>> from horoball.data import branching_diffusion
        >>> x = branching_diffusion(depth=3).x
        >>> short = TrainConfig(max_epochs=1)
        >>> candidates = compare_geometries(ArrayTable(x), {"hidden": (8,)}, short, seeds=2, samples=5)
        >>> [candidate.c for candidate in (*candidates.hyperbolic, *candidates.euclidean)]
        [1.0, 1.0, 0.0, 0.0]
    """
    if not c > 0:
        raise ValueError(f"The hyperbolic model needs c > 0, got {c}.")
    found: dict[float, list[Candidate]] = {c: [], 0.0: []}
    first: list[Run] = []
    for seed in range(seeds):
        part, held = table.split(_HELD_OUT, seed + 1000)
        if held is None:
            raise ValueError(f"A comparison holds out a fifth of the rows; {table.rows} rows are too few.")
        for curvature, candidates in found.items():
            run = train(part, model | {"c": curvature}, config.replace(seed=seed))
            first = first or [run]
            candidates.append(_judged(run, table, held, curvature, seed, samples))
            if told is not None:
                told(sum(map(len, found.values())), 2 * seeds)
    return Candidates(found[c], found[0.0], first[0].seen(table), first[0])


def _judged(run: Run, table: ArrayTable, held: ArrayTable, c: float, seed: int, samples: int) -> Candidate:
    with torch.no_grad():
        held_out = torch.cat(list(run.blocks(held)))
        likelihood = float(log_likelihood(run.model, held_out, samples, generator=generator_for(seed)).mean())
        z = torch.cat([run.model.embed(block).cpu().double() for block in run.blocks(table)])
    judged = metrics(run.seen(table), z, PoincareBall(run.model.ball.c_value), labels=table.labels)
    return Candidate(c, seed, likelihood, judged, len(run.history), z)
