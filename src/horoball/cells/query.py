"""New cells on a map that stays as it is: a new batch learns its own weights only, missing genes are filled in.

Note [Surgery]: a model with covariates sees a category through one column of the encoder's first layer and two of the
decoder's. A category that it does not know gets new columns, which start at the mean of the others and are trained on
the new cells while all other weights are frozen, as scArches does (Lotfollahi et al., 2022). Cells of the reference
therefore keep their coordinates exactly.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from horoball.cells.anndata import check_cells, neighbors, write
from horoball.cells.novelty import LEAST, Judged, Scores, centered, judge, judge_reference, novelty, pearson_residuals
from horoball.distributions.normal import BallNormal
from horoball.geometry.ball import PoincareBall
from horoball.geometry.random import generator_for
from horoball.tables.anndata import cell_table
from horoball.tables.table import ArrayTable, Table
from horoball.training.config import TrainConfig
from horoball.training.progress import Progress
from horoball.vae.encoder import Prior
from horoball.vae.model import VAE
from horoball.vae.run import Run
from horoball.vae.train import fit

_ROUNDS = 3  # of filling in and encoding: the second moves a cell by little, the third by next to nothing
# Weights whose last columns are the categories'.
_COLUMNS = ("encoder.network.0.weight", "decoder.shift.weight", "decoder.offset.weight")
_log = logging.getLogger("horoball")


def cells_like(run: Run, cells: Any, layer: str | None = "auto", *, genes_may_miss: bool = False) -> Table:
    """The table of cells as those of a fit were read, from another layer if one is named.

    Args:
        run: The fit.
        cells: AnnData.
        layer: Layer with the counts, None for X; "auto" is the layer of the fit.
        genes_may_miss: Whether genes of the fit that they lack are columns of zeros, and not refused.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> run = fit(cells, max_epochs=1, hidden=(8,)).run
        >>> cells_like(run, cells, None).reading["layer"] is None
        True
    """
    options = dict(run.record.reading)
    if layer != "auto":
        options["layer"] = layer
    try:
        return cell_table(cells, genes=run.columns, genes_may_miss=genes_may_miss, **options)
    except ValueError as error:
        if layer == "auto" and f"has no layer {options.get('layer')!r}" in str(error):
            raise ValueError(f"{error} The model was fitted to that layer; name another one with layer=.") from error
        raise


def padded_table(run: Run, cells: Any, layer: str | None = "auto") -> tuple[Table, np.ndarray]:
    """The table of new cells with zeros for genes that they lack, and which genes they have.

    Args:
        run: The fit.
        cells: AnnData.
        layer: Layer with the counts, None for X; "auto" is the layer of the fit.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> run = fit(cells, max_epochs=1, hidden=(8,)).run
        >>> table, observed = padded_table(run, cells[:, 3:].copy())
        >>> table.features, int(observed.sum())
        (30, 27)
    """
    there = set(map(str, cells.var_names))
    observed = np.array([name in there for name in run.columns])
    if observed.sum() * 2 < len(observed):
        raise ValueError(
            f"The cells have {int(observed.sum()):,} of the model's {len(observed):,} genes. At least half are needed: "
            "are the names of the same kind, such as symbols or Ensembl ids?"
        )
    if not observed.all():
        _log.info("Genes: %d of %d are missing, and filled in by the model.", int((~observed).sum()), len(observed))
    return cells_like(run, cells, layer, genes_may_miss=True), observed


class ObservedGenes(nn.Module):
    """A model that sees some genes only: the others are filled in before encoding, and leave the likelihood.

    A missing count is filled with its expectation given the rest, ℓ'·p, where p are the shares at the cell's
    coordinates and ℓ' makes those of the observed genes sum to the observed counts; a missing real number with its mean
    at the cell's coordinates.

    Args:
        model: The model.
        observed: Which genes are there, shape (genes,).

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> model = fit(cells, max_epochs=1, hidden=(8,)).run.model
        >>> seen = ObservedGenes(model, torch.arange(30) > 2)
        >>> seen.posterior(torch.ones(4, 30)).loc.shape
        torch.Size([4, 2])
    """

    observed: Tensor

    def __init__(self, model: VAE, observed: Tensor) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("observed", observed, persistent=False)

    @property
    def ball(self) -> PoincareBall:
        """The ball of the latent space."""
        return self.model.ball

    @property
    def prior(self) -> Prior:
        """The prior."""
        return self.model.prior

    def posterior(self, x: Tensor) -> BallNormal:
        """q(z | x), of rows whose missing genes are filled in."""
        return self.model.posterior(self.filled(x))

    def log_prob_of(self, x: Tensor, z: Tensor) -> Tensor:
        """log p of the observed genes given points."""
        if bool(self.observed.all()):
            return self.model.log_prob_of(x, z)
        distribution = self.model.decode(z, self.model.conditioning(self.filled(x)))
        genes = x[..., : len(self.observed)]
        return self.model.likelihood.observed_log_prob(distribution, genes, self.observed.expand_as(genes))

    @torch.no_grad()
    def filled(self, x: Tensor) -> Tensor:
        """Rows with expectations in place of missing genes."""
        if bool(self.observed.all()):
            return x
        genes, rest = x[..., : len(self.observed)], x[..., len(self.observed) :]
        z = torch.zeros(*x.shape[:-1], self.model.prior.loc.shape[-1], device=x.device)
        for round_ in range(_ROUNDS + 1):
            if round_:
                z = self.model.posterior(x).mean
            mean = self.model.mean(z, self.model.conditioning(x))
            if self.model.likelihood.library:
                seen = torch.where(self.observed, mean, 0.0).sum(-1, keepdim=True)
                mean = mean * torch.where(self.observed, genes, 0.0).sum(-1, keepdim=True) / seen.clamp_min(1e-12)
            x = torch.cat((torch.where(self.observed, genes, mean), rest), -1)
        return x


_EPOCHS, _STEPS = 100, 2000  # of the weights of new batches: what comes first


def with_new_batches(
    run: Run,
    table: Table,
    observed: np.ndarray,
    *,
    max_epochs: int | None,
    learning_rate: float,
    seed: int = 0,
    progress: Progress | None = None,
) -> Run:
    """The fit with columns for the batches that it does not know, trained on their cells; see Note [Surgery].

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> run = fit(cells, batch_key="batch", max_epochs=1, hidden=(8,)).run
        >>> cells.obs["batch"] = "new"
        >>> table, observed = padded_table(run, cells)
        >>> with_new_batches(run, table, observed, max_epochs=1, learning_rate=0.01).record.covariates
        {'batch': ['a', 'b', 'new']}
    """
    mine = {} if table.covariates is None else table.covariates.categories
    known = run.record.covariates
    extended = {name: [*old, *(new for new in mine.get(name, ()) if new not in old)] for name, old in known.items()}
    if extended == known:
        return run
    config = run.record.model.replace(covariates=tuple(map(len, extended.values())))
    model = VAE.from_config(config, generator=generator_for(0)).float()
    state = run.model.state_dict()
    fresh = {}
    for name in _COLUMNS:
        if name in state:
            state[name], fresh[name] = _widened(state[name], list(known.values()), list(extended.values()))
    model.load_state_dict(state)
    for name, weight in model.named_parameters():
        weight.requires_grad_(name in fresh)
        if name in fresh:
            weight.register_hook(lambda grad, new=fresh[name]: grad * new)
    record = replace(run.record, model=config, covariates=extended)
    grown = replace(run, model=model.to(run.device), record=record, history=list(run.history))
    batch_size = min(128, max(16, table.rows // 10))
    epochs = min(_EPOCHS, -(-_STEPS * batch_size // table.rows)) if max_epochs is None else max_epochs
    training = TrainConfig(max_epochs=epochs, learning_rate=learning_rate, validation=0.0, seed=seed)
    training = training.replace(batch_size=batch_size, device=run.record.training.device, patience=0)
    seen: Any = ObservedGenes(model, torch.from_numpy(observed))
    fit(seen, grown.scaled(table), training, progress=progress)
    model.eval()
    for weight in model.parameters():
        weight.requires_grad_(True)
    return grown


def _widened(weight: Tensor, old: Sequence[Sequence[str]], new: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
    """Weights with columns for new categories, the mean of the old ones, and where these are."""
    features = weight.shape[1] - sum(map(len, old))
    parts, fresh = [weight[:, :features]], [torch.zeros(features)]
    for before, after, block in zip(old, new, weight[:, features:].split([len(one) for one in old], 1), strict=True):
        added = len(after) - len(before)
        parts += [block, block.mean(1, keepdim=True).expand(-1, added)]
        fresh += [torch.zeros(len(before)), torch.ones(added)]
    return torch.cat(parts, 1), torch.cat(fresh)


def query_posteriors(run: Run, table: Table, observed: np.ndarray) -> Iterator[tuple[Tensor, BallNormal]]:
    """Rows as the model sees them, filled in, and their posteriors, block by block.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> cells = simulate(depth=2, cells=60, genes=30)
        >>> run = fit(cells, max_epochs=1, hidden=(8,)).run
        >>> x, q = next(query_posteriors(run, *padded_table(run, cells)))
        >>> x.shape, q.loc.shape
        (torch.Size([60, 30]), torch.Size([60, 2]))
    """
    seen = ObservedGenes(run.model, torch.from_numpy(observed).to(run.device))
    with torch.no_grad():
        for block in run.blocks(table, 1024):
            x = seen.filled(block)
            yield x, run.model.posterior(x)


def map_query(
    run: Run,
    cells: Any,
    reference: Any = None,
    *,
    max_epochs: int | None = None,
    learning_rate: float = 5e-3,
    layer: str | None = "auto",
    key: str = "poincare",
    n_neighbors: int | None = 15,
    seed: int = 0,
    progress: Progress | None = None,
) -> Run:
    """Write the coordinates of new cells on the map of a fit; see `CellModel.map_query`.

    Returns:
        The fit, with the new batches if there are any.

    Example:
        >>> from horoball.cells import fit, simulate
        >>> made = simulate(depth=2, cells=240, genes=30)
        >>> cells, new = made[:120].copy(), made[120:].copy()
        >>> run = fit(cells, batch_key="batch", max_epochs=1, hidden=(8,)).run
        >>> _ = map_query(run, new, cells, n_neighbors=None)
        >>> sorted(new.obs.columns)[-2:]
        ['poincare_novelty', 'poincare_surprise']
    """
    if reference is not None:
        check_cells(reference, written=False)
    table, observed = padded_table(run, cells, layer)
    grown = with_new_batches(
        run, table, observed, max_epochs=max_epochs, learning_rate=learning_rate, seed=seed, progress=progress
    )
    known = None if reference is None else _judged_reference(run, reference, observed, seed)
    found: dict[str, list[Any]] = {"index": [], "z": [], "scale": [], "surprise": [], "departure": []}
    usual = None if known is None else centered(known.residuals, known.batch)
    for index, part in _in_parts(table, seed):
        rest = []
        for x, q in query_posteriors(grown, part, observed):
            found["z"].append(q.mean.cpu())
            found["scale"].append(q.mean_scale.cpu())
            if usual is not None:
                rest.append(pearson_residuals(grown.model, x, q.mean))
        if usual is not None:
            judged = judge(Judged.of(part, rest, observed), usual)
            found["surprise"].append(judged.surprise)
            found["departure"].append(judged.departure)
        found["index"].append(index)
    order = np.argsort(np.concatenate(found["index"]))
    z, scale = (torch.cat(found[name])[order] for name in ("z", "scale"))
    write(cells, z, scale, PoincareBall(grown.model.ball.c_value), key)
    if n_neighbors is not None:
        neighbors(cells, n_neighbors, key=key)
    if known is not None:
        scores = Scores(*(np.concatenate(found[name])[order] for name in Scores._fields))
        batch = np.zeros(table.rows, np.int64) if table.covariates is None else table.covariates.groups
        novel = np.empty(table.rows)
        parts = len(found["index"])
        by_size: dict[int, list[Scores]] = {}
        few = 0
        for number in np.unique(batch):
            mine = batch == number
            size = -(-int(mine.sum()) // parts)  # cells of the batch that were judged at once
            if size < LEAST:
                few += int(mine.sum())
                scores.surprise[mine] = novel[mine] = np.nan
                continue
            if size not in by_size:
                by_size[size] = judge_reference(known, size, seed)
            novel[mine] = novelty(Scores(*(one[mine] for one in scores)), by_size[size])
        if few:
            warnings.warn(
                f"Novelty: {few:,} cells are of batches with fewer than {LEAST} cells{' at once' * (parts > 1)}, too "
                "few to be judged by themselves. Their surprise and novelty are missing (NaN); map more cells of a "
                "batch at once.",
                stacklevel=3,
            )
        cells.obs[f"{key}_surprise"], cells.obs[f"{key}_novelty"] = scores.surprise, novel
    return grown


_MOST_JUDGED = 20_000  # cells at once, of the reference and of new ones
_TOGETHER = 16  # cells in a row that stay together, as they lie in a file


def _in_parts(table: Table, seed: int) -> Iterator[tuple[np.ndarray, ArrayTable]]:
    """Random parts of a table that are judged one after the other, in memory, and the numbers of their cells."""
    count = -(-table.rows // _MOST_JUDGED)
    if count == 1 and isinstance(table, ArrayTable):
        yield np.arange(table.rows), table
        return
    few = np.random.default_rng(seed).permutation(-(-table.rows // _TOGETHER))
    for some in np.array_split(few, count):
        index = (np.sort(some)[:, None] * _TOGETHER + np.arange(_TOGETHER)).ravel()
        index = index[index < table.rows]
        yield index, cast(Any, table).part(index)


def _judged_reference(run: Run, reference: Any, observed: np.ndarray, seed: int) -> Judged:
    """Cells of the reference, of a large one a random sample, with what the model makes of them."""
    table, has = padded_table(run, reference)
    if not has.all():
        raise ValueError("The reference lacks genes of the model. Give the cells of the fit.")
    table = table.coded(run.record.covariates) if run.record.covariates else table
    if table.rows > _MOST_JUDGED or not isinstance(table, ArrayTable):
        most = min(table.rows, _MOST_JUDGED)
        table = cast(Any, table).part(np.random.default_rng(seed).choice(table.rows, most, replace=False))
    rows = query_posteriors(run, table, observed)
    return Judged.of(table, (pearson_residuals(run.model, x, q.mean) for x, q in rows), observed)
