"""What a model says of cells: denoised expression, simulated counts, and how well it explains them.

Differential expression from posterior draws: log-fold changes, their probability, and the false discovery rate. This is
scvi-tools' "change" mode (Boyeau et al., 2019): two groups differ in a gene if a cell of one and a cell of the other,
decoded in the same batch, are likely to differ by more than a threshold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from horoball.cells.groups import check_group, groups_of
from horoball.distributions.base import drawn_from
from horoball.geometry.random import generator_for
from horoball.tables.covariates import NUMBER, category_name
from horoball.tables.table import ArrayTable
from horoball.training.bounds import elbo
from horoball.vae.encoder import one_hot
from horoball.vae.run import Run

__all__ = [
    "Group",
    "batch_codes",
    "compared",
    "differential_expression",
    "expected_false_discoveries",
    "mean_elbo",
    "normalized_expression",
    "sample_counts",
    "shares",
]

_CELLS = 512  # decoded at once

Batch = str | Sequence[str] | Mapping[str, str] | None  # to decode cells in; see `batch_codes`


def normalized_expression(
    run: Run,
    cells: Any,
    *,
    library_size: float | str = 1e4,
    batch: Batch = None,
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


def batch_codes(run: Run, block: Tensor, batch: Batch) -> list[Tensor | None]:
    """Categories to decode cells with, one tensor for each batch that is asked for.

    Args:
        run: The fit.
        block: Rows as the model sees them.
        batch: None for the cells' own batches, a category or several, or "all" for those of the first batch key. With
            several batch keys, {key: category} says of which one a category is. Other covariates stay the cells' own.

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
    wanted: list[Mapping[str, str]]
    if isinstance(batch, Mapping):
        wanted = [batch]
    elif isinstance(batch, str) and batch == "all":
        if known[first] == [NUMBER]:
            return [torch.zeros_like(own)]  # numbers only: at their means
        wanted = [{first: name} for name in known[first]]
    else:
        several = isinstance(batch, Iterable) and not isinstance(batch, str)
        wanted = [_of_key(known, name) for name in (batch if several else [batch])]
    if not wanted:
        raise ValueError("batch is a category or several, got none.")
    found: list[Tensor | None] = []
    for each in wanted:
        codes = own.clone()
        for key, name in each.items():
            if key not in known:
                raise ValueError(f"The model has no batch key {key!r}. It has: {', '.join(map(repr, known))}.")
            if (text := category_name(name)) not in known[key] or known[key] == [NUMBER]:
                raise ValueError(f"The model does not know the {key} {text!r}. It knows: {', '.join(known[key][:10])}.")
            codes[:, list(known).index(key)] = known[key].index(text)
        found.append(codes)
    return found


def _of_key(known: Mapping[str, list[str]], name: Any) -> dict[str, str]:
    """The one batch key that has a category."""
    text = category_name(name)
    keys = [key for key, names in known.items() if text in names and names != [NUMBER]]
    if len(keys) > 1:
        raise ValueError(
            f"The batch {text!r} is a category of {' and of '.join(map(repr, keys))}. Say of which: "
            f"batch={{{keys[0]!r}: {text!r}}}."
        )
    if not keys:
        shown = ", ".join(next(iter(known.values()))[:10])
        raise ValueError(f"The model does not know the batch {text!r}. It knows: {shown}.")
    return {keys[0]: text}


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

    from horoball.plugins import required

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
    made = required("anndata").AnnData(counts, obs=cells.obs.copy(), layers={"counts": counts.copy()})
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


