"""Counts of another simulator than the package's own, after Splatter (Zappia et al., 2017), for tests and benchmarks.

Gene means are gamma with log-normal outliers; paths of a tree multiply some genes by log-normal factors; batches
multiply all genes by log-normal factors and differ in composition; library sizes are log-normal; counts are
gamma-Poisson with a variation that falls with the mean; zeros may be added.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from tests.late import late

anndata = late("anndata")

# Ten types: a stem, two progenitors, and their ends.
LINEAGE = {"stem": "stem", "A": "stem", "B": "stem", "A1": "A", "A2": "A", "A3": "A", "B1": "B", "B2": "B"} | {
    "B1x": "B1",
    "B1y": "B1",
}


class Truth(NamedTuple):
    """What a simulation knows."""

    cells: Any  # AnnData with layers["counts"], obs: type, time, batch
    shares: np.ndarray  # of each cell's library without the batch effect, shape (cells, genes)
    profiles: dict[str, np.ndarray]  # log expression of each type at its end


def splatter(
    cells: int = 600,
    genes: int = 200,
    batches: int = 3,
    *,
    lineage: dict[str, str] = LINEAGE,
    batch_scale: float = 0.3,
    changed: float = 0.3,
    change: float = 0.5,
    library: float = 2000.0,
    uneven: float = 0.5,
    dropout: float = 0.0,
    seed: int = 0,
) -> Truth:
    """Cells along a lineage in uneven batches.

    Args:
        cells: Number of cells.
        genes: Number of genes.
        batches: Number of batches.
        lineage: The parent of each type; the root is its own. A parent comes before its children.
        batch_scale: Standard deviation of a batch's log factors.
        changed: Share of the genes that change along an edge.
        change: Standard deviation of their log factors.
        library: Median of the counts of a cell.
        uneven: How unevenly types and batches are filled: log-normal weights of this scale.
        dropout: Share of the counts that become 0 at a mean of 1; fewer at larger means.
        seed: Seed.
    """
    rng = np.random.default_rng(seed)
    mean = rng.gamma(0.6, 1 / 0.3, genes) + 1e-3
    outlier = rng.random(genes) < 0.05
    mean[outlier] = np.median(mean) * rng.lognormal(3.0, 0.5, int(outlier.sum()))
    profiles: dict[str, np.ndarray] = {}
    for name, parent in lineage.items():
        factor = np.where(rng.random(genes) < changed, rng.normal(0.0, change, genes), 0.0)
        profiles[name] = np.log(mean) if name == parent else profiles[parent] + 2 * factor
    names, weights = list(lineage), rng.lognormal(0.0, uneven, (batches, len(lineage)))
    share_of_batch = rng.lognormal(0.0, uneven, batches)
    batch = rng.choice(batches, cells, p=share_of_batch / share_of_batch.sum())
    kind = np.array([rng.choice(len(names), p=weights[b] / weights[b].sum()) for b in batch])
    time = rng.random(cells)
    ends = np.stack([profiles[name] for name in names])
    starts = np.stack([profiles[lineage[name]] for name in names])
    log = (1 - time[:, None]) * starts[kind] + time[:, None] * ends[kind]
    shares = np.exp(log)
    shares /= shares.sum(1, keepdims=True)
    seen = np.exp(log + rng.normal(0.0, batch_scale, (batches, genes))[batch])
    seen /= seen.sum(1, keepdims=True)
    depth = rng.normal(0.0, 0.3, batches)
    mu = seen * np.exp(rng.normal(np.log(library) + depth[batch], 0.35))[:, None]
    variation = (0.1 + 1 / np.sqrt(np.maximum(mu, 0.1))) * np.sqrt(40 / rng.chisquare(40, genes)) * 0.3
    counts = rng.poisson(rng.gamma(1 / variation**2, mu * variation**2))
    counts[rng.random(counts.shape) < dropout / (1 + mu)] = 0
    counts[np.arange(cells), seen.argmax(1)] += counts.sum(1) == 0  # no cell is empty
    matrix = csr_matrix(counts.astype(np.float32))
    adata = anndata.AnnData(matrix, layers={"counts": matrix.copy()})
    adata.obs_names = [f"cell{i}" for i in range(cells)]
    adata.var_names = [f"gene{i}" for i in range(genes)]
    adata.obs["type"] = np.array(names)[kind]
    level = dict.fromkeys(names, 0)
    for name in names:
        level[name] = 0 if lineage[name] == name else level[lineage[name]] + 1
    adata.obs["time"] = [max(0.0, level[names[k]] - 1 + t) for k, t in zip(kind, time, strict=True)]
    adata.obs["batch"] = [f"batch{b}" for b in batch]
    return Truth(adata, shares, profiles)
