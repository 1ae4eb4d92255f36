"""Counts of cells on a lineage, for `benchmarks.atlas`: a simulator that shares nothing with horoball's own.

Eight types descend from one stem (`LINEAGE`). A type turns on a program of 120 genes of its own, gene by gene along its
edge, on top of its ancestors' programs. Counts are negative binomial with a dispersion for each gene. Batches have log
factors for all genes, depths and compositions of their own; three cells in ten are in a cycle that crosses all types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np
import pandas as pd
from anndata import AnnData
from scipy.sparse import csr_matrix, vstack

__all__ = ["LINEAGE", "Genome", "genome", "lineage_counts"]

LINEAGE = {
    "stem": None,
    "myeloid": "stem",
    "red": "stem",
    "lymphoid": "stem",
    "mono": "myeloid",
    "neutro": "myeloid",
    "erythro": "red",
    "mega": "red",
}
OWN, STEP = 120, 0.9  # genes of a program, and the standard deviation of their change
STEEP = 10.0  # how suddenly a gene of a program changes along its edge
AT_ONCE = 5000  # cells simulated at a time


class Genome(NamedTuple):
    """What all cells of a simulation share."""

    base: np.ndarray  # log expression of the stem's beginning
    programs: dict[str, np.ndarray]  # change of log expression along the edge of a type
    onset: dict[str, np.ndarray]  # where on the edge each gene changes
    alien: np.ndarray  # the program of a state that no type has
    cycle: np.ndarray
    dispersion: np.ndarray


def genome(genes: int, seed: int = 0) -> Genome:
    """A genome with the programs of all types."""
    rng = np.random.default_rng(seed)
    base = rng.normal(0, 1.6, genes)

    def program(size: int, mean: float, std: float) -> np.ndarray:
        change = np.zeros(genes)
        change[rng.choice(genes, min(size, genes), replace=False)] = rng.normal(mean, std, min(size, genes))
        return change

    programs = {name: program(OWN, 0, STEP) for name in LINEAGE}
    onset = {name: rng.uniform(0.1, 0.9, genes) for name in LINEAGE}
    alien, cycle = program(2 * OWN, 0, 1.2), np.abs(program(60, 0.8, 0.3))
    return Genome(base, programs, onset, alien, cycle, rng.gamma(4, 0.5, genes) + 0.2)


def lineage_counts(
    made: Genome,
    cells: int,
    batches: Sequence[str] = ("a", "b", "c"),
    *,
    seed: int = 0,
    batch_effect: float = 0.3,
    depth: float = 2500.0,
    types: Sequence[str] = tuple(LINEAGE),
    aliens: int = 0,
) -> AnnData:
    """Cells with obs batch, type and time: how far from the stem's beginning, in edges.

    A batch is known by its name: the same name has the same factors, depth and composition in every call.

    Args:
        made: The genome.
        cells: Number of cells.
        batches: Names of the batches.
        seed: Seed of the cells.
        batch_effect: Standard deviation of a batch's log factors.
        depth: Median of the counts of a cell, before a batch's own factor.
        types: Types that occur.
        aliens: Cells in a state that no type has; their type is "alien".
    """
    rng = np.random.default_rng(seed)
    own = {name: np.random.default_rng(crc32(name.encode())) for name in batches}
    factor = {name: one.normal(0, batch_effect, len(made.base)) for name, one in own.items()}
    deep = {name: float(one.normal(0, 0.35)) for name, one in own.items()}
    share = {name: one.dirichlet(np.full(len(types), 8.0)) for name, one in own.items()}
    batch = rng.choice(list(batches), cells)
    kind = np.empty(cells, object)
    for name in batches:
        here = batch == name
        kind[here] = rng.choice(list(types), int(here.sum()), p=share[name])
    along = np.where(kind == "stem", rng.beta(1, 1.5, cells), rng.beta(1.3, 1.0, cells))
    cycling = rng.random(cells) < 0.3
    alien = np.zeros(cells, bool)
    alien[rng.choice(cells, aliens, replace=False)] = True
    library = np.exp(rng.normal(np.log(depth), 0.35, cells) + np.array([deep[name] for name in batch]))
    parts = []
    for first in range(0, cells, AT_ONCE):
        rows = slice(first, min(first + AT_ONCE, cells))
        log = np.stack([factor[name] for name in batch[rows]]) + made.base
        for name in LINEAGE:
            reached = np.array([1.3 if name in above(of) else 0.0 for of in LINEAGE])
            amount = reached[[list(LINEAGE).index(of) for of in kind[rows]]]
            amount = np.where(kind[rows] == name, along[rows], amount)
            some = np.flatnonzero(made.programs[name])
            on = 1 / (1 + np.exp(-STEEP * (amount[:, None] - made.onset[name][some])))
            log[:, some] += made.programs[name][some] * on
        log += np.outer(cycling[rows], made.cycle)
        log[alien[rows]] += made.alien
        mean = np.exp(log)
        mean *= (library[rows] / mean.sum(1))[:, None]
        parts.append(csr_matrix(rng.poisson(rng.gamma(made.dispersion, mean / made.dispersion)).astype(np.float32)))
    time = np.array([len(above(name)) for name in kind]) + along
    kind[alien] = "alien"
    obs = pd.DataFrame(
        {"batch": pd.Categorical(batch), "type": pd.Categorical(kind), "time": time, "cycling": cycling},
        index=[f"cell{seed}_{i}" for i in range(cells)],
    )
    var = pd.DataFrame(index=[f"gene{i}" for i in range(len(made.base))])
    return AnnData(vstack(parts, format="csr"), obs=obs, var=var)


def above(name: str) -> list[str]:
    """The ancestors of a type."""
    found, parent = [], LINEAGE[name]
    while parent is not None:
        found.append(parent)
        parent = LINEAGE[parent]
    return found