_AT_ONCE = 512  # cells decoded at once
_BLOCK = 4096  # cells whose counts are looked at together
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
    batch: Batch = "all",
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

    if not 0 <= delta < np.inf or not 0 < fdr <= 1 or draws < 1:
        raise ValueError(f"Expected delta >= 0, 0 < fdr <= 1 and draws >= 1, got {delta!r}, {fdr!r} and {draws!r}.")
    if pseudocount is not None and not 0 < pseudocount < np.inf:
        raise ValueError(f"pseudocount is a positive number, or None for one by the cells, got {pseudocount!r}.")
    labels = groups_of(cells, groupby)
    groups = sorted(set(labels) - {""})
    for name in (group1, group2):
        if name is not None:
            check_group(labels, name, groupby)
    if group1 is not None and group1 == group2:
        raise ValueError(f"Expected two groups of obs[{groupby!r}] to compare, got {group1!r} twice.")
    if len(groups) < 2:
        raise ValueError(f"obs[{groupby!r}] has one group only, so there is nothing to compare.")
    whole = Group.all_of(run, cells, labels)
    tables = []
    for name in groups if group1 is None else [group1]:
        if name == group2:
            continue
        here = labels == name
        beside = ~here & (labels != "") if group2 is None else labels == group2
        table = compared(
            run,
            whole.some(here),
            whole.some(beside),
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


class Group(NamedTuple):
    """Some cells of a table, of which only those that are drawn are read densely."""

    table: ArrayTable  # as the model sees it
    numbers: np.ndarray  # of the cells
    code: np.ndarray  # of all cells of the table: the number of their label
    positive: np.ndarray  # cells of each label with a count of each gene, shape (labels, genes)
    device: torch.device

    @classmethod
    def all_of(cls, run: Run, cells: Any, labels: np.ndarray) -> Group:
        """All cells, in one pass over them; groups that are compared are of whole labels."""
        code, genes = np.unique(labels, return_inverse=True)[1], run.model.likelihood.features
        positive, first, kept = torch.zeros(code.max() + 1, genes, dtype=torch.float64), 0, []
        table = run.read(cells)
        scaled = run.scaled(table)
        for block in run.blocks(table, _BLOCK):
            mine = torch.from_numpy(code[first : first + len(block)])
            positive.index_add_(0, mine, (block[:, :genes] > 0).double().cpu())
            first += len(block)
            if not isinstance(scaled, ArrayTable):  # streamed: rows are not found by their numbers
                kept.append(block.cpu())
        held = scaled if isinstance(scaled, ArrayTable) else ArrayTable(torch.cat(kept))
        return cls(held, np.arange(len(code)), code, positive.numpy(), run.device)

    def some(self, chosen: np.ndarray) -> Group:
        """The cells of some labels, by a mask of all."""
        return self._replace(numbers=np.flatnonzero(chosen))

    def rows(self, drawn: Tensor) -> Tensor:
        """Rows by their place in the group, as the model sees them."""
        return self.table.take(self.numbers[drawn.numpy()]).to(self.device)

    def expressed(self) -> np.ndarray:
        """Share of the cells with a count of each gene."""
        return self.positive[np.unique(self.code[self.numbers])].sum(0) / max(1, len(self.numbers))


def compared(
    run: Run,
    first: Group,
    second: Group,
    *,
    delta: float = 0.25,
    fdr: float = 0.05,
    draws: int = 5000,
    batch: Batch = "all",
    pseudocount: float | None = None,
    seed: int = 0,
) -> Any:
    """Genes that differ between two groups of cells, the most probable first; see `CellModel.differential_expression`.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> run = fit(cells, max_epochs=1, hidden=(8,)).run
        >>> branch = np.asarray(cells.obs["branch"])
        >>> whole = Group.all_of(run, cells, branch)
        >>> list(compared(run, whole.some(branch == "0"), whole.some(branch != "0"), draws=50).columns[:3])
        ['proba_de', 'bayes_factor', 'lfc_mean']
    """
    import pandas as pd

    if draws < 2 or not 0 < fdr < 1 or delta < 0:
        raise ValueError(f"Expected draws >= 2, delta >= 0 and fdr between 0 and 1, got {draws}, {delta} and {fdr}.")
    generator = generator_for(seed)
    pair = [_draws(run, group, draws, batch, generator) for group in (first, second)]
    expressed = [group.expressed() for group in (first, second)]
    offset = pseudocount
    if offset is None:
        # Where no cell has a count, a share is what the model makes of nothing: below it changes mean nothing.
        unseen = [share == 0 for share in expressed]
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
            "nonzero1": expressed[0],
            "nonzero2": expressed[1],
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
def _draws(run: Run, group: Group, draws: int, batch: Batch, generator: torch.Generator) -> np.ndarray:
    """Shares at draws from the posteriors of random cells; the k-th draw of every group is of the same batch."""
    if not len(group.numbers):
        raise ValueError("A group without cells has no expression. Choose one of the groups that occur.")
    chosen = torch.randint(len(group.numbers), (draws,), generator=generator)
    parts = []
    for start in range(0, draws, _AT_ONCE):
        block = group.rows(chosen[start : start + _AT_ONCE])
        z = run.model.posterior(block).sample(generator=generator)
        codes = batch_codes(run, block, batch)
        if codes[0] is None:
            parts.append(decoded(run, z, None))
            continue
        turn = (torch.arange(start, start + len(block), device=block.device) % len(codes))[None, :, None]
        stacked = torch.stack([one for one in codes if one is not None])
        parts.append(decoded(run, z, stacked.gather(0, turn.expand(1, -1, stacked.shape[-1]))[0]))
    return torch.cat(parts).cpu().double().numpy()
