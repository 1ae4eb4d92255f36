"""What a model says of cells: denoised expression, simulated counts, and how well it explains them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball.distributions.features import drawn_from
from horoball.models.table.conditioning import one_hot
from horoball.numerics.random import generator_for
from horoball.objectives import elbo
from horoball.training.table.run import Run

__all__ = ["batch_codes", "mean_elbo", "normalized_expression", "sample_counts", "shares"]

_CELLS = 512  # decoded at once


def normalized_expression(
    run: Run,
    cells: Any,
    *,
    library_size: float | str = 1e4,
    batch: str | Sequence[str] | None = None,
    genes: Sequence[str] | None = None,
    draws: int = 10,
    seed: int = 0,
) -> Any:
    """Denoised expression of cells as a data frame; see `CellModel.normalized_expression`.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> run = fit(cells, batch_key="batch", max_epochs=1, hidden=(8,)).run
        >>> float(normalized_expression(run, cells, library_size=100).sum(axis=1).iloc[0].round(3))
        100.0
    """
    import pandas as pd

    if isinstance(library_size, str) and library_size != "observed":
        raise ValueError(f'library_size is a number or "observed", got {library_size!r}.')
    known = {name: i for i, name in enumerate(run.columns)}
    missing = [name for name in genes or () if name not in known]
    if missing:
        raise ValueError(f"The model does not know the genes {', '.join(missing[:5])}. Choose some of its own.")
    chosen = slice(None) if genes is None else [known[name] for name in genes]
    generator, parts = generator_for(seed), []
    with torch.no_grad():
        for block in _blocks(run, cells):
            asked = batch_codes(run, block, batch)
            each = [shares(run, block, codes, draws, generator)[:, chosen].cpu() for codes in asked]
            observed = block[:, : len(known)].sum(-1, keepdim=True).cpu()
            size = observed if isinstance(library_size, str) else float(library_size)
            parts.append((torch.stack(each).mean(0) * size).numpy())
    columns = list(run.columns) if genes is None else list(genes)
    return pd.DataFrame(np.concatenate(parts), index=cells.obs_names, columns=columns)


def shares(run: Run, block: Tensor, codes: Tensor | None, draws: int, generator: torch.Generator) -> Tensor:
    """Shares of the library that genes have, averaged over draws from the posteriors; shape (cells, genes).

    Args:
        run: The fit.
        block: Rows as the model sees them.
        codes: Categories to decode them with, shape (cells, covariates); None for a model without any.
        draws: Points per cell; 0 is the posterior mean.
        generator: Draws the points.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> run = fit(cells, max_epochs=1, hidden=(8,)).run
        >>> block = next(run.blocks(run.read(cells)))
        >>> shares(run, block, None, 2, generator_for(0)).shape
        torch.Size([60, 30])
    """
    q = run.model.posterior(block)
    total = torch.zeros(())
    for _ in range(max(1, draws)):
        z = q.sample(generator=generator) if draws else q.mean
        total = total + decoded(run, z, codes)
    return total / max(1, draws)


def decoded(run: Run, z: Tensor, codes: Tensor | None) -> Tensor:
    """Shares of the library at points, for cells of some categories."""
    given = () if codes is None else (one_hot(codes, run.model.covariates),)
    likelihood: Any = run.model.likelihood
    if not likelihood.library:
        raise ValueError(
            f"Expression as shares of a library needs a model of counts, and this one has the likelihood "
            f"{likelihood.name}. Fit the raw counts, with likelihood='negative_binomial'."
        )
    h = run.model.decoder(z, *given)
    return likelihood.log_mean(h, torch.ones(h.shape[:-1], device=h.device)).exp()


def batch_codes(run: Run, block: Tensor, batch: str | Sequence[str] | None) -> list[Tensor | None]:
    """Categories to decode cells with, one tensor for each batch that is asked for.

    Args:
        run: The fit.
        block: Rows as the model sees them.
        batch: None for the cells' own batches, a category or several, or "all" for those of the first batch key. Other
            covariates stay the cells' own.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> run = fit(cells, batch_key="batch", max_epochs=1, hidden=(8,)).run
        >>> block = next(run.blocks(run.read(cells)))
        >>> [codes[:2].tolist() for codes in batch_codes(run, block, "all")]
        [[[0.0], [0.0]], [[1.0], [1.0]]]
    """
    known = run.record.covariates
    own = block[:, run.model.likelihood.features :] if known else None
    if batch is None or own is None:
        if batch not in (None, "all"):
            raise ValueError(f"The model was fitted without a batch key, so it does not know the batch {batch!r}.")
        return [own]
    first = next(iter(known))
    names = known[first] if batch == "all" else [batch] if isinstance(batch, str) else list(batch)
    found: list[Tensor | None] = []
    for name in names:
        key = next((key for key in known if str(name) in known[key]), None)
        if key is None:
            raise ValueError(f"The model does not know the batch {name!r}. It knows: {', '.join(known[first][:10])}.")
        codes = own.clone()
        codes[:, list(known).index(key)] = known[key].index(str(name))
        found.append(codes)
    return found


@torch.no_grad()
def sample_counts(run: Run, cells: Any, *, prior: bool = False, seed: int = 0) -> Any:
    """Counts drawn from the model as AnnData; see `CellModel.sample`.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> sample_counts(fit(cells, max_epochs=1, hidden=(8,)).run, cells).shape
        (60, 30)
    """
    from scipy.sparse import csr_matrix, vstack

    from horoball.runtime.extras import require_anndata

    generator, parts = generator_for(seed), []
    for block in _blocks(run, cells):
        if prior:
            z = drawn_from(run.model.prior(), (len(block),), generator).to(run.device)
        else:
            z = run.model.posterior(block).sample(generator=generator)
        distribution = run.model.decode(z, run.model.conditioning(block))
        drawn = run.unscaled(drawn_from(distribution, (), generator).float())
        parts.append(csr_matrix(drawn.numpy()))
    counts = vstack(parts, format="csr")
    made = require_anndata().AnnData(counts, obs=cells.obs.copy(), layers={"counts": counts.copy()})
    made.var_names = run.columns
    return made


@torch.no_grad()
def mean_elbo(run: Run, cells: Any, *, draws: int = 1, seed: int = 0) -> float:
    """The evidence lower bound of cells, in nats per cell; see `CellModel.elbo`.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> mean_elbo(fit(cells, max_epochs=1, hidden=(8,)).run, cells) < 0
        True
    """
    generator, total, rows = generator_for(seed), 0.0, 0
    for block in _blocks(run, cells):
        total += float(elbo(run.model, block, samples=draws, kl="auto", generator=generator).value.double().sum())
        rows += len(block)
    return total / rows


def _blocks(run: Run, cells: Any) -> Iterator[Tensor]:
    return run.blocks(run.read(cells), _CELLS)
