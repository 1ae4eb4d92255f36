"""Cells along a tree that is known: counts in which to find it again."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from horoball.runtime.extras import require_anndata

__all__ = ["simulate"]


def simulate(
    depth: int = 3,
    branching: int = 2,
    cells: int = 600,
    genes: int = 200,
    *,
    batches: int = 2,
    step: float = 0.5,
    batch_effect: float = 0.3,
    library: float = 1000.0,
    dispersion: float = 5.0,
    seed: int = 0,
) -> Any:
    """Cells that differentiate along a tree, sequenced in batches.

    The log expression of a node is its parent's plus a normal step in every gene, as in the branching diffusion of the
    paper. A cell lies anywhere on the edge to its node. Its counts are negative binomial, with means that are its
    shares of a library whose size is log-normal. Each batch multiplies every gene by a factor of its own, and is
    sequenced to another depth.

    Args:
        depth: Levels below the root.
        branching: Children of a node, at most 10: each has a digit.
        cells: Number of cells, dealt out to nodes and batches alike.
        genes: Number of genes.
        batches: Number of batches, named a, b, c …
        step: Standard deviation of a step down an edge, in log expression.
        batch_effect: Standard deviation of a batch's log factors.
        library: Median of the counts of a cell.
        dispersion: r of the negative binomial.
        seed: Seed of the random numbers.

    Returns:
        AnnData with the counts, sparse, in layers["counts"] and X; obs: branch (a node's name is its parent's with one
        more digit), depth (distance from the root, in edges) and batch; uns["tree"]: the parent of each branch.

    Example:
        >>> adata = simulate(depth=2, cells=70, genes=30)
        >>> adata.shape, adata.uns["tree"]["01"], sorted(set(adata.obs["batch"]))
        ((70, 30), '0', ['a', 'b'])
    """
    if depth < 0 or not 1 <= branching <= 10 or genes < 2 or not 1 <= batches <= 26:
        raise ValueError("simulate needs depth >= 0, branching from 1 to 10, genes >= 2 and 1 to 26 batches.")
    rng = np.random.default_rng(seed)
    parents = {"0": "0"}
    level = ["0"]
    for _ in range(depth):
        level = [parent + str(child) for parent in level for child in range(branching)]
        parents |= {name: name[:-1] for name in level}
    names = list(parents)
    if cells < len(names):
        raise ValueError(f"simulate needs a cell for each of {len(names)} nodes, got {cells}.")
    profile = {"0": rng.normal(0.0, 1.0, genes)}
    for name in names[1:]:
        profile[name] = profile[parents[name]] + rng.normal(0.0, step, genes)
    factor = rng.normal(0.0, batch_effect, (batches, genes))
    deep = rng.normal(0.0, 0.3, batches)
    branch = np.array(names)[np.arange(cells) % len(names)]
    batch = rng.permutation(np.arange(cells) % batches)
    along = rng.uniform(size=cells)
    log = np.stack([(1 - t) * profile[parents[b]] + t * profile[b] for t, b in zip(along, branch, strict=True)])
    share = np.exp(log + factor[batch])
    share /= share.sum(1, keepdims=True)
    mean = share * np.exp(rng.normal(np.log(library) + deep[batch], 0.3))[:, None]
    counts = csr_matrix(rng.poisson(rng.gamma(dispersion, mean / dispersion)).astype(np.float32))
    adata = require_anndata().AnnData(counts, layers={"counts": counts.copy()})
    adata.obs_names = [f"cell{i}" for i in range(cells)]
    adata.var_names = [f"gene{i}" for i in range(genes)]
    adata.obs["branch"] = branch
    adata.obs["depth"] = [0.0 if b == "0" else len(b) - 2 + t for b, t in zip(branch, along, strict=True)]
    adata.obs["batch"] = np.array(list("abcdefghijklmnopqrstuvwxyz"))[batch]
    adata.uns["tree"] = dict(parents)
    return adata
