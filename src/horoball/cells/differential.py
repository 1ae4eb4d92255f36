"""Differential expression from posterior draws: log-fold changes, their probability, and the false discovery rate.

This is scvi-tools' "change" mode (Boyeau et al., 2019): two groups differ in a gene if a cell of one and a cell of the
other, decoded in the same batch, are likely to differ by more than a threshold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.cells.expression import batch_codes, decoded
from horoball.numerics.random import generator_for
from horoball.training.table.run import Run

__all__ = ["compared", "differential_expression", "expected_false_discoveries"]

_AT_ONCE = 512  # cells decoded at once
_EPSILON = 1e-8  # keeps the logarithm of a probability of 0 finite, as in scvi-tools
_LEAST = 1e-10  # offset of shares where every gene was seen


def differential_expression(
    run: Run,
    cells: Any,
    groupby: str,
    group1: str | None = None,
    group2: str | None = None,
    *,
    delta: float = 0.25,
    fdr: float = 0.05,
    draws: int = 5000,
    batch: str | None = "all",
    pseudocount: float | None = None,
    seed: int = 0,
) -> Any:
    """A table of genes for each comparison; see `CellModel.differential_expression`.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> run = fit(cells, max_epochs=1, hidden=(8,)).run
        >>> table = differential_expression(run, cells, "branch", "00", "01", draws=50)
        >>> len(table), float(table["proba_de"].max()) <= 1
        (30, True)
    """
    import pandas as pd

    if groupby not in cells.obs:
        known = ", ".join(map(str, cells.obs.columns[:10]))
        raise ValueError(f"obs has no column {groupby!r} to group cells by. Columns: {known}.")
    labels = np.asarray(cells.obs[groupby].astype(str))
    groups = sorted(set(labels))
    for name in (group1, group2):
        if name is not None and name not in groups:
            raise ValueError(
                f"There is no group {name!r} in obs[{groupby!r}]. Its groups are: {', '.join(groups[:20])}."
            )
    if len(groups) < 2:
        raise ValueError(f"obs[{groupby!r}] has one group only, so there is nothing to compare.")
    x = torch.cat(list(run.blocks(run.read(cells))))
    tables = []
    for name in groups if group1 is None else [group1]:
        if name == group2:
            continue
        here = labels == name
        beside = ~here if group2 is None else labels == group2
        table = compared(
            run,
            x[torch.from_numpy(here)],
            x[torch.from_numpy(beside)],
            delta=delta,
            fdr=fdr,
            draws=draws,
            batch=batch,
            pseudocount=pseudocount,
            seed=seed,
        )
        other = "rest" if group2 is None else group2
        table.insert(0, "comparison", f"{name} vs {other}")
        tables.append(table)
    return pd.concat(tables)


def compared(
    run: Run,
    first: Tensor,
    second: Tensor,
    *,
    delta: float = 0.25,
    fdr: float = 0.05,
    draws: int = 5000,
    batch: str | None = "all",
    pseudocount: float | None = None,
    seed: int = 0,
) -> Any:
    """Genes that differ between two groups of rows, the most probable first; see `CellModel.differential_expression`.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> run = fit(cells, max_epochs=1, hidden=(8,)).run
        >>> x = next(run.blocks(run.read(cells)))
        >>> list(compared(run, x[:30], x[30:], draws=50).columns[:3])
        ['proba_de', 'bayes_factor', 'lfc_mean']
    """
    import pandas as pd

    if draws < 2 or not 0 < fdr < 1 or delta < 0:
        raise ValueError(f"Expected draws >= 2, delta >= 0 and fdr between 0 and 1, got {draws}, {delta} and {fdr}.")
    generator = generator_for(seed)
    pair = [_draws(run, rows, draws, batch, generator) for rows in (first, second)]
    genes = run.model.likelihood.features
    offset = pseudocount
    if offset is None:
        # Where no cell has a count, a share is what the model makes of nothing: below it changes mean nothing.
        unseen = [(rows[:, :genes].amax(0) == 0).cpu().numpy() for rows in (first, second)]
        tops = [drawn.max(0)[none] for drawn, none in zip(pair, unseen, strict=True)]
        offset = max([_LEAST, *(float(np.quantile(top, 0.9)) for top in tops if len(top))])
    change = np.log2(pair[0] + offset) - np.log2(pair[1] + offset)
    probability = (np.abs(change) >= delta).mean(0)
    low, middle, high = np.quantile(change, [0.025, 0.5, 0.975], axis=0)
    table = pd.DataFrame(
        {
            "proba_de": probability,
            "bayes_factor": np.log(probability + _EPSILON) - np.log(1 - probability + _EPSILON),
            "lfc_mean": change.mean(0),
            "lfc_median": middle,
            "lfc_std": change.std(0),
            "lfc_low": low,
            "lfc_high": high,
            "scale1": pair[0].mean(0),
            "scale2": pair[1].mean(0),
            "nonzero1": (first[:, :genes] > 0).float().mean(0).cpu().numpy(),
            "nonzero2": (second[:, :genes] > 0).float().mean(0).cpu().numpy(),
            f"is_de_fdr_{fdr:g}": expected_false_discoveries(probability) <= fdr,
        },
        index=list(run.columns),
    )
    return table.sort_values("proba_de", ascending=False, kind="stable")


def expected_false_discoveries(probability: np.ndarray) -> np.ndarray:
    """The share of false discoveries to expect if a gene and all more probable ones are called.

    It is the mean of 1 − p over them, which grows from gene to gene, so those below a rate are the ones to call.

    Example:
        >>> expected_false_discoveries(np.array([0.5, 1.0, 0.9])).round(3).tolist()
        [0.2, 0.0, 0.05]
    """
    order = np.argsort(-probability, kind="stable")
    rate = np.empty(len(probability))
    rate[order] = np.cumsum(1 - probability[order]) / np.arange(1, len(order) + 1)
    return rate


@torch.no_grad()
def _draws(run: Run, rows: Tensor, draws: int, batch: str | None, generator: torch.Generator) -> np.ndarray:
    """Shares at draws from the posteriors of random cells; the k-th draw of every group is of the same batch."""
    if not len(rows):
        raise ValueError("A group without cells has no expression. Choose one of the groups that occur.")
    chosen = rows[torch.randint(len(rows), (draws,), generator=generator).to(rows.device)]
    parts = []
    for start in range(0, draws, _AT_ONCE):
        block = chosen[start : start + _AT_ONCE]
        z = run.model.posterior(block).sample(generator=generator)
        codes = batch_codes(run, block, batch)
        if codes[0] is None:
            parts.append(decoded(run, z, None))
            continue
        turn = (torch.arange(start, start + len(block), device=block.device) % len(codes))[None, :, None]
        stacked = torch.stack([one for one in codes if one is not None])
        parts.append(decoded(run, z, stacked.gather(0, turn.expand(1, -1, stacked.shape[-1]))[0]))
    return torch.cat(parts).cpu().double().numpy()
