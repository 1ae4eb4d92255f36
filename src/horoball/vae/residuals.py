"""What a model leaves over: residuals of its decoder, rows with gaps, and rows far from all others.

How the residuals of a decoder go together: what one column misses by tells of the gaps in others. The likelihood takes
columns as independent given z, so that z has to explain how they go together: a map is made of that. What a few
dimensions cannot explain is left in the residuals. For filling in gaps it need not be lost: for the columns whose
values, or their logarithms, are normal, p(x | z) is taken as N(f(z), Σ) with one covariance Σ.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from horoball.geometry.random import generator_for
from horoball.likelihoods.continuous import LogNormal, Normal
from horoball.likelihoods.likelihood import Likelihood
from horoball.likelihoods.mixed import Mixed, Product
from horoball.tables.schema import some_names
from horoball.vae.model import VAE


def even_columns(points: Tensor, owners: Tensor) -> Tensor:
    """Rows whose columns have variance 1 at most: the sum over a column's numbers, as a category has several.

    Counts as log(1 + x) may have a spread of 5, and distances would be those of the counts. Smaller spreads stay: a
    rare truth tells few rows apart, and should.

    Args:
        points: Rows, shape (rows, numbers).
        owners: The column that each number belongs to, shape (numbers,).
    """
    variance = points.var(0, correction=0)
    of_column = variance.new_zeros(int(owners.max()) + 1).index_add(0, owners, variance)
    return points * of_column.clamp_min(1.0).rsqrt().index_select(0, owners)


RESIDUALS = "residuals.covariance"  # its name in a file
RESIDUAL_ROWS = 2048  # of the table that the covariance is estimated from

MOST = 100  # columns: beyond, a factorization for each row takes longer than the fit
_CHUNK = 256  # rows at a time
_REPEATED = 8  # rows for each pattern of gaps, from which on patterns are looked at and not rows
_SAMPLES = 32  # points z for each row
_ROUNDS = 20  # of expectation and maximization, at most: they end where
_SETTLED = 1e-3  # no covariance changes by more than this, in units of the columns' spreads
_LEAST = 1e-4  # variance: that of the smallest standard deviation of the likelihoods


class NormalColumns:
    """The columns of a mixed table that are normal, or whose logarithms are, in the order of its likelihood."""

    def __init__(self, likelihood: Mixed) -> None:
        groups = [group for group in likelihood.groups if group.kind in (Normal, LogNormal)]
        self.features = [feature for group in groups for feature in group.features]
        self._log = torch.tensor([group.kind is LogNormal for group in groups for _ in group.features])

    def values(self, x: Tensor) -> Tensor:
        """Values of rows, or their logarithms, where the normal distributions are."""
        mine = x[..., self.features].cpu().double()  # in this order: not every device has float64
        return torch.where(self._log, mine.clamp_min(1e-300).log(), mine) if bool(self._log.any()) else mine

    def rows(self, values: Tensor) -> Tensor:
        """The inverse of `values`."""
        return torch.where(self._log, values.exp(), values) if bool(self._log.any()) else values

    def means(self, decoded: Product) -> Tensor:
        """Means of the normal distributions that a decoder gives."""
        found = []
        for likelihood, part in decoded.parts:
            if isinstance(likelihood, Normal | LogNormal):
                base = part.base_dist if isinstance(likelihood, Normal) else part.base_dist.base_dist  # type: ignore[attr-defined]
                found.append(base.loc.cpu().double())
        return torch.cat(found, -1)

    def others(self, x: Tensor) -> Tensor:
        """Rows without these columns, whose likelihood is then that of the others."""
        rest = x.clone()
        rest[..., self.features] = torch.nan
        return rest


class Given(NamedTuple):
    """What observed residuals say."""

    log_density: Tensor  # of those observed, up to a constant, shape (samples, rows)
    expected: Tensor  # residuals of all columns; those observed are themselves


def given_observed(covariance: Tensor, residuals: Tensor, there: Tensor) -> Given:
    """The normal distribution of residuals given those that were observed.

    Args:
        covariance: Σ, shape (columns, columns).
        residuals: Shape (samples, rows, columns).
        there: Which were observed, shape (rows, columns).
    """
    known = torch.where(there, residuals, 0.0)
    log_density, expected = _given(_factor(covariance, there), covariance, known.transpose(0, 1), there)
    return Given(log_density.T, expected.transpose(0, 1))


def _given(factor: Tensor, covariance: Tensor, known: Tensor, there: Tensor) -> Given:
    """The same of residuals that are 0 where they were not observed, shape (patterns, rows of each, columns)."""
    white = torch.linalg.solve_triangular(factor.mT, known, upper=True, left=False)
    log_density = -0.5 * white.square().sum(-1) - factor.diagonal(dim1=-2, dim2=-1).log().sum(-1, keepdim=True)
    if bool(there.all()):
        return Given(log_density, known)
    weights = torch.linalg.solve_triangular(factor, white, upper=False, left=False)
    return Given(log_density, torch.where(there.unsqueeze(1), known, weights @ covariance))


def _factor(covariance: Tensor, there: Tensor) -> Tensor:
    """Cholesky factors of the observed part of Σ of each row; columns that are missing are apart, with variance 1."""
    seen = there.double()
    observed = seen.unsqueeze(-1) * covariance * seen.unsqueeze(-2) + torch.diag_embed(1 - seen)
    return torch.linalg.cholesky(observed)


@torch.no_grad()
def residual_covariance(model: VAE, x: Tensor, seed: int = 0) -> Tensor | None:
    """Σ by expectation and maximization; None if fewer than 2 columns, or more than 100, are normal.

    Points z of each row are weighted by the likelihood under the Σ of the round before.

    Args:
        model: A trained model of a mixed table.
        x: Some of its rows, some thousands at most, as the model sees them.
        seed: Seed of the points.
    """
    columns = NormalColumns(cast(Mixed, model.likelihood))
    if not 2 <= len(columns.features) <= MOST:
        return None
    values = columns.values(x)
    there = ~values.isnan()
    q, p = model.posterior(x), model.prior()
    z, log_q = q.rsample_and_log_prob((_SAMPLES,), generator_for(seed))
    decoded = cast(Product, model.decode(z))
    residuals = torch.where(there, values - columns.means(decoded), 0.0)
    others = (decoded.log_prob(columns.others(x)) + p.log_prob(z) - log_q).cpu().double()
    return expected_covariance(residuals, there, others)


def expected_covariance(residuals: Tensor, there: Tensor, others: Tensor | None = None) -> Tensor:
    """The covariance of normal residuals with gaps, by expectation and maximization.

    A row for each column whose residuals do not go together is added, so that few rows give no spurious correlations.

    Args:
        residuals: Shape (samples, rows, columns); those that were not observed are 0.
        there: Which were observed, shape (rows, columns).
        others: Log weights of the samples without the residuals' own, shape (samples, rows); 0 if not given.
    """
    rows, columns = there.shape
    others = torch.zeros(residuals.shape[:2], dtype=torch.float64) if others is None else others
    least = _LEAST * torch.eye(columns, dtype=torch.float64)
    covariance = torch.diag(residuals.square().mean(0).sum(0) / there.sum(0).clamp_min(1)) + least
    chunks = list(_chunks(residuals, there, others))
    for _ in range(_ROUNDS):
        total = torch.zeros_like(covariance)
        for chunk in chunks:
            total += _second_moment(covariance, *chunk)
        apart = columns / rows * torch.diag(total.diagonal())
        before, covariance = covariance, (total + apart) / (rows + columns) + least
        covariance = (covariance + covariance.T) / 2  # to the last digit
        spread = covariance.diagonal().sqrt()
        if bool(((covariance - before).abs() <= _SETTLED * spread * spread.unsqueeze(-1)).all()):
            break
    return covariance


def _chunks(residuals: Tensor, there: Tensor, others: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Some rows at a time, with samples along the second axis.

    Where few patterns of gaps repeat, the rows of each are together, with one pattern for all: it is factorized once.
    """
    patterns, of = there.unique(dim=0, return_inverse=True)
    alike = _REPEATED * len(patterns) <= len(there)
    order = of.argsort(stable=True)
    for some in order.split(of.bincount().tolist()) if alike else order.split(_CHUNK):
        yield residuals[:, some].transpose(0, 1).contiguous(), there[some[:1] if alike else some], others[:, some].T


