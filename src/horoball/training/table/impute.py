"""Missing values filled in by a fitted model, by importance sampling of where a row with gaps may lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor

from horoball.data.tables.table import Table
from horoball.likelihoods.levels import Levels
from horoball.likelihoods.mixed import Mixed, Product
from horoball.numerics.random import generator_for
from horoball.training.table.residuals import Given, NormalColumns, given_observed
from horoball.training.table.run import Run

__all__ = ["impute"]

_ROWS = 256  # at a time


@torch.no_grad()
def impute(run: Run, table: Table, *, draws: int = 0, samples: int = 200, seed: int = 0) -> Tensor:
    """The rows of a table with their gaps filled; what was observed stays as it is.

    Points z_k are drawn from q(z | x) of the values that were observed, and weighted by p(x_observed, z)/q(z | x): the
    result is that of p(z | x_observed), of which q is an approximation. Values are assumed to be missing at random:
    that one is missing may depend on the values that were observed, and not on the missing one itself. What the model
    leaves of real and positive columns goes together as in the fit: see `horoball.training.table.residuals`.

    Args:
        run: A fitted model.
        table: Rows as `Run.read` gives them; missing values are NaN.
        draws: How many filled tables to draw; 0 fills in the best guess: means of numbers, medians of positive ones,
            the likeliest level of others.
        samples: Points for each row. More are more exact and take longer; 100 to 1000 are useful.
        seed: Seed of the random numbers.

    Returns:
        Rows in their own units, shape (rows, features), or (draws, rows, features).

    Example:
        >>> import numpy as np
        >>> from horoball.data.readers.mixed import read_columns
        >>> from horoball.training import TrainConfig
        >>> from horoball.training.table.train import train
        >>> x = np.random.default_rng(0).normal(size=(100, 1)) * np.ones(3)
        >>> x[0, 1] = np.nan
        >>> table = read_columns(x)
        >>> run = train(table, {"hidden": (16,)}, TrainConfig(max_epochs=2))
        >>> impute(run, table).shape, impute(run, table, draws=4).shape
        (torch.Size([100, 3]), torch.Size([4, 100, 3]))
    """
    if not run.record.mixed:
        return next(_whole(run, table, draws))
    generator = generator_for(seed)
    blocks = [_filled(run, block, draws, samples, generator) for block in run.blocks(table, _ROWS)]
    filled = run.unscaled(torch.cat(blocks, -2))
    own = torch.cat(list(table.blocks()))
    return torch.where(own.isnan(), filled, own)  # what was observed comes back to the last digit


def _whole(run: Run, table: Table, draws: int) -> Iterator[Tensor]:
    """A model of tables without gaps has nothing to fill."""
    rows = torch.cat(list(table.blocks()))
    yield rows.expand(draws, *rows.shape).clone() if draws else rows


def _filled(run: Run, x: Tensor, draws: int, samples: int, generator: torch.Generator) -> Tensor:
    """Best guesses, or draws, for some rows as the model sees them; complete rows are passed over."""
    out = x.expand(draws, *x.shape).clone() if draws else x.clone()
    gaps = x.isnan().any(-1).nonzero().ravel()
    if not len(gaps):
        return out
    mine, model = x[gaps], run.model
    q, p = model.posterior(mine), model.prior()
    z, log_q = q.rsample_and_log_prob((samples,), generator)
    decoded: Any = model.decode(z)
    residuals = None if run.residuals is None else _Residuals(run, mine)
    likelihood = decoded.log_prob(mine) if residuals is None else residuals.log_prob(decoded)
    weights = (likelihood + p.log_prob(z) - log_q).softmax(0)  # (samples, rows)
    if draws:
        # Where the generator is, so that a seed gives the same on every device.
        chosen = torch.multinomial(weights.T.cpu(), draws, True, generator=generator).to(z.device)  # (rows, draws)
        picked = z[chosen.T, torch.arange(len(gaps), device=z.device)]
        again: Any = model.decode(picked)
        filled = again.sample(generator=generator).to(x.dtype)
        if residuals is not None:
            residuals.draw(filled, again, generator)
    else:
        filled = _best(decoded, weights).to(x.dtype)
        if residuals is not None:
            residuals.expect(filled, decoded, weights)
    out[..., gaps, :] = filled
    return torch.where(x.isnan(), out, x)


class _Residuals:
    """Normal columns of some rows, whose residuals go together."""

    def __init__(self, run: Run, x: Tensor) -> None:
        assert run.residuals is not None  # noqa: S101  the caller has looked
        self._columns, self._covariance = NormalColumns(cast(Mixed, run.model.likelihood)), run.residuals
        self._others, self._values = self._columns.others(x), self._columns.values(x)
        self._there = ~self._values.isnan()

    def _given(self, means: Tensor, noise: Tensor | None = None) -> Given:
        residuals = self._values - means
        return given_observed(self._covariance, residuals if noise is None else residuals - noise, self._there)

    def log_prob(self, decoded: Product) -> Tensor:
        """log p(x_observed | z), up to a constant."""
        rest = decoded.log_prob(self._others)
        return rest + self._given(self._columns.means(decoded)).log_density.to(rest.dtype).to(rest.device)

    def expect(self, filled: Tensor, decoded: Product, weights: Tensor) -> None:
        """Put best guesses into rows: means, or medians of positive numbers."""
        means = self._columns.means(decoded)
        guesses = self._columns.rows(means + self._given(means).expected)
        expected = (weights.cpu().unsqueeze(-1).to(guesses) * guesses).sum(0)
        filled[:, self._columns.features] = expected.to(filled.dtype).to(filled.device)

    def draw(self, filled: Tensor, decoded: Product, generator: torch.Generator) -> None:
        """Put draws into rows: residuals without regard to what was observed, moved to agree with it."""
        means = self._columns.means(decoded)
        factor = torch.linalg.cholesky(self._covariance)
        noise = torch.randn(means.shape, generator=generator, dtype=means.dtype) @ factor.T
        drawn = means + noise + self._given(means, noise).expected
        filled[..., self._columns.features] = self._columns.rows(drawn).to(filled.dtype).to(filled.device)


def _best(decoded: Product, weights: Tensor) -> Tensor:
    """Weighted means over the samples; the likeliest level by weighted probabilities."""
    parts = []
    for likelihood, part in decoded.parts:
        base: Any = getattr(part, "base_dist", None)
        if isinstance(likelihood, Levels):
            parts.append((weights[..., None, None] * base.probs).sum(0).argmax(-1).to(weights.dtype))
            continue
        parts.append((weights.unsqueeze(-1) * likelihood.point_estimate(part)).sum(0))
    return decoded.joined(parts)