def stored_residuals(tensors: Mapping[str, Tensor], likelihood: Likelihood) -> Tensor | None:
    """The covariance that a file holds, if it holds one; refuses what is no covariance of the model's columns."""
    covariance = tensors.get(RESIDUALS)
    if covariance is None:
        return None
    size = len(NormalColumns(likelihood).features) if isinstance(likelihood, Mixed) else 0
    if covariance.shape != (size, size) or covariance.dtype != torch.float64:
        raise ValueError(f"its covariance of residuals is not of {size} columns.")
    positive = torch.linalg.cholesky_ex(covariance).info == 0
    if not bool(torch.isfinite(covariance).all() and positive and torch.equal(covariance, covariance.T)):
        raise ValueError("its covariance of residuals is not one: it is not finite, symmetric and positive.")
    return covariance


def _second_moment(covariance: Tensor, residuals: Tensor, there: Tensor, others: Tensor) -> Tensor:
    """Σ over rows of E[r rᵀ] given what was observed; see `_chunks` for the arguments."""
    rows, samples, columns = residuals.shape
    factor = _factor(covariance, there)
    given = _given(factor, covariance, residuals.view(len(there), -1, columns), there)
    weights = (given.log_density.view(rows, samples) + others).softmax(1).view(-1, 1)
    expected = given.expected.reshape(-1, columns)
    moment = (weights * expected).T @ expected
    seen, gone = there.double().unsqueeze(-1), (~there).double()
    part = torch.linalg.solve_triangular(factor, seen * covariance, upper=False)
    left = (covariance - part.mT @ part) * gone.unsqueeze(-1) * gone.unsqueeze(-2)  # variance of those not observed
    return moment + left.sum(0) * (rows / len(there))


_ROWS_AT_ONCE = 1024  # rows at a time


def filled_points(view: Any, x: Tensor) -> Tensor:
    """Numbers that an encoder sees of each row, without marks; gaps are filled with what the rest of the row says.

    A missing value is expected to be where a normal distribution of all numbers has it, given those of its row: at the
    mean of its column, two rows that are alike in all that is known would be far apart. With more than 100 numbers it
    is 0, as the encoder sees it.
    """
    points = view.values(x)
    there = ~x.isnan().index_select(-1, view.owners)
    if points.shape[-1] > MOST or bool(there.all()):
        return points
    mean = points.sum(0) / there.sum(0).clamp_min(1)  # what is missing is 0
    apart = torch.where(there, points - mean, 0.0).double().unsqueeze(0)
    step = -(-len(x) // RESIDUAL_ROWS)
    covariance = expected_covariance(apart[:, ::step], there[::step])
    filled = [
        given_observed(covariance, part, known).expected[0]
        for part, known in zip(apart.split(_ROWS_AT_ONCE, 1), there.split(_ROWS_AT_ONCE), strict=True)
    ]
    return torch.where(there, points, torch.cat(filled).to(points) + mean)


_LOG_LIMIT = 12.0  # of |log| of a positive number over the geometric mean: 160,000 times as much, or as little
_NAMED = 5  # rows that a report names


class FarRowWarning(UserWarning):
    """Rows lie far outside of those that the model was fitted to."""


@contextmanager
def far_report(
    columns: Sequence[str], likelihoods: str, limit: float, first: int = 0
) -> Iterator[Callable[[Tensor], None]]:
    """Collect scaled rows, block by block, and warn once of those far outside of the rows of the fit.

    Args:
        columns: Names of the features.
        likelihoods: The likelihood of each feature of a mixed model; empty if all are scaled alike.
        limit: In standard deviations, beyond which a value is far: twice as far as any row of the fit. 0 for none.
        first: Number of the first row.
    """
    kinds = likelihoods.split(",") if likelihoods else ["normal"] * len(columns)
    real = torch.tensor([i for i, kind in enumerate(kinds) if kind == "normal"], dtype=torch.long)
    positive = torch.tensor([i for i, kind in enumerate(kinds) if kind == "log_normal"], dtype=torch.long)
    seen, count, named = 0, 0, list[int]()
    farthest, where = 1.0, 0  # times the limit, and the column

    def note(block: Tensor) -> None:
        nonlocal seen, count, farthest, where
        x = block[:, : len(columns)].detach()
        if len(real) == len(columns) and len(x):
            low, high = (float(end) for end in x.aminmax())
            if -limit <= low and high <= limit:  # which gaps are not
                seen += len(block)
                return
        x = x.cpu()
        times = torch.cat((x[:, real].abs() / limit, x[:, positive].clamp_min(1e-30).log().abs() / _LOG_LIMIT), 1)
        times = times.nan_to_num(0.0)  # gaps
        if times.numel() and float(times.max()) > 1:
            far = (times > 1).any(1).nonzero().ravel()
            count += len(far)
            named.extend((first + seen + far[: _NAMED - len(named)]).tolist())
            if float(times.max()) > farthest:
                farthest = float(times.max())
                where = int(torch.cat((real, positive))[int(times.amax(0).argmax())])
        seen += len(block)

    yield note if limit > 0 else lambda block: None
    if count:
        lie = "lies" if count == 1 else "lie"
        warnings.warn(
            f"{count:,} of {seen:,} rows {lie} far outside of the rows of the fit: row {', '.join(map(str, named))}"
            f"{' …' * (count > _NAMED)}, most of all in column {some_names([columns[where]])}. The model knows nothing "
            "of such rows. Check their units, and that they were prepared as those of the fit.",
            FarRowWarning,
            stacklevel=3,
        )
